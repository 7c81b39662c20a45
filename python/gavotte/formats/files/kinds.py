"""Recognise the kind of a file by its first bytes, so that the error for a wrong file can name its kind."""

from __future__ import annotations

import re
from pathlib import Path

from gavotte.errors import FormatError

FORMAT = re.compile(r"""^["{\s]*format["\s]*[=:]\s*["'](gavotte/[a-z]+/[0-9]+)["']""", re.MULTILINE)
"""The `format` key of a noun in a file, in TOML or JSON."""

_TABLE = re.compile(r"^(?=[^\n]*\b(source|src)\b)(?=[^\n]*\bbytes\b)[a-z_, ]+$", re.MULTILINE)
"""The first line of a table of bytes between hosts."""

TABLES = {"flows": "a list of flows", "bytes": "a table of bytes", "trace": "a coflow trace"}
_OTHERS = {"hosts": "an Inventory", "capture": "a capture of packets", "mpip": "an mpiP report"}

_MAGIC = {
    b"\xd4\xc3\xb2\xa1": "capture",
    b"\xa1\xb2\xc3\xd4": "capture",
    b"\x4d\x3c\xb2\xa1": "capture",
    b"\xa1\xb2\x3c\x4d": "capture",
    b"\x0a\x0d\x0d\x0a": "capture",
    b"@ mpiP": "mpip",
}
"""First bytes of a pcap file in either byte order (microseconds, nanoseconds), and of pcapng."""

HEAD_BYTES = 4096
"""Number of bytes that decide the kind of a file."""


def kind_of(head: bytes) -> str:
    """Return a file's kind by its first `HEAD_BYTES`: a noun by its format's word, another kind, or empty = unknown."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    # The name of the first file in a zip archive follows 30 bytes; .xlsx is such an archive, too.
    if head.startswith(b"PK\x03\x04") and head[30 : 30 + int.from_bytes(head[26:28], "little")].endswith(b".npy"):
        return "history"
    text = head.decode("utf-8", "replace")
    if noun := FORMAT.search(text):
        return noun[1].split("/")[1]
    if (table := _TABLE.search(text)) and not text[: table.start()].strip():
        columns = re.findall(r"\w+", table[0])
        return "trace" if "coflow" in columns else "flows" if "start_s" in columns else "bytes"
    return ""


def kind_at(path: str | Path) -> str:
    """Return the kind of a file as `kind_of` does; empty also for a pipe, and for a file that cannot be read."""
    try:
        if not Path(path).is_file():
            return ""
        with Path(path).open("rb") as stream:
            return kind_of(stream.read(HEAD_BYTES))
    except (OSError, ValueError):
        return ""


def check_kind(path: str | Path, wanted: str) -> None:
    """Refuse a file that is visibly of another kind. A file that cannot be read is left to its reader.

    Args:
        path: the file. From a pipe nothing is read.
        wanted: the noun by its format's word, as `history`, or `flows`, `bytes`, `trace`, `mpip`.

    Raises:
        FormatError: naming the file's kind and the expected one.
    """
    kind = kind_at(path)
    # A table's columns may be in any order and among others: its reader names one that is missing.
    if kind in ("", wanted) or (kind in TABLES and wanted in TABLES):
        return
    raise FormatError(str(path), "", f"is {named(kind)}", f"use {named(wanted)}")


def named(kind: str) -> str:
    """Return a kind's name with its article. The word `hosts` is an Inventory; a kind may also be no noun."""
    if phrase := TABLES.get(kind) or _OTHERS.get(kind):
        return phrase
    noun = kind.capitalize()
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"
