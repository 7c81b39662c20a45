"""Store Histories, Records and Apps in one database. Every call is one transaction: it succeeds or changes nothing."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, Engine

from gavotte.formats.history import History
from gavotte.formats.parts.names import Label as Name
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.parts.transfer import Transfer, TransferQueue
from gavotte.formats.record import Record
from gavotte.store import apps, changes, samples, series, transfers
from gavotte.store.apps import StoredApp
from gavotte.store.engine import CONNECT_S, WAIT_S, WRITES, open_engine
from gavotte.store.errors import StoreError
from gavotte.store.location import Location, locate
from gavotte.store.samples import KindSummary, Label
from gavotte.store.series import Head, Span
from gavotte.store.snapshot import Snapshot, gather, split
from gavotte.store.translating import translated

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_NAME: TypeAdapter[str] = TypeAdapter(Name)


@dataclass(frozen=True)
class SeriesSummary:
    """Summary of a series, or of a part of it, without its matrices.

    Attributes:
        name: name of the series.
        snapshots: number of snapshots.
        hosts: all hosts of these snapshots, in order of appearance.
        first_s: Unix time of the earliest snapshot.
        last_s: Unix time of the latest snapshot.
        paths: number of directed pairs of different hosts, summed over snapshots.
        answered: number of `paths` that have a bandwidth.
        methods: names of the methods of measurement.
        alpha_median_s: median of the snapshots' median latencies, in seconds; None if no latency is known.
        beta_median_Bps: median of the snapshots' median bandwidths, in bytes/s; None if no bandwidth is known.
    """

    name: str
    snapshots: int
    hosts: tuple[str, ...]
    first_s: float
    last_s: float
    paths: int
    answered: int
    methods: tuple[str, ...]
    alpha_median_s: float | None
    beta_median_Bps: float | None  # noqa: N815 - as in the History


@dataclass(frozen=True)
class Added:
    """Number of snapshots and Records that a call added to a store.

    Attributes:
        store: name of the store, without any password.
        series: name of the series; empty if only Records were added.
        snapshots: number of snapshots added.
        records: number of Records that were new.
    """

    store: str
    series: str
    snapshots: int
    records: int


def open_store(
    url: str | Path | None = None,
    *,
    create: bool = True,
    connect_s: float = CONNECT_S,
    wait_s: float = WAIT_S,
    environ: Mapping[str, str] = os.environ,
) -> Store:
    """Open a store, and create it if it is missing.

    Args:
        url: `sqlite:///FILE`, a file name, or `postgresql://USER@HOST/DATABASE`; None for `$GAVOTTE_STORE`, else
            `$XDG_DATA_HOME/gavotte/gavotte.sqlite3`.
        create: False to raise an error if the store is missing.
        connect_s: deadline for a connection to a server, seconds.
        wait_s: deadline for another writer, seconds.
        environ: environment variables that give the default `url`.

    Raises:
        StoreError: when the database is unreachable or is not a store.
    """
    location = locate(url, environ)
    return Store(location, open_engine(location, create=create, connect_s=connect_s, wait_s=wait_s))


def check_name(name: str) -> str:
    """Return a series' name if it is valid, else raise an error.

    Raises:
        StoreError: when the name is empty, too long, or has a space, a quote or a slash.
    """
    try:
        return _NAME.validate_python(name)
    except ValidationError:
        raise StoreError(
            f"`{name[:60]}` is not a valid name of a series",
            hint="use 1 to 128 letters, digits, - _ . : without spaces",
        ) from None


class Store:
    """Open store of Histories, Records and Apps, for any number of threads. Use it in `with`, or call `close`."""

    def __init__(self, location: Location, engine: Engine) -> None:
        """Create a store from an engine whose tables are of this version. Callers use `open_store` instead."""
        self._location = location
        self._engine = engine

    @property
    def name(self) -> str:
        """Name of the store in messages: its file or URL, without any password."""
        return self._location.shown

    def close(self) -> None:
        """Close all connections to the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, name: str, history: History, *, skip_existing: bool = False, records: Iterable[Record] = ()) -> Added:
        """Append the snapshots of a History to a series, and add Records in the same transaction.

        Args:
            name: name of the series, which is created if it is new.
            history: snapshots to append; the hosts may differ from those that the series had before.
            skip_existing: skip snapshots at times that the series already has, instead of raising an error.
            records: Records to add.

        Raises:
            StoreError: for a time that the series already has, or a store that cannot be written. Then nothing is
                stored.
        """
        return self.add_snapshots(name, split(history), skip_existing=skip_existing, records=records)

    def add_snapshots(
        self, name: str, snapshots: Iterable[Snapshot], *, skip_existing: bool = False, records: Iterable[Record] = ()
    ) -> Added:
        """Append snapshots to a series one by one, and add Records; the snapshots need not fit in memory together.

        The arguments are those of `add`.

        Raises:
            StoreError: as for `add`; also when the series would have no snapshot.
        """
        check_name(name)
        with self._writing() as connection:
            new = series.append(connection, name, snapshots, skip_existing=skip_existing)
            if not series.heads(connection, series.find(connection, name), Span(last=1)):
                raise StoreError(f"{name}: there is no snapshot to store", hint="measure at least one")
            return Added(self.name, name, new, samples.append(connection, records))

    def add_records(self, records: Iterable[Record]) -> Added:
        """Add Records, except those that equal a stored Record in every field.

        Raises:
            StoreError: when the store cannot be written. Then nothing is stored.
        """
        with self._writing() as connection:
            return Added(self.name, "", 0, samples.append(connection, records))

    def series(self) -> list[SeriesSummary]:
        """Return a summary of every series, sorted by name."""
        with self._reading() as connection:
            return [_summary(connection, name) for name in series.names(connection)]

    def summary(self, name: str, span: Span | None = None) -> SeriesSummary:
        """Return a summary of one series, or of its snapshots in a time span.

        Raises:
            StoreError: when there is no such series, or none of its snapshots is in the span.
        """
        with self._reading() as connection:
            return _summary(connection, name, span)

    def heads(self, name: str, span: Span | None = None) -> list[Head]:
        """Return summaries of a series' snapshots, in time order and without their matrices.

        Raises:
            StoreError: when there is no such series.
        """
        with self._reading() as connection:
            return series.heads(connection, series.find(connection, name), span or Span())

    def load(self, name: str, span: Span | None = None, *, hosts: Sequence[str] | None = None) -> History:
        """Return a series, or a part of it, as a History.

        Args:
            name: name of the series.
            span: time span of the snapshots; None = all.
            hosts: names of the hosts, in this order; None = all in order of appearance. With two hosts the History is
                that of one path, and only these hosts' rows are read.

        Raises:
            StoreError: when the store lacks the series, a host or the span, or the matrices exceed this machine's
                memory.
        """
        with self._reading() as connection:
            heads, rosters = _find(connection, name, span)
            union = _union(heads, rosters)
            hosts = None if hosts is None else [known_as(host, union) for host in hosts]
            for host in hosts or ():
                if host not in union:
                    raise StoreError(f"{name}: no host `{host}` in these snapshots", hint=meant(host, union))
            if hosts is not None and len(set(hosts)) < max(1, len(hosts)):
                raise StoreError(f"{name}: no host named, or one named twice", hint="name each once")
            chosen = tuple(union) if hosts is None else tuple(hosts)
            each = series.read(connection, heads, rosters, None if hosts is None else chosen)
            return gather(each, count=len(heads), hosts=chosen, name=name)

    def snapshots(self, name: str, span: Span | None = None) -> Iterator[Snapshot]:
        """Yield a series' snapshots in time order, with a limited number of them in memory.

        Changes that others make after the first snapshot was read are not seen.

        Raises:
            StoreError: when there is no such series, or none of its snapshots is in the span.
        """
        with self._reading() as connection:
            heads, rosters = _find(connection, name, span)
            yield from series.read(connection, heads, rosters)

    def records(
        self,
        kind: str | None = None,
        *,
        metric: str | None = None,
        span: Span | None = None,
        labels: Mapping[str, Label] | None = None,
    ) -> list[Record]:
        """Return the Records that match all given conditions, in time order.

        Args:
            kind: kind of the Records; None = all.
            metric: name of the measured quantity; None = all.
            span: time span of the Records; None = all times.
            labels: values that the Records' labels must have.
        """
        with self._reading() as connection:
            return samples.query(connection, kind=kind, metric=metric, span=span or Span(), labels=labels or {})

    def kinds(self) -> list[KindSummary]:
        """Return a summary of each kind of Record in the store, sorted by name."""
        with self._reading() as connection:
            return samples.kinds(connection)

    def delete(self, name: str, *, before_s: float | None = None) -> int:
        """Delete a series, or only its snapshots before a Unix time; return the number of deleted snapshots.

        Raises:
            StoreError: when no such series exists.
        """
        with self._writing() as connection:
            gone = series.remove(connection, name, before_s=before_s)
        self._shrink()
        return gone

    def delete_records(self, kind: str, *, before_s: float | None = None) -> int:
        """Delete the Records of a kind, or only those before a Unix time; return the number of deleted Records.

        Raises:
            StoreError: when no Record of that kind exists.
        """
        with self._writing() as connection:
            gone = samples.remove(connection, kind, before_s=before_s)
        self._shrink()
        return gone

    def keep_app(self, stored: StoredApp) -> None:
        """Keep the App of a job, in place of the one that the store had.

        Raises:
            StoreError: when the store cannot be written. Then the App before stays.
        """
        with self._writing() as connection:
            apps.keep(connection, stored)

    def app(self, job: str) -> StoredApp | None:
        """Return the App of a job by the job's key; None = the store has none."""
        with self._reading() as connection:
            return apps.find(connection, job)

    def keep_trace(self, job: str, content: bytes) -> None:
        """Keep the trace of a job's run, in place of the one that the store had.

        Args:
            job: the job's key, as for its App.
            content: the bytes of the trace's file (`gavotte.formats.trace`).

        Raises:
            StoreError: when the store cannot be written. Then the trace before stays.
        """
        with self._writing() as connection:
            apps.keep_trace(connection, job, content)

    def trace(self, job: str) -> bytes | None:
        """Return the bytes of the trace of a job's run; None = the store has none."""
        with self._reading() as connection:
            return apps.find_trace(connection, job)

    def mark(self) -> str:
        """Return a text that changes whenever something is added, or a transfer progresses."""
        with self._reading() as connection:
            return changes.mark(connection)

    def queue(self) -> TransferQueue:
        """Return the queue of a transfer controller, kept in this store and usable while the store is open."""
        return _Queue(self)

    def _shrink(self) -> None:
        """Return deleted space to the disk. A server does that automatically."""
        if self._location.kind != "sqlite":
            return
        connection = self._engine.raw_connection()
        try:
            # The deletion is complete. Only a script runs this statement to its end.
            connection.cursor().executescript("PRAGMA incremental_vacuum")
        except sqlite3.Error as error:
            logger.debug("%s keeps its deleted space: %s", self._location.shown, error)
        finally:
            connection.close()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with (
            translated(self._location),
            self._engine.connect().execution_options(**WRITES) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Yield a connection whose reads all see the same state, even if other processes write at the same time."""
        with translated(self._location), self._engine.connect() as connection:
            if self._location.kind == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection


class _Queue:
    """Queue of a transfer controller, kept in a store. Each call is one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, transfer: Transfer) -> Transfer:
        with self._store._writing() as connection:
            return replace(transfer, id=transfers.add(connection, transfer))

    def save(self, transfer: Transfer) -> None:
        with self._store._writing() as connection:
            transfers.save(connection, transfer)

    def all(self) -> list[Transfer]:
        with self._store._reading() as connection:
            return transfers.read(connection)


