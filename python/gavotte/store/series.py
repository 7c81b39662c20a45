"""Add, read and delete series in the database.

A series is a named list of snapshots. Each snapshot has one row for each source host with measurements.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, Select, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from typing_extensions import TypeVarTuple, Unpack

from gavotte.formats.history import Proof
from gavotte.formats.parts.evidence import Evidence
from gavotte.store import schema as tables
from gavotte.store.codec import pack, pack_lists, pack_proof, unpack, unpack_lists, unpack_proof
from gavotte.store.errors import DamageError, StoreError
from gavotte.store.snapshot import EXTRA, MAX_HOSTS, Snapshot, digest

Columns = TypeVarTuple("Columns")

_MOST_IDS = 500
"""Most snapshots fetched by one query; SQLite takes 32,766 parameters."""
ROUTERS = "hop_addresses"
"""Name of the stored lists of routers. The other arrays that not every snapshot has are those of `EXTRA`."""
_MOST_CELLS = 1 << 22
"""Most cells of matrices fetched by one query, about 100 MB."""


@dataclass(frozen=True)
class Span:
    """Selection of snapshots or Records by time: the last ones in [since_s, until_s).

    Attributes:
        since_s: Unix time, inclusive; None = from the beginning.
        until_s: Unix time, exclusive; None = to the end.
        last: largest number of them, counted from the end; None = all.
    """

    since_s: float | None = None
    until_s: float | None = None
    last: int | None = None


@dataclass(frozen=True)
class Head:
    """Summary of a snapshot, without its matrices.

    Attributes:
        id: key of the snapshot in the database.
        roster_id: key of the snapshot's list of hosts.
        time_s: Unix time of the snapshot.
        method: name of the method of measurement.
        hosts: number of hosts.
        answered: number of directed pairs of different hosts with a bandwidth.
        alpha_median_s: median latency over the pairs that have one, seconds; None if no pair has one.
        beta_median_Bps: median bandwidth over the pairs that have one, bytes/s; None if no pair has one.
    """

    id: int
    roster_id: int
    time_s: float
    method: str
    hosts: int
    answered: int
    alpha_median_s: float | None
    beta_median_Bps: float | None  # noqa: N815 - as in the History

    @property
    def paths(self) -> int:
        """Number of directed pairs of different hosts."""
        return self.hosts * (self.hosts - 1)


@dataclass(frozen=True)
class Roster:
    """Hosts of one or more snapshots, in the matrices' order: names, cores, memory, and whether each receives IPv6."""

    hosts: tuple[str, ...]
    cpus: tuple[float, ...]
    memory_bytes: tuple[int, ...]
    ipv6: tuple[bool, ...] | None = None


def names(connection: Connection) -> list[str]:
    """Return the names of all series, sorted."""
    names = list(connection.execute(select(tables.series.c.name).order_by(tables.series.c.name)).scalars())
    if not all(isinstance(name, str) for name in names):
        raise DamageError("a series' name")
    return names


def find(connection: Connection, name: str) -> int:
    """Return the key of a series in the database.

    Raises:
        StoreError: when no such series exists; the hint lists up to 8 names.
    """
    number = connection.execute(select(tables.series.c.id).where(tables.series.c.name == name)).scalar()
    if number is None:
        known = names(connection)
        shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise StoreError(f"no series `{name}`", hint=f"use one of: {shown}" if known else "none has been stored yet")
    return int(number)


def append(connection: Connection, name: str, snapshots: Iterable[Snapshot], *, skip_existing: bool) -> int:
    """Add snapshots to a series, and create the series if it is new.

    Args:
        connection: connection in a transaction that may write.
        name: name of the series.
        snapshots: snapshots in any order.
        skip_existing: skip snapshots at times that the series already has, instead of raising an error.

    Returns:
        Number of snapshots added.

    Raises:
        StoreError: for a time that the series already has, or an invalid snapshot.
    """
    series_id = _lock(connection, name)
    column = tables.snapshots.c.time_s
    times = set(connection.execute(select(column).where(tables.snapshots.c.series_id == series_id)).scalars())
    rosters: dict[str, int] = {}
    added = 0
    for snapshot in snapshots:
        snapshot.check(name)
        if snapshot.time_s in times:
            if skip_existing:
                continue
            raise StoreError(
                f"{name}: has a snapshot at {snapshot.time_s!r} s already",
                hint="skip what is there, or name another series",
            )
        times.add(snapshot.time_s)
        roster = snapshot.roster()
        if roster not in rosters:
            rosters[roster] = _roster_id(connection, series_id, roster, len(snapshot.hosts))
        _insert(connection, series_id, rosters[roster], snapshot)
        added += 1
    return added


