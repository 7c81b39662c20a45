"""Keep the Apps of jobs in the database, one for each job: which rank sends how many bytes to which other one.

The trace of the run that made the App may be kept next to it.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import Connection, select

from gavotte.formats.app import App
from gavotte.store import schema as tables
from gavotte.store.errors import DamageError

_TABLE = tables.apps


@dataclass(frozen=True)
class StoredApp:
    """The App of a job.

    Attributes:
        job: key of the job.
        app: its ranks as tasks, and their transfers.
        command: the job's command line, for people.
        time_s: Unix time at which the App was made.
    """

    job: str
    app: App
    command: str
    time_s: float


def keep(connection: Connection, stored: StoredApp) -> None:
    """Keep the App of a job, in place of the one before. The trace of another run is forgotten."""
    connection.execute(tables.traces.delete().where(tables.traces.c.job == stored.job))
    connection.execute(_TABLE.delete().where(_TABLE.c.job == stored.job))
    content = zlib.compress(stored.app.model_dump_json(exclude_none=True).encode())
    row = {"job": stored.job, "content": content, "command": stored.command, "time_s": stored.time_s}
    connection.execute(_TABLE.insert().values(**row))


def find(connection: Connection, job: str) -> StoredApp | None:
    """Return the App of a job; None = the store has none.

    Raises:
        DamageError: when the database contains a row that `keep` did not write.
    """
    row = connection.execute(select(_TABLE).where(_TABLE.c.job == job)).mappings().first()
    if row is None:
        return None
    try:
        app = App.model_validate_json(zlib.decompress(row["content"]))
    except (zlib.error, ValidationError, TypeError):
        raise DamageError("an App") from None
    return StoredApp(row["job"], app, row["command"], row["time_s"])


def keep_trace(connection: Connection, job: str, content: bytes) -> None:
    """Keep the trace of a job, in place of the one before."""
    table = tables.traces
    connection.execute(table.delete().where(table.c.job == job))
    connection.execute(table.insert().values(job=job, content=zlib.compress(content), time_s=time.time()))


def find_trace(connection: Connection, job: str) -> bytes | None:
    """Return the trace of a job as the bytes of a file; None = the store has none.

    Raises:
        DamageError: when the database contains a row that `keep_trace` did not write.
    """
    table = tables.traces
    content = connection.execute(select(table.c.content).where(table.c.job == job)).scalar()
    if content is None:
        return None
    try:
        return zlib.decompress(content)
    except (zlib.error, TypeError):
        raise DamageError("a trace") from None
