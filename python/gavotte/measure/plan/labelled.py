"""Racks in the words of a provider, next to those that the counted routers show.

Labels of hosts (`labels` of an Inventory) name the switch that a host is behind. In many clouds no router shows itself,
so labels are all that distinguishes racks. Whether a rack's links limit its hosts is measured in any case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gavotte.formats.history import Floats, Ints
from gavotte.formats.inventory import Host
from gavotte.formats.parts.counting import counted
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


def hides_routers(lengths: Ints) -> bool:
    """Return whether all known paths are one hop long: routers that do not show themselves make them look so."""
    return not (lengths > MACHINE_HOPS).any()


class Compared(NamedTuple):
    """Path lengths after a comparison with labels.

    Attributes:
        lengths: (N, N) path lengths (routers + 1), 0 = unknown.
        by_labels: whether they are those of labels, because the network hides its routers.
        note: what a reader should know; empty = nothing.
    """

    lengths: Ints
    by_labels: bool = False
    note: str = ""


def with_labels(lengths: Ints, names: Sequence[str], labels: Mapping[str, str]) -> Compared:
    """Compare counted path lengths with labels, and use the labels where the lengths show nothing.

    1. If all known paths are equally long and labels name several racks, paths within a rack are `RACK_HOPS` long, and
       others `APART_HOPS`.
    2. Otherwise the counted lengths count. Pairs on which the labels disagree are reported.

    Args:
        lengths: (N, N) path lengths (routers + 1), 0 = unknown.
        names: names of the N hosts.
        labels: host to label of its rack; hosts without one are in no known rack.
    """
    labelled = [(number, labels[name]) for number, name in enumerate(names) if name in labels]
    if len({label for _, label in labelled}) < 2:
        return Compared(lengths)
    known = np.unique(lengths[lengths > 0])
    if len(known) <= 1:
        used = lengths.copy()
        for (i, one), (j, two) in combinations(labelled, 2):
            used[i, j] = used[j, i] = RACK_HOPS if one == two else APART_HOPS
        key = labelled[0][1].partition("=")[0]
        note = f"the network hides its routers, so racks are those of the hosts' labels ({key})"
        return Compared(used, by_labels=True, note=note)
    wrong = [
        (i, j, one)
        for (i, one), (j, two) in combinations(labelled, 2)
        if lengths[i, j] and (one == two) != bool(lengths[i, j] <= RACK_HOPS)
    ]
    if not wrong:
        return Compared(lengths)
    i, j, label = wrong[0]
    together = "are both in" if labels[names[i]] == labels[names[j]] else "are not both in"
    routers = int(lengths[i, j]) - 1
    between = "1 router is" if routers == 1 else f"{routers} routers are"
    note = (
        f"labels and routers disagree on {counted(len(wrong), 'pair')} of hosts: "
        f"{names[i]} and {names[j]} {together} `{label}`, but {between} between them; the counted routers are used"
    )
    return Compared(lengths, note=note)


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


def disagreement(rates_bps: Floats, round_trips_s: Floats, names: Sequence[str], labels: Mapping[str, str]) -> str:
    """Return which hosts are in another rack than labels say, by rates or else by round trips; empty = none is.

    1. Each rate is compared with the limits of its ends, the highest rates that they reach. Hosts of unlike speed then
       compare well.
    2. A host is misplaced if it is nearer to another rack than to its own, and as near to that rack's hosts as these
       are to each other. So a rack of fast hosts attracts no slow ones.

    Args:
        rates_bps: (N, N) rates; NaN = unknown.
        round_trips_s: (N, N) round trips; NaN = unknown.
        names: names of the N hosts.
        labels: host to label of its rack; hosts without one are in no known rack.
    """
    racks = [labels.get(name, "") for name in names]
    known = np.where(np.isfinite(rates_bps) & (rates_bps > 0), rates_bps, 0.0)
    limits = np.minimum(known.max(axis=1, initial=0.0)[:, None], known.max(axis=0, initial=0.0)[None, :])
    shares = np.full_like(known, np.nan)
    np.divide(known, limits, out=shares, where=known > 0)
    if misplaced := _misplaced(shares, racks, RATE_APART):
        first = misplaced[0]
        return _disagreeing(misplaced, names, "rates", f"{first.within:.0%}", f"{first.across:.0%} of what both allow")
    near = np.full_like(known, np.nan)
    np.divide(1.0, round_trips_s, out=near, where=np.isfinite(round_trips_s) & (round_trips_s > 0))
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


def _misplaced(near: Floats, racks: Sequence[str], apart: float) -> list[Misplaced]:
    """Return the hosts that are nearer to another rack than to their own.

    Args:
        near: (N, N), the higher the nearer; NaN = unknown.
        racks: the label of each host's rack; empty = it has none.
        apart: a rack is nearer if the nearness to one's own is less than this share.
    """
    both = _mean(near)
    np.fill_diagonal(both, np.nan)
    members = {rack: np.array([at for at, each in enumerate(racks) if each == rack]) for rack in racks if rack}
    inside = {rack: _median(both[np.ix_(hosts, hosts)]) for rack, hosts in members.items()}
    result = []
    for host, rack in enumerate(racks):
        if not rack:
            continue
        within = _median(both[host, members[rack]])
        across = {other: _median(both[host, hosts]) for other, hosts in members.items() if other != rack}
        nearer = {
            other: value for other, value in across.items() if within < apart * value and value >= apart * inside[other]
        }
        if nearer:
            other = max(nearer, key=lambda each: nearer[each])
            result.append(Misplaced(host, rack, other, within, nearer[other]))
    return result


def _mean(near: Floats) -> Floats:
    """Return the mean of both directions, or the only one that is known."""
    back = near.T
    return np.where(np.isnan(near), back, np.where(np.isnan(back), near, (near + back) / 2))


def _median(values: Floats) -> float:
    """Return the median of the known values; NaN = none is known."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else math.nan
