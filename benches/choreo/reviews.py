"""The gain of re-evaluation (Choreo section 2.4), by the fluid model: sequences with and without reviews, paired.

A migration costs, for each task moved, a share of the mean time of an application that is placed at random and alone.
Reviews come every quarter of that time.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from benches.choreo.placing import CHOREO, NAMES, OURS, scale
from benches.choreo.workloads import IN_SEQUENCE, cloud, draw, history

from gavotte.errors import InfeasibleError
from gavotte.model import model
from gavotte.place import Effort
from gavotte.place.sequence import sequence
from gavotte.simulate import Advance

APP_S = 100.0
"""Mean time of an application; everything scales with it."""
EVERY_S = APP_S / 4
COSTS_S = (0.0, 1.0, 5.0, 20.0, math.inf)
METHODS = (CHOREO, OURS)


def sums(seed: int, method: str, family: str, limit_s: float) -> dict[float, tuple[float, int]]:
    """Return for each cost the sum of the running times and the number of moved tasks; infinite = no reviews.

    Raises:
        InfeasibleError: when the method gets stuck.
    """
    network = model(history(cloud(seed, family)))
    load = scale(network, draw(seed, IN_SEQUENCE), APP_S)
    values = {}
    for cost_s in COSTS_S:
        none = math.isinf(cost_s)
        done = sequence(
            network,
            load.apps,
            Advance(network),
            every_s=None if none else EVERY_S,
            migration_s=0.0 if none else cost_s,
            effort=Effort(method=method, seed=seed, time_limit_s=limit_s),
        )
        values[cost_s] = (done.sum_s, sum(len(review.decision.moves) for review in done.reviews))
    return values


def main(asked: argparse.Namespace) -> None:
    """Print the saving of reviews, for each cost of a migration."""
    items: list[dict[str, dict[float, tuple[float, int]]]] = []
    seed = stuck = 0
    while len(items) < asked.review_workloads:
        seed += 1
        try:
            number = 2000 * asked.seed + seed
            items.append({method: sums(number, method, asked.family, asked.error_limit) for method in METHODS})
        except InfeasibleError:
            stuck += 1
    print(
        f"\nin sequence with a review every {EVERY_S:g} s of applications that take about {APP_S:g} s, {asked.family}: "
        f"{len(items)} workloads, seeds from {2000 * asked.seed + 1} ({stuck} drawn again); saved of the sum of running times, "
        "paired, s.e. over workloads"
    )
    print(
        f"{'placed by':<10} {'cost of a task':>14} {'saved':>7} {'s.e.':>6} {'median':>7} {'least':>7} {'worse':>6} {'moved':>6}"
    )
    for method in METHODS:
        for cost_s in COSTS_S[:-1]:
            # Adding 0 turns -0.0 into 0.0, since the rest of a byte is rounded up at each review.
            saved = 0.0 + np.round([1 - one[method][cost_s][0] / one[method][math.inf][0] for one in items], 3)
            moved = np.mean([one[method][cost_s][1] for one in items])
            print(
                f"{NAMES[method]:<10} {cost_s:>12.0f} s {100 * saved.mean():>5.1f} % "
                f"{100 * saved.std(ddof=1) / math.sqrt(len(saved)):>4.1f} % {100 * np.median(saved):>5.1f} % "
                f"{100 * saved.min():>5.1f} % {100 * (saved < 0).mean():>4.0f} % {moved:>6.1f}"
            )
