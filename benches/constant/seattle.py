"""The real series: round trips between 99 PlanetLab nodes, whose only truth is the future."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from gavotte.formats.history import Floats
from gavotte.model.choosing import EXCESS, choose, estimate, lasting, measured_hosts
from gavotte.model.decisions import broadcast_s, earliest_first, mapped, mapping_s, random_tasks
from gavotte.model.estimators import ESTIMATORS, band, load_of
from gavotte.model.findings import norm

LEARN = 10
CHOSEN, JUDGED, WINDOWS = 15, 10, 12
ROOTS, GRAPHS = 16, 8
ABOVE = 0.05
"""Highest allowed cost of `auto` above the mean's, in any window."""


def frames(folder: Path) -> Floats:
    """Return (n, N, N) seconds of the series in a folder or below it; zero means not measured."""
    files = sorted(folder.rglob("SeattleData_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    if not files:
        sys.exit(f"{folder} has no file named SeattleData_...: give --data the folder of the NetLatency series")
    times = np.stack([np.loadtxt(path) for path in files])
    return np.where(times > 0, times, np.nan)


def windows(folder: Path, seed: int) -> list[str]:
    """Judge trees and mappings from `auto` on `CHOSEN` frames by the `JUDGED` after them, in `WINDOWS` windows."""
    times = frames(folder)
    lines = [f"cost over the mean's, {CHOSEN} frames to choose, the {JUDGED} after them to judge"]
    worst = 0.0
    for start in np.linspace(0, len(times) - CHOSEN - JUDGED, WINDOWS).astype(int).tolist():
        part = times[start : start + CHOSEN + JUDGED]
        present = measured_hosts(part[:CHOSEN])
        part = np.ascontiguousarray(part[:, present][:, :, present])
        learnt, size = part[:CHOSEN], len(present)
        usual = estimate(learnt, "median")
        later = np.where(np.isnan(part[CHOSEN:]), usual, part[CHOSEN:])
        rng = np.random.default_rng(seed)
        roots, graphs = rng.permutation(size)[:ROOTS].tolist(), [random_tasks(size, seed + k) for k in range(GRAPHS)]

        def cost(constant: Floats) -> Floats:
            broadcasts = [broadcast_s(earliest_first(constant, root), later).mean() for root in roots]  # noqa: B023
            mappings = [mapping_s(graph, mapped(graph, constant), later).mean() for graph in graphs]  # noqa: B023
            return np.array([np.mean(broadcasts), np.mean(mappings)])

        kept = lasting(learnt, seed=seed)
        chosen = choose(kept.times, seed=seed)
        broadcast, mapping = cost(estimate(kept.times, chosen.method)) / cost(estimate(learnt, "mean"))
        worst = max(worst, broadcast, mapping)
        lines.append(
            f"frame {start:>3}: {chosen.method:<12} broadcast {broadcast:.2f}, mapping {mapping:.2f}; "
            f"{100 * kept.share:.0f} % of pairs moved"
        )
    verdict = "met" if worst <= 1 + ABOVE else "MISSED"
    return [*lines, f"never above the mean by more than {100 * ABOVE:.0f} %: {verdict} ({100 * (worst - 1):+.0f} %)"]


def table(folder: Path, seed: int) -> list[str]:
    """Learn from 10 frames and predict the 10 after them, all along the series."""
    times = frames(folder)
    rows: dict[str, list[tuple[float, float]]] = {}
    norms, picks, moved = [], [], []
    for start in range(0, len(times) - 2 * LEARN + 1, LEARN):
        learnt, later = times[start : start + LEARN], times[start + LEARN : start + 2 * LEARN]
        kept = lasting(learnt, seed=seed)
        chosen = choose(kept.times, seed=seed)
        moved.append(kept.share)
        picks.append(chosen.method)
        values = {name: estimate(learnt, name) for name in (*ESTIMATORS, "mode" + EXCESS, "rpca" + EXCESS)}
        values["auto"] = estimate(kept.times, chosen.method)
        norms.append(norm(learnt, values["mode"], band(learnt).width))
        for name, constant in values.items():
            ratio = later / (load_of(later, constant)[:, None, None] * constant)
            ratio = ratio[np.isfinite(ratio)]
            typical, mean = np.median(np.abs(ratio - 1)), np.nanmean(np.abs(later - constant)) / np.nanmean(later)
            rows.setdefault(name, []).append((float(typical), float(mean)))
    spans = len(picks)
    lines = [
        f"{100 * (times[1:] == times[:-1]).mean():.0f} % of the values repeat the frame before: a node's report stays "
        "until its next one, which favours last",
        f"{len(times)} frames of {times.shape[1]} nodes, {100 * np.isnan(times).mean():.1f} % missing; {spans} spans of "
        f"{LEARN} frames learnt, {LEARN} predicted",
        f"norm {np.mean([n.share for n in norms]):.2f} at {norms[0].tolerance:.2f}; {100 * np.mean(moved):.0f} % of pairs moved within a span; auto "
        f"took {', '.join(picks)}",
        f"{'method':<12} {'median off':>11} {'mean off':>10}",
    ]
    for name, errors in sorted(rows.items(), key=lambda row: float(np.mean([e[0] for e in row[1]]))):
        typical, mean = np.mean(errors, axis=0)
        lines.append(f"{name:<12} {100 * typical:>9.1f} % {100 * mean:>8.1f} %")
    return lines
