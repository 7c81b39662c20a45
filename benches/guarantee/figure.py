"""A table that is printed row by row and kept as a figure of docs/results."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.recorded import write_figure

PAGE = "elasticswitch.md"
"""The page of docs/results that shows the figures."""


class Table:
    """Rows of cells below named columns.

    Args:
        name: of the figure, which is its file's name, too.
        title: above the plot.
        columns: their names; the first names the row.
        plot: settings of the plot, as in benches/figures.py.
    """

    def __init__(self, name: str, title: str, columns: Sequence[str], plot: dict[str, Any]) -> None:
        self.name, self.title, self.columns, self.plot = name, title, list(columns), plot
        self.rows: list[list[str]] = []
        print(f"\n{title}\n{' | '.join(columns)}")

    def row(self, *cells: str) -> None:
        """Add a row, and print it at once."""
        self.rows.append(list(cells))
        print(" | ".join(cells), flush=True)

    def save(self, folder: Path, samples: str, seed: str = "none", *, whole: bool = False) -> None:
        """Keep the table, and add a place for it at the end of its page, for `make bench-figures` to fill.

        Args:
            folder: docs/results/data.
            samples: number of samples behind each number.
            seed: of the run.
            whole: these rows are all of the figure. Else rows that an earlier run kept under other names stay.
        """
        path = folder / f"{self.name}.json"
        before = json.loads(path.read_text("utf-8")) if path.exists() else {"columns": [], "rows": []}
        known = {row[0] for row in self.rows}
        parts = not whole and before["columns"] == self.columns
        kept = [row for row in before["rows"] if row[0] not in known] if parts else []
        command = f'make bench-guarantee ARGS="{" ".join(sys.argv[1:])}"'
        if kept and before["command"] != command:
            command = f"{before['command']}; {command}"
        write_figure(
            path,
            title=self.title,
            command=command,
            seed=seed,
            samples=samples,
            plot=self.plot,
            columns=self.columns,
            rows=kept + self.rows,
        )
        page = folder.parent / PAGE
        if page.exists() and f"<!-- figure: {self.name} -->" not in page.read_text("utf-8"):
            with page.open("a", encoding="utf-8") as written:
                written.write(f"\n### {self.title}\n\n<!-- figure: {self.name} -->\n<!-- end -->\n")
