"""Convert snapshots to and from the long form: one row for each snapshot and directed pair of hosts.

CSV and Parquet files both have this form. The conversion is exact in both directions. Every pair of a snapshot's hosts
has a row, measured or not, so that hosts and snapshots without measurements are kept. A host's row to itself is left
out unless it has values or the host is alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from gavotte.errors import FormatError
from gavotte.formats.history import MAX_HOPS, Floats, Ints
from gavotte.formats.network import MAX_CPUS, MAX_MEMORY_BYTES
from gavotte.store.snapshot import MAX_HOSTS, Snapshot

REQUIRED = ("source", "target", "time_s", "alpha_s", "beta_Bps")
OPTIONAL = ("hops", "cpus", "memory_bytes", "method")
COLUMNS = REQUIRED + OPTIONAL
"""Names of all columns in the order in which they are written. `cpus` and `memory_bytes` are those of the source."""


@dataclass(frozen=True)
class Rows:
    """A batch of rows of a file, as columns; an optional column that the file does not have is None.

    Attributes:
        number: line or row of the file, counted from 1.
    """

    number: Ints
    source: Sequence[str]
    target: Sequence[str]
    time_s: Floats
    alpha_s: Floats
    beta_Bps: Floats  # noqa: N815 - the column's name, unit included
    hops: Ints | None = None
    cpus: Floats | None = None
    memory_bytes: Ints | None = None
    method: Sequence[str] | None = None


@dataclass(frozen=True)
class Place:
    """Name of a file for error messages about its cells, such as `FILE: line 7, column hops`.

    Attributes:
        path: the file.
        unit: word for a row of the file: `line` or `row`.
    """

    path: str
    unit: str

    def refuse(self, number: int, column: str, problem: str, remedy: str) -> NoReturn:
        """Raise the error for one invalid cell."""
        raise FormatError(self.path, f"{self.unit} {number}, column {column}", problem, remedy)

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise an error if a required column is missing or a known column appears twice."""
        for name in REQUIRED:
            if name not in names:
                close = next((each for each in names if each.lower() == name.lower()), None)
                was = f" (it has `{close}`)" if close else ""
                raise FormatError(self.path, f"column {name}", f"is missing{was}", f"use at least {','.join(REQUIRED)}")
        for name in COLUMNS:
            if names.count(name) > 1:
                raise FormatError(self.path, f"column {name}", "appears twice", "remove one")


def flatten(snapshot: Snapshot) -> dict[str, npt.NDArray[Any]]:
    """Return one snapshot in the long form, as columns sorted by source and then target; NaN = not measured."""
    size = len(snapshot.hosts)
    keep = ~np.eye(size, dtype=bool) if size > 1 else np.ones((1, 1), dtype=bool)
    keep |= np.isfinite(snapshot.alpha_s) | np.isfinite(snapshot.beta_Bps) | (snapshot.hops > 0)
    source, target = np.nonzero(keep)
    hosts = np.array(snapshot.hosts, dtype=object)
    return {
        "source": hosts[source],
        "target": hosts[target],
        "time_s": np.full(len(source), snapshot.time_s),
        "alpha_s": snapshot.alpha_s[keep],
        "beta_Bps": snapshot.beta_Bps[keep],
        "hops": snapshot.hops[keep],
        "cpus": snapshot.cpus[source],
        "memory_bytes": snapshot.memory_bytes[source],
        "method": np.full(len(source), snapshot.method, dtype=object),
    }


