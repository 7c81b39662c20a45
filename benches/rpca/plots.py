"""The paper's pictures: distributions and curves, collected while the parts run, drawn into one file at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gavotte.formats.history import Floats

Curve = tuple[Sequence[float], Sequence[float]]
COLUMNS = 3


@dataclass
class Plots:
    """Pictures to draw; none if no file was given."""

    path: Path | None = None
    _panels: list[tuple[str, str, str, dict[str, Curve]]] = field(default_factory=list)

    def cdf(self, title: str, times: Mapping[str, Floats], baseline: str, methods: Sequence[str]) -> None:
        """Add distributions of times as shares of the baseline's mean (Fig. 7b, 11b, 13b)."""
        mean = float(times[baseline].mean())
        curves = {
            name: (
                np.sort(times[name] / mean).tolist(),
                (np.arange(1, len(times[name]) + 1) / len(times[name])).tolist(),
            )
            for name in methods
        }
        self._panels.append((title, f"time / mean of {baseline}", "share of runs", curves))

    def lines(self, title: str, across: str, up: str, curves: Mapping[str, Curve]) -> None:
        """Add curves over a parameter."""
        self._panels.append((title, across, up, dict(curves)))

    def write(self) -> None:
        """Draw everything; again after each part, so that an interrupted run leaves the finished parts."""
        if self.path is None or not self._panels:
            return
        rows = -(-len(self._panels) // COLUMNS)
        figure = Figure(figsize=(5 * COLUMNS, 3.6 * rows), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, COLUMNS)).ravel()
        for axis, (title, across, up, curves) in zip(axes, self._panels, strict=False):
            for name, (x, y) in curves.items():
                axis.plot(x, y, label=name, marker="o" if len(x) < 15 else "")
            axis.set_title(title, fontsize=9)
            axis.set_xlabel(across)
            axis.set_ylabel(up)
            axis.legend(fontsize=7)
        for axis in axes[len(self._panels) :]:
            axis.remove()
        figure.savefig(self.path, dpi=110)
