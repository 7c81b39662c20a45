"""Figure 9 by replay: N-body over steps and message sizes, CG over vector sizes, with the cost of the calibration.

Only communication counts (the paper: above 90 % of CG's time): in each step a gather of all blocks and a broadcast of
the whole, as the paper's programs exchange. A calibration is the paper's: ten snapshots of 2 (N - 1) rounds of 8 MB.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from benches.rpca.replay import BASELINE, BEST, CALIBRATED, HEURISTIC, SIZE_BYTES, spiky
from benches.rpca.stats import saved
from benches.rpca.traces import Trace

from gavotte.collective import TreeSearch, plan, replay
from gavotte.formats.collective import Operation
from gavotte.formats.network import Network
from gavotte.model import model

NORM = 0.1
CLOUDS = 5
STEPS = (10, 40, 160, 640, 2560)
MESSAGES = (1_000, 10_000, 100_000, 1_000_000)
VECTORS = (1_000, 4_000, 16_000, 64_000, 256_000, 1_024_000)
"""The paper's ranges; a vector's elements have 8 bytes."""
WAYS = {BASELINE: "binomial", HEURISTIC: "fnf", "rpca": "fnf", "ours": "search"}
PAPERS = {
    "nbody": "paper at its largest: 25 % less than baseline, about 10 % than the mean",
    "cg": "paper at its largest: 31 % and 14 %",
}


def iterations(elements: int) -> int:
    """Iterations of CG until it has converged: on a square grid they grow with its side."""
    return round(2 * math.sqrt(elements))


def calibration_s(trace: Trace) -> float:
    """Ten snapshots, round by round; no pair waits for the slowest pair of a round."""
    return CALIBRATED * 2 * (len(trace.ranks) - 1) * float(np.nanmean(SIZE_BYTES / trace.calibration.beta_Bps))


def step_s(trace: Trace, network: Network, algorithm: str, message_bytes: int, root: str, seed: int) -> float:
    """A gather of equal blocks and a broadcast of the whole."""
    sizes: dict[Operation, int] = {"gather": max(1, message_bytes // len(trace.ranks)), "broadcast": message_bytes}
    made = [
        plan(
            network,
            operation,
            size_bytes=size,
            root=root,
            algorithm=algorithm,
            search=TreeSearch(steps=20_000, seed=seed),
        )
        for operation, size in sizes.items()
    ]
    return sum(float(replay(trace.later, each).mean()) for each in made)


def figures(arguments: argparse.Namespace) -> None:
    """Print three tables, one for each of the figure's parts."""
    messages = sorted({*MESSAGES, *(8 * elements for elements in VECTORS)})
    steps: dict[str, dict[int, list[float]]] = {way: {size: [] for size in messages} for way in WAYS}
    spent: list[float] = []
    for seed in range(arguments.seed, arguments.seed + min(CLOUDS, arguments.seeds)):
        trace = spiky(arguments.size, NORM, seed)
        spent.append(calibration_s(trace))
        networks = {way: model(trace.calibration, method=BEST if way in (BASELINE, "ours") else way) for way in WAYS}
        root = f"h{np.random.default_rng(seed).integers(arguments.size)}"
        for way, algorithm in WAYS.items():
            for size in messages:
                steps[way][size].append(step_s(trace, networks[way], algorithm, size, root, seed))
    print(
        f"\nFig. 9 by replay: {arguments.size} hosts, Norm {NORM}, {len(spent)} clouds; a calibration takes "
        f"{np.mean(spent):.0f} s (paper, 196 instances: about 10 minutes) and is in every total but the baseline's"
    )
    parts = [
        ("9a: CG, elements", "cg", [(f"{n}", iterations(n), 8 * n) for n in VECTORS]),
        ("9b: N-body of 1 MB, steps", "nbody", [(f"{n}", n, MESSAGES[-1]) for n in STEPS]),
        ("9c: N-body of 2560 steps, bytes", "nbody", [(f"{n}", STEPS[-1], n) for n in MESSAGES]),
    ]
    for title, program, points in parts:
        print(f"  {title}: total s with calibration, and % less than binomial without ({PAPERS[program]})")
        print(
            f"    {'':>8} {'steps':>6} {'binomial':>9} {'mean':>8} {'rpca':>8} {'ours':>8} {'rpca, % less':>14} {'ours, % less':>14}"
        )
        for label, count, size in points:
            alone = {way: count * np.array(steps[way][size]) for way in WAYS}
            totals = [float((alone[way] + np.array(spent)).mean()) for way in (HEURISTIC, "rpca", "ours")]
            cells = [saved(alone[way], alone[BASELINE]) for way in ("rpca", "ours")]
            print(
                f"    {label:>8} {count:>6} {alone[BASELINE].mean():>9.1f} "
                + " ".join(f"{total:>8.1f}" for total in totals)
                + " "
                + " ".join(f"{cell:>14}" for cell in cells),
                flush=True,
            )