@dataclass
class _Keys:
    """Mapping that numbers distinct texts from 0, in order of appearance."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        numbers = self.numbers
        return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int32)


def assemble(batches: Iterable[Rows], place: Place) -> Iterator[Snapshot]:
    """Convert rows in any order to snapshots in time order.

    All rows are read and checked before the first snapshot is returned. They need about 70 bytes of memory each.

    Args:
        batches: the file's rows.
        place: the file, for error messages.

    Raises:
        FormatError: naming file, line or row, column and remedy.
    """
    hosts, methods = _Keys(), _Keys()
    parts: list[dict[str, npt.NDArray[Any]]] = []
    for rows in batches:
        _check(rows, place)
        ones = np.ones(len(rows.number))
        nothing = np.zeros(len(rows.number), dtype=np.int64)
        parts.append(
            {
                "number": rows.number,
                "source": hosts.of(rows.source),
                "target": hosts.of(rows.target),
                "time_s": rows.time_s + 0.0,  # -0.0 is the same moment as 0.0
                "alpha_s": rows.alpha_s,
                "beta_Bps": rows.beta_Bps,
                "hops": nothing if rows.hops is None else rows.hops,
                "cpus": ones if rows.cpus is None else rows.cpus,
                "memory_bytes": nothing if rows.memory_bytes is None else rows.memory_bytes,
                "method": methods.of([""] * len(rows.number) if rows.method is None else rows.method),
            }
        )
    if not sum(len(part["number"]) for part in parts):
        raise FormatError(place.path, "", "contains no row", "use one row per pair and snapshot")
    whole = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    parts.clear()
    order = np.argsort(whole["time_s"], kind="stable")
    edges = np.flatnonzero(np.diff(whole["time_s"][order])) + 1
    names, ways = list(hosts.numbers), list(methods.numbers)
    groups = np.split(order, edges)
    for group in groups:
        _check_group(whole, group, names, ways, place)
    for group in groups:
        yield _snapshot({key: column[group] for key, column in whole.items()}, names, ways)


def _check(rows: Rows, place: Place) -> None:
    def first(bad: npt.NDArray[np.bool_], column: str, problem: str, remedy: str) -> None:
        if bad.any():
            place.refuse(int(rows.number[int(np.argmax(bad))]), column, problem, remedy)

    first(~np.isfinite(rows.time_s), "time_s", "is not a time", "write the snapshot's Unix time in seconds")
    for column, values in (("alpha_s", rows.alpha_s), ("beta_Bps", rows.beta_Bps)):
        first(np.isinf(values), column, "is infinite", "leave it empty for what was not measured")
        first(values < 0, column, "is negative", "leave it empty for what was not measured")
    first(rows.beta_Bps == 0, "beta_Bps", "is a zero rate", "leave it empty for what was not measured")
    if rows.hops is not None:
        first((rows.hops < 0) | (rows.hops > MAX_HOPS), "hops", "is not a count", "write 0 for unknown")
    if rows.cpus is not None:
        remedy = f"write one above 0, of at most {MAX_CPUS:.0f}"
        first(~((rows.cpus > 0) & (rows.cpus <= MAX_CPUS)), "cpus", "is not a number of cores", remedy)
    if rows.memory_bytes is not None:
        outside = (rows.memory_bytes < 0) | (rows.memory_bytes > MAX_MEMORY_BYTES)
        first(outside, "memory_bytes", f"is not within 0 and {MAX_MEMORY_BYTES}", "write 0 for unknown")
    for column, texts in (("source", rows.source), ("target", rows.target), ("method", rows.method or ())):
        for text in set(texts):
            if len(text) > 255 or not text.isprintable() or (not text and column != "method"):
                at = int(rows.number[list(texts).index(text)])
                place.refuse(at, column, f"is `{text[:60]}`", "write 1 to 255 printable characters")


def _check_group(
    whole: dict[str, npt.NDArray[Any]], group: npt.NDArray[np.intp], names: list[str], ways: list[str], place: Place
) -> None:
    """Check the rows of one snapshot: raise an error for duplicate pairs, contradictory rows or too many hosts."""
    source, target, number = (whole[key][group].astype(np.int64) for key in ("source", "target", "number"))
    if len(np.unique(np.concatenate([source, target]))) > MAX_HOSTS:
        place.refuse(int(number[0]), "source", f"begins a snapshot of more than {MAX_HOSTS} hosts", "split it")
    _, pairs = np.unique(source * len(names) + target, return_index=True)
    if len(pairs) < len(group):
        at = int(np.setdiff1d(np.arange(len(group)), pairs)[0])
        pair = f"`{names[source[at]]}` to `{names[target[at]]}`"
        place.refuse(int(number[at]), "target", f"gives {pair} twice at one time", "remove one of the two")
    _, firsts, inverse = np.unique(source, return_index=True, return_inverse=True)
    for column, texts in (("cpus", None), ("memory_bytes", None), ("method", ways)):
        values = whole[column][group]
        base = values[firsts[inverse]] if texts is None else values[0]
        other = values != base
        if other.any():
            at = int(np.argmax(other))
            shown = values[at] if texts is None else repr(texts[values[at]])
            whose = "this host" if texts is None else "this snapshot"
            place.refuse(
                int(number[at]), column, f"is {shown}, unlike an earlier row of {whose}", "write the same in both"
            )


def _snapshot(rows: dict[str, npt.NDArray[Any]], names: list[str], ways: list[str]) -> Snapshot:
    # Sources first: that is the order in which a snapshot is written.
    order = dict.fromkeys([*rows["source"].tolist(), *rows["target"].tolist()])
    index = np.zeros(len(names), dtype=np.intp)
    index[list(order)] = np.arange(len(order))
    i, j, size = index[rows["source"]], index[rows["target"]], len(order)
    snapshot = Snapshot(
        time_s=float(rows["time_s"][0]),
        hosts=tuple(names[key] for key in order),
        alpha_s=np.full((size, size), np.nan),
        beta_Bps=np.full((size, size), np.nan),
        hops=np.zeros((size, size), dtype=np.int64),
        cpus=np.ones(size),
        memory_bytes=np.zeros(size, dtype=np.int64),
        method=ways[int(rows["method"][0])],
    )
    snapshot.alpha_s[i, j] = rows["alpha_s"]
    snapshot.beta_Bps[i, j] = rows["beta_Bps"]
    snapshot.hops[i, j] = rows["hops"]
    snapshot.cpus[i] = rows["cpus"]
    snapshot.memory_bytes[i] = rows["memory_bytes"]
    return snapshot
