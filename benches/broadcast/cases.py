"""Clouds of the lab in which files are broadcast."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from gavotte.formats.network import Network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

PRINTED = {
    "equal": "equal uplinks",
    "slow": "one uplink at a quarter",
    "mixed": "mixed uplinks",
    "racks": "three racks",
    "death": "a relay dies half-way",
    "hang": "a relay hangs half-way",
    "cut": "a relay's link goes down half-way",
}

FAULTS = ("death", "hang", "cut")
"""Cases in which something happens to a relay, each run in a lab of its own."""


@dataclass(frozen=True)
class Case:
    """A cloud, the rates of its ports, and the rack of each host. The first host is the source."""

    topology: Topology
    network: Network
    racks: dict[str, int]


def case(kind: str, receivers: int, rate_mbit: float, *, seed: int, line: float) -> Case:
    """Return the source and this many receivers.

    Hosts are equal (in the case of a death, too), one has a quarter of the uplink, all are mixed, or they are in three
    racks. Lines between racks carry the rate of `line` hosts.
    """
    draw = random.Random(seed)
    names = [f"h{i}" for i in range(receivers + 1)]
    up = dict.fromkeys(names, rate_mbit)
    if kind == "slow":
        up[names[len(names) // 2]] = rate_mbit / 4
    if kind == "mixed":
        up = {name: rate_mbit * draw.choice([0.4, 0.7, 1.0]) for name in names}
        up["h0"] = rate_mbit
    racks = 3 if kind == "racks" else 1
    line_mbit = line * rate_mbit
    place = {name: (number - 1) % racks if number else 0 for number, name in enumerate(names)}
    switches: list[dict[str, Any]] = [{"name": "core"}]
    if racks > 1:
        switches += [{"name": f"rack{r}", "parent": "core", "up": f"{line_mbit}mbit"} for r in range(racks)]
    hosts = [
        {
            "name": name,
            "switch": f"rack{place[name]}" if racks > 1 else "core",
            "egress": f"{up[name]}mbit",
            "ingress": f"{rate_mbit}mbit",
            "cpus": 4.0,
        }
        for name in names
    ]
    goodput = 1e6 * GOODPUT_PER_WIRE
    groups = [
        {
            "name": f"rack{r}",
            "members": [name for name in names if place[name] == r],
            "up_bps": line_mbit * goodput,
            "down_bps": line_mbit * goodput,
        }
        for r in range(racks)
    ]
    unknown: list[list[None]] = [[None] * len(names) for _ in names]
    network = {
        "format": "gavotte/network/1",
        "hosts": [
            {"name": name, "egress_bps": up[name] * goodput, "ingress_bps": rate_mbit * goodput} for name in names
        ],
        "rate_bps": unknown,
        "latency_s": unknown,
        "groups": groups if racks > 1 else [],
        "sharing": "groups" if racks > 1 else "hose",
    }
    return Case(
        Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts}),
        Network.model_validate(network),
        place,
    )
