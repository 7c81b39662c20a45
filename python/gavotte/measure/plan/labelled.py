"""Racks in the words of a provider, next to those that the counted routers show.

Labels of hosts (`labels` of an Inventory) name the switch that a host is behind. In many clouds no router shows itself,
so labels are all that distinguishes racks. Whether a rack's links limit its hosts is measured in any case.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from gavotte.formats.inventory import Host
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.lengths import Lengths
from gavotte.terms import Pair
from gavotte.terms.hierarchy import MACHINE_HOPS, RACK_HOPS

_LAYER = re.compile(r"topology\.k8s\.aws/network-node-layer-([0-9]{1,2})")
"""Labels of the network nodes above an EC2 instance. The layer with the highest number is the nearest one."""

NEAREST = (
    "fabric.topograph.run/tier-0",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-block",
    "oci.oraclecloud.com/host.rack_id",
    "oci.oraclecloud.com/rdma.local_block_id",
    "oci.oraclecloud.com/host.network_block_id",
    "oci.oraclecloud.com/rdma.network_block_id",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
)
"""Labels of the nearest switch, by the names of other providers; the first one that a host has counts."""

APART_HOPS = RACK_HOPS + 2
"""Length of paths between racks that only labels distinguish."""

RATE_APART = 0.8
"""Paths within a rack are not slower than this share of paths to another rack, each compared with its ends' limits."""

TRIP_APART = 0.67
"""Round trips to another rack are not shorter than this share of those within a rack."""


def rack_labels(hosts: Iterable[Host]) -> dict[str, str]:
    """Return the label of each host's nearest switch, as `key=value`. Hosts without one are left out."""
    racks = {}
    for host in hosts:
        layers = sorted((int(match[1]), key) for key in host.labels if (match := _LAYER.fullmatch(key)))
        keys = [layers[-1][1]] if layers else [key for key in NEAREST if key in host.labels]
        if keys:
            racks[host.name] = f"{keys[0]}={host.labels[keys[0]]}"
    return racks


def hides_routers(lengths: Lengths) -> bool:
    """Return whether all known paths are one hop long: routers that do not show themselves make them look so."""
    return max(lengths.kinds, default=0) <= MACHINE_HOPS


class Compared(NamedTuple):
    """Path lengths after a comparison with labels.

    Attributes:
        lengths: path lengths (routers + 1).
        by_labels: whether they are those of labels, because the network hides its routers.
        note: what a reader should know; empty = nothing.
    """

    lengths: Lengths
    by_labels: bool = False
    note: str = ""


def with_labels(lengths: Lengths, names: Sequence[str], labels: Mapping[str, str]) -> Compared:
    """Compare counted path lengths with labels, and use the labels where the lengths show nothing.

    1. If all known paths are equally long and labels name several racks, paths within a rack are `RACK_HOPS` long, and
       others `APART_HOPS`.
    2. Otherwise the counted lengths count. Pairs on which the labels disagree are reported.

    Args:
        lengths: path lengths (routers + 1).
        names: names of the N hosts.
        labels: host to label of its rack; hosts without one are in no known rack.
    """
    labelled = [(number, labels[name]) for number, name in enumerate(names) if name in labels]
    if len({label for _, label in labelled}) < 2:
        return Compared(lengths)
    if len(lengths.kinds) <= 1:
        used = Lengths(len(names))
        racks = defaultdict[str, list[int]](list)
        for number, label in labelled:
            racks[label].append(number)
        for hosts in racks.values():
            used.join(hosts, RACK_HOPS)
        used.join([number for number, _ in labelled], APART_HOPS)
        key = labelled[0][1].partition("=")[0]
        note = f"the network hides its routers, so racks are those of the hosts' labels ({key})"
        return Compared(used, by_labels=True, note=note)
    wrong = list(_contradicted(lengths, labelled))
    if not wrong:
        return Compared(lengths)
    i, j = wrong[0]
    label = labels[names[i]]
    together = "are both in" if labels[names[i]] == labels[names[j]] else "are not both in"
    routers = lengths[i, j] - 1
    between = "1 router is" if routers == 1 else f"{routers} routers are"
    note = (
        f"labels and routers disagree on {counted(len(wrong), 'pair')} of hosts: "
        f"{names[i]} and {names[j]} {together} `{label}`, but {between} between them; the counted routers are used"
    )
    return Compared(lengths, note=note)


