"""Open the SQLite or PostgreSQL database of a store.

Every wait has a deadline. Databases of other programs are refused.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine, event

from gavotte.extras import needs
from gavotte.store.errors import StoreError
from gavotte.store.location import Location
from gavotte.store.schema import MIGRATIONS, check_version, found_version, migrate
from gavotte.store.sqlite_codes import BUSY, code_of
from gavotte.store.translating import translated

CONNECT_S = 10.0
"""Deadline for a server to accept a connection, in seconds."""
WAIT_S = 60.0
"""Deadline for another writer to finish, in seconds."""
QUERY_S = 600.0
"""Deadline for one statement on a server, in seconds."""
WRITES = {"gavotte_writes": True}
_APPLICATION_ID = 0x47565454  # "GVTT" in the header of the SQLite file


def open_engine(location: Location, *, create: bool, connect_s: float = CONNECT_S, wait_s: float = WAIT_S) -> Engine:
    """Open a store's database, and create or migrate its tables if needed.

    Args:
        location: location of the store.
        create: whether to create a missing SQLite file or missing tables.
        connect_s: deadline for a connection to a server, in seconds.
        wait_s: deadline for another writer, in seconds.

    Raises:
        StoreError: when the database is unreachable or not a store, or is missing and `create` is False.
    """
    with translated(location):
        if location.kind == "sqlite":
            _prepare_file(location, create=create, wait_s=wait_s)
            engine = _sqlite_engine(location, wait_s)
        else:
            engine = _postgresql_engine(location, connect_s, wait_s)
        try:
            _check_tables(engine, location, create=create)
        except BaseException:
            engine.dispose()
            raise
        return engine


def _check_tables(engine: Engine, location: Location, *, create: bool) -> None:
    with engine.begin() as connection:
        version = found_version(connection)
    if version is not None:
        check_version(version, location)
    if version == len(MIGRATIONS):
        return
    if version is None and not create:
        raise StoreError(f"{location.shown} is not a store", hint="create one with `gavotte history import`")
    with engine.connect().execution_options(**WRITES) as connection, connection.begin():
        migrate(connection, location)


def _prepare_file(location: Location, *, create: bool, wait_s: float) -> None:
    """Create or check a store's SQLite file. Raise an error for another program's file before changing it."""
    path = Path(location.path)
    try:
        if path.is_dir():
            raise StoreError(f"{location.shown} is a folder", hint="name a file in it")
        if not path.exists():
            if not create:
                raise StoreError(
                    f"{location.shown}: no such store",
                    hint="check the path; `gavotte launch` and `gavotte measure --store` create one",
                )
            if location.default:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            elif not path.parent.is_dir():
                raise StoreError(f"{location.shown}: no such folder", hint="create it first")
    except OSError as error:
        raise StoreError(f"{location.shown}: {error.strerror}", hint="check the path and its permissions") from None
    connection = sqlite3.connect(location.path, timeout=wait_s, isolation_level=None)
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID
        if tables and not ours:
            raise StoreError(
                f"{location.shown}: is another program's database",
                hint="name a store, or a file that does not exist yet",
            )
        if not ours and create:
            # Allows deleted space to be returned. The setting works on an empty file only.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _switch_to_wal(connection, wait_s)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    finally:
        connection.close()


def _switch_to_wal(connection: sqlite3.Connection, wait_s: float) -> None:
    """Switch to WAL mode, where readers and one writer do not wait for each other. The file keeps the mode."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite's own timeout does not cover this step when two processes create one file.
            if code_of(error) != BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _sqlite_engine(location: Location, wait_s: float) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(location.path, timeout=wait_s, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys = ON")
        # A commit that was reported survives a power failure.
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer locks at once, because a read transaction that starts to write could only fail.
        writes = connection.get_execution_options().get("gavotte_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql_engine(location: Location, connect_s: float, wait_s: float) -> Engine:
    with needs("postgresql"):
        import psycopg
    # Keepalives notice a lost peer even while nothing is being sent.
    defaults = {
        "connect_timeout": str(max(2, round(connect_s))),
        "application_name": "gavotte",
        "client_encoding": "utf8",
        "keepalives_idle": "15",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": "30000",
    }
    parameters = {**defaults, **location.conninfo}

    def connect() -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect("", **parameters)  # type: ignore[arg-type]  # libpq takes every value as text
        connection.execute(f"SET lock_timeout = {max(1, round(1000 * wait_s))}")
        connection.execute(f"SET statement_timeout = {round(1000 * max(QUERY_S, wait_s))}")
        connection.commit()
        return connection

    return create_engine("postgresql+psycopg://", creator=connect, pool_pre_ping=True, hide_parameters=True)
