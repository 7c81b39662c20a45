"""Connect to the agents of an inventory and hold them for one run.

Input: an Inventory. Output: a `Fleet` whose agents are enrolled with one secret and one budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.agents.addresses import with_addresses
    from gavotte.agents.fleet import Budget, Fleet
    from gavotte.agents.holding import enrolled
    from gavotte.agents.hosts import resolve_hosts
    from gavotte.agents.neighbours import Neighbour
    from gavotte.agents.reach import Reach, reaching

__all__ = ["Budget", "Fleet", "Neighbour", "Reach", "enrolled", "reaching", "resolve_hosts", "with_addresses"]

load_on_first_use(
    __name__,
    {
        "addresses": ("with_addresses",),
        "fleet": ("Budget", "Fleet"),
        "holding": ("enrolled",),
        "hosts": ("resolve_hosts",),
        "neighbours": ("Neighbour",),
        "reach": ("Reach", "reaching"),
    },
)
