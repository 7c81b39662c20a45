"""Random clouds that are not kind to a broadcast: unequal, oversubscribed racks with co-located hosts."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benches.broadcast.cases import Case

from gavotte import _core
from gavotte.formats.network import Network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import plan_broadcast

RACKS = (2, 6)
"""Least and greatest number of racks, and of hosts in each."""

UPLINK_MBIT = (4.0, 40.0)
"""Slowest and fastest rate of a rack's line and of a host's port."""

PORTS_MBIT = (40.0, 100.0)
"""Ingress of hosts whose ports are not equal both ways."""

BUS_MBIT = 400.0
"""Rate between hosts of one machine."""

ALIKE = 0.5
"""Share of racks whose line has one rate both ways."""

COLOCATED = 0.3
"""Share of machines with two hosts."""

SHOWN = ("auto", "best before", "relay", "cornet", "topology")
"""Ways that are printed of each cloud."""


def ugly(seed: int) -> Case:
    """Return the cloud of a seed: its topology, the Network that describes it, and the rack of each host.

    The source is the host `h0`, which may be in any rack and on any machine.
    """
    draw = random.Random(seed)
    switches: list[dict[str, Any]] = [{"name": "core"}]
    machines: list[dict[str, Any]] = []
    hosts: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    goodput = 1e6 * GOODPUT_PER_WIRE
    rack_of: list[int] = []
    for rack in range(draw.randint(*RACKS)):
        up = draw.uniform(*UPLINK_MBIT)
        down = up if draw.random() < ALIKE else draw.uniform(*UPLINK_MBIT)
        switches.append({"name": f"rack{rack}", "parent": "core", "up": _mbit(up), "down": _mbit(down)})
        first, count = len(hosts), draw.randint(*RACKS)
        while len(hosts) < first + count:
            egress = draw.uniform(*UPLINK_MBIT)
            ingress = draw.choice([egress, *PORTS_MBIT])
            caps = {"egress": _mbit(egress), "ingress": _mbit(ingress), "cpus": 4.0}
            pair = len(hosts) + 2 <= first + count and draw.random() < COLOCATED
            if not pair:
                hosts.append({"switch": f"rack{rack}", **caps})
                continue
            # The two together have the rate that one could have alone, since their machine's port carries both.
            machine = {"name": f"pm{len(machines)}", "switch": f"rack{rack}", "machine_rate": _mbit(BUS_MBIT)}
            machines.append(machine | {"rate": _mbit(egress)})
            hosts += [{"machine": machine["name"], "cpus": 4.0}] * 2
        rack_of += [rack] * (len(hosts) - first)
        groups.append({"name": f"rack{rack}", "up_bps": up * goodput, "down_bps": down * goodput})
    source = draw.randrange(len(hosts))
    order = [source, *(at for at in range(len(hosts)) if at != source)]
    hosts = [{"name": f"h{number}", **hosts[at]} for number, at in enumerate(order)]
    racks = {f"h{number}": rack_of[at] for number, at in enumerate(order)}
    for rack, group in enumerate(groups):
        group["members"] = [name for name, own in racks.items() if own == rack]
    for machine in machines:
        rate_bps = float(machine["rate"].removesuffix("mbit")) * goodput
        members = [host["name"] for host in hosts if host.get("machine") == machine["name"]]
        parent = f"rack{racks[members[0]]}"
        groups.append(
            {"name": machine["name"], "members": members, "up_bps": rate_bps, "down_bps": rate_bps, "parent": parent}
        )
    return Case(
        Topology.model_validate({"format": FORMAT, "switch": switches, "machine": machines, "host": hosts}),
        Network.model_validate(
            {
                "format": "gavotte/network/1",
                "hosts": [_described(host, machines, goodput) for host in hosts],
                "groups": groups,
                "sharing": "groups",
            }
        ),
        racks,
    )


def _mbit(rate: float) -> str:
    return f"{rate:.3f}mbit"


def _described(host: dict[str, Any], machines: list[dict[str, Any]], goodput: float) -> dict[str, Any]:
    """Return a host as a Network describes it. A machine's port is a group, and the cap of each of its hosts."""
    machine = next((each for each in machines if each["name"] == host.get("machine")), None)
    caps = {"egress": machine["rate"], "ingress": machine["rate"]} if machine else host
    rates = {key: float(caps[key].removesuffix("mbit")) * goodput for key in ("egress", "ingress")}
    about = {"name": host["name"], "egress_bps": rates["egress"], "ingress_bps": rates["ingress"]}
    return about | ({"machine": machine["name"]} if machine else {})


