"""Counts the faults that the search for slow hosts finds, and its false alarms, on simulated clouds.

    make bench-slow [ARGS="--clouds 200 --sizes 16 128 1024 --noises 0.02 0.05 --seed 0"]

Each cloud has one host that sends, receives or does both 15 to 40 % below the others, 1 % dead hosts, and probes that
vary by the noise. With two classes, half of the hosts have half the rate by design. A trial is missed if the fault is
not reported, and false if anything else is: another host, another direction or a pair. Only the network is simulated.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence

from benches.machine import machine
from tests.measure.slow_clouds import DEAD, Outcome, outcome, random_cloud

from gavotte.measure.slow import most_rounds
from gavotte.measure.slow.searching import CONFIRMING_ROUNDS

GOAL_FOUND, GOAL_FALSE = 0.99, 0.01


def row(label: str, size: int, outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return one line of the table."""
    count = len(outcomes)
    rounds = [each.result.rounds for each in outcomes]
    probes = statistics.fmean(each.result.probes for each in outcomes)
    hit = statistics.fmean(each.result.pair_chance for each in outcomes)
    return (
        f"{size:>6} {label:<22} {100 * (1 - sum(each.missed for each in outcomes) / count):>7.2f} %"
        f" {100 * sum(each.false for each in outcomes) / count:>6.2f} %"
        f" {100 * sum(each.undecided for each in outcomes) / count:>8.2f} %"
        f" {100 * sum(each.dead for each in outcomes) / count:>6.1f} %"
        f" {statistics.fmean(rounds):>7.1f} {max(rounds):>5} {most_rounds(size) + CONFIRMING_ROUNDS:>6}"
        f" {probes / size:>7.1f} {100 * hit:>7.2f} % {1e3 * seconds / count:>7.1f}"
    )


def main() -> int:
    """Print the table; the status is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clouds", type=int, default=200, help="of each kind")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 128, 1024])
    parser.add_argument("--noises", type=float, nargs="+", default=[0.02, 0.05])
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(
        f"machine: {machine()}\nseeds: {asked.seed} to {asked.seed + asked.clouds - 1}; {asked.clouds} clouds of each "
        f"kind, {DEAD:.0%} dead hosts\nmost = bound of the rounds; pairs = share of all pairs that was probed; "
        f"dead = dead hosts are named, and no others; ms = time of the search\n\n"
        f"{'hosts':>6} {'cloud':<22} {'found':>9} {'false':>8} {'undecided':>10} {'dead':>8} {'rounds':>7} {'max':>5}"
        f" {'most':>6} {'probes':>7} {'pairs':>9} {'ms':>7}"
    )
    everything: list[Outcome] = []
    for size in asked.sizes:
        for noise in asked.noises:
            for classes in (False, True):
                begun_s = time.monotonic()
                outcomes = [
                    outcome(random_cloud(size, noise, seed, classes=classes), seed)
                    for seed in range(asked.seed, asked.seed + asked.clouds)
                ]
                label = f"noise {noise:.0%}{', two classes' * classes}"
                print(row(label, size, outcomes, time.monotonic() - begun_s), flush=True)
                everything += outcomes
    count = len(everything)
    share_found = 1 - sum(each.missed for each in everything) / count
    share_false = sum(each.false for each in everything) / count
    verdicts = {
        f"found in {share_found:.2%}, at least {GOAL_FOUND:.0%}": share_found >= GOAL_FOUND,
        f"false alarms in {share_false:.2%}, at most {GOAL_FALSE:.0%}": share_false <= GOAL_FALSE,
    }
    print(
        f"\n{count} clouds: "
        + "; ".join(f"{name}: {'met' if met else 'MISSED'}" for name, met in verdicts.items())
        + f"; load at the end {os.getloadavg()[0]:.1f}"
    )
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
