"""Measurements as the command line names them: a file, or a series of the store, whole or for some time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gavotte.cli.options import moment

if TYPE_CHECKING:
    from gavotte.formats.history import History
    from gavotte.formats.network import Network
    from gavotte.store import Span

DAY_S = 86_400.0

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_FILES = (".npz", ".csv", ".parquet", ".json")


def read_measured(text: str, store: str | None) -> History | Network:
    """Read a History, a Network, or snapshots of a series.

    Args:
        text: a file's name; else `SERIES`, `SERIES@DAY` or `SERIES@FROM..TO`, of which either end may be empty.
        store: URL of the store of the series; None = the default one.

    Raises:
        GavotteError: when it cannot be read.
    """
    from gavotte.errors import FormatError
    from gavotte.formats.files.kinds import HEAD_BYTES, kind_of, named
    from gavotte.formats.history import read_history
    from gavotte.formats.network import read_network

    path = Path(text)
    if not path.is_file() and not text.endswith(_FILES) and "/" not in text:
        from gavotte.store import open_store

        name, _, window = text.partition("@")
        with open_store(store, create=False) as opened:
            return opened.load(name, span_of(window))
    if path.suffix in (".csv", ".parquet"):
        from gavotte.store import read_series_file

        return read_series_file(path)
    kind = ""
    if path.is_file():
        with path.open("rb") as stream:
            kind = kind_of(stream.read(HEAD_BYTES))
    if kind not in ("", "history", "network"):
        raise FormatError(text, "", f"is {named(kind)}", "use a History or a Network")
    return read_network(path) if kind == "network" or path.suffix == ".json" else read_history(path)


def span_of(window: str) -> Span:
    """Return the time that a window names: a day in UTC, or `FROM..TO`; empty = all.

    Raises:
        BadParameter: when it cannot be read.
    """
    from gavotte.store import Span

    if _DAY.fullmatch(window):
        return Span(moment(window), moment(window) + DAY_S)
    since, between, until = window.partition("..")
    if window and not between:
        return Span(moment(window))
    return Span(moment(since) if since else None, moment(until) if until else None)
