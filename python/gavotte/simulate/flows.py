"""Flows as arrays, read from CSV files `id,source,target,bytes,start_s`; finish times are written as `id,finish_s`."""

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
    """F flows to simulate, one per array element. Arrays of the right type are not copied; others are converted.

    Attributes:
        source: (F,) uint32 index of the sending host in the network.
        target: (F,) uint32 index of the receiving host; a flow to its own host takes no time.
        bytes: (F,) uint64 size of each flow.
        start_s: (F,) float64 earliest start, in seconds.
        weight: (F,) relative share of a full link, from 0.001 to 1000; None = 1.
        cap_bps: (F,) highest rate of each flow, bit/s, inf = no cap; None = no caps.
        startup_s: (F,) time from the start to the first byte, in addition to the network's latency; None = 0.
        udp: (F,) whether a flow sends at its cap despite losses; only for `simulate_guarded`. None = all are TCP.
        label: (F,) uint64 that picks one of several equal paths; None = the row's number.
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
        """Source and target of each flow, as indices of hosts in the network."""
        return zip(self.source.tolist(), self.target.tolist(), strict=True)

    @property
    def names(self) -> Sequence[str]:
        """Id of each flow; the row's number where no ids are given."""
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
    """Background traffic between two hosts, which continues until the last flow is done.

    Exactly one of `poisson` and `on_off` is given.

    Attributes:
        source: index of the sending host in the network.
        target: index of the receiving host.
        poisson: mean arrivals per second and mean bytes; times between arrivals and sizes are exponential.
        on_off: mean seconds of sending at full rate and mean seconds of rest, both exponential.
        weight: weight of each background flow.
        cap_bps: highest rate of each background flow, bit/s.
    """

    source: int
    target: int
    poisson: tuple[float, float] | None = None
    on_off: tuple[float, float] | None = None
    weight: float = 1.0
    cap_bps: float = math.inf


def read_flows(path: str | Path, hosts: Sequence[str]) -> Flows:
    """Read flows from a CSV file.

    The first line names the columns, in any order: `id`, `source` (or `src`), `target` (or `dst`), `bytes`,
    `start_s`, and optionally `weight`, `cap_bps`, `startup_s`, `udp` (0 or 1).

    Args:
        path: the CSV file.
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
    """Return the parser's message, with a suggestion if the unknown host is close to a known name."""
    unknown = re.search(r": no host `([^`]*)`; ", problem)
    close = nearest(unknown[1], hosts) if unknown else None
    return problem if unknown is None or close is None else f"{problem[: unknown.end()]}did you mean `{close}`?"


def write_finish(path: str | Path, ids: Sequence[str], finish_s: Floats) -> None:
    """Write finish times to a CSV file with the columns `id,finish_s`, completely or not at all.

    Args:
        path: the CSV file.
        ids: ids of the F flows.
        finish_s: (F,) finish times in seconds; NaN = never, written as an empty cell.
    """
    write_bytes(path, _core.format_finish(list(ids), np.ascontiguousarray(finish_s, dtype=np.float64)))
