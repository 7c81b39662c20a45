"""Compares the RPCA paper's threshold with a CUSUM per tree edge, as detectors of injected changes.

    make bench-change [ARGS="--quick --hosts 64 --runs 30 --seed 0"]

A constant is learnt from 10 snapshots, and a broadcast tree built from it by the earliest completion first. The times
of the tree's edges have a band of 5 %, a slow-down x (1 + Exp(2)) with probability 0.1 each, and a common load of sd
0.1.

After 60 quiet broadcasts the rate of one edge, of all pairs of a host, or of a rack of four falls by 20 to 80 %; 60
more follow. False alarms are those of the quiet broadcasts; an edge that alarmed starts again. A change is found if a
changed edge alarms within 60 broadcasts. The threshold knows no edges, so any alarm counts for it, even by chance.

"Learnt from 8" works like `gavotte watch --observations`. It learns the usual time of each edge from the first eight
broadcasts, and after an alarm takes the new time as usual.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import dataclass, field

import numpy as np
from benches.constant.cases import Case, Cloud, pairs, series
from benches.machine import machine

from gavotte.formats.history import Floats
from gavotte.model.decisions import BroadcastTree, broadcast_s, earliest_first
from gavotte.model.estimators import ESTIMATORS, band
from gavotte.watch import EdgeCusum, Operation, TreeWatch, exceeds
from gavotte.watch.detect import LIMIT, Edge

BEFORE = 60
AFTER = 60
LOAD = 0.1
FALLS = (0.2, 0.4, 0.6, 0.8)
KINDS = ("link", "host", "rack")
THRESHOLDS = (0.2, 0.5, 1.0)
LIMITS = (8.0, LIMIT, 12.0)
LEARNT = "cusum, learnt from 8"
GOAL_FALSE = 0.005
GOAL_DELAY = 6


@dataclass
class Score:
    """Results of one detector over many runs."""

    quiet: int = 0
    false: int = 0
    delays: list[int] = field(default_factory=list)
    runs: int = 0

    def row(self, label: str) -> str:
        delay = f"{statistics.median(self.delays):.0f}" if self.delays else "-"
        late = f"{np.quantile(self.delays, 0.9):.0f}" if self.delays else "-"
        return f"{label:<26} {self.false / max(1, self.quiet):>8.4f} {len(self.delays):>4}/{self.runs:<4} {delay:>6} {late:>6}"


@dataclass(frozen=True)
class World:
    """The true network, and the learnt one."""

    cloud: Cloud
    tree: BroadcastTree
    constant: Floats
    width: float

    @property
    def edges(self) -> list[Edge]:
        return [(str(self.tree.parent[host]), str(host)) for host in self.tree.order[1:].tolist()]


def world(hosts: int, rng: np.random.Generator) -> World:
    cloud, times, _ = series(Case("", pairs(0.10)), hosts, 10, rng)
    constant = ESTIMATORS["mode"](times).constant
    return World(cloud, earliest_first(constant, int(rng.integers(hosts))), constant, band(times).width)


def changed(where: World, kind: str, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the tree edges that an event affects."""
    edges = [(int(where.tree.parent[host]), host) for host in where.tree.order[1:].tolist()]
    if kind == "link":
        return [edges[int(rng.integers(len(edges)))]]
    first = int(rng.integers(len(where.constant)))
    struck = {first}
    if kind == "rack":
        near = np.argsort(where.cloud.rack != where.cloud.rack[first], kind="stable")
        struck |= set(near[:4].tolist())
    return [(s, t) for s, t in edges if s in struck or t in struck]


