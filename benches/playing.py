"""Two estimates of a measurement's cost: the formula, and playing the measurement on the Network.

    make bench-playing [ARGS="--hosts 6 12 20 --large 100 --seed 1"]

Both are compared with the same measurement on simulated agents, where no rack limits. Then both are timed for many
hosts. Last come random racks that no Network knows: the formula, which assumes a rate and no racks, and a pilot.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from benches.machine import machine
from benches.racks import random_racks
from tests import builders
from tests.agents.played import inventory
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.measure.test_estimate import Timed, known_of

from gavotte.formats.network import Network
from gavotte.formats.parts.lengths import Lengths
from gavotte.formats.topology import Topology
from gavotte.measure import Pilot, measure, plan_paths, predict_cost, take_pilot
from gavotte.measure.plan.cost import Cost
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.method import Method
from gavotte.measure.plan.path_plan import SCHEDULE_S, PathPlan
from gavotte.measure.predict.foreseen import foreseen
from gavotte.measure.predict.predicting import NEVER

METHODS: dict[str, str | Method] = {"train": "train", "choreo": "choreo", "bulk": bulk(seconds=0.5)}
RATES = (["60mbit"], ["200mbit"], ["100mbit", "1gbit"], ["50mbit", "100mbit", "400mbit"])
"""Egress caps that hosts have in turn."""
RACKS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=[6, 12, 20])
    parser.add_argument("--large", type=int, nargs="*", default=[100], help="numbers of hosts for the timing")
    parser.add_argument("--racks", type=int, default=12, help="number of random clouds of unknown racks")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{machine()}; seed {args.seed}")
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for topology in _clouds(args.hosts):
        known = known_of(topology)[1]
        for name, method in METHODS.items():
            for count in (1, 3):
                for key, error in _errors(topology, known, method, count, args.seed).items():
                    errors[name, key].append(abs(error))
    keys = ("bytes, formula", "bytes, played", "seconds, formula", "seconds, played")
    print("median error" + "".join(f"{key:>20}" for key in keys) + f"{'runs':>6}")
    for name in METHODS:
        row = "".join(f"{100 * median(errors[name, key]):>18.1f} %" for key in keys)
        print(f"{name:<12}{row}{len(errors[name, keys[0]]):>6}")
    for size in args.large:
        for racked in (False, True):
            _timed(size, racked=racked)
    _unknown(args.racks)


def _clouds(sizes: list[int]) -> Iterator[Topology]:
    for rates in RATES:
        for size in sizes:
            hosts = [{"name": f"vm{k}", "egress": rates[k % len(rates)]} for k in range(size)]
            yield builders.topology([host | {"switch": "core"} for host in hosts])
            tree: list[builders.Named] = ["core", *({"name": f"rack{k}", "parent": "core"} for k in range(RACKS))]
            yield builders.topology(
                [host | {"switch": f"rack{k % RACKS}"} for k, host in enumerate(hosts)], switches=tree
            )


def _errors(topology: Topology, known: Network, method: str | Method, count: int, seed: int) -> dict[str, float]:
    """Return each estimate's relative error against the measurement."""
    network = Timed(Oracle(topology))
    plan = plan_paths(network.oracle.names, method, count=count, seed=seed, known=known)
    with network.held():
        measure(network.inventory, method=method, count=count, seed=seed, known=known)
    seconds = network.seconds + network.schedules * SCHEDULE_S
    estimates = {"formula": plan.cost(), "played": _played(plan, known)}
    return {f"bytes, {name}": cost.bytes / network.sent - 1 for name, cost in estimates.items()} | {
        f"seconds, {name}": cost.seconds / seconds - 1 for name, cost in estimates.items()
    }


def _played(plan: PathPlan, known: Network) -> Cost:
    lengths = Lengths.of_matrix(foreseen(plan.names, known).hops)
    pilot = Pilot(inventory(plan.names), known.cautious(), lengths)
    return predict_cost(plan, pilot, None, NEVER)


def _unknown(clouds: int) -> None:
    """Print how far the bytes of both estimates are from those of the measurement, in random unknown racks."""
    ratios: dict[str, list[float]] = {"formula": [], "pilot": []}
    sent = 0.0
    for seed in range(clouds):
        oracle = Oracle(random_racks(seed)[0])
        network = PlayedNetwork(oracle, seed=seed)
        with network.held():
            pilot = take_pilot(network.inventory, seed=seed)
            measurement = measure(network.inventory, seed=seed)
        plan = plan_paths(oracle.names, seed=seed)
        ratios["formula"].append(plan.cost().bytes / measurement.bytes_sent)
        ratios["pilot"].append(predict_cost(plan, pilot).bytes / measurement.bytes_sent)
        sent += pilot.bytes_sent / measurement.bytes_sent / clouds
    print(f"{clouds} random clouds of unknown racks: estimated bytes / bytes sent; goal: 0.5 to 2")
    for name, values in ratios.items():
        near = sum(0.5 <= ratio <= 2 for ratio in values)
        print(f"{name:<10} least {min(values):.2f}, most {max(values):.2f}, {near} of {clouds} within a factor of two")
    print(f"a pilot sends {sent:.0%} of the measurement's bytes on average")


def _timed(size: int, *, racked: bool) -> None:
    """Print how long both estimates take for hosts of 1 Gbit/s, ten a rack."""
    names = [f"h{k}" for k in range(size)]
    groups = [
        {"name": f"rack-{k}", "members": names[10 * k : 10 * k + 10], "up_bps": 4e9, "down_bps": 4e9}
        for k in range(-(-size // 10))
    ]
    known = builders.network(
        [{"name": name, "egress_bps": 1e9} for name in names],
        950e6,
        1e-4,
        groups=groups if racked else [],
        sharing="groups" if racked else "hose",
    )
    for name in ("train", "choreo"):
        began_s = time.monotonic()
        plan = plan_paths(names, name, known=known)
        plan.cost()
        formula_s = time.monotonic() - began_s
        _played(plan, known)
        played_s = time.monotonic() - began_s - formula_s
        where = "racks" if racked else "no racks"
        print(f"{size} hosts, {where}, {name}: formula {formula_s:.2f} s, played {played_s:.2f} s", flush=True)


if __name__ == "__main__":
    main()
