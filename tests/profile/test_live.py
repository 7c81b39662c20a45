"""The kernel's byte counters of real connections on loopback, by process, address and port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gavotte.errors import FormatError, GavotteError
from gavotte.profile import Count, Traffic, parse_task, profile
from gavotte.profile.naming import canonical_process, process
from gavotte.profile.sockets import Sockets

SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    for _ in range(int(sys.argv[1])):
        with server.accept()[0] as connection:
            while connection.recv(1 << 16):
                pass
            connection.sendall(bytes(1000))
"""


@pytest.fixture
def server() -> Any:
    with subprocess.Popen([sys.executable, "-c", SERVER, "3"], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        yield started, int(started.stdout.readline())
        started.kill()


def talk(port: int, sizes: list[int]) -> None:
    for size in sizes:
        send(port, size)


def send(port: int, size: int) -> None:
    """Longer than a look lasts: whose a shorter connection was, only its address tells."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(size // 10_000):
            connection.sendall(bytes(10_000))
        time.sleep(0.3)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass


def watched(port: int, sizes: list[int], tasks: dict[str, str] | None, **options: Any) -> Traffic:
    """Talks as soon as the watch has begun, and ends it a second later."""
    timer: list[threading.Thread] = []

    def ready(_: str) -> None:
        timer.append(threading.Thread(target=talk, args=(port, sizes)))
        timer[0].start()

    try:
        return profile("live", options.pop("inputs", []), tasks, name="live", for_s=1.5, ready=ready, **options).traffic
    finally:
        timer[0].join()


def test_each_byte_of_a_connection_counts_once(server: Any) -> None:
    started, port = server
    tasks = {f"pid:{started.pid}": "server", f"pid:{os.getpid()}": "client"}
    found = watched(port, [3_000_000], tasks)
    if not found.seen["tells_ends"] and found.seen["closed_unseen"]:
        pytest.skip("the kernel tells this user nothing of connections that end")
    assert found.counts == {("client", "server"): Count.exact(3_000_000), ("server", "client"): Count.exact(1000)}
    series = watched(port, [1_000_000, 500_000], {f"127.0.0.1:{port}": "server", "127.0.0.1": "client"}, every_s=0.5)
    assert series.counts["client", "server"] == Count.exact(1_500_000)


def test_processes_have_names(server: Any) -> None:
    started, port = server
    found = watched(port, [500_000], None, inputs=[str(started.pid)])
    comm = Path(f"/proc/{started.pid}/comm").read_text().strip()
    own = Path(f"/proc/{os.getpid()}/comm").read_text().strip()
    assert found.counts.get((f"{own}-{os.getpid()}", f"{comm}-{started.pid}"), Count.exact(0)).bytes == 500_000


def test_what_cannot_be_watched_is_one_line() -> None:
    with pytest.raises(GavotteError, match="no process 99999999 runs"):
        profile("live", ["99999999"], name="live", for_s=0.1)
    with pytest.raises(FormatError, match="saw nothing sent between tasks"):
        profile("live", [], {"192.0.2.1": "nobody"}, name="live", for_s=0.1)
    with pytest.raises(GavotteError, match="does not name a task"):
        parse_task("a=pid:x", process)
    for text, canonical in (
        ("pid:12", "pid:12"),
        ("container:0123456789abcdef", "container:0123456789ab"),
        ("nginx", "nginx"),
    ):
        assert canonical_process(text) == canonical


def test_the_kernel_tells_of_both_ends() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as other,
    ):
        client.sendall(bytes(700))
        assert len(other.recv(1000)) == 700
        sockets = Sockets()
        try:
            found = list(sockets.now())
        finally:
            sockets.close()
        here, there = (f"127.0.0.1:{each.getsockname()[1]}" for each in (client, server))
        assert [each.sent_bytes for each in found if (each.here, each.there) == (here, there)] == [700]
        assert [each.received_bytes for each in found if (each.here, each.there) == (there, here)] == [700]
