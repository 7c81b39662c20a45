"""Gets hosts ready: tells which can be reached, installs their agents, makes keys for those behind TLS.

In flows an Inventory; out come a verdict for each host, and the Inventory completed by what the agents found.
"""

from gavotte.hosts.check import Check, HoldState, HostState, check
from gavotte.hosts.deploy import Deployment, deploy
from gavotte.hosts.keys import Bearer, keys, read_bearer
from gavotte.hosts.logs import logs

__all__ = ["Bearer", "Check", "Deployment", "HoldState", "HostState", "check", "deploy", "keys", "logs", "read_bearer"]
