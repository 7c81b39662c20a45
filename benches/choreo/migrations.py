"""Section 2.4 with real transfers: sequences with regular reviews, run with their migrations and without.

Placement, reviews and progress before each come from the fluid model on the measured network.
`gavotte.place.sequence.unfold` writes the sequence for `gavotte run`, which sends every byte. It also sends the state
of a task that moves: as many bytes as the path alone carries in the seconds that a move costs. The task's application
pauses meanwhile. Staying and migrating run in turn, in a random order.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
from dataclasses import dataclass

import numpy as np
from benches.choreo.lab import measured_network
from benches.choreo.placing import CHOREO, NAMES, OURS, scale
from benches.choreo.workloads import IN_SEQUENCE, Workload, cloud, draw
from benches.machine import processor_times

from gavotte import lab
from gavotte.errors import InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place import Effort
from gavotte.place.sequence import InSequence, sequence, state_of, unfold
from gavotte.run import run
from gavotte.simulate import Advance, replay_placement

METHODS = (CHOREO, OURS)
APP_S = 10.0
"""Mean time of an application."""
EVERY_S = APP_S / 4
COST_S = 0.2
"""Cost of each task's move."""
MOST_S = 120.0


@dataclass(frozen=True)
class Row:
    """One workload placed by one method. Times are sums of the applications' running times, in seconds.

    Attributes:
        method: which.
        moves: tasks that migrate.
        predicted_s: staying and migrating, as forecast: by the fluid model, a migration being a pause.
        with_state_s: migrating by the fluid model, with the bytes of the states on the network, too.
        measured_s: the same as it ran.
        idle: least idle share of the processors' time.
    """

    method: str
    moves: int
    predicted_s: tuple[float, float]
    with_state_s: float
    measured_s: tuple[float, float]
    idle: float

    @property
    def saved(self) -> tuple[float, float]:
        """Return the share of the time staying that migrating saves: predicted and measured."""
        return 1 - self.predicted_s[1] / self.predicted_s[0], 1 - self.measured_s[1] / self.measured_s[0]


def placed(network: Network, load: Workload, method: str, limit_s: float) -> tuple[InSequence, InSequence]:
    """Return a sequence without reviews and with them.

    Raises:
        InfeasibleError: when the method gets stuck.
    """

    def done(every_s: float | None) -> InSequence:
        return sequence(
            network,
            load.apps,
            Advance(network),
            every_s=every_s,
            migration_s=0.0 if every_s is None else COST_S,
            effort=Effort(method=method, seed=load.seed, time_limit_s=limit_s),
        )

    return done(None), done(EVERY_S)


def run_row(
    network: Network, load: Workload, method: str, inventory: Inventory, asked: argparse.Namespace
) -> Row | None:
    """Run one workload both ways; None if no review moves a task."""
    stay, move = placed(network, load, method, asked.limit)
    moves = sum(len(review.decision.moves) for review in move.reviews)
    if not moves:
        return None
    unfolded = unfold(load.apps, move, state_of(network, COST_S))
    ways: dict[str, tuple[list[App], Placement]] = {"stay": (load.apps, stay.placement), "move": unfolded}
    measured_s, idle = {}, 1.0
    for way in random.Random(f"{load.seed} {method}").sample(sorted(ways), len(ways)):
        best = (0.0, -1.0)
        for _ in range(asked.tries):
            best = max(best, _run(*ways[way], inventory), key=lambda one: one[1])
            if best[1] >= 0.1:
                break
        measured_s[way], idle = best[0], min(idle, best[1])
    with_state_s = math.fsum(replay_placement(network, *unfolded).apps.values())
    return Row(method, moves, (stay.sum_s, move.sum_s), with_state_s, (measured_s["stay"], measured_s["move"]), idle)


def _run(apps: list[App], placement: Placement, inventory: Inventory) -> tuple[float, float]:
    """Return the sum of the running times, and the idle share of the processors' time."""
    before = processor_times()
    took_s = math.fsum(run(placement, apps, inventory, max_seconds=MOST_S).apps.values())
    total, idle = (after - then for after, then in zip(processor_times(), before, strict=True))
    return took_s, idle / total


def main(asked: argparse.Namespace) -> None:
    """Print each workload that migrates, and its saving, predicted and measured."""
    print(
        f"\nmigrations for real: {asked.clouds} clouds, seeds from {asked.seed}, fastest host {asked.fastest:g} Mbit/s; applications "
        f"of about {APP_S:g} s, a review every {EVERY_S:g} s, {COST_S:g} s of state for each task that moves\n"
    )
    print(
        f"{'cloud':>5} {'seed':>6} {'placed by':<10} {'moves':>5} {'stay s: predicted/ran':>22} {'move s: predicted/state/ran':>28} {'saved: predicted/ran':>22} {'idle':>5}"
    )
    rows: list[Row] = []
    for number in range(asked.seed, asked.seed + asked.clouds):
        with lab.session(cloud(number, asked.family, fastest_mbit=asked.fastest), source="bench-choreo") as present:
            inventory = read_inventory(present.hosts_file)
            network = measured_network(inventory, number)
            made = 0
            for seed in itertools.count(3000 * number):
                if made == asked.per_cloud:
                    break
                try:
                    load = scale(network, draw(seed, IN_SEQUENCE), APP_S)
                    matches = [run_row(network, load, method, inventory, asked) for method in METHODS]
                except InfeasibleError:
                    continue
                made += any(matches)
                for row in filter(None, matches):
                    rows.append(row)
                    print(f"{number:>5} {seed:>6} {_row_text(row)}", flush=True)
    for method in METHODS:
        own = [row for row in rows if row.method == method]
        if own:
            predicted, measured = (_mean([row.saved[which] for row in own]) for which in (0, 1))
            worse = sum(row.saved[1] < 0 for row in own)
            print(
                f"placed by {NAMES[method]}: {len(own)} that migrate, saved predicted {predicted}, measured {measured}; slower in {worse}"
            )
    if rows:
        ratios = [row.measured_s[which] / row.predicted_s[which] for row in rows for which in (0, 1)]
        print(f"measured / predicted: median {statistics.median(ratios):.3f}, {min(ratios):.2f} to {max(ratios):.2f}")


def _row_text(row: Row) -> str:
    (stay_predicted, move_predicted), (stay_ran, move_ran) = row.predicted_s, row.measured_s
    stay, move = (
        f"{stay_predicted:.2f} / {stay_ran:.2f}",
        f"{move_predicted:.2f} / {row.with_state_s:.2f} / {move_ran:.2f}",
    )
    saved = " / ".join(f"{100 * share:.1f} %" for share in row.saved)
    return f"{NAMES[row.method]:<10} {row.moves:>5} {stay:>17} {move:>23} {saved:>17} {row.idle:>5.0%}"


def _mean(shares: list[float]) -> str:
    error = f" ± {100 * float(np.std(shares, ddof=1)) / math.sqrt(len(shares)):.1f}" if len(shares) > 1 else ""
    return f"{100 * statistics.fmean(shares):.1f}{error} %"
