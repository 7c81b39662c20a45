"""Prepare hosts: check that they can be reached and reach each other, install agents, make keys for TLS.

Input: an Inventory. Output: a verdict for each host, and the Inventory completed by what the agents report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.hosts.check import Check, HoldState, HostState, check
    from gavotte.hosts.install import Installation, install, installed, remove
    from gavotte.hosts.keys import Bearer, keys, read_bearer
    from gavotte.hosts.logs import logs
    from gavotte.hosts.paths import Path

__all__ = [
    "Bearer",
    "Check",
    "HoldState",
    "HostState",
    "Installation",
    "Path",
    "check",
    "install",
    "installed",
    "keys",
    "logs",
    "read_bearer",
    "remove",
]

load_on_first_use(
    __name__,
    {
        "check": ("Check", "HoldState", "HostState", "check"),
        "install": ("Installation", "install", "installed", "remove"),
        "keys": ("Bearer", "keys", "read_bearer"),
        "logs": ("logs",),
        "paths": ("Path",),
    },
)