def _contradicted(lengths: Lengths, labelled: Sequence[tuple[int, str]]) -> Iterator[Pair]:
    """Yield the pairs whose known length says otherwise than their labels whether they are in one rack."""
    numbers = np.array([number for number, _ in labelled])
    racks = np.unique([label for _, label in labelled], return_inverse=True)[1]
    for at, number in enumerate(numbers):
        row = lengths.row(number)[numbers[at + 1 :]]
        unlike = (row > 0) & ((row <= RACK_HOPS) != (racks[at + 1 :] == racks[at]))
        yield from ((int(number), int(other)) for other in numbers[at + 1 :][unlike])


class Misplaced(NamedTuple):
    """A host that is nearer to another rack than to its own, as labels name racks.

    Attributes:
        host: its number.
        rack: label of its rack.
        other: label of the rack that is nearer.
        within: median nearness to hosts of its rack.
        across: median nearness to hosts of the other rack.
    """

    host: int
    rack: str
    other: str
    within: float
    across: float


def disagreement(
    rates_bps: Mapping[Pair, float],
    round_trips_s: Mapping[Pair, float],
    names: Sequence[str],
    labels: Mapping[str, str],
) -> str:
    """Return which hosts are in another rack than labels say, by rates or else by round trips; empty = none is.

    1. Each rate is compared with the limits of its ends, the highest rates that they reach. Hosts of unlike speed then
       compare well.
    2. A host is misplaced if it is nearer to another rack than to its own, and as near to that rack's hosts as these
       are to each other. So a rack of fast hosts attracts no slow ones.

    Args:
        rates_bps: known rates.
        round_trips_s: known round trips.
        names: names of the N hosts.
        labels: host to label of its rack; hosts without one are in no known rack.
    """
    racks = [labels.get(name, "") for name in names]
    most_out, most_into = dict[int, float](), dict[int, float]()
    for (i, j), bps in rates_bps.items():
        most_out[i], most_into[j] = max(bps, most_out.get(i, 0.0)), max(bps, most_into.get(j, 0.0))
    shares = {(i, j): bps / min(most_out[i], most_into[j]) for (i, j), bps in rates_bps.items() if bps > 0}
    if misplaced := _misplaced(shares, racks, RATE_APART):
        first = misplaced[0]
        return _disagreeing(misplaced, names, "rates", f"{first.within:.0%}", f"{first.across:.0%} of what both allow")
    near = {pair: 1 / trip_s for pair, trip_s in round_trips_s.items() if trip_s > 0}
    if misplaced := _misplaced(near, racks, TRIP_APART):
        first = misplaced[0]
        within, across = (f"{1e6 / value:.0f} us" for value in (first.within, first.across))
        return _disagreeing(misplaced, names, "round trips", within, across)
    return ""


def _disagreeing(misplaced: Sequence[Misplaced], names: Sequence[str], what: str, within: str, across: str) -> str:
    first = misplaced[0]
    return (
        f"labels and {what} disagree on {counted(len(misplaced), 'host')}: {names[first.host]} is in `{first.rack}` by "
        f"its label, with {what} of {within} to hosts there, and of {across} to hosts of `{first.other}`; "
        "the labels are used"
    )


def _misplaced(near: Mapping[Pair, float], racks: Sequence[str], apart: float) -> list[Misplaced]:
    """Return the hosts that are nearer to another rack than to their own.

    Args:
        near: nearness of pairs, the higher the nearer.
        racks: the label of each host's rack; empty = it has none.
        apart: a rack is nearer if the nearness to one's own is less than this share.
    """
    inside = defaultdict[str, list[float]](list)
    towards = defaultdict[int, defaultdict[str, list[float]]](lambda: defaultdict(list))
    for (i, j), value in _both_ways(near).items():
        if racks[i] == racks[j]:
            inside[racks[i]].append(value)
        for one, other in ((i, j), (j, i)):
            towards[one][racks[other]].append(value)
    usual = {rack: median(values) for rack, values in inside.items()}
    result = []
    for host, rack in enumerate(racks):
        if not rack or rack not in towards[host]:
            continue
        within = median(towards[host][rack])
        across = {other: median(values) for other, values in towards[host].items() if other not in ("", rack)}
        nearer = {
            other: value
            for other, value in across.items()
            if other in usual and within < apart * value and value >= apart * usual[other]
        }
        if nearer:
            nearest = max(nearer, key=lambda each: nearer[each])
            result.append(Misplaced(host, rack, nearest, within, nearer[nearest]))
    return result


def _both_ways(near: Mapping[Pair, float]) -> dict[Pair, float]:
    """Return the mean of both directions of each pair, the lower index first, or the only one that is known."""
    return {(min(pair), max(pair)): (value + near.get(pair[::-1], value)) / 2 for pair, value in near.items()}
