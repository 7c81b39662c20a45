"""Keeps a run's results for docs/results, from which `make bench-figures` draws its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.recorded import write_figure


@dataclass(frozen=True)
class Recording:
    """Destination of figures, if any.

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
        """Write one figure."""
        if self.folder is None:
            return
        write_figure(
            self.folder / f"{name}.json",
            title=title,
            command=f'make bench-profile ARGS="{arguments}"',
            seed=str(self.seed),
            samples=samples,
            plot=plot,
            columns=columns,
            rows=rows,
        )
