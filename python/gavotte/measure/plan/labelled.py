"""Racks in the words of a provider, next to those that the counted routers show.

Labels of hosts (`labels` of an Inventory) name the switch that a host is behind. In many clouds no router shows itself,
so labels are all that distinguishes racks. Whether a rack's links limit its hosts is measured in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gavotte.formats.history import Ints
from gavotte.formats.inventory import Host
from gavotte.formats.parts.counting import counted
from gavotte.terms.hierarchy import RACK_HOPS

_LAYER = re.compile(r"topology\.k8s\.aws/network-node-layer-([0-9]{1,2})")
"""Labels of the network nodes above an EC2 instance. The layer with the highest number is the nearest one."""

NEAREST = (
    "fabric.topograph.run/tier-0",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-block",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
)
"""Labels of the nearest switch, by the names of other providers; the first one that a host has counts."""

APART_HOPS = RACK_HOPS + 2
"""Length of paths between racks that only labels distinguish."""


def rack_labels(hosts: Iterable[Host]) -> dict[str, str]:
    """Return the label of each host's nearest switch, as `key=value`. Hosts without one are left out."""
    racks = {}
    for host in hosts:
        layers = sorted((int(match[1]), key) for key in host.labels if (match := _LAYER.fullmatch(key)))
        keys = [layers[-1][1]] if layers else [key for key in NEAREST if key in host.labels]
        if keys:
            racks[host.name] = f"{keys[0]}={host.labels[keys[0]]}"
    return racks


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
