"""Transfers alongside bandwidth guarantees, whose limits follow demand: no rate is known before the bytes move."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gavotte.agents import Fleet, reaching
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.routes import SshRoute

SHOWN = 8
"""Hosts that a warning names."""


def guaranteed_hosts(inventory: Inventory, names: Collection[str]) -> list[str]:
    """Return the hosts whose sending a bandwidth guarantee limits now, in the inventory's order.

    A limit grows while its host sends and shrinks while it does not. A probe of a moment therefore shows a rate that
    the transfer itself soon exceeds.

    Args:
        inventory: the hosts' addresses and agents. An agent that SSH starts ends with its controller and has no
            guarantees.
        names: hosts that may send.
    """
    asked = [host for host in inventory.host if host.name in names and not isinstance(host.route, SshRoute)]
    if not asked:
        return []
    used = inventory.model_copy(update={"host": asked})
    with reaching(used) as roads:
        fleet = Fleet(used, roads)
        fleet.check()
        limited = fleet.guaranteed_bps()
    return [host.name for host in asked if host.name in limited]


def unpaced_warning(hosts: Sequence[str]) -> str:
    """Return why flows have no pace of ours, and the remedy, for hosts that guarantees limit."""
    more = f" and {len(hosts) - SHOWN} more" * (len(hosts) > SHOWN)
    return (
        f"bandwidth guarantees limit what {', '.join(hosts[:SHOWN])}{more} may send, and the limits follow demand, so "
        "flows are not paced and no time is estimated; a Network measured without guarantees (--network) gives both"
    )
