"""Random clouds of four kinds, and the limits that a tenant could find in each."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests import builders
from tests.measure.oracle import Oracle

from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.terms import Pair
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.hierarchy import Hierarchy, hierarchy_of

KINDS = ("hose", "pipe", "tor", "core")
OBSERVABLE = 1.15
"""A limit that cuts the possible traffic by this factor must be found; below it, either answer is right."""
NEAR = 0.10


@dataclass(frozen=True)
class Cloud:
    """A topology and, for a pipe cloud, the rate of each pair.

    Attributes:
        kind: one of `KINDS`.
        topology: the tree.
        pair_bps: wire rate of single pairs, by host index.
    """

    kind: str
    topology: Topology
    pair_bps: dict[Pair, float] = field(default_factory=dict)

    def oracle(self, *, noise: float = 0.0, seed: int = 0) -> Oracle:
        """Return the cloud as a simulated network."""
        return Oracle(self.topology, noise=noise, seed=seed, pair_bps=self.pair_bps)


@dataclass
class Score:
    """Comparison of a Network with its cloud.

    Attributes:
        clusters: whether machines and racks are those of the cloud.
        sharing: whether `sharing` is.
        right: verdicts that are right.
        unknown: limits that could be found and were left unknown.
        wrong: confident and wrong, in words.
    """

    clusters: bool = True
    sharing: bool = True
    right: int = 0
    unknown: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def all_right(self) -> bool:
        """Whether no verdict is wrong or missing."""
        return self.clusters and self.sharing and not self.unknown and not self.wrong


def random_cloud(kind: str, seed: int, *, hosts: int = 8, per_rack: int = 4) -> Cloud:
    """Draw a cloud with machines of one and two hosts.

    Args:
        kind: one of `KINDS`.
        seed: of everything.
        hosts: how many, about.
        per_rack: hosts a rack, about.
    """
    rng = random.Random(f"{kind} {seed}")
    switches: list[dict[str, Any]] = [{"name": "core"}]
    racks = max(2, round(hosts / per_rack))
    if kind == "core":
        pods = max(2, round(racks / 4))
        racks = max(racks, 2 * pods)
        switches += [{"name": f"agg{p}", "parent": "core"} for p in range(pods)]
        switches += [{"name": f"tor{r}", "parent": f"agg{r % pods}"} for r in range(racks)]
    else:
        switches += [{"name": f"tor{r}", "parent": "core"} for r in range(racks)]
    machines: list[dict[str, Any]] = []
    vms: list[dict[str, Any]] = []
    placed = 0
    base = rng.choice([60, 80, 100, 120, 150])
    while placed < hosts:
        rack = len(machines) % racks
        machines.append({"name": f"pm{len(machines)}", "switch": f"tor{rack}", "machine_rate": "1gbit"})
        for _ in range(min(rng.choice([1, 1, 2]), hosts - placed)):
            vm: dict[str, Any] = {"name": f"vm{placed}", "machine": machines[-1]["name"]}
            if kind != "pipe":
                vm["egress"] = f"{rng.choice([base, base, base // 2 + 20, base * 3 // 2])}mbit"
                if kind == "hose" and rng.random() < 0.3:
                    vm["ingress"] = f"{rng.choice([base, base // 2 + 10])}mbit"
            vms.append(vm)
            placed += 1
    _limit(kind, switches, machines, vms, rng)
    topology = builders.topology(vms, switches=switches, machine=machines)
    pair_bps: dict[Pair, float] = {}
    if kind == "pipe":
        box = [vm["machine"] for vm in vms]
        mbit = rng.choice([40, 60, 90])
        for i in range(placed):
            for j in range(placed):
                if box[i] != box[j]:
                    pair_bps[i, j] = 1e6 * rng.choice([mbit, mbit, mbit * 2])
    return Cloud(kind, topology, pair_bps)


def _limit(
    kind: str,
    switches: Sequence[dict[str, Any]],
    machines: Sequence[dict[str, Any]],
    vms: Sequence[dict[str, Any]],
    rng: random.Random,
) -> None:
    """Set the rates that make the kind: uplinks well below the sum of their hosts' rates."""
    mbit: defaultdict[str, float] = defaultdict(float)
    parent = {switch["name"]: switch.get("parent") for switch in switches}
    rack_of = {machine["name"]: machine["switch"] for machine in machines}
    for vm in vms:
        sends = float(vm.get("egress", "0mbit").removesuffix("mbit"))
        rack = rack_of[vm["machine"]]
        mbit[vm["machine"]] += sends
        mbit[rack] += sends
        mbit[str(parent[rack])] += sends
    for switch in switches:
        limited = switch["name"].startswith({"tor": "tor", "core": "agg"}.get(kind, "none"))
        if limited and mbit[switch["name"]] > 0 and rng.random() < 0.85:
            switch["up"] = f"{max(20, int(mbit[switch['name']] * rng.uniform(0.35, 0.7)))}mbit"
            if rng.random() < 0.3:
                switch["down"] = f"{max(20, int(mbit[switch['name']] * rng.uniform(0.35, 0.7)))}mbit"
    for machine in machines:
        if kind == "hose" and rng.random() < 0.2:
            machine["rate"] = f"{int(mbit[machine['name']] * 0.65)}mbit"


