"""Connect to agents over a Unix socket, an SSH tunnel, or TCP with mutual TLS.

Input: an Inventory. Output, for the length of a `with` block: a gRPC channel to each host that can be reached, and a
one-line reason for each other host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.agents.reach.reaching import Reach, reaching

__all__ = ["Reach", "reaching"]

load_on_first_use(
    __name__,
    {
        "reaching": ("Reach", "reaching"),
    },
)
