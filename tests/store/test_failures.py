"""Failures of a database: one clear line each, and nothing half-written."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import Connection
from tests.shell import GAVOTTE
from tests.store.worlds import same, whole_world, world

from gavotte.formats.history import read_history, write_history
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copied, Copies, Transfer
from gavotte.formats.record import Record
from gavotte.store import Snapshot, StoreError, open_store
from gavotte.store import schema as tables
from gavotte.store.engine import open_engine
from gavotte.store.location import locate

if TYPE_CHECKING:
    from tests.store.conftest import Server

pytestmark = pytest.mark.slow


def refused(url: str | Path, *, create: bool = True, wait_s: float = 60.0, connect_s: float = 10.0) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(url, create=create, wait_s=wait_s, connect_s=connect_s).close()
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.hint
    return message


def test_files_that_are_no_store(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("x" * 5000)
    assert "is not an SQLite database" in refused(text)
    assert text.read_text() == "x" * 5000
    other = tmp_path / "places.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE moz_places (id)")
    connection.close()
    before = other.read_bytes()
    assert "is another program's database" in refused(other)
    assert other.read_bytes() == before
    assert "is a folder" in refused(tmp_path)
    assert "no such folder" in refused(tmp_path / "no" / "store")
    assert "no such store" in refused(tmp_path / "missing", create=False)
    empty = tmp_path / "empty"
    empty.touch()
    assert "is not a store" in refused(empty, create=False)
    open_store(empty).close()


def test_a_store_of_a_newer_version(url: str) -> None:
    with open_store(url):
        pass
    engine = open_engine(locate(url), create=False)
    with engine.begin() as connection:
        connection.execute(tables.schema_versions.insert().values(version=99, applied_s=0.0))
    engine.dispose()
    assert "version 99 of the store is newer than this Gavotte, which knows 9; update Gavotte" in refused(url)


def test_an_old_store_is_migrated_whole_or_not_at_all(url: str) -> None:
    with open_store(url) as store:
        store.add("cloud", world())
    engine = open_engine(locate(url), create=False)
    extra = "ALTER TABLE gavotte_series ADD COLUMN note TEXT"

    def next_(connection: Connection) -> None:
        connection.exec_driver_sql(extra)

    def broken(connection: Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE gavotte_series ADD COLUMN more TEXT")
        raise StoreError("stop")

    try:
        with pytest.raises(StoreError, match="stop"), engine.begin() as connection:
            tables.migrate(connection, locate(url), (*tables.MIGRATIONS, next_, broken))
        with engine.begin() as connection:
            assert tables.found_version(connection) == len(tables.MIGRATIONS)
            tables.migrate(connection, locate(url), (*tables.MIGRATIONS, next_))
            assert tables.found_version(connection) == len(tables.MIGRATIONS) + 1
            assert connection.exec_driver_sql("SELECT name, note FROM gavotte_series").all() == [("cloud", None)]
    finally:
        engine.dispose()


def test_a_store_of_the_first_version_gets_a_queue(url: str) -> None:
    with open_store(url) as store:
        store.add("cloud", world())
    engine = open_engine(locate(url), create=False)
    with engine.begin() as connection:
        tables.transfers.drop(connection)
        tables.extras.drop(connection)
        tables.apps.drop(connection)
        tables.traces.drop(connection)
        connection.execute(tables.schema_versions.delete().where(tables.schema_versions.c.version > 1))
    engine.dispose()
    with open_store(url) as store:
        queue = store.queue()
        assert queue.all() == []
        flows = (HostBytes("a", "b", 5), HostBytes("b", "ü", 1 << 60))
        kept = queue.add(Transfer(0, "sort", "me", 3, 0.5, flows, submitted_s=7.25))
        changed = replace(kept, moved=(5, 1 << 40), state="failed", started_s=8.0, finished_s=9.0, error="no `b`")
        queue.save(changed)
        assert (kept.id, queue.all()) == (1, [changed])
        assert store.summary("cloud").snapshots > 0


def test_a_queue_without_broadcasts_takes_them(url: str) -> None:
    flows = (HostBytes("a", "b", 0),)
    with open_store(url) as store:
        old = store.queue().add(Transfer(0, "sort", "me", 0, 1.0, flows))
    engine = open_engine(locate(url), create=False)
    with engine.begin() as connection:
        tables.extras.drop(connection)
        tables.apps.drop(connection)
        tables.traces.drop(connection)
        for column in ("copies", "receivers", "encrypt"):
            connection.exec_driver_sql(f"ALTER TABLE gavotte_transfers DROP COLUMN {column}")
        connection.execute(tables.schema_versions.delete().where(tables.schema_versions.c.version > 2))
    engine.dispose()
    with open_store(url) as store:
        queue = store.queue()
        copies = Copies("/data/ü", "a", "/copy-{host}", "chain")
        new = queue.add(Transfer(0, "model", "me", 0, 1.0, flows, copies=copies, encrypt=True))
        sized = replace(new, flows=(HostBytes("a", "b", 7),)).joined("c", "/mine")
        over = replace(sized, state="done", receivers=(Copied("c", 2.5, True, "", 1.5),))
        for changed in (sized, over):
            queue.save(changed)
            assert queue.all() == [old, changed]


def test_a_store_of_the_fourth_version_keeps_more_from_now_on(url: str) -> None:
    old, new = world(), whole_world(times=(8.5,))
    with open_store(url) as store:
        store.add("cloud", old)
    engine = open_engine(locate(url), create=False)
    with engine.begin() as connection:
        tables.extras.drop(connection)
        tables.apps.drop(connection)
        tables.traces.drop(connection)
        connection.exec_driver_sql("ALTER TABLE gavotte_snapshots DROP COLUMN evidence")
        connection.execute(tables.schema_versions.delete().where(tables.schema_versions.c.version > 4))
    engine.dispose()
    with open_store(url) as store:
        same(store.load("cloud"), old)
        store.add("new", new)
        same(store.load("new"), new)


def test_damage_anywhere_is_a_store_error(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with open_store(whole) as store:
        store.add("cloud", world(), records=[Record(kind="run", metric="x_s", value=1.0, time_s=2.0)])
    content = whole.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 60)):
        path = tmp_path / f"at{place}"
        path.write_bytes(content[:place] + b"\xff" * 40 + content[place + 40 :])
        with contextlib.suppress(StoreError), open_store(path) as store:
            for each in store.series():
                store.load(each.name)
            store.records()


def test_a_damaged_row_is_one_line(url: str) -> None:
    with open_store(url) as store:
        store.add("cloud", world())
        engine = open_engine(locate(url), create=False)
        for column, value in (("beta", b"junk"), ("source", "nobody")):
            with engine.begin() as connection:
                connection.execute(tables.paths.update().where(tables.paths.c.source == "b").values({column: value}))
            with pytest.raises(StoreError, match="damaged data"):
                store.load("cloud")
        with engine.begin() as connection:
            connection.execute(tables.rosters.update().values(hosts="[1,2]"))
        engine.dispose()
        with pytest.raises(StoreError, match="damaged data"):
            store.load("cloud")


def test_a_full_disk(tmp_path: Path) -> None:
    """A file system of 1 MB, of this test's own."""
    inside = ["unshare", "--user", "--map-root-user", "--mount"]
    if os.geteuid() == 0:
        inside = ["unshare", "--mount"]
    mounted = [*inside, "sh", "-c", f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && true"]
    if subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    large = tmp_path.with_name(f"{tmp_path.name}-large.npz")
    write_history(large, world(tuple(f"h{i}" for i in range(64)), tuple(map(float, range(50)))))
    small = tmp_path.with_name(f"{tmp_path.name}-small.npz")
    write_history(small, world())
    gavotte = f"{GAVOTTE} history"
    script = f"""
        mount -t tmpfs -o size=1m tmpfs {tmp_path} && cd {tmp_path} || exit 99
        {gavotte} import {small} --series cloud --store s || exit 98
        {gavotte} import {large} --series cloud2 --store s; echo status $?
        {gavotte} export cloud -o /dev/stdout --format csv --store s | md5sum
        {gavotte} list --store s --json
    """
    result = subprocess.run([*inside, "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "error: s: the disk is full; nothing of this was written; free some space and repeat" in result.stderr
    assert "status 1" in result.stdout
    assert '"name": "cloud"' in result.stdout
    assert "cloud2" not in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store.add("cloud", world())
    (tmp_path / "s").chmod(0o400)
    with open_store(tmp_path / "s") as store, pytest.raises(StoreError, match="cannot be written"):
        store.add("cloud2", world())


def test_wrong_password_database_or_server(server: Server) -> None:
    base = server.new_database()
    with open_store(server.tcp_url(base)) as store:
        store.add("cloud", world())
        same(store.load("cloud"), world())
        assert store.name == f"postgresql://gavotte@127.0.0.1:{server.port}/{base}"
    for url, text in (
        (server.tcp_url(base, "WrongSecret"), "refused the password"),
        (server.tcp_url("nowhere"), "the server has no such database"),
        (f"postgresql://gavotte:WrongSecret@127.0.0.1:1/{base}", "no connection: "),
        ("postgresql://gavotte:WrongSecret@host.invalid/base", "no connection: "),
        (f"postgresql://gavotte:WrongSecret@/{base}?host={server.folder}/nowhere", "no connection: "),
    ):
        message = refused(url, connect_s=2)
        assert text in message
        assert "WrongSecret" not in message
        assert "s3cr3t" not in message


def test_a_server_that_never_answers(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        message = refused(f"postgresql://u:WrongSecret@127.0.0.1:{silent.getsockname()[1]}/base", connect_s=2)
    assert "no connection" in message
    assert "WrongSecret" not in message


def test_a_user_without_rights(server: Server) -> None:
    base = server.new_database()
    with psycopg.connect(server.socket_url(base), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert "may not do this" in refused(server.socket_url(base).replace("gavotte@", "guest@"))


def test_a_server_shared_with_other_tables(server: Server) -> None:
    base = server.new_database()
    with psycopg.connect(server.socket_url(base), autocommit=True) as connection:
        connection.execute("CREATE TABLE series (id int)")
    with open_store(server.socket_url(base)) as store:
        store.add("cloud", world())
        same(store.load("cloud"), world())


def test_a_lost_connection_is_one_line_and_the_next_call_works(server: Server) -> None:
    base = server.new_database()
    with open_store(server.socket_url(base)) as store:
        store.add("cloud", world())

        def cut() -> None:
            with psycopg.connect(server.socket_url("postgres"), autocommit=True) as connection:
                where = "datname = %s AND pid <> pg_backend_pid()"
                connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {where}", (base,))

        def broken() -> Iterator[Snapshot]:
            snapshot = next(iter(store.snapshots("cloud")))
            cut()
            yield snapshot

        with pytest.raises(StoreError) as caught:
            store.add_snapshots("other", broken())
        assert "\n" not in str(caught.value)
        assert [each.name for each in store.series()] == ["cloud"]


def test_a_writer_waits_no_longer_than_told(url: str) -> None:
    with open_store(url) as first, open_store(url, wait_s=0.1) as second:
        first.add("cloud", world(times=(1.0,)))

        def slow() -> Iterator[Snapshot]:
            with pytest.raises(StoreError, match="is being written by another process; try again"):
                second.add("cloud", world(times=(2.0,)))
            assert second.summary("cloud").snapshots == 1  # readers do not wait
            yield from []

        first.add_snapshots("cloud", slow())


WRITER = """
import sys
sys.path.insert(0, sys.argv[4])
from gavotte.store import open_store
from tests.store.worlds import world
url, name, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(first, first + 20):
    with open_store(url) as store:
        store.add(name, world(times=(float(number),), seed=number))
"""


def python(script: str, *arguments: str) -> Sequence[str]:
    return [sys.executable, "-c", script, *arguments, str(Path(__file__).parents[2])]


def test_two_processes_write_one_new_series_at_once(url: str) -> None:
    writers = [
        subprocess.Popen(python(WRITER, url, "cloud", str(first)), stderr=subprocess.PIPE) for first in (0, 1000)
    ]
    for writer in writers:
        assert writer.communicate(timeout=60)[1] == b""
        assert writer.returncode == 0
    with open_store(url) as store:
        whole = store.load("cloud")
        assert whole.time_s.tolist() == [*map(float, range(20)), *map(float, range(1000, 1020))]
        same(store.load("cloud", hosts=whole.hosts), whole)


def test_threads_share_a_store(url: str) -> None:
    with open_store(url) as store, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: store.add(f"s{i % 2}", world(times=(float(i),))), range(12)))
        assert [each.snapshots for each in store.series()] == [6, 6]


HALF = """
import sys, time
sys.path.insert(0, sys.argv[2])
from gavotte.store import open_store
from gavotte.store.snapshot import split
from tests.store.worlds import world
def slowly():
    for number, snapshot in enumerate(split(world(tuple(f"h{i}" for i in range(64)), tuple(map(float, range(100)))))):
        if number == 60:
            print("half", flush=True)
            time.sleep(600)
        yield snapshot
with open_store(sys.argv[1]) as store:
    store.add_snapshots("cloud", slowly())
"""


def test_a_killed_import_leaves_nothing(url: str) -> None:
    before = world(times=(-1.0,))
    with open_store(url) as store:
        store.add("cloud", before)
    writer = subprocess.Popen(python(HALF, url), stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "half\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    with open_store(url, wait_s=10) as store:
        same(store.load("cloud"), before)
        store.add("cloud", world())
        assert store.summary("cloud").snapshots == 3


def test_a_killed_command_leaves_nothing(tmp_path: Path) -> None:
    history = world(tuple(f"h{i}" for i in range(64)), tuple(map(float, range(400))))
    write_history(tmp_path / "large.npz", history)
    path, log = tmp_path / "s", tmp_path / "s-wal"
    with open_store(path) as store:
        store.add("before", world())
    for _ in range(10):  # a busy machine may let the command finish first
        command = subprocess.Popen([GAVOTTE, "history", "import", tmp_path / "large.npz", "--store", path])
        deadline = time.monotonic() + 30
        # The log was removed at the last close; its content now is of the unfinished import.
        while command.poll() is None and time.monotonic() < deadline:
            # A command that ends removes the log, even between two looks at it.
            with contextlib.suppress(FileNotFoundError):
                if log.stat().st_size > 1 << 20:
                    command.send_signal(signal.SIGKILL)
                    break
            time.sleep(0.002)
        if command.wait() == -signal.SIGKILL:
            break
        with open_store(path) as store:
            store.delete("large")
    else:
        pytest.fail("could not kill it in time")
    with open_store(path) as store:
        assert [each.name for each in store.series()] == ["before"]
    same(read_history(tmp_path / "large.npz"), history)