def _find(connection: Connection, name: str, span: Span | None) -> tuple[list[Head], dict[int, series.Roster]]:
    heads = series.heads(connection, series.find(connection, name), span or Span())
    if not heads:
        raise StoreError(f"{name}: no snapshot in that time", hint="`gavotte history show` shows its span")
    return heads, series.read_rosters(connection, heads)


def _union(heads: Sequence[Head], rosters: Mapping[int, series.Roster]) -> dict[str, None]:
    order = dict.fromkeys(head.roster_id for head in heads)
    return dict.fromkeys(host for key in order for host in rosters[key].hosts)


def _summary(connection: Connection, name: str, span: Span | None = None) -> SeriesSummary:
    heads, rosters = _find(connection, name, span)
    return SeriesSummary(
        name=name,
        snapshots=len(heads),
        hosts=tuple(_union(heads, rosters)),
        first_s=heads[0].time_s,
        last_s=heads[-1].time_s,
        paths=sum(head.paths for head in heads),
        answered=sum(head.answered for head in heads),
        methods=tuple(dict.fromkeys(head.method for head in heads if head.method)),
        alpha_median_s=_median([head.alpha_median_s for head in heads]),
        beta_median_Bps=_median([head.beta_median_Bps for head in heads]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    middle = len(known) // 2
    return known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2
