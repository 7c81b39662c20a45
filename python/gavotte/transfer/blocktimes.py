"""How long blocks took between hosts in earlier broadcasts: what Cornet's partitions are inferred from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from gavotte.formats.inventory import Inventory
from gavotte.formats.reading import Emitted, parse_json, read_text, validate, write_text
from gavotte.transfer.clustering import infer_partitions, worth_it

MOST = 50
"""Newest times that are kept of a pair."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TimesFile(Emitted):
    """The file: source to target to seconds a byte, oldest first."""

    format: Literal["gavotte/block-times/1"]
    times: dict[str, dict[str, list[Seconds]]] = {}


class BlockTimes:
    """Times by pair, and where they are kept."""

    def __init__(self, path: Path, kept: TimesFile) -> None:
        self._path = path
        self._kept = kept

    @classmethod
    def read(cls, path: Path) -> BlockTimes:
        """Those of a file; none where there is no file yet.

        Raises:
            FormatError: naming file, field and remedy.
        """
        if not path.exists():
            return cls(path, TimesFile(format="gavotte/block-times/1"))
        return cls(path, validate(TimesFile, parse_json(read_text(path), str(path)), str(path)))

    def write(self) -> None:
        """Keeps them, whole or not at all."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self._path, self._kept.model_dump_json() + "\n")

    def add(self, source: str, target: str, per_byte_s: float) -> None:
        """Takes one block's time."""
        if per_byte_s > 0:
            own = self._kept.times.setdefault(source, {}).setdefault(target, [])
            own.append(per_byte_s)
            del own[:-MOST]

    def partitions(self, names: Sequence[str], *, seed: int) -> dict[str, int]:
        """The partition of each host; all in one where nothing tells them apart, or little would be gained."""
        times = self._kept.times
        medians = np.array(
            [[float(np.median(times.get(s, {}).get(t, [np.nan]))) for t in names] for s in names], dtype=np.float64
        )
        found = infer_partitions(medians, seed=seed)
        if not worth_it(medians, found):
            found = [0] * len(names)
        return dict(zip(names, found, strict=True))


def default_path(inventory: Inventory) -> Path:
    """Where times of these hosts are kept unless the user says otherwise."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    known = "\n".join(sorted(f"{host.name} {host.address}" for host in inventory.host))
    return cache / "gavotte" / "block-times" / f"{hashlib.blake2b(known.encode(), digest_size=8).hexdigest()}.json"
