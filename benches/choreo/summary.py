"""Gains as the paper counts them: the share of a baseline's time that was saved, workload by workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benches.choreo.placing import BASELINES, CHOREO, NAMES, OURS
from benches.choreo.workloads import AT_ONCE, IN_SEQUENCE
from matplotlib.figure import Figure

PAPER = {
    AT_ONCE: "mean 8 to 14 %, median 7 to 15 %, max 61 %; better in 70 %, those mean 20 to 27 %; worse by a median of 8 to 13 %",
    IN_SEQUENCE: "mean 22 to 43 %, median 19 to 51 %, max 79 %; better in 85 to 90 %, those mean 26 to 47 %; worse by a "
    "median of 10 %",
}
SAME = 0.01
"""Times closer than this are neither better nor worse: repeated runs differ by as much."""

HEADER = (
    f"{'':<24} {'n':>3} {'mean':>7} {'s.e.':>6} {'median':>7} {'max':>7} {'least':>7} {'better':>7} {'mean of':>8} "
    f"{'worse':>7} {'median of':>9}"
)

Times = Mapping[str, Sequence[float]]
"""Seconds by method, workload by workload."""


def gains(times: Times, method: str, over: str) -> npt.NDArray[np.float64]:
    """Return the share of each workload's time saved."""
    return 1.0 - np.array(times[method], dtype=np.float64) / np.array(times[over], dtype=np.float64)


def row(label: str, gain: npt.NDArray[np.float64]) -> str:
    """Return one line of the table."""
    better, worse = gain[gain > SAME], -gain[gain < -SAME]
    error = gain.std(ddof=1) / math.sqrt(len(gain)) if len(gain) > 1 else math.nan

    def percent(value: float, width: int = 7) -> str:
        return f"{'-' if math.isnan(value) else f'{100 * value:.1f} %':>{width}}"

    return (
        f"{label:<24} {len(gain):>3} {percent(gain.mean())} {percent(error, 6)} {percent(float(np.median(gain)))} "
        f"{percent(gain.max())} {percent(gain.min())} {percent(len(better) / len(gain))} "
        f"{percent(better.mean() if len(better) else math.nan, 8)} {percent(len(worse) / len(gain))} "
        f"{percent(float(np.median(worse)) if len(worse) else math.nan, 9)}"
    )


def table(times: Times, kind: str) -> str:
    """Return gains of both methods over each baseline and of ours over greedy, with the paper's."""
    lines = [HEADER]
    for method in (CHOREO, OURS):
        lines += [row(f"{NAMES[method]} over {base}", gains(times, method, base)) for base in BASELINES]
    lines.append(row("ours over greedy", gains(times, OURS, CHOREO)))
    return "\n".join([*lines, f"paper, greedy: {PAPER[kind]}"])


def plot(path: Path, measured: Mapping[str, Times]) -> None:
    """Draw CDFs of the gains, one panel for each kind of workload."""
    figure = Figure(figsize=(6.0 * len(measured), 4.2), layout="constrained")
    panels = figure.subplots(1, len(measured), squeeze=False)[0]
    for axes, (kind, times) in zip(panels, measured.items(), strict=True):
        for method, line in ((CHOREO, "--"), (OURS, "-")):
            for base, colour in zip(BASELINES, ("#0072b2", "#d55e00", "#009e73"), strict=True):
                gain = 100 * gains(times, method, base)
                axes.ecdf(gain, linestyle=line, color=colour, label=f"{NAMES[method]} over {base}")
        axes.axvline(0, color="grey", linewidth=0.6)
        axes.set_xlabel("time saved, %")
        axes.set_ylabel("share of workloads")
        axes.set_title(f"{kind}: {len(times[OURS])} workloads, real transfers")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)