def _lock(connection: Connection, name: str) -> int:
    """Lock a series against other writers until this transaction ends, and return its key.

    A missing series is created.
    """
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    new = insert(tables.series).values(name=name, created_s=time.time()).on_conflict_do_nothing()
    mine = select(tables.series.c.id).where(tables.series.c.name == name).with_for_update()
    while True:  # repeats only if another process deletes the series between the two statements
        connection.execute(new)
        number = connection.execute(mine).scalar()
        if number is not None:
            return int(number)


def _roster_id(connection: Connection, series_id: int, roster: str, size: int) -> int:
    table = tables.rosters
    key = digest(roster)
    same = (table.c.series_id == series_id) & (table.c.digest == key)
    number = connection.execute(select(table.c.id).where(same)).scalar()
    if number is None:
        values = {"series_id": series_id, "digest": key, "size": size, "hosts": roster}
        number = connection.execute(table.insert().values(values).returning(table.c.id)).scalar_one()
    return int(number)


def _insert(connection: Connection, series_id: int, roster_id: int, snapshot: Snapshot) -> None:
    table = tables.snapshots
    head = table.insert().values(
        series_id=series_id,
        roster_id=roster_id,
        time_s=float(snapshot.time_s),
        method=snapshot.method,
        answered=snapshot.answered,
        alpha_median_s=snapshot.alpha_median_s,
        beta_median_bytes_per_s=snapshot.beta_median_Bps,
        evidence=_evidence_text(snapshot.evidence),
    )
    number = connection.execute(head.returning(table.c.id)).scalar_one()
    silent = np.isnan(snapshot.alpha_s) & np.isnan(snapshot.beta_Bps) & (snapshot.hops == 0)
    rows = [
        {
            "snapshot_id": number,
            "source": source,
            "alpha": pack(snapshot.alpha_s[i], "<f8"),
            "beta": pack(snapshot.beta_Bps[i], "<f8"),
            "hops": pack(snapshot.hops[i], "<i4"),
            "proof": None if snapshot.proof is None else pack_proof(snapshot.proof, i),
        }
        for i, source in enumerate(snapshot.hosts)
        if not silent[i].all()
    ]
    if rows:
        connection.execute(tables.paths.insert(), rows)
    extras = [
        {"snapshot_id": number, "source": source, "name": name, "content": content}
        for i, source in enumerate(snapshot.hosts)
        for name, content in _extras(snapshot, i)
    ]
    if extras:
        connection.execute(tables.extras.insert(), extras)


