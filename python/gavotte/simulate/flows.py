"""Flows as columns, and as files: `id,source,target,bytes,start_s` in, `id,finish_s` out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import FormatError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import read_bytes, write_bytes
from gavotte.formats.parts.names import nearest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Flows:
    """F flows, one row each. Arrays of the right type are used where they are; others are converted.

    Attributes:
        source: (F,) uint32, the sending host's place in the network.
        target: (F,) uint32, the receiving host's; a flow to its own host takes no time.
        bytes: (F,) uint64.
        start_s: (F,) float64, the earliest start.
        weight: (F,) share of a full link in proportion to this, from 0.001 to 1000; None = 1.
        cap_bps: (F,) the most that a flow sends, bit/s, inf = no cap; None = no caps.
        startup_s: (F,) time from the start to the first byte, in addition to the network's latency; None = 0.
        udp: (F,) whether it sends at its cap whatever is lost; for `simulate_guarded` alone. None = all are TCP.
        label: (F,) uint64 that picks one of several equal paths; None = the row.
        ids: F names, for files; empty = the row's number.
    """

    source: npt.NDArray[np.uint32]
    target: npt.NDArray[np.uint32]
    bytes: npt.NDArray[np.uint64]
    start_s: Floats
    weight: Floats | None = None
    cap_bps: Floats | None = None
    startup_s: Floats | None = None
    udp: npt.NDArray[np.bool_] | None = None
    label: npt.NDArray[np.uint64] | None = None
    ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        whole: dict[str, type[np.generic]] = {
            "source": np.uint32,
            "target": np.uint32,
            "bytes": np.uint64,
            "label": np.uint64,
            "udp": np.bool_,
        }
        for name in ("source", "target", "bytes", "start_s", "weight", "cap_bps", "startup_s", "udp", "label"):
            column: Any = getattr(self, name)
            if column is not None:
                object.__setattr__(self, name, _column(name, column, whole.get(name, np.float64)))

    def __len__(self) -> int:
        return len(self.source)

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Source and target of each flow, as places in the network."""
        return zip(self.source.tolist(), self.target.tolist(), strict=True)

    @property
    def names(self) -> Sequence[str]:
        """An id for each flow."""
        return self.ids or [str(row) for row in range(len(self))]


def _column(name: str, values: Any, dtype: type[np.generic]) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"the column `{name}` has {array.ndim} dimensions; use one")
    if array.dtype != dtype and np.issubdtype(dtype, np.unsignedinteger) and array.size:
        # A cast alone would wrap a negative number and cut a fraction off.
        limit = np.iinfo(dtype).max  # type: ignore[type-var]
        if not np.all((array >= 0) & (array <= limit) & (array == np.floor(array))):
            raise ValueError(f"the column `{name}` must hold whole numbers from 0 to {limit}")
    return np.ascontiguousarray(array, dtype=dtype)


@dataclass(frozen=True)
class Background:
    """Traffic of others between two hosts, until the last flow is done. Exactly one pattern is given.

    Attributes:
        source: the sending host's place in the network.
        target: the receiving host's.
        poisson: mean arrivals per second and mean bytes; both times and sizes are exponential.
        on_off: mean seconds of sending all it can and mean seconds of rest, both exponential.
        weight: of each of its flows.
        cap_bps: the most that each of its flows sends.
    """

    source: int
    target: int
    poisson: tuple[float, float] | None = None
    on_off: tuple[float, float] | None = None
    weight: float = 1.0
    cap_bps: float = math.inf


def read_flows(path: str | Path, hosts: Sequence[str]) -> Flows:
    """Reads a flow list.

    The first line names the columns, in any order: `id`, `source` (or `src`), `target` (or `dst`), `bytes`,
    `start_s`, and if wanted `weight`, `cap_bps`, `startup_s`, `udp` (0 or 1).

    Args:
        path: a CSV file.
        hosts: names of the network's hosts; a flow may also give a host's number from 0.

    Raises:
        FormatError: naming line, field and remedy.
    """
    check_kind(path, "flows")
    text = read_bytes(path)
    try:
        columns = _core.parse_flows(text, list(hosts))
    except ValueError as error:
        raise FormatError(str(path), "", _with_what_was_meant(str(error), hosts)) from None
    return Flows(
        source=columns.source,
        target=columns.target,
        bytes=columns.bytes,
        start_s=columns.start_s,
        weight=columns.weight,
        cap_bps=columns.cap_bps,
        startup_s=columns.startup_s,
        udp=columns.udp,
        label=columns.label,
        ids=columns.ids,
    )


def _with_what_was_meant(problem: str, hosts: Sequence[str]) -> str:
    """The parser's words with the name that is nearest to one that it does not know."""
    unknown = re.search(r": no host `([^`]*)`; ", problem)
    close = nearest(unknown[1], hosts) if unknown else None
    return problem if unknown is None or close is None else f"{problem[: unknown.end()]}did you mean `{close}`?"


def write_finish(path: str | Path, ids: Sequence[str], finish_s: Floats) -> None:
    """Writes finish times as `id,finish_s`, whole or not at all.

    Args:
        path: the CSV file.
        ids: of F flows.
        finish_s: (F,) seconds; NaN = never, written as an empty time.
    """
    write_bytes(path, _core.format_finish(list(ids), np.ascontiguousarray(finish_s, dtype=np.float64)))
