"""Compares searches that also start from partitions with searches from our own cuts alone, at equal numbers of steps.

Steps do not depend on how busy the machine is. The judge times the partitions, the product its own placements. Partitions are those of the product, from its child processes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from benches.machine import machine
from benches.place.families import FAMILIES, scaled
from benches.place.judge import Judge

from gavotte import _core
from gavotte.place import Question
from gavotte.place.partitions import starts

LIMIT_S = 100.0
"""Most seconds for a partition. Beyond, the partitioner gives none."""

STEPS = (200_000, 1_000_000, 4_000_000)

_Hosts = npt.NDArray[np.uint32]


def main(arguments: Sequence[str]) -> None:
    """`starts [--tasks 2000] [--hosts 200] [--family F] [--seeds 3] [--seed 0] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place starts")
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only these; may be repeated")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of ours")
    parser.add_argument("--seed", type=int, default=0, help="of the instances")
    parser.add_argument("--quick", action="store_true", help="500 tasks on 50 hosts, one seed")
    options = parser.parse_args(arguments)
    if options.quick:
        options.tasks, options.hosts, options.seeds = 500, 50, 1
    print(machine())
    print(
        f"{options.tasks} tasks on {options.hosts} hosts, instance seed {options.seed}, seeds 0 to {options.seeds - 1}"
    )
    for family in options.family or FAMILIES:
        network, app = scaled(family, options.tasks, options.hosts, options.seed)
        judge, core = Judge(network, app), Question(network, [app]).instance.core
        partitions = list(_partitions(core))
        for name, at, took_s in partitions:
            print(f"{family:<12} {name}: {judge.seconds(at.astype(np.intp)):.3f} s, which took {took_s:.2f} s")
        for steps in STEPS:
            means = []
            for name, given in (("own cuts", []), ("with partitions", [at for _, at, _ in partitions])):
                seeds = range(options.seeds)
                answers = [core.search(seed, steps, 2, math.inf, given, None, paced=False).hosts for seed in seeds]
                times = [core.evaluate(hosts).seconds for hosts in answers]
                means.append(statistics.fmean(times))
                shown = " ".join(f"{time_s:.3f}" for time_s in times)
                print(f"{family:<12} {steps:>9,} steps, {name:<15} {means[-1]:.3f} s ({shown})", flush=True)
            print(f"{family:<12} partitions save {1 - means[1] / means[0]:.1%}")


def _partitions(core: _core.Problem) -> Iterator[tuple[str, _Hosts, float]]:
    """Yield the name, the placement and the seconds of each installed partitioner."""
    for partitioner in starts.installed():
        begin_s = time.perf_counter()
        with starts.Partitions(core, 0, lambda: LIMIT_S, [partitioner]) as partitions:
            partitions.begin()
            while time.perf_counter() - begin_s < LIMIT_S:
                if (at := partitions.take()) is not None:
                    yield partitioner.name, at, time.perf_counter() - begin_s
                    break
                time.sleep(0.01)
