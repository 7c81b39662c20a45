"""Hosts that are listed on the command line: `a,b,c` or `10.0.0.1,user@10.0.0.2`."""

from __future__ import annotations

from gavotte.agents.sources.assembly import Found, assemble
from gavotte.formats.inventory import Inventory


def from_list(text: str) -> Inventory:
    """Return the hosts of a list of names or addresses, separated by commas.

    Args:
        text: the list. A host may have a user of its own, before an `@`.

    Raises:
        FormatError: naming the host and a remedy.
    """
    hosts = []
    parts = filter(None, (each.strip() for each in text.split(",")))
    for number, part in enumerate(parts, 1):
        user, _, name = part.rpartition("@")
        hosts.append(Found(name, name, f"host {number}", user=user or None))
    return assemble("--hosts", hosts)
