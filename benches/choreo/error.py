"""Choreo's section 7.2 asks how much gain is left when measurements are worse; the fluid model answers it here.

Every path's rate is measured with a log-normal factor of the given deviation, independently. `gavotte model` makes a
Network of these rates, the methods place on it, and the placements are timed on the true network. The baselines know no
rates. `not measured` shows the value of the traffic matrix alone: all rates are assumed to be the same.
"""

from __future__ import annotations

import argparse
import math
import statistics

import numpy as np
import numpy.typing as npt
from benches.choreo.placing import BASELINES, CHOREO, METHODS, NAMES, OURS, place_all, scale
from benches.choreo.workloads import AT_ONCE, IN_SEQUENCE, Workload, cloud, draw, history

from gavotte.errors import InfeasibleError
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.model import model
from gavotte.simulate import replay_placement

ERRORS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, math.inf)
TARGET_S = 10.0
"""Sizes do not matter here: the fluid model scales."""


def true_s(truth: Network, load: Workload, placement: Placement) -> float:
    """Return the paper's measure on the true network."""
    done = replay_placement(truth, load.apps, placement)
    return done.completion_s if load.kind == AT_ONCE else math.fsum(done.apps.values())


def times(seed: int, kind: str, family: str, limit_s: float) -> dict[str, dict[float, float]]:
    """Return the seconds by method and error, for one workload on a cloud of its own.

    Raises:
        InfeasibleError: when a method gets stuck.
    """
    topology = cloud(seed, family)
    truth = model(history(topology))
    load = scale(truth, draw(seed, kind), TARGET_S)
    values: dict[str, dict[float, float]] = {method: {} for method in METHODS}
    for error in ERRORS:
        # The same draws at each level: only their size differs.
        measured = model(history(topology, error=error, rng=np.random.default_rng(seed)))
        methods = METHODS if error == 0 else (OURS, CHOREO)
        for method, placed in place_all(measured, load, methods, limit_s=limit_s, ours="search").items():
            values[method][error] = true_s(truth, load, placed.placement)
    return values


def gains(all_times: list[dict[str, dict[float, float]]], method: str, error: float) -> npt.NDArray[np.float64]:
    """Return the share of the baselines' mean time that was saved, workload by workload."""
    blind = [statistics.fmean(result[base][0.0] for base in BASELINES) for result in all_times]
    took = np.array([result[method][error] for result in all_times], dtype=np.float64)
    return 1.0 - took / np.array(blind, dtype=np.float64)


def main(asked: argparse.Namespace) -> None:
    """Print the gain of both methods for each error."""
    for kind in (AT_ONCE, IN_SEQUENCE):
        all_times: list[dict[str, dict[float, float]]] = []
        seed = stuck = 0
        while len(all_times) < asked.error_workloads:
            seed += 1
            try:
                all_times.append(times(1000 * asked.seed + seed, kind, asked.family, asked.error_limit))
            except InfeasibleError:
                stuck += 1
        print(
            f"\n{kind}, {asked.family}: {len(all_times)} workloads, each on a cloud of its own, seeds from {1000 * asked.seed + 1} "
            f"({stuck} drawn again); time saved over the mean of the baselines, s.e. over workloads; kept = of the gain without error, "
            "paired"
        )
        print(
            f"{'error of a rate':<16}"
            + "".join(
                f" {NAMES[m] + ': mean':>14} {'s.e.':>6} {'median':>7} {'worse':>6} {'kept':>6}" for m in (CHOREO, OURS)
            )
        )
        for error in ERRORS:
            line = f"{'not measured' if math.isinf(error) else f'{100 * error:>3.0f} %':<16}"
            for method in (CHOREO, OURS):
                gain, exact = gains(all_times, method, error), gains(all_times, method, 0.0)
                deviation = gain.std(ddof=1) / math.sqrt(len(gain))
                line += (
                    f" {100 * gain.mean():>12.1f} % {100 * deviation:>4.1f} % {100 * np.median(gain):>5.1f} % "
                    f"{100 * (gain < -0.01).mean():>4.0f} % {100 * gain.mean() / exact.mean():>4.0f} %"
                )
            print(line)
