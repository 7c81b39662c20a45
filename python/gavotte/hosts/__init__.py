"""Prepare hosts: check that they can be reached and reach each other, install agents, make keys for TLS.

Input: an Inventory. Output: a verdict for each host, and the Inventory completed by what the agents report.
"""

from gavotte.hosts.check import Check, HoldState, HostState, check
from gavotte.hosts.deploy import Deployment, deploy
from gavotte.hosts.keys import Bearer, keys, read_bearer
from gavotte.hosts.logs import logs
from gavotte.hosts.paths import Path

__all__ = [
    "Bearer",
    "Check",
    "Deployment",
    "HoldState",
    "HostState",
    "Path",
    "check",
    "deploy",
    "keys",
    "logs",
    "read_bearer",
]
