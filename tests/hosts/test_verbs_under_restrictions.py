"""Every verb under every restriction of hosts: it works, or one line names the part that is missing and the remedy."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hosts.restricted import RestrictedHosts, restricted_hosts
from tests.hosts.restrictions import RESTRICTIONS
from tests.hosts.verbs import VERBS, matrix, write_files
from tests.shell import one_line_of_error

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "privileges.md"


@contextmanager
def talk() -> Iterator[None]:
    """Send payload over the loopback interface, for a capture."""
    over = threading.Event()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):

        def send() -> None:
            while not over.wait(0.02):
                near.sendall(b"x" * 1000)
                far.recv(1000)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            over.set()
            sender.join()


def left(hosts: RestrictedHosts) -> list[Path]:
    """Return copies, whole or in part, in the folders that hosts share with this machine."""
    return [path for folder in ("/tmp", "/dev/shm") for path in Path(folder).glob(f"{hosts.place.name}-*")]


@pytest.mark.lab
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.rare
def test_each_verb_works_or_names_the_missing_part(name: str) -> None:
    place = Path(tempfile.mkdtemp(prefix="gvr-", dir="/tmp"))
    place.chmod(0o755)
    try:
        with restricted_hosts(RESTRICTIONS[name], place) as hosts, talk():
            if hosts.cloud.status().rootless:
                pytest.skip("mounts of hosts need root")
            write_files(hosts)
            for verb in VERBS:
                if verb.here and not hosts.runs_here():
                    continue
                run = hosts.here if verb.here else hosts.queued if verb.queued else hosts.gavotte
                words = verb.words(place, ["--hosts", hosts.inventory])
                done = run(*words, timeout=60)
                output = f"{verb.title}: {done.stdout}{done.stderr}"
                assert done.returncode == (name in verb.refused), output
                if name in verb.refused:
                    assert one_line_of_error([], done.stderr), output
                    assert all(part in done.stderr for part in verb.refused[name]), output
                    assert not left(hosts), output
                assert verb.limited.get(name, "") in done.stderr, output
                for path in left(hosts):
                    path.unlink()
            done = hosts.gavotte("guarantee", "clear", "--hosts", hosts.inventory)
            assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(place)


def test_the_documentation_has_the_matrix() -> None:
    assert matrix() in PAGE.read_text(), "put what `python -m tests.hosts.verbs` prints there"
