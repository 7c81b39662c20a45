"""Parse the URL or path of a store: an SQLite file or a PostgreSQL database. The URL may contain a password."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from gavotte.extras import needs
from gavotte.store.errors import StoreError

STORE_VARIABLE = "GAVOTTE_STORE"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_KINDS = "write sqlite:///FILE, a file name, or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True)
class Location:
    """Location of a store: the path of an SQLite file, or the parameters of a connection to PostgreSQL.

    Attributes:
        kind: kind of the database.
        path: the SQLite file; empty for PostgreSQL.
        conninfo: libpq's parameters; empty for SQLite.
        default: whether this is the user's own store, whose folder is created when it is missing.
        shown: the store's name in messages, without any secret.
    """

    kind: Literal["sqlite", "postgresql"]
    path: str = ""
    conninfo: Mapping[str, str] = field(default_factory=dict, repr=False)
    default: bool = False
    shown: str = ""

    def scrub(self, text: str) -> str:
        """Replace this store's passwords and other secrets in a message of the database with `***`."""
        for key in _SECRETS:
            secret = self.conninfo.get(key)
            if secret:
                for form in {secret, quote(secret), quote(secret, safe="")}:
                    text = text.replace(form, "***")
        return text


def default_url(environ: Mapping[str, str] = os.environ) -> str:
    """Return the URL or path of the store that is used when the user names none.

    Args:
        environ: environment variables, of which `GAVOTTE_STORE`, `XDG_DATA_HOME` and `HOME` are used.

    Returns:
        `$GAVOTTE_STORE`, else `$XDG_DATA_HOME/gavotte/gavotte.sqlite3`, else the same under `~/.local/share`.

    Raises:
        StoreError: when the store's folder is unknown because there is no home folder.
    """
    return environ.get(STORE_VARIABLE) or str(_own_file(environ))


def locate(url: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Location:
    """Parse a store's URL or path.

    Args:
        url: `sqlite:///relative`, `sqlite:////absolute`, a file name, or a `postgresql://` URL as libpq reads it;
            None for `default_url`.
        environ: as for `default_url`.

    Raises:
        StoreError: when the URL names no store. The message never contains the URL, which may contain a password.
        UnsupportedError: for PostgreSQL without psycopg.
    """
    if url is None:
        own = not environ.get(STORE_VARIABLE)
        return locate(default_url(environ)) if not own else _file(str(_own_file(environ)), default=True)
    text = str(url)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _file(text)
    kind = scheme[1].lower()
    if kind == "sqlite":
        return _file(_sqlite_path(text[scheme.end() :]))
    if kind in ("postgresql", "postgres", "postgresql+psycopg"):
        return _server(f"postgresql://{text[scheme.end() :]}")
    raise StoreError(f"unknown kind of store `{kind}`", hint=_KINDS)


def _own_file(environ: Mapping[str, str]) -> Path:
    data = environ.get("XDG_DATA_HOME", "")
    # The XDG specification says to ignore relative paths.
    folder = Path(data) if Path(data).is_absolute() else None
    if folder is None:
        try:
            home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        except RuntimeError:
            raise StoreError("there is no home folder to keep the store in", hint=f"set {STORE_VARIABLE}") from None
        folder = home / ".local" / "share"
    return folder / "gavotte" / "gavotte.sqlite3"


def _sqlite_path(rest: str) -> str:
    # As in SQLAlchemy's URLs, two slashes end the scheme and a third begins the path.
    if not rest.startswith("/") or len(rest) == 1:
        raise StoreError(
            "the store's URL names no file", hint="use sqlite:///relative/file or sqlite:////absolute/file"
        )
    if "?" in rest:
        raise StoreError("an SQLite store takes no options after `?`", hint="remove them")
    return unquote(rest[1:])


def _file(path: str, *, default: bool = False) -> Location:
    if not path or path == ":memory:" or "\0" in path:
        raise StoreError(f"`{path}` is not the name of a file", hint=_KINDS)
    return Location("sqlite", path=path, default=default, shown=path)


def _server(url: str) -> Location:
    with needs("postgresql"):
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    try:
        # Some messages of libpq quote the part that could not be parsed, which may be part of a password.
        given = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    except (ProgrammingError, UnicodeError, ValueError):
        raise StoreError(
            "the store's postgresql:// URL cannot be read",
            hint="use postgresql://USER@HOST:PORT/DATABASE, with %40 for @ and %2F for / inside a user or password",
        ) from None
    ports = given.get("port", "")
    if ports and not all(port == "" or (port.isdecimal() and 0 < int(port) < 65536) for port in ports.split(",")):
        raise StoreError(
            "the store's postgresql:// URL has an invalid port",
            hint="use postgresql://USER@HOST:PORT/DATABASE, with %40 for @ and %2F for / inside a user or password",
        )
    user = f"{given['user']}@" if given.get("user") else ""
    host = given.get("host") or given.get("hostaddr") or ""
    port = f":{ports}" if ports else ""
    base = given.get("dbname", "")
    shown = f"{user}{port}/{base}?host={host}" if host.startswith("/") else f"{user}{host}{port}/{base}"
    return Location("postgresql", conninfo=given, shown=f"postgresql://{shown}")
