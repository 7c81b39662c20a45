"""Keeps a benchmark's numbers for docs/results, from which `make bench-figures` makes tables and plots."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benches.machine import machine

SOURCE = ("command", "machine", "date", "seed", "samples")
"""Keys of a figure that say where its numbers are from."""


def command_line(name: str, record: Path) -> str:
    """Return the command that ran a benchmark, without the folder that its numbers are written to."""
    chosen = " ".join(sys.argv[1:]).replace(f"--record {record}", "").strip()
    return f'make bench-{name} ARGS="{chosen}"' if chosen else f"make bench-{name}"


def write_figure(
    path: Path,
    *,
    title: str,
    command: str,
    seed: str,
    samples: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    plot: Mapping[str, object],
    about: str | None = None,
    keep: bool = False,
    curves: Mapping[str, Sequence[float]] | None = None,
    planes: Mapping[str, Sequence[Sequence[float]]] | None = None,
) -> None:
    """Write one figure, dated today.

    Args:
        path: its file, `docs/results/data/NAME.json`.
        title: above the plot.
        command: that printed the numbers.
        seed: of the run, or "none".
        samples: number and kind of the samples behind each number.
        columns: names; the first names the row.
        rows: cells; a number may be followed by ± and its deviation.
        plot: settings of the plot, as in benches/figures.py.
        about: `machine()` as it was when the run began; None = as it is now.
        keep: whether rows that were recorded before and did not run now stay, each with its own source.
        curves: sorted numbers whose distributions are drawn, for plots of kind "cdf".
        planes: by title: x, y, true and inferred group of each point, for plots of kind "plane".
    """
    figure: dict[str, object] = {
        "title": title,
        "command": command,
        "machine": about or machine(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "seed": seed,
        "samples": samples,
        "plot": dict(plot),
        "columns": list(columns),
        "rows": [list(row) for row in rows],
    }
    if keep and path.exists():
        _keep(figure, json.loads(path.read_text("utf-8")))
    if curves is not None:
        figure["curves"] = {name: list(values) for name, values in curves.items()}
    if planes is not None:
        figure["planes"] = {title: [list(point) for point in points] for title, points in planes.items()}
    path.write_text(json.dumps(figure, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _keep(figure: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Add the rows of an earlier run that this one does not have, and the sources of all."""
    names = {row[0] for row in figure["rows"]}
    sources = [
        {**{key: source[key] for key in SOURCE}, "of": of}
        for source in before.get("sources") or [{**before, "of": [row[0] for row in before["rows"]]}]
        if (of := [name for name in source["of"] if name not in names])
    ]
    if sources:
        new = {**{key: figure[key] for key in SOURCE}, "of": [row[0] for row in figure["rows"]]}
        figure["sources"] = [*sources, new]
        known = {row[0]: row for row in [*before["rows"], *figure["rows"]]}
        figure["rows"] = list(known.values())
