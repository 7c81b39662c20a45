"""Which hosts are probed with each other to show their own limits: those of a rack, so that no uplink limits them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gavotte.formats.network import Group

POOL_HOSTS = 4
"""Racks with fewer hosts than this have too few partners: their hosts are probed together with those of the others."""

FEWEST_LEFT = 3
"""Fewer hosts than this that are left over have too few partners of their own, and join the first pool."""


def innermost(groups: Sequence[Group], names: Sequence[str]) -> dict[str, list[int]]:
    """Return the hosts of each group that contains no other group, by the group's name.

    Args:
        groups: groups of a Network.
        names: names of the hosts, by number; members that are not among them are left out.
    """
    at = {name: number for number, name in enumerate(names)}
    parents = {group.parent for group in groups}
    return {
        group.name: [at[name] for name in group.members if name in at] for group in groups if group.name not in parents
    }


def pools_of(racks: Iterable[Sequence[int]], hosts: Iterable[int]) -> list[list[int]]:
    """Return the pools, which contain each host once.

    Args:
        racks: hosts of each rack.
        hosts: all hosts; some may be in no rack.
    """
    pools = [list(rack) for rack in racks if len(rack) >= POOL_HOSTS]
    rest = sorted(set(hosts).difference(*pools))
    if pools and 0 < len(rest) < FEWEST_LEFT:
        pools[0] += rest
    elif rest:
        pools.append(rest)
    return pools
