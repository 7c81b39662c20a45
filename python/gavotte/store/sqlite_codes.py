"""SQLite's primary result codes. Python 3.10 reports none, so that they follow from SQLite's messages there."""

from __future__ import annotations

PERM, BUSY, LOCKED, NOMEM, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, TOOBIG, NOTADB = (
    3, 5, 6, 7, 8, 10, 11, 13, 14, 18, 26,
)  # fmt: skip

_BEGINNINGS = {
    "access permission denied": PERM,
    "database is locked": BUSY,
    "database table is locked": LOCKED,
    "out of memory": NOMEM,
    "attempt to write a readonly database": READONLY,
    "disk I/O error": IOERR,
    "database disk image is malformed": CORRUPT,
    "database or disk is full": FULL,
    "unable to open database file": CANTOPEN,
    "string or blob too big": TOOBIG,
    "file is not a database": NOTADB,
}


def code_of(error: BaseException) -> int:
    """Return the primary result code of an error of SQLite; 0 = unknown."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        # The low byte is the primary result code; the other bytes give details.
        return int(code) & 0xFF
    return next((code for beginning, code in _BEGINNINGS.items() if str(error).startswith(beginning)), 0)
