"""Gets hosts ready: tells which can be reached, installs their agents, makes keys for those behind TLS.

In flows an Inventory; out come a verdict for each host, and the Inventory completed by what the agents found.
"""

from gavotte.hosts.check import Check, HostState, check
from gavotte.hosts.deploy import Deployment, deploy
from gavotte.hosts.keys import Bearer, keys, read_bearer

__all__ = ["Bearer", "Check", "Deployment", "HostState", "check", "deploy", "keys", "read_bearer"]
