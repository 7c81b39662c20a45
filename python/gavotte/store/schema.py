"""Define the tables of a store, and migrate stores of older versions to this one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    inspect,
    select,
    text,
)

from gavotte.store.errors import StoreError
from gavotte.store.location import Location

# SQLite numbers rows automatically only in a column that is exactly INTEGER.
_Id = BigInteger().with_variant(Integer(), "sqlite")
_ADVISORY_KEY = 0x6761766F747465  # "gavotte"

metadata = MetaData()

schema_versions = Table(
    "gavotte_schema",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_s", Double, nullable=False),
)

series = Table(
    "gavotte_series",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_s", Double, nullable=False),
)

rosters = Table(
    "gavotte_rosters",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("series_id", _Id, ForeignKey(series.c.id, ondelete="CASCADE"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("hosts", Text, nullable=False),
    UniqueConstraint("series_id", "digest"),
)

snapshots = Table(
    "gavotte_snapshots",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("series_id", _Id, ForeignKey(series.c.id, ondelete="CASCADE"), nullable=False),
    Column("roster_id", _Id, ForeignKey(rosters.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("time_s", Double, nullable=False),
    Column("method", Text, nullable=False),
    Column("answered", BigInteger, nullable=False),
    Column("alpha_median_s", Double),
    Column("beta_median_bytes_per_s", Double),
    Column("evidence", Text),
    UniqueConstraint("series_id", "time_s"),
)

paths = Table(
    "gavotte_paths",
    metadata,
    Column("snapshot_id", _Id, ForeignKey(snapshots.c.id, ondelete="CASCADE"), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("alpha", LargeBinary, nullable=False),
    Column("beta", LargeBinary, nullable=False),
    Column("hops", LargeBinary, nullable=False),
    Column("proof", LargeBinary),
)

extras = Table(
    "gavotte_extras",
    metadata,
    Column("snapshot_id", _Id, ForeignKey(snapshots.c.id, ondelete="CASCADE"), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

records = Table(
    "gavotte_records",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("value", Double, nullable=False),
    Column("time_s", Double, nullable=False),
    Column("labels", Text, nullable=False),
    Index("gavotte_records_kind_time", "kind", "time_s"),
)


transfers = Table(
    "gavotte_transfers",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("priority_class", Integer, nullable=False),
    Column("weight", Double, nullable=False),
    Column("flows", Text, nullable=False),
    Column("moved", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("submitted_s", Double, nullable=False),
    Column("started_s", Double),
    Column("finished_s", Double),
    Column("error", Text, nullable=False),
    Column("copies", Text, nullable=False, server_default=""),
    Column("receivers", Text, nullable=False, server_default=""),
    Column("deadline_s", Double),
    Column("guaranteed", Integer, nullable=False, server_default="0"),
    Column("encrypt", Integer, nullable=False, server_default="0"),
)

apps = Table(
    "gavotte_apps",
    metadata,
    Column("job", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("command", Text, nullable=False),
    Column("time_s", Double, nullable=False),
)

traces = Table(
    "gavotte_traces",
    metadata,
    Column("job", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("time_s", Double, nullable=False),
)


def _first(connection: Connection) -> None:
    metadata.create_all(connection, tables=[series, rosters, snapshots, paths, records], checkfirst=False)


def _second(connection: Connection) -> None:
    metadata.create_all(connection, tables=[transfers], checkfirst=False)


def _third(connection: Connection) -> None:
    _add(connection, "gavotte_transfers", "copies", "TEXT NOT NULL DEFAULT ''")


def _fourth(connection: Connection) -> None:
    _add(connection, "gavotte_transfers", "receivers", "TEXT NOT NULL DEFAULT ''")


def _fifth(connection: Connection) -> None:
    _add(connection, "gavotte_snapshots", "evidence", "TEXT")
    metadata.create_all(connection, tables=[extras], checkfirst=False)


def _sixth(connection: Connection) -> None:
    _add(connection, "gavotte_transfers", "deadline_s", "DOUBLE PRECISION")
    _add(connection, "gavotte_transfers", "guaranteed", "INTEGER NOT NULL DEFAULT 0")


def _seventh(connection: Connection) -> None:
    metadata.create_all(connection, tables=[apps], checkfirst=False)


def _eighth(connection: Connection) -> None:
    _add(connection, "gavotte_transfers", "encrypt", "INTEGER NOT NULL DEFAULT 0")


def _ninth(connection: Connection) -> None:
    metadata.create_all(connection, tables=[traces], checkfirst=False)


def _add(connection: Connection, table: str, name: str, kind: str) -> None:
    # A new store has the column from the step that creates the table.
    if name not in {column["name"] for column in inspect(connection).get_columns(table)}:
        connection.execute(text(f"ALTER TABLE {table} ADD COLUMN {name} {kind}"))


Migration = Callable[[Connection], None]

MIGRATIONS: tuple[Migration, ...] = (_first, _second, _third, _fourth, _fifth, _sixth, _seventh, _eighth, _ninth)
"""Migrations in order: step k converts version k to version k + 1. A released step is never changed."""


def found_version(connection: Connection) -> int | None:
    """Return the version of the store in this database; None if the database has no tables of Gavotte."""
    if not inspect(connection).has_table(schema_versions.name):
        return None
    return int(connection.execute(select(func.max(schema_versions.c.version))).scalar() or 0)


def check_version(version: int, location: Location, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Raise an error if a newer Gavotte wrote the store.

    Raises:
        StoreError: naming both versions.
    """
    if version > len(steps):
        raise StoreError(
            f"{location.shown}: version {version} of the store is newer than this Gavotte, which knows {len(steps)}",
            hint="update Gavotte",
        )


def migrate(connection: Connection, location: Location, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Migrate a store to this version inside the caller's transaction, so that it succeeds or changes nothing.

    Args:
        connection: connection in a transaction that may write.
        location: location of the store, for error messages.
        steps: all migrations in order.

    Raises:
        StoreError: when the store is of a newer version.
    """
    if location.kind == "postgresql":  # SQLite's transaction already keeps others out
        connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_KEY)))
    version = found_version(connection)
    if version is None:
        metadata.create_all(connection, tables=[schema_versions], checkfirst=False)
        version = 0
    check_version(version, location, steps)
    for number in range(version, len(steps)):
        steps[number](connection)
        connection.execute(schema_versions.insert().values(version=number + 1, applied_s=time.time()))
