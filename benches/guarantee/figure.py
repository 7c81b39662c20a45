"""A table that is printed row by row and kept as a figure of docs/results."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.machine import machine

DATA = Path(__file__).parents[2] / "docs" / "results" / "data"


class Table:
    """Rows of cells below named columns.

    Args:
        name: of the figure, as its file is called.
        title: above the plot.
        columns: their names; the first names the row.
        plot: what is drawn, as benches/figures.py has it.
    """

    def __init__(self, name: str, title: str, columns: Sequence[str], plot: dict[str, Any]) -> None:
        self.name, self.title, self.columns, self.plot = name, title, list(columns), plot
        self.rows: list[list[str]] = []
        print(f"\n{title}\n{' | '.join(columns)}")

    def row(self, *cells: str) -> None:
        """Adds one, and prints it at once."""
        self.rows.append(list(cells))
        print(" | ".join(cells), flush=True)

    def save(self, samples: str, seed: str = "none") -> None:
        """Keeps it. Rows that an earlier run kept under other names stay: a figure may be made in parts."""
        path = DATA / f"{self.name}.json"
        before = json.loads(path.read_text("utf-8")) if path.exists() else {"columns": [], "rows": []}
        known = {row[0] for row in self.rows}
        kept = [row for row in before["rows"] if row[0] not in known] if before["columns"] == self.columns else []
        figure = {
            "title": self.title,
            "command": f'make bench-guarantee ARGS="{" ".join(sys.argv[1:])}"',
            "machine": machine(),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seed": seed,
            "samples": samples,
            "plot": self.plot,
            "columns": self.columns,
            "rows": kept + self.rows,
        }
        path.write_text(json.dumps(figure, indent=1, ensure_ascii=False) + "\n", "utf-8")
