"""Tables of the simulated experiments: printed, and recorded for docs/results."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from benches.recorded import write_figure

OURS = ("loss", "ecn", "auto")
"""Gavotte's own modes. In the simulator and in the lab, switches mark for `ecn` alone. `auto` is the default."""


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Return mean and standard deviation over the runs."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def verdict(kept: bool, protection: str) -> str:
    """Report whether one of ours reaches the goal in the worst of its runs."""
    return "-" if protection not in OURS else "kept" if kept else "missed"


def seeds(asked: argparse.Namespace) -> range:
    """Return one seed for each run."""
    return range(asked.seed, asked.seed + asked.seeds)


def show(
    asked: argparse.Namespace,
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    kind: str = "bars",
    plotted: Sequence[int] = (1,),
    unit: str = "Mbit/s",
    scale: str = "linear",
) -> None:
    """Print a table and, with `--record`, write it as `bench-figures` reads it.

    Args:
        asked: the arguments of the command.
        name: of the file, after `elasticswitch-`.
        title: of the table and the plot.
        columns: names.
        rows: cells; a number may be followed by ± and its deviation.
        kind: of plot: `bars` or `lines` over the first column.
        plotted: columns that are drawn.
        unit: of the axis of values.
        scale: `linear` or `log`.
    """
    print(f"\n{title}")
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(flush=True)
    if asked.record is None:
        return
    words = f"simulated --parts {asked.part} --seeds {asked.seeds} --seconds {asked.seconds:g}"
    write_figure(
        asked.record / f"elasticswitch-{name}.json",
        title=title,
        command=f'make bench-guarantee ARGS="{words}"',
        seed=f"{asked.seed} to {asked.seed + asked.seeds - 1}",
        samples=f"{asked.seeds} runs each, ± their standard deviation",
        plot={"kind": kind, "columns": list(plotted), "unit": unit, "scale": scale, "legend_columns": 4},
        columns=columns,
        rows=rows,
    )
