"""The kernel's byte counters of real connections on loopback, by process, address and port."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gavotte import lab
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.profile import Count, Request, Traffic, parse_task, read_traffic
from gavotte.profile.naming import canonical_process, process

pytestmark = pytest.mark.slow

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
    """Longer than one reading takes; a shorter connection is known by its address only."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(size // 10_000):
            connection.sendall(bytes(10_000))
        time.sleep(0.3)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass


def watched(port: int, sizes: list[int], tasks: dict[str, str] | None, **options: Any) -> Traffic:
    """Send as soon as the watch has begun, and end it a second later."""
    timer: list[threading.Thread] = []

    def ready(_: str) -> None:
        timer.append(threading.Thread(target=talk, args=(port, sizes)))
        timer[0].start()

    try:
        return read_traffic("live", Request(options.pop("inputs", []), tasks, for_s=1.5, ready=ready, **options))
    finally:
        timer[0].join()


def test_each_byte_of_a_connection_counts_once(server: Any) -> None:
    started, port = server
    tasks = {f"pid:{started.pid}": "server", f"pid:{os.getpid()}": "client"}
    result = watched(port, [3_000_000], tasks)
    if not result.seen["tells_ends"] and result.seen["closed_unseen"]:
        pytest.skip("the kernel tells this user nothing of connections that end")
    assert result.counts == {("client", "server"): Count.exact(3_000_000), ("server", "client"): Count.exact(1000)}
    series = watched(port, [1_000_000, 500_000], {f"127.0.0.1:{port}": "server", "127.0.0.1": "client"}, every_s=0.5)
    assert series.counts["client", "server"] == Count.exact(1_500_000)


def test_processes_have_names(server: Any) -> None:
    started, port = server
    result = watched(port, [500_000], None, inputs=[str(started.pid)])
    comm = Path(f"/proc/{started.pid}/comm").read_text().strip()
    own = Path(f"/proc/{os.getpid()}/comm").read_text().strip()
    assert result.counts.get((f"{own}-{os.getpid()}", f"{comm}-{started.pid}"), Count.exact(0)).bytes == 500_000


def test_what_cannot_be_watched_is_one_line() -> None:
    with pytest.raises(GavotteError, match="no process 99999999 runs"):
        read_traffic("live", Request(["99999999"], for_s=0.1))
    with pytest.raises(FormatError, match="saw nothing sent between tasks"):
        read_traffic("live", Request([], {"192.0.2.1": "nobody"}, for_s=0.1))
    with pytest.raises(GavotteError, match="does not name a task"):
        parse_task("a=pid:x", process)
    for text, canonical in (
        ("pid:12", "pid:12"),
        ("container:0123456789abcdef", "container:0123456789ab"),
        ("nginx", "nginx"),
        ("h0/container:0123456789abcdef", "h0/container:0123456789ab"),
        ("rank:3", "rank:3"),
    ):
        assert canonical_process(text) == canonical


def datagrams(target: Any, sizes: list[int]) -> None:
    with socket.socket(target.family, socket.SOCK_DGRAM) as sender:
        for size in sizes:
            sender.sendto(bytes(size), target.getsockname())
        time.sleep(0.4)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may load BPF programs")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_datagrams_are_counted_to_the_byte(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as receiver:
        receiver.bind((host, 0))
        port = receiver.getsockname()[1]
        ready = threading.Thread(target=datagrams, args=(receiver, [1, 1400, 60_000] * 20))
        end = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        tasks = {end: "receiver", host: "sender"}
        traffic = read_traffic("live", Request([], tasks, for_s=1.0, ready=lambda _: ready.start()))
        ready.join()
    if not traffic.seen["counts_datagrams"]:
        pytest.skip("this kernel lets no user count datagrams")
    assert traffic.counts["sender", "receiver"] == Count.exact(20 * 61_401)
    assert traffic.seen["uncounted_datagrams"] == 0


