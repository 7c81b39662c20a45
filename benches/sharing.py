"""Checks verdicts and clusters on random clouds of four kinds, in the lab and, for large sizes, in a simulation.

    make bench-sharing [ARGS="--clouds 40 --seed 0 --simulated 40 --sizes 64 196 --method train --skip-lab"]

Hose, pipe, rack-limited and core-limited clouds take turns, with 6 to 10 hosts on machines of one or two, and rates of
40 to 225 Mbit/s. The measurement knows only the hosts.

A cloud is right if its machines, racks and sharing are right, and the value of every observable limit is within 10 %.
A limit is observable if it cuts the traffic that could cross it by 15 %. Any other claim is wrong and confident. The
simulation answers with max-min fair rates and 2 % of noise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
from benches.machine import machine
from tests.measure.random_clouds import KINDS, Cloud, Score, random_cloud, score

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.formats.history import History, write_history
from gavotte.formats.inventory import read_inventory
from gavotte.lab.layout import Interface, Layout, layout_of
from gavotte.lab.shapers import Leaf, Shaper, link_burst, queue_for
from gavotte.measure import measure
from gavotte.measure.sharing import SharingResult, measure_sharing, run_experiments, typical_rate
from gavotte.model import model
from gavotte.terms.hierarchy import hierarchy_of

NOISE = 0.02


@dataclass(frozen=True)
class Outcome:
    """One cloud, learnt."""

    kind: str
    seed: int
    hosts: int
    score: Score
    sharing: str
    result: SharingResult
    measure_s: float

    def line(self) -> str:
        """Return the row of the table."""
        wrong = "; ".join(
            [*(f"WRONG {w}" for w in self.score.wrong), *(f"unknown {u[:60]}" for u in self.score.unknown)]
        )
        return (
            f"{self.kind:<5} {self.seed:>5} {self.hosts:>5} {'yes' if self.score.clusters else 'NO':>8} "
            f"{self.sharing + ('' if self.score.sharing else ' NO'):>9} {self.score.right:>5} "
            f"{len(self.score.unknown):>7} {len(self.score.wrong):>5} {self.result.experiments:>5} "
            f"{self.result.rounds:>6} {self.measure_s:>7.1f} {self.result.seconds:>7.1f} "
            f"{self.result.bytes_sent / 1e6:>7.0f}  {wrong}"
        )


HEADER = (
    f"{'kind':<5} {'seed':>5} {'hosts':>5} {'clusters':>8} {'sharing':>9} {'right':>5} {'unknown':>7} {'wrong':>5} "
    f"{'exps':>5} {'rounds':>6} {'pairs s':>7} {'share s':>7} {'MB':>7}"
)


def with_pipes(plan: Layout, cloud: Cloud) -> Layout:
    """Put a shaper before each host that limits each source separately, which a topology cannot describe."""
    place = {host.name: number for number, host in enumerate(cloud.topology.host)}
    target = {}
    for one, other in plan.cables:
        for port, far in ((one, other), (other, one)):
            if plan.nodes[port.node].kind == "machine" and plan.nodes[far.node].kind == "host":
                target[port.node, port.index] = place[plan.nodes[far.node].name]

    def leaf(rate_bps: float, address: str) -> Leaf:
        return Leaf("source", (address,), rate_bps, rate_bps, link_burst(rate_bps), queue_for(rate_bps, None))

    def piped(node: int, port: Interface) -> Interface:
        if (node, port.index) not in target:
            return port
        mine = target[node, port.index]
        pairs = [(cloud.pair_bps.get((source, mine)), address) for source, (_, address) in enumerate(plan.hosts)]
        leaves = [leaf(rate_bps, address) for rate_bps, address in pairs if rate_bps is not None]
        inside = port.shaper.leaves if port.shaper is not None else ()
        return replace(port, shaper=Shaper((*inside, *leaves)))

    nodes = (
        replace(node, interfaces=tuple(piped(number, port) for port in node.interfaces))
        for number, node in enumerate(plan.nodes)
    )
    return replace(plan, nodes=tuple(nodes))


@contextmanager
def lab_of(cloud: Cloud) -> Iterator[lab.Session]:
    """Build a cloud."""
    with (
        mock.patch("gavotte.lab.start.layout_of", lambda topology: with_pipes(layout_of(topology), cloud)),
        lab.session(cloud.topology, source="bench") as session,
    ):
        yield session


def in_lab(cloud: Cloud, seed: int, method: str, keep: Path | None) -> Outcome:
    """Real packets."""
    with lab_of(cloud) as session:
        inventory = read_inventory(session.hosts_file)
        began = time.monotonic()
        history = measure(inventory, method=method, seed=seed).history
        if history.answered < len(history.hosts) * (len(history.hosts) - 1):
            # Trains of 1 Gbit/s within a machine may be refused on a busy one.
            second = measure(inventory, method="bulk", seed=seed).history
            beta = np.where(np.isnan(history.beta_Bps), second.beta_Bps, history.beta_Bps)
            history = replace(history, beta_Bps=beta, hops=np.maximum(history.hops, history.hops.T))
        measure_s = time.monotonic() - began
        with enrolled(inventory, Budget(max_bytes=0, max_seconds=600)) as fleet:
            result = measure_sharing(fleet, history, seed=seed)
    if keep is not None:
        write_history(keep / f"{cloud.kind}-{seed}.npz", replace(history, evidence=result.evidence))
    return outcome(cloud, seed, history, result, measure_s)


def simulated(cloud: Cloud, seed: int) -> Outcome:
    """No packets."""
    oracle = cloud.oracle(noise=NOISE, seed=seed)
    history = oracle.history()
    tree = hierarchy_of(history.hosts, history.hops)
    result = run_experiments(oracle, tree, typical_rate(history), hosts=range(tree.size), seed=seed)
    return outcome(cloud, seed, history, result, 0.0)


def outcome(cloud: Cloud, seed: int, history: History, result: SharingResult, measure_s: float) -> Outcome:
    """Judge the model of a cloud."""
    network = model(replace(history, evidence=result.evidence))
    return Outcome(cloud.kind, seed, len(history.hosts), score(cloud, network), network.sharing, result, measure_s)


def summary(title: str, outcomes: list[Outcome]) -> dict[str, object]:
    """Print and return the totals."""
    count = len(outcomes)
    verdicts = sum(o.score.right + len(o.score.unknown) + len(o.score.wrong) for o in outcomes)
    right = sum(o.score.right for o in outcomes)
    totals = {
        "clouds": count,
        "clusters_right": sum(o.score.clusters for o in outcomes),
        "sharing_right": sum(o.score.sharing for o in outcomes),
        "link_verdicts": verdicts,
        "link_verdicts_right": right,
        "all_right": sum(o.score.all_right for o in outcomes),
        "wrong_and_confident": sum(len(o.score.wrong) for o in outcomes),
        "seconds": sum(o.result.seconds + o.measure_s for o in outcomes),
        "bytes": sum(o.result.bytes_sent for o in outcomes),
    }
    print(f"{title}: " + ", ".join(f"{k} {v:.0f}" if isinstance(v, float) else f"{k} {v}" for k, v in totals.items()))
    return {"title": title, **totals}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clouds", type=int, default=40, help="in the lab")
    parser.add_argument("--simulated", type=int, default=40, help="small ones in the simulation")
    parser.add_argument("--sizes", type=int, nargs="*", default=[64, 196], help="hosts of the larger simulated ones")
    parser.add_argument("--seed", type=int, default=0, help="of the first cloud")
    parser.add_argument("--method", default="train", help="how single pairs are measured before")
    parser.add_argument("--keep", type=Path, help="folder for each lab's History with its evidence")
    parser.add_argument("--skip-lab", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(f"{machine()}; seed {args.seed}")
    totals = []
    print(HEADER, flush=True)
    outcomes: list[Outcome] = []
    for number in range(0 if args.skip_lab else args.clouds):
        seed = args.seed + number
        cloud = random_cloud(KINDS[number % 4], seed, hosts=6 + number // 4 % 5)
        outcomes.append(in_lab(cloud, seed, args.method, args.keep))
        print(outcomes[-1].line(), flush=True)
    if outcomes:
        totals.append(summary("lab", outcomes))
    outcomes = []
    for number in range(args.simulated):
        seed = args.seed + number
        outcomes.append(simulated(random_cloud(KINDS[number % 4], seed, hosts=6 + number // 4 % 5), seed))
    if outcomes:
        totals.append(summary("simulated, 6 to 10 hosts", outcomes))
    for size in args.sizes:
        outcomes = [simulated(random_cloud(k, args.seed, hosts=size, per_rack=14), args.seed) for k in KINDS]
        for each in outcomes:
            print(each.line(), flush=True)
        totals.append(summary(f"simulated, {size} hosts", outcomes))
    if args.json:
        print(json.dumps(totals, indent=2))


if __name__ == "__main__":
    main()
