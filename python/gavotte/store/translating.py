"""Convert database errors to store errors with a hint for the user."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from gavotte.store import sqlite_codes
from gavotte.store.errors import DamageError, StoreError
from gavotte.store.location import Location

_SQLITE = {
    sqlite_codes.BUSY: ("is being written by another process", "try again when that is done"),
    sqlite_codes.LOCKED: ("is being written by another process", "try again when that is done"),
    sqlite_codes.FULL: ("the disk is full; nothing of this was written", "free some space and repeat"),
    sqlite_codes.CORRUPT: ("is damaged", "restore a copy, or name another store"),
    sqlite_codes.NOTADB: ("is not an SQLite database", "name a store, or a file that does not exist yet"),
    sqlite_codes.READONLY: ("cannot be written", "check the permissions of the file and its folder"),
    sqlite_codes.PERM: ("cannot be opened", "check the permissions of the file and its folder"),
    sqlite_codes.CANTOPEN: ("cannot be opened", "check that the folder exists and may be written"),
    sqlite_codes.IOERR: ("cannot be read or written (disk I/O error)", "check the disk and its free space"),
    sqlite_codes.TOOBIG: ("cannot hold a value this large", "store fewer hosts at once"),
    sqlite_codes.NOMEM: ("needs more memory than there is", "ask for fewer snapshots or hosts"),
}
_POSTGRESQL = {
    "28P01": ("refused the password", "check user and password, in the URL, PGPASSWORD or ~/.pgpass"),
    "28000": ("refused the user", "check the user and the server's pg_hba.conf"),
    "3D000": ("the server has no such database", "create it first, with createdb"),
    "42501": ("the user may not do this", "grant it USAGE and CREATE on the schema"),
    "3F000": ("the user has no schema to write in", "grant it USAGE and CREATE on one in its search_path"),
    "53100": ("the server's disk is full; nothing of this was written", "free some space and repeat"),
    "53200": ("the server is out of memory", "ask for fewer snapshots or hosts"),
    "53300": ("the server has no free connection", "try again later"),
    "55P03": ("is being written by another process", "try again when that is done"),
    "57014": ("the server gave up on the query", "ask for fewer snapshots or hosts"),
    "40P01": ("another process was writing the same", "repeat"),
    "40001": ("another process was writing the same", "repeat"),
    "25006": ("the server is read-only", "name its primary server"),
}
_NO_CONNECTION = "check host, port and database, and that the server runs"


@contextmanager
def translated(location: Location) -> Iterator[None]:
    """Convert the exceptions that SQLAlchemy and the drivers raise inside to a `StoreError` about this store.

    Args:
        location: the store, for the message.

    Raises:
        StoreError: in place of any error of a database.
    """
    try:
        yield
    except (DamageError, UnicodeDecodeError) as error:
        what = error if isinstance(error, DamageError) else "a text"
        raise StoreError(
            f"{location.shown}: damaged data ({what})", hint="delete that series, or restore a copy of the store"
        ) from None
    except DBAPIError as error:
        lost = isinstance(error, OperationalError)
        raise _store_error(error.orig, location, lost=lost) from None
    except sqlite3.Error as error:  # raised before SQLAlchemy opens the file
        raise _store_error(error, location) from None
    except SQLAlchemyError as error:
        reason = location.scrub(_first_line(error))
        raise StoreError(f"{location.shown}: {reason}", hint="report this") from None


def _store_error(error: BaseException | None, location: Location, *, lost: bool = False) -> StoreError:
    if isinstance(error, sqlite3.Error):
        problem, hint = _SQLITE.get(
            sqlite_codes.code_of(error), (f"cannot be used: {_first_line(error)}", "check the file")
        )
        return StoreError(f"{location.shown}: {problem}", hint=hint)
    state = getattr(error, "sqlstate", None)
    if state in _POSTGRESQL:
        problem, hint = _POSTGRESQL[state]
        return StoreError(f"{location.shown}: {problem}", hint=hint)
    reason = location.scrub(_first_line(error))
    if state is None and lost:
        problem, hint = _not_connected(reason)
        return StoreError(f"{location.shown}: {problem}", hint=hint)
    return StoreError(f"{location.shown}: {reason}", hint="check the server's log")


def _not_connected(reason: str) -> tuple[str, str]:
    """Return problem and hint for a failed connection to PostgreSQL.

    libpq gives no SQLSTATE for a refused login, so the message's text is searched.
    """
    for sign, state in (
        ("password authentication failed", "28P01"),
        ("no password supplied", "28P01"),
        ("no pg_hba.conf entry", "28000"),
        ("too many clients", "53300"),
        ("remaining connection slots", "53300"),
    ):
        if sign in reason:
            return _POSTGRESQL[state]
    if "FATAL:" in reason and "database" in reason and "does not exist" in reason:
        return _POSTGRESQL["3D000"]
    return f"no connection: {reason}", _NO_CONNECTION


def _first_line(error: BaseException | None) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text[:200]