PROGRAM = """
import json, os, socket, sys, threading, time
sys.path.insert(0, sys.argv[1])
from gavotte.profile import Request, read_traffic

def talk():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        with server.accept()[0] as other:
            for _ in range(100):
                client.sendall(bytes(10_000))
                left = 10_000
                while left:
                    left -= len(other.recv(left))
            time.sleep(0.5)

thread = threading.Thread(target=talk)
tasks = {f"pid:{os.getpid()}": "own"}
own = str(os.getpid())
found = read_traffic("live", Request([own], tasks, for_s=1.0, ready=lambda _: thread.start()))
thread.join()
print(json.dumps([os.geteuid(), found.counts["own", "own"], found.seen]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become another user")
def test_a_user_without_rights_sees_its_own_processes() -> None:
    package = Path(__file__).parents[2] / "python"
    other = ["setpriv", "--reuid=65534", "--clear-groups"]
    reached = subprocess.run([*other, "test", "-r", package / "gavotte"], timeout=10)
    if reached.returncode:
        pytest.skip("another user cannot read this folder")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    ran = subprocess.run(
        [*words, sys.executable, "-c", PROGRAM, str(package)], capture_output=True, text=True, timeout=60, cwd="/"
    )
    assert ran.returncode == 0, ran.stderr
    user, count, seen = json.loads(ran.stdout)
    assert (user, count) == (65534, [1_000_000] * 3)
    assert not seen["counts_datagrams"]


@pytest.mark.lab
def test_agents_watch_their_hosts(small_cloud: lab.Session, tmp_path: Path) -> None:
    """One side is on each host, TCP and UDP, and both report it; loopback of one host is not that of another."""
    inventory = read_inventory(small_cloud.hosts_file)
    (tmp_path / "job.py").write_text(JOB)
    address = next(host.address for host in inventory.host if host.name == "b")
    jobs: list[subprocess.Popen[bytes]] = []

    def ready(_: str) -> None:
        rank = dict(os.environ)
        for number, host in ((1, "b"), (0, "a")):
            words = [sys.executable, str(tmp_path / "job.py"), str(number), address]
            jobs.append(small_cloud.exec(host, words, env=rank | {"PMI_RANK": str(number)}))

    tasks = {"rank:0": "left", "rank:1": "right"}
    traffic = read_traffic("live", Request([], tasks, for_s=4.0, hosts=inventory, ready=ready))
    assert [each.wait(30) for each in jobs] == [0, 0]
    assert traffic.counts["left", "right"] == Count.exact(500_000 + 30 * 1000)
    assert traffic.counts["right", "left"] == Count.exact(7_000)
    # Each sends to itself over its own loopback.
    assert traffic.counts["left", "left"] == traffic.counts["right", "right"] == Count.exact(20_000)
    assert traffic.seen["hosts"] == 3


JOB = """
import socket, sys, time
rank, address = int(sys.argv[1]), sys.argv[2]

def some(connection, size):
    while size:
        size -= len(connection.recv(size))

with socket.create_server(("127.0.0.1", 7171)) as own, socket.create_connection(("127.0.0.1", 7171)) as there:
    with own.accept()[0] as here:
        there.sendall(bytes(20_000))
        some(here, 20_000)
        time.sleep(0.3)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if rank:
    udp.bind((address, 7173))
    with socket.create_server((address, 7172)) as server, server.accept()[0] as other:
        some(other, 500_000)
        other.sendall(bytes(7_000))
        for _ in range(30):
            udp.recv(2000)
        time.sleep(0.5)
else:
    for _ in range(100):
        try:
            other = socket.create_connection((address, 7172))
            break
        except OSError:
            time.sleep(0.05)
    other.sendall(bytes(500_000))
    some(other, 7_000)
    for _ in range(30):
        udp.sendto(bytes(1000), (address, 7173))
        time.sleep(0.005)
    time.sleep(0.5)
"""


def test_a_watch_ends_before_its_time_when_asked(server: Any) -> None:
    started, port = server
    talking = threading.Thread(target=talk, args=(port, [200_000] * 3))
    talking.start()
    tasks = {f"pid:{started.pid}": "server", f"pid:{os.getpid()}": "client"}
    request = Request([], tasks, for_s=3000.0, ended=lambda: not talking.is_alive())
    traffic = read_traffic("live", request)
    assert traffic.counts["client", "server"].bytes > 0