def _extras(snapshot: Snapshot, i: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each optional array that this snapshot has, and host i's compressed row of the array."""
    for name, matrix in snapshot.extra.items():
        yield name, pack(matrix[i], EXTRA[name].stored)
    if snapshot.hop_addresses is not None:
        yield ROUTERS, pack_lists(snapshot.hop_addresses[i].tolist())


def heads(connection: Connection, series_id: int, span: Span) -> list[Head]:
    """Return summaries of a series' snapshots in a time span, in time order."""
    table, roster = tables.snapshots, tables.rosters
    columns = (table.c.id, table.c.roster_id, table.c.time_s, table.c.method, roster.c.size, table.c.answered)
    medians = (table.c.alpha_median_s, table.c.beta_median_bytes_per_s)
    query = select(*columns, *medians).join(roster, roster.c.id == table.c.roster_id)
    query = _within(query, series_id, span).order_by(table.c.time_s.desc())
    if span.last is not None:
        query = query.limit(span.last)
    return [_head(*row) for row in connection.execute(query)][::-1]


def _head(number: Any, roster: Any, time_s: Any, method: Any, size: Any, answered: Any, *medians: Any) -> Head:
    # SQLite keeps any type in any column, and damage changes types.
    whole = all(isinstance(each, int) for each in (number, roster, size, answered)) and isinstance(method, str)
    if not (whole and isinstance(time_s, float) and all(isinstance(each, float | None) for each in medians)):
        raise DamageError("a snapshot's row")
    return Head(number, roster, time_s, method, size, answered, *medians)


def _within(query: Select[Unpack[Columns]], series_id: int, span: Span) -> Select[Unpack[Columns]]:
    column = tables.snapshots.c
    query = query.where(column.series_id == series_id)
    if span.since_s is not None:
        query = query.where(column.time_s >= span.since_s)
    if span.until_s is not None:
        query = query.where(column.time_s < span.until_s)
    return query


def read_rosters(connection: Connection, heads: Sequence[Head]) -> dict[int, Roster]:
    """Return the hosts of the given snapshots, by `roster_id`.

    Raises:
        DamageError: when the database contains rows that `append` did not write.
    """
    ids = list(dict.fromkeys(head.roster_id for head in heads))
    table = tables.rosters
    rosters = {}
    for start in range(0, len(ids), _MOST_IDS):
        query = select(table.c.id, table.c.size, table.c.hosts).where(table.c.id.in_(ids[start : start + _MOST_IDS]))
        for number, size, text in connection.execute(query):
            rosters[number] = _roster(text, size)
    if not rosters.keys() >= set(ids):
        raise DamageError("a snapshot without hosts")
    return rosters


def _roster(text: str, size: int) -> Roster:
    try:
        # Stores before version 5 do not have the fourth column, `ipv6`.
        hosts, cpus, memory, *ipv6 = zip(*json.loads(text), strict=True)
        over_ipv6 = tuple(map(bool, ipv6[0])) if ipv6 else None
        whole = Roster(tuple(map(str, hosts)), tuple(map(float, cpus)), tuple(map(int, memory)), over_ipv6)
    except (ValueError, TypeError):
        raise DamageError("a list of hosts") from None
    if not 1 <= size <= MAX_HOSTS or len(set(whole.hosts)) != size:
        raise DamageError(f"{len(whole.hosts)} hosts where {size} belong")
    return whole


def read(
    connection: Connection, heads: Sequence[Head], rosters: dict[int, Roster], hosts: Sequence[str] | None = None
) -> Iterator[Snapshot]:
    """Read snapshots from the database in batches of limited size.

    Args:
        connection: connection in a transaction.
        heads: summaries of the snapshots to read, in the wanted order.
        rosters: hosts of all these snapshots, from `read_rosters`.
        hosts: the only hosts to read; None = all.

    Raises:
        DamageError: when the database contains rows that `append` did not write.
    """
    wanted = None if hosts is None else set(hosts)
    parts = {key: _part(roster, wanted) for key, roster in rosters.items()}
    start = 0
    while start < len(heads):
        stop, cells = start, 0
        while stop < len(heads) and stop - start < _MOST_IDS and (stop == start or cells < _MOST_CELLS):
            cells += heads[stop].hosts * len(parts[heads[stop].roster_id].inside)
            stop += 1
        yield from _read_some(connection, heads[start:stop], parts, hosts)
        start = stop


@dataclass(frozen=True)
class _Part:
    """The requested hosts of a roster, with their positions.

    Attributes:
        whole: the roster with all hosts.
        inside: positions of the requested hosts in the roster.
        index: position of each requested host among the requested hosts.
    """

    whole: Roster
    inside: npt.NDArray[np.intp]
    index: dict[str, int]


def _part(roster: Roster, wanted: set[str] | None) -> _Part:
    inside = [i for i, host in enumerate(roster.hosts) if wanted is None or host in wanted]
    return _Part(roster, np.array(inside, dtype=np.intp), {roster.hosts[i]: at for at, i in enumerate(inside)})


def _read_some(
    connection: Connection, heads: Sequence[Head], parts: dict[int, _Part], hosts: Sequence[str] | None
) -> Iterator[Snapshot]:
    snapshots = {head.id: _blank(head, parts[head.roster_id]) for head in heads}
    part_of = {head.id: parts[head.roster_id] for head in heads}
    for number, source, alpha, beta, hops, proof in connection.execute(_rows(tables.paths, snapshots, hosts)):
        i, part = _row(part_of.get(number), source)
        snapshot, size = snapshots[number], len(part.whole.hosts)
        snapshot.alpha_s[i] = unpack(alpha, "<f8", size)[part.inside]
        snapshot.beta_Bps[i] = unpack(beta, "<f8", size)[part.inside]
        snapshot.hops[i] = unpack(hops, "<i4", size)[part.inside]
        if proof is not None:
            snapshot = snapshots[number] = _with_proof(snapshot)
            for key, row in unpack_proof(proof, size).items():
                getattr(snapshot.proof, key)[i] = row[part.inside]
    for number, source, name, content in connection.execute(_rows(tables.extras, snapshots, hosts)):
        i, part = _row(part_of.get(number), source)
        snapshots[number] = _with_extra(snapshots[number], name, content, i, part)
    evidence = select(tables.snapshots.c.id, tables.snapshots.c.evidence)
    kept = evidence.where(tables.snapshots.c.id.in_(list(snapshots)), tables.snapshots.c.evidence.is_not(None))
    for number, text in connection.execute(kept):
        snapshots[number] = replace(snapshots[number], evidence=_evidence(text))
    yield from snapshots.values()


def _rows(table: Table, snapshots: Iterable[int], hosts: Sequence[str] | None) -> Select[Unpack[tuple[Any, ...]]]:
    """Return a query for the rows of these snapshots, and of these source hosts; None = all hosts."""
    query = select(table).where(table.c.snapshot_id.in_(list(snapshots)))
    return query if hosts is None else query.where(table.c.source.in_(list(hosts)))


def _row(part: _Part | None, source: Any) -> tuple[int, _Part]:
    i = -1 if part is None else part.index.get(source, -1)
    if part is None or i < 0:
        raise DamageError(f"`{str(source)[:60]}` is not a host of its snapshot")
    return i, part


def _with_proof(snapshot: Snapshot) -> Snapshot:
    shape = snapshot.beta_Bps.shape
    return snapshot if snapshot.proof is not None else replace(snapshot, proof=Proof.empty(shape))


def _with_extra(snapshot: Snapshot, name: Any, content: bytes, i: int, part: _Part) -> Snapshot:
    """Fill in one host's row of an optional array; return the snapshot with that array."""
    size = len(part.whole.hosts)
    if name == ROUTERS:
        lists = unpack_lists(content, size)
        return _with_routers(snapshot, i, [lists[j] for j in part.inside])
    if name not in EXTRA:
        raise DamageError("an array's name")
    kind = EXTRA[name]
    values = unpack(content, kind.stored, size)[part.inside]
    if name not in snapshot.extra:
        number = np.float64 if kind.stored == "<f8" else np.int64
        blank = np.full(snapshot.hops.shape, kind.unknown, dtype=number)
        snapshot = replace(snapshot, extra={**snapshot.extra, name: blank})
    snapshot.extra[name][i] = values
    return snapshot


def _with_routers(snapshot: Snapshot, i: int, lists: Sequence[Sequence[str]]) -> Snapshot:
    """Fill in the routers of one host's paths; the array grows to the longest path and the longest address."""
    depth, width = max(map(len, lists)), max((len(text) for each in lists for text in each), default=0)
    addresses, size = snapshot.hop_addresses, len(snapshot.hosts)
    if addresses is None or addresses.shape[2] < depth or addresses.dtype.itemsize < 4 * width:
        known = np.full((size, size, 0), "") if addresses is None else addresses
        width = max(width, known.dtype.itemsize // 4, 1)
        addresses = np.full((size, size, max(depth, known.shape[2])), "", dtype=f"<U{width}")
        addresses[:, :, : known.shape[2]] = known
    for j, each in enumerate(lists):
        addresses[i, j, : len(each)] = each
    return replace(snapshot, hop_addresses=addresses)


def _evidence_text(evidence: Sequence[Evidence]) -> str | None:
    return json.dumps([piece.model_dump(mode="json") for piece in evidence]) if evidence else None


def _evidence(text: Any) -> tuple[Evidence, ...]:
    try:
        return tuple(map(Evidence.model_validate, json.loads(text)))
    except (ValueError, TypeError):
        raise DamageError("a list of experiments") from None


def _blank(head: Head, part: _Part) -> Snapshot:
    size = len(part.inside)
    return Snapshot(
        time_s=head.time_s,
        hosts=tuple(part.index),
        alpha_s=np.full((size, size), np.nan),
        beta_Bps=np.full((size, size), np.nan),
        hops=np.zeros((size, size), dtype=np.int64),
        cpus=np.array(part.whole.cpus, dtype=np.float64)[part.inside],
        memory_bytes=np.array(part.whole.memory_bytes, dtype=np.int64)[part.inside],
        method=head.method,
        ipv6=None if part.whole.ipv6 is None else np.array(part.whole.ipv6, dtype=np.bool_)[part.inside],
    )


def remove(connection: Connection, name: str, *, before_s: float | None) -> int:
    """Delete a series, or only its snapshots before a Unix time.

    A series that would be left empty is deleted too.

    Returns:
        Number of deleted snapshots.

    Raises:
        StoreError: when no such series exists.
    """
    series_id = find(connection, name)
    connection.execute(select(tables.series.c.id).where(tables.series.c.id == series_id).with_for_update())
    table = tables.snapshots
    count = _count(connection, series_id, before_s)
    if before_s is None or count == _count(connection, series_id):
        connection.execute(delete(tables.series).where(tables.series.c.id == series_id))
    else:
        connection.execute(delete(table).where(table.c.series_id == series_id, table.c.time_s < before_s))
        used = select(table.c.roster_id).where(table.c.series_id == series_id)
        roster = tables.rosters
        connection.execute(delete(roster).where(roster.c.series_id == series_id, roster.c.id.not_in(used)))
    return count


def _count(connection: Connection, series_id: int, before_s: float | None = None) -> int:
    query = _within(select(func.count()).select_from(tables.snapshots), series_id, Span(until_s=before_s))
    return int(connection.execute(query).scalar_one())
