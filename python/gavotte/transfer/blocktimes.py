"""Times of blocks between hosts in earlier broadcasts, from which Cornet's partitions are inferred."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from gavotte.formats.files.reading import Emitted, parse_json, read_text, validate, write_text
from gavotte.formats.inventory import Inventory
from gavotte.transfer.clustering import infer_partitions, worth_it

MOST = 50
"""Most times that are stored per pair; the newest are kept."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TimesFile(Emitted):
    """The file: source to target to seconds per byte, oldest first."""

    format: Literal["gavotte/block-times/1"]
    times: dict[str, dict[str, list[Seconds]]] = {}


class BlockTimes:
    """Block times by pair, and the path of their file."""

    def __init__(self, path: Path, file: TimesFile) -> None:
        self._path = path
        self._kept = file

    @classmethod
    def read(cls, path: Path) -> BlockTimes:
        """Read the times of a file; none if the file does not exist yet.

        Raises:
            FormatError: naming file, field and remedy.
        """
        if not path.exists():
            return cls(path, TimesFile(format="gavotte/block-times/1"))
        return cls(path, validate(TimesFile, parse_json(read_text(path), str(path)), str(path)))

    def write(self) -> None:
        """Write them to the file, whole or not at all."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self._path, self._kept.model_dump_json() + "\n")

    def add(self, source: str, target: str, per_byte_s: float) -> None:
        """Add one block's time."""
        if per_byte_s > 0:
            own = self._kept.times.setdefault(source, {}).setdefault(target, [])
            own.append(per_byte_s)
            del own[:-MOST]

    def medians(self, names: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the median seconds per byte from each host (row) to each other, shape (N, N); NaN = unknown."""
        times = self._kept.times
        return np.array(
            [[float(np.median(times.get(s, {}).get(t, [np.nan]))) for t in names] for s in names], dtype=np.float64
        )

    def partitions(self, names: Sequence[str], *, seed: int) -> dict[str, int]:
        """Return each host's partition. All are in one if the times do not differ, or partitions would gain little."""
        medians = self.medians(names)
        groups = infer_partitions(medians, seed=seed)
        if not worth_it(medians, groups):
            groups = [0] * len(names)
        return dict(zip(names, groups, strict=True))


def default_path(inventory: Inventory) -> Path:
    """Return the default path of the times of these hosts."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    text = "\n".join(sorted(f"{host.name} {host.address}" for host in inventory.host))
    return cache / "gavotte" / "block-times" / f"{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.json"
