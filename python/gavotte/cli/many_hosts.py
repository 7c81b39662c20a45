"""Output about many hosts: a row for each group of hosts instead of a matrix."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from gavotte.cli.output import emit_table
from gavotte.formats.parts.rates import common_unit, format_in

if TYPE_CHECKING:
    from gavotte.formats.network import Group, Host, Network

LEAST, MIDDLE = "slowest", "median"
APART = "(in no group)"


def print_groups(network: Network) -> None:
    """Print each group with its links, and the caps of the hosts for which it is the innermost group."""
    of = _innermost(network)
    depth = _depths(network)
    rates_bps = [cap for host in network.hosts for cap in (host.egress_bps, host.ingress_bps) if cap]
    rates_bps += [cap for group in network.groups for cap in (group.up_bps, group.down_bps) if cap]
    unit, scale = common_unit(rates_bps)

    def rate(rate_bps: float | None) -> str:
        return format_in(rate_bps, scale) if rate_bps else "-"

    def row(name: str, group: Group | None, hosts: list[Host]) -> list[str]:
        ends = [rate(group.up_bps), rate(group.down_bps)] if group is not None else ["-", "-"]
        count = len(group.members) if group is not None else len(hosts)
        caps = ([host.egress_bps for host in hosts if host.egress_bps], [h.ingress_bps for h in hosts if h.ingress_bps])
        own = [rate(pick(each)) if each else "-" for each in caps for pick in (median, min)]
        return [name, str(count), *ends, *own]

    rows = [row("  " * depth[group.name] + group.name, group, of[group.name]) for group in _in_order(network)]
    if of[""]:
        rows.append(row(APART, None, of[""]))
    heads = [f"hosts {way}, {which}" for way in ("send", "receive") for which in (MIDDLE, LEAST)]
    emit_table([f"in {unit}", "hosts", "out", "into", *heads], rows)


def _innermost(network: Network) -> dict[str, list[Host]]:
    """Return the hosts of each group that are in no smaller one; an empty name = in none."""
    inner: dict[str, str] = {}
    for group in sorted(network.groups, key=lambda group: -len(group.members)):
        inner |= dict.fromkeys(group.members, group.name)
    of = defaultdict[str, list["Host"]](list)
    for host in network.hosts:
        of[inner.get(host.name, "")].append(host)
    return of


def _depths(network: Network) -> dict[str, int]:
    """Return the number of groups around each group."""
    parents = {group.name: group.parent for group in network.groups}
    depths = {}
    for name in parents:
        depth, around = 0, parents[name]
        while around is not None:
            depth, around = depth + 1, parents[around]
        depths[name] = depth
    return depths


def _in_order(network: Network) -> list[Group]:
    """Return the groups, each before those inside it."""
    inside = defaultdict[str | None, list["Group"]](list)
    for group in network.groups:
        inside[group.parent].append(group)
    ordered: list[Group] = []
    waiting = inside[None][::-1]
    while waiting:
        group = waiting.pop()
        ordered.append(group)
        waiting += inside[group.name][::-1]
    return ordered
