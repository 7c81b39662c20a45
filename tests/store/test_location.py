"""A store's URL is read as documented, and no message ever holds a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.store import StoreError, default_url, locate


def test_the_default_follows_xdg_and_the_variable() -> None:
    assert default_url({"HOME": "/h"}) == "/h/.local/share/gavotte/gavotte.sqlite3"
    assert default_url({"HOME": "/h", "XDG_DATA_HOME": "/d"}) == "/d/gavotte/gavotte.sqlite3"
    assert default_url({"HOME": "/h", "XDG_DATA_HOME": "relative"}) == "/h/.local/share/gavotte/gavotte.sqlite3"
    assert default_url({"HOME": "/h", "GAVOTTE_STORE": "s.sqlite3"}) == "s.sqlite3"
    assert default_url({"HOME": "/h", "GAVOTTE_STORE": ""}) == "/h/.local/share/gavotte/gavotte.sqlite3"
    assert locate(None, {"HOME": "/h"}).default
    assert not locate(None, {"HOME": "/h", "GAVOTTE_STORE": "s"}).default


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("s.sqlite3", "s.sqlite3"),
        ("/a/b", "/a/b"),
        (Path("/a/b"), "/a/b"),
        ("sqlite:///a/b", "a/b"),
        ("sqlite:////a/b", "/a/b"),
        ("sqlite:////a%20b", "/a b"),
    ],
)
def test_sqlite(url: str | Path, path: str) -> None:
    assert (locate(url).kind, locate(url).path) == ("sqlite", path)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:topsecret@db:5433/net", "postgresql://u@db:5433/net"),
        ("postgres://db/net", "postgresql://db/net"),
        ("postgresql+psycopg://u@db/net?password=topsecret", "postgresql://u@db/net"),
        ("postgresql://u@/net?host=/run/pg&port=5433", "postgresql://u@:5433/net?host=/run/pg"),
        ("postgresql://a:1,b:2/net", "postgresql://a,b:1,2/net"),
    ],
)
def test_postgresql_is_shown_without_its_password(url: str, shown: str) -> None:
    place = locate(url)
    assert (place.kind, place.shown) == ("postgresql", shown)
    assert "topsecret" not in repr(place)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is not the name of a file"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        (":memory:", "is not the name of a file"),
        ("sqlite:///a?mode=ro", "takes no options"),
        ("mysql://u:topsecret@db/net", "unknown kind of store `mysql`"),
        ("postgresql://u:top/secret@db/net", "cannot be read|invalid port"),
        ("postgresql://u:topsecret@db:port/net", "cannot be read|invalid port"),
        ("postgresql://db/net?nonsense=topsecret", "cannot be read"),
        ("postgresql://u:%zztopsecret@db/net", "cannot be read"),
    ],
)
def test_a_bad_url_is_one_line(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        locate(url)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


@given(
    st.text(min_size=6, alphabet=st.characters(blacklist_categories=["Cs"])),
    st.sampled_from(["", "?", "&x=", "@", ":"]),
)
def test_no_url_leaks_its_password(secret: str, tail: str) -> None:
    marked = f"Zq{secret}qZ"
    url = f"postgresql://user:{marked}{tail}@host:5432/base"
    try:
        place = locate(url)
    except StoreError as error:
        message = str(error)
        place = None
    if place is None:
        assert "Zq" not in message
        return
    assert place.kind == "postgresql"
    if place.conninfo.get("password", "").startswith("Zq"):
        assert "Zq" not in place.shown
    assert "Zq" not in repr(place).replace(place.shown, "")
