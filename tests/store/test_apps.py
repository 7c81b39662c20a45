"""Apps of jobs in a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import builders

from gavotte.store import Store, StoredApp, StoreError, locate, open_store
from gavotte.store import schema as tables
from gavotte.store.engine import open_engine


def stored(job: str, size: int = 5) -> StoredApp:
    app = builders.app("solver", ("rank0", "rank1", size), ("rank1", "rank0", 1 << 60))
    return StoredApp(job, app, "./solver ü", 7.25)


def test_a_job_keeps_its_newest_app(url: str) -> None:
    with open_store(url) as store:
        assert store.app("one") is None
        store.keep_app(stored("one"))
        store.keep_app(stored("two"))
        store.keep_app(stored("one", 9))
    with open_store(url) as store:
        assert store.app("one") == stored("one", 9)
        assert store.app("two") == stored("two")


def test_a_job_keeps_the_trace_of_its_newest_run(url: str) -> None:
    with open_store(url) as store:
        assert store.trace("one") is None
        store.keep_app(stored("one"))
        store.keep_trace("one", b"old")
        store.keep_trace("one", bytes(range(256)) * 100)
    with open_store(url) as store:
        assert store.trace("one") == bytes(range(256)) * 100
        assert store.trace("two") is None


def test_counts_of_a_later_run_forget_the_trace_of_another(url: str) -> None:
    with open_store(url) as store:
        store.keep_app(stored("one"))
        store.keep_trace("one", b"old")
        store.keep_trace("two", b"stays")
        store.keep_app(stored("one", 9))
        assert store.trace("one") is None
        assert store.trace("two") == b"stays"


def test_a_damaged_trace_is_one_line(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store.keep_trace("one", b"trace")
    engine = open_engine(locate(tmp_path / "s"), create=False)
    with engine.begin() as connection:
        connection.execute(tables.traces.update().values(content=b"x"))
    engine.dispose()
    with open_store(tmp_path / "s") as store, pytest.raises(StoreError, match=r"damaged data \(a trace\)"):
        store.trace("one")


def test_a_store_of_the_sixth_version_gets_apps(url: str) -> None:
    open_store(url).close()
    engine = open_engine(locate(url), create=False)
    with engine.begin() as connection:
        tables.apps.drop(connection)
        tables.traces.drop(connection)
        connection.execute(tables.schema_versions.delete().where(tables.schema_versions.c.version > 6))
    engine.dispose()
    with open_store(url) as store:
        store.keep_app(stored("one"))
        assert store.app("one") == stored("one")


@pytest.mark.parametrize("content", [b"", b"\x00", b"x\x9c\xab\x56\x4a\xcb\xcf"])
def test_a_damaged_app_is_one_line(content: bytes, tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store.keep_app(stored("one"))
    engine = open_engine(locate(tmp_path / "s"), create=False)
    with engine.begin() as connection:
        connection.execute(tables.apps.update().values(content=content))
    engine.dispose()
    with open_store(tmp_path / "s") as store:
        assert (
            _refused(store)
            == f"{tmp_path / 's'}: damaged data (an App); delete that series, or restore a copy of the store"
        )


def _refused(store: Store) -> str:
    with pytest.raises(StoreError) as caught:
        store.app("one")
    return str(caught.value)
