"""A private PostgreSQL server for the session, and a store of each kind for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

# Lets the tests import their neighbour as `tests.store.worlds`, the name that mypy knows it by.
sys.path.insert(0, str(Path(__file__).parents[2]))

PASSWORD = "s3cr3t/@word"
PASSWORD_QUOTED = "s3cr3t%2F%40word"
_numbers = itertools.count()


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL.

    Attributes:
        folder: its cluster and Unix socket.
        port: on the loopback address, and the socket's number.
    """

    folder: Path
    port: int

    def new_database(self) -> str:
        """Make an empty database and return its name."""
        name = f"store{next(_numbers)}"
        with psycopg.connect(self.socket_url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def socket_url(self, database: str) -> str:
        return f"postgresql://gavotte@/{database}?host={self.folder}&port={self.port}"

    def tcp_url(self, database: str, password: str = PASSWORD_QUOTED) -> str:
        return f"postgresql://gavotte:{password}@127.0.0.1:{self.port}/{database}"


def _binaries() -> Path | None:
    """Debian keeps the server's programs outside PATH, one folder for each version."""
    result = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if result:
        return result[-1].parent
    anywhere = shutil.which("initdb")
    return Path(anywhere).resolve().parent if anywhere else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """PostgreSQL refuses to run as root, so it then runs as its own user, or as `nobody`."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    root = Path(tempfile.mkdtemp(prefix="gvt-pg-", dir="/tmp"))  # a socket's path must be short
    prefix: list[str] = []
    if os.geteuid() == 0:
        known = subprocess.run(["id", "-u", "postgres"], capture_output=True, check=False).returncode == 0
        user = "postgres" if known else "nobody"
        prefix = ["runuser", "-u", user, "--"]
        shutil.chown(root, user)
    root.chmod(0o755)
    cluster = root / "cluster"

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [*prefix, str(binaries / program), "-D", str(cluster), *arguments]
        return subprocess.run(command, cwd=root, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL)

    secret = root / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    try:
        made = run(
            "initdb", "--no-sync", "-U", "gavotte", "--auth-local=trust", "--auth-host=scram-sha-256",
            f"--pwfile={secret}", "-E", "UTF8", "--locale=C",
        )  # fmt: skip
        assert made.returncode == 0, made.stderr.decode()
        for _ in range(5):  # another process may take the port first
            port = _free_port()
            settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={root} -c fsync=off"
            started = run("pg_ctl", "-w", "-t", "30", "-l", str(root / "log"), "-o", settings, "start")
            if started.returncode == 0:
                break
        assert started.returncode == 0, (root / "log").read_text()
        yield Server(root, port)
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a store, once in each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.sqlite3"
    running: Server = request.getfixturevalue("server")
    return running.socket_url(running.new_database())