@dataclass(frozen=True)
class Played:
    """Predicted seconds of each way in one cloud.

    Attributes:
        bound_s: least time of any mechanism.
        seconds: by way.
        trees: trees of the packing, and their greatest depth.
    """

    bound_s: float
    seconds: dict[str, float]
    trees: tuple[int, int]


def play(cloud: Case, size_bytes: int, *, seed: int) -> Played:
    """Predict each way in one cloud: trees and meshes as fluids, Cornets block by block."""
    names = cloud.network.names
    plan = plan_broadcast(cloud.network, "h0", names[1:], size_bytes, mechanism="packing")
    auto = plan_broadcast(cloud.network, "h0", names[1:], size_bytes)
    assert plan.bound_s is not None
    single = {way: plan.prices[way] for way in ("chain", "tree", "binomial", "mesh")}
    relayed = [(relay_rate_bps(cloud), relay_tree(cloud))]
    seconds = {"auto": auto.prices[auto.mechanism], "packing": plan.prices["packing"], **single}
    seconds["best before"] = min(single.values())
    seconds["relay"], _ = plan.ground.packing_price(size_bytes, relayed)
    racks = [cloud.racks[name] for name in names]
    for way, partitions in (("cornet", [0] * len(names)), ("topology", racks)):
        seconds[way] = plan.ground.rehearse(way, size_bytes, partitions, seed)
    return Played(plan.bound_s, seconds, (len(plan.trees), max(tree.depth for tree in plan.trees)))


def relay_tree(cloud: Case) -> list[tuple[int, int]]:
    """Return the edges of a tree as a person would place it: the source, the best host of each rack, its others."""
    at = {host.name: number for number, host in enumerate(cloud.network.hosts)}
    edges = []
    for rack in sorted(set(cloud.racks.values())):
        members = [name for name, own in cloud.racks.items() if own == rack and name != "h0"]
        members.sort(key=lambda name: -(cloud.network.hosts[at[name]].egress_bps or 0.0))
        if cloud.racks["h0"] != rack:
            edges.append((0, at[members[0]]))
        else:
            members.insert(0, "h0")
        edges += [(at[members[0]], at[name]) for name in members[1:]]
    return edges


def relay_rate_bps(cloud: Case) -> float:
    """Return the rate that each edge of `relay_tree` can have at the same time."""
    ground = _core.BroadcastGround(_core.Network(cloud.network), 0, list(range(1, len(cloud.network.hosts))))
    rates_bps, _, ways = ground.links(False)
    crossings = [0] * len(rates_bps)
    for parent, child in relay_tree(cloud):
        for link in ways[parent * len(cloud.network.hosts) + child]:
            crossings[link] += 1
    return min(rate / count for rate, count in zip(rates_bps, crossings, strict=True) if count)


def compare(clouds: Iterable[int], size_bytes: int) -> dict[str, list[float]]:
    """Predict each way in each cloud, print how many times the bound each takes, and return these by way."""
    ratios: dict[str, list[float]] = {}
    for seed in clouds:
        cloud = ugly(seed)
        played = play(cloud, size_bytes, seed=seed)
        over = {way: seconds / played.bound_s for way, seconds in played.seconds.items()}
        for way, ratio in over.items():
            ratios.setdefault(way, []).append(ratio)
        shown = "  ".join(f"{way} {over[way]:.2f}" for way in SHOWN)
        count, depth = played.trees
        print(
            f"cloud {seed:2}: {len(cloud.network.hosts):2} hosts, bound {played.bound_s:6.2f} s: {shown}; "
            f"{count} trees, depth {depth}",
            flush=True,
        )
    for way, values in ratios.items():
        print(f"{way:12} median {statistics.median(values):5.2f} x bound, most {max(values):5.2f}, n = {len(values)}")
    return ratios
