"""Roads to agents: a Unix socket, an SSH tunnel, or TCP with mutual TLS.

In flows an Inventory; out comes, for the length of a `with` block, a gRPC channel to each host that can be reached and
a one-line reason for each that cannot.
"""

from gavotte.agents.reach.reaching import Reach, reaching

__all__ = ["Reach", "reaching"]
