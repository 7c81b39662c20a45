"""Keeps what a run found as docs/results has it, from which `make bench-figures` draws its page."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.machine import machine


@dataclass(frozen=True)
class Recording:
    """Where figures go, if anywhere.

    Attributes:
        folder: as docs/results/data; None = they are printed only.
        seed: of the run.
    """

    folder: Path | None
    seed: int

    def keep(
        self,
        name: str,
        title: str,
        arguments: str,
        samples: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        plot: Mapping[str, object],
    ) -> None:
        """Writes one figure."""
        if self.folder is None:
            return
        figure = {
            "title": title,
            "command": f'make bench-profile ARGS="{arguments}"',
            "machine": machine(),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seed": str(self.seed),
            "samples": samples,
            "plot": plot,
            "columns": list(columns),
            "rows": [list(row) for row in rows],
        }
        (self.folder / f"{name}.json").write_text(json.dumps(figure, indent=1, ensure_ascii=False) + "\n", "utf-8")