def run(where: World, kind: str, fall: float, rng: np.random.Generator, scores: dict[str, Score]) -> None:
    """Run one event."""
    struck = set(changed(where, kind, rng))
    names = {(str(s), str(t)) for s, t in struck}
    edges = where.edges
    at = [(int(s), int(t)) for s, t in edges]
    expected = np.array([where.constant[s, t] for s, t in at])
    expected_s = float(broadcast_s(where.tree, where.constant))
    cusums = {limit: EdgeCusum(edges, expected, where.width, limit=limit) for limit in LIMITS}
    learning = TreeWatch(where.width)
    open_ = dict.fromkeys(scores, True)
    for score in scores.values():
        score.runs += 1
        score.quiet += BEFORE
    size = len(where.constant)
    for number in range(BEFORE + AFTER):
        slow = 1 + (rng.random((size, size)) < 0.1) * rng.exponential(2.0, (size, size))
        times = where.cloud.truth_s * rng.lognormal(0, 0.05, (size, size)) * slow * np.exp(rng.normal(0, LOAD))
        if number >= BEFORE:
            for s, t in struck:
                times[s, t] /= 1 - fall
        took_s = float(broadcast_s(where.tree, times))
        seen = np.array([times[s, t] for s, t in at])
        alarms = {f"threshold {100 * t:.0f} %": exceeds(took_s, expected_s, t) for t in THRESHOLDS}
        hits = dict(alarms)
        for limit, cusum in cusums.items():
            changes = cusum.observe(seen)
            label = f"cusum per edge, h={limit:g}"
            alarms[label] = bool(changes)
            hits[label] = any((change.source, change.target) in names for change in changes)
            for change in changes:
                cusum.expect(change.source, change.target, where.constant[int(change.source), int(change.target)])
        changes = learning.take(Operation("tree", dict(zip(edges, seen.tolist(), strict=True))))
        alarms[LEARNT] = bool(changes)
        hits[LEARNT] = any((change.source, change.target) in names for change in changes)
        for change in changes:
            learning.rebase((change.source, change.target), change.factor)
        for label, score in scores.items():
            if number < BEFORE:
                score.false += alarms[label]
            elif hits[label] and open_[label]:
                open_[label] = False
                score.delays.append(number - BEFORE + 1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="five runs of each event")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--runs", type=int, default=30, help="of each event")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    runs = 5 if arguments.quick else arguments.runs
    labels = [f"threshold {100 * t:.0f} %" for t in THRESHOLDS] + [f"cusum per edge, h={limit:g}" for limit in LIMITS]
    labels.append(LEARNT)
    print(
        f"machine: {machine()}\nseed: {arguments.seed}; {arguments.hosts} hosts; {runs} runs of each event, {BEFORE} quiet "
        f"broadcasts and {AFTER} after\nfalse = alarms per quiet broadcast; delay in broadcasts, of those found\n\n"
        f"{'':<26} {'false':>8} {'found':>9} {'median':>6} {'90 %':>6}"
    )
    total = {label: Score() for label in labels}
    for kind in KINDS:
        for fall in FALLS:
            scores = {label: Score() for label in labels}
            for number in range(runs):
                rng = np.random.default_rng([arguments.seed, number, KINDS.index(kind), int(100 * fall)])
                run(world(arguments.hosts, rng), kind, fall, rng, scores)
            print(f"{kind}, rate {-100 * fall:.0f} %")
            for label, score in scores.items():
                print(score.row("  " + label), flush=True)
                for name in ("quiet", "false", "runs"):
                    setattr(total[label], name, getattr(total[label], name) + getattr(score, name))
                total[label].delays += score.delays
    print("all events")
    for label, score in total.items():
        print(score.row("  " + label))
    ours = total[f"cusum per edge, h={LIMIT:g}"]
    verdicts = {
        f"false alarms <= {100 * GOAL_FALSE:.1f} %": ours.false / ours.quiet <= GOAL_FALSE,
        "all found": len(ours.delays) == ours.runs,
        f"median delay <= {GOAL_DELAY}": bool(ours.delays) and statistics.median(ours.delays) <= GOAL_DELAY,
    }
    print(
        f"\ncusum per edge, h={LIMIT:g}, the default: "
        + "; ".join(f"{name}: {'met' if met else 'MISSED'}" for name, met in verdicts.items())
        + f"; load at the end {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