def score(cloud: Cloud, network: Network) -> Score:
    """Compare the Network with the truth, as far as a tenant could know it."""
    result = Score()
    oracle = cloud.oracle()
    size = len(oracle.names)
    truth = hierarchy_of(oracle.names, oracle.hops)
    learnt = [host.machine for host in network.hosts]
    for i in range(size):
        for j in range(size):
            together = learnt[i] is not None and learnt[i] == learnt[j]
            if (truth.machine[i] == truth.machine[j]) != together:
                result.clusters = False
    wanted = {(c.kind, frozenset(truth.names[m] for m in c.members)) for c in truth.clusters if c.kind != "machine"}
    given = {(g.name.split("-")[0], frozenset(g.members)) for g in network.groups if not g.name.startswith("machine")}
    result.clusters = result.clusters and wanted == given
    limits = _limits(oracle, truth)
    verdicts = {verdict.link: verdict for verdict in network.verdicts}
    for link in range(len(truth.links)):
        label = truth.label(link)
        if label not in verdicts or not _flows(truth, link):
            continue
        verdict, (limit_bps, could_bps) = verdicts[label], limits[link]
        needed = limit_bps is not None and could_bps >= OBSERVABLE * limit_bps
        if verdict.rate_bps is not None:
            if limit_bps is not None and abs(verdict.rate_bps / limit_bps - 1) <= NEAR:
                result.right += 1
            else:
                result.wrong.append(f"{label}: {verdict.rate_bps / 1e6:.0f} Mbit/s, true {_mbit(limit_bps)}")
        elif needed and verdict.verdict == "open":
            result.wrong.append(f"{label}: open, true {_mbit(limit_bps)}")
        elif needed:
            result.unknown.append(f"{label}: {_mbit(limit_bps)} ({verdict.evidence})")
        else:
            result.right += 1
    result.sharing = network.sharing == _sharing(truth, limits)
    return result


def _mbit(rate_bps: float | None) -> str:
    return "unlimited" if rate_bps is None else f"{rate_bps / 1e6:.0f} Mbit/s"


def _flows(tree: Hierarchy, link: int) -> frozenset[Pair]:
    it = tree.links[link]
    return frozenset((s, t) for s in it.sources for t in it.targets if link in tree.path(s, t))


def _limits(oracle: Oracle, tree: Hierarchy) -> list[tuple[float | None, float]]:
    """Return for each link of the tree its true capacity, and the traffic that could cross it without; both TCP
    goodput.
    """
    size = len(oracle.names)
    crossing: dict[str, set[Pair]] = {}
    for i in range(size):
        for j in range(size):
            for name in oracle.path(i, j) if i != j else []:
                crossing.setdefault(name, set()).add((i, j))
    by_flows: dict[frozenset[Pair], list[str]] = {}
    for name, pairs in crossing.items():
        by_flows.setdefault(frozenset(pairs), []).append(name)
    limits: list[tuple[float | None, float]] = []
    for link in range(len(tree.links)):
        flows = _flows(tree, link)
        names = [name for name in by_flows.get(flows, []) if name in oracle.links]
        if not names:
            limits.append((None, np.inf))
            continue
        kept = {name: oracle.links.pop(name) for name in names}
        could = float(oracle.rates(sorted(flows)).sum())
        alone = max((float(oracle.rates([pair])[0]) for pair in flows), default=0.0)
        oracle.links.update(kept)
        least = min(kept.values())
        # No experiment shows a link that one path fills alone and that only one other can use.
        limits.append((least * GOODPUT_PER_WIRE, max(could, alone) * GOODPUT_PER_WIRE))
    return limits


def _sharing(tree: Hierarchy, limits: Sequence[tuple[float | None, float]]) -> str:
    kinds = set()
    for link, (limit_bps, could_bps) in enumerate(limits):
        if limit_bps is not None and could_bps >= OBSERVABLE * limit_bps:
            nodes = (*tree.links[link].out_of, *tree.links[link].into)
            kinds.add("host" if any(tree.kind(node) == "host" for node in nodes) else "group")
    return "groups" if "group" in kinds else "hose" if "host" in kinds else "pipe"
