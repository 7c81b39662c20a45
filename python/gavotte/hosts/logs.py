"""Fetch the last lines of an agent's log."""

from __future__ import annotations

from gavotte.agents import Fleet, reaching
from gavotte.errors import AgentError
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.names import known_as, unknown_host


def logs(inventory: Inventory, host: str, *, lines: int = 0) -> list[str]:
    """Return the last lines that the agent of a host has logged, oldest first.

    An agent that is started over SSH ends with its controller. Its log therefore shows only its start.

    Args:
        inventory: the hosts.
        host: the name of one of them.
        lines: at most this many; 0 = all that the agent keeps, which is 500.

    Raises:
        GavotteError: when there is no such host.
        AgentError: when its agent does not answer.
    """
    host = known_as(host, inventory.names)
    hosts = [each for each in inventory.host if each.name == host]
    if not hosts:
        raise unknown_host(host, inventory.names, "the inventory")
    alone = inventory.model_copy(update={"host": hosts})
    with reaching(alone) as reach:
        fleet = Fleet(alone, reach)
        fleet.check()
        if host in fleet.missing:
            raise AgentError(f"{host}: {fleet.missing[host]}")
        return fleet.logs(host, lines)
