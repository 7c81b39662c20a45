"""Turn the groups of a Network into a tree of switches, since schedulers accept no other topology."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.network import Network

MOST_TIERS = 15
"""Most switches on the way from a host to the root. Kueue accepts 16 levels, and the hosts are one of them."""


@dataclass(frozen=True)
class Switch:
    """A switch of the tree, which has either hosts or other switches below it.

    Attributes:
        name: unique in the tree.
        hosts: names of the hosts at this switch, in the Network's order.
        children: the switches below it.
        rate_bps: rate of the link to the switch above, in the slower direction; None = unknown.
    """

    name: str
    hosts: tuple[str, ...] = ()
    children: tuple[Switch, ...] = ()
    rate_bps: float | None = None

    def walk(self) -> Iterator[Switch]:
        """Yield this switch and all switches below it, each before those below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def height(self) -> int:
        """Number of switches on the longest way down to a host, this one included."""
        return 1 + max((child.height for child in self.children), default=0)


def tree_of(network: Network) -> Switch:
    """Return the root of the tree that a Network's groups form.

    1. Each group is a switch below that of its `parent`.
    2. A host is at the innermost group that has it as a member.
    3. If a group has hosts of its own next to other groups, these hosts get a switch `GROUP-hosts` in it.
    4. Hosts in no group, and several groups without a parent, are below a switch `root`.
    5. If a group contains no groups but machines of two hosts or more, their hosts are at the group's own switch.

    Raises:
        GavotteError: when a host is in two groups of which neither contains the other, or groups are nested more than
            `MOST_TIERS` deep.
    """
    parents = {group.name: group.parent for group in network.groups}
    around = {name: _around(name, parents) for name in parents}
    innermost: dict[str, str] = {}
    for group in network.groups:
        for host in group.members:
            other = innermost.setdefault(host, group.name)
            if other in around[group.name]:
                innermost[host] = group.name
            elif group.name not in around[other]:
                raise GavotteError(
                    f"host `{host}` is in the groups `{other}` and `{group.name}`, and neither is within the other",
                    hint="set the `parent` of one of them: schedulers accept only a tree",
                )
    hosts: dict[str | None, list[str]] = {}
    for name in network.names:
        hosts.setdefault(innermost.get(name), []).append(name)
    machines = {host.name: host.machine for host in network.hosts}
    taken = set(parents)
    below: dict[str | None, list[Switch]] = {}
    for group in sorted(network.groups, key=lambda group: -len(around[group.name])):
        direct, children = hosts.get(group.name, []), below.get(group.name, [])
        if all(_is_machine(child, machines) for child in children):
            inside = {*direct, *(host for child in children for host in child.hosts)}
            direct, children = [name for name in network.names if name in inside] if children else direct, []
        own = _at(group.name, direct, children, taken)
        rates = [rate for rate in (group.up_bps, group.down_bps) if rate is not None]
        switch = Switch(group.name, *own, min(rates, default=None))
        below.setdefault(group.parent, []).append(switch)
    outermost, loose = below.get(None, []), hosts.get(None, [])
    if len(outermost) == 1 and not loose:
        root = outermost[0]
    else:
        name = free("root", taken)
        root = Switch(name, *_at(name, loose, outermost, taken))
    if root.height > MOST_TIERS:
        raise _too_deep(root.height)
    return root


def tiers(root: Switch) -> dict[str, list[str]]:
    """Return the names of the switches above each host, nearest first, the same number for each host.

    A host with fewer switches above it gets further ones directly above the nearest: `RACK-tier1` and so on. A switch
    is therefore on the same tier for all hosts below it.
    """
    taken = {switch.name for switch in root.walk()}
    layers: dict[str, list[str]] = {}

    def descend(switch: Switch, above: list[str], room: int) -> None:
        if switch.hosts:
            further = [free(f"{switch.name}-tier{tier}", taken) for tier in range(1, room)]
            layers.update({host: [switch.name, *further, *above] for host in switch.hosts})
        for child in switch.children:
            descend(child, [switch.name, *above], room - 1)

    descend(root, [], root.height)
    return layers


def free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, with a number at its end if necessary, and mark it as taken."""
    number, result = 1, name
    while result in taken:
        number += 1
        result = f"{name}-{number}"
    taken.add(result)
    return result


def fitting(name: str, pattern: re.Pattern[str]) -> str:
    """Return a name that matches a pattern as it is; of another one, return `x` and its hash in hexadecimal digits.

    The hash is FNV-1a of 64 bits. Topograph replaces label values of more than 63 characters in the same way
    (`pkg/engines/k8s/labeler.go` of its version 1.0).
    """
    if pattern.fullmatch(name):
        return name
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"x{value:x}"


def _is_machine(switch: Switch, machines: Mapping[str, str | None]) -> bool:
    """Return whether a switch has several hosts, which all share one machine."""
    shared = {machines[host] for host in switch.hosts}
    return len(switch.hosts) > 1 and len(shared) == 1 and None not in shared


def _at(
    name: str, hosts: Sequence[str], children: Sequence[Switch], taken: set[str]
) -> tuple[tuple[str, ...], tuple[Switch, ...]]:
    """Return the hosts and children of a switch, of which it has one kind: no scheduler accepts both at one switch."""
    if hosts and children:
        return (), (*children, Switch(free(f"{name}-hosts", taken), tuple(hosts)))
    return tuple(hosts), tuple(children)


def _around(name: str, parents: Mapping[str, str | None]) -> list[str]:
    """Return a group and all groups around it, inner first."""
    groups = [name]
    while (parent := parents[groups[-1]]) is not None:
        groups.append(parent)
        if len(groups) > MOST_TIERS:
            raise _too_deep(len(groups))
    return groups


def _too_deep(height: int) -> GavotteError:
    return GavotteError(
        f"the tree of switches has {height} tiers or more", hint=f"remove groups: schedulers accept {MOST_TIERS}"
    )
