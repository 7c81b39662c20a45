"""Links that delay, lose and police packets, with real packets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.builders import topology
from tests.shell import processes_of, until

from gavotte import lab
from gavotte.errors import AgentError

pytestmark = pytest.mark.lab

ANSWER = """
import socket, sys
there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
there.bind(("", 7000))
print("ready", flush=True)
while True:
    data, sender = there.recvfrom(2048)
    there.sendto(data, sender)
"""

ASK = """
import json, socket, sys, time
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.settimeout(2)
times = []
for number in range(int(sys.argv[2])):
    begun = time.perf_counter()
    here.sendto(b"%d" % number, (sys.argv[1], 7000))
    while int(here.recv(64)) != number:
        pass
    times.append(time.perf_counter() - begun)
print(json.dumps(times))
"""

COUNT = """
import json, socket, sys, time
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
here.bind(("", 7001))
print("ready", flush=True)
numbers = []
while True:
    data = here.recv(2048)
    if data == b"end":
        break
    numbers.append(int(data[:8]))
print(json.dumps(numbers))
"""

SEND = """
import socket, sys, time
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
address, count, payload_bytes, gap_s = sys.argv[1], *map(float, sys.argv[2:])
due = time.perf_counter()
for number in range(int(count)):
    here.sendto((b"%08d" % number).ljust(int(payload_bytes)), (address, 7001))
    due += gap_s
    time.sleep(max(0, due - time.perf_counter()))
time.sleep(1)
for _ in range(100):
    here.sendto(b"end", (address, 7001))
    time.sleep(0.01)
"""

TAKE = """
import hashlib, json, socket
server = socket.create_server(("", 7002))
print("ready", flush=True)
link, _ = server.accept()
digest, size = hashlib.sha256(), 0
while data := link.recv(1 << 16):
    digest.update(data)
    size += len(data)
print(json.dumps([digest.hexdigest(), size]))
"""

GIVE = """
import hashlib, random, socket, sys
data = random.Random(1).randbytes(int(sys.argv[2]))
with socket.create_connection((sys.argv[1], 7002), timeout=20) as link:
    link.sendall(data)
print(hashlib.sha256(data).hexdigest())
"""


@contextmanager
def listening(session: lab.Session, host: str, code: str) -> Iterator[subprocess.Popen[str]]:
    child = session.exec(host, [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.terminate()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def run(session: lab.Session, host: str, code: str, *arguments: object) -> str:
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return str(session.run(host, line, capture_output=True, text=True, timeout=60).stdout)


def round_trip_s(session: lab.Session, source: str, target: str, count: int = 30) -> list[float]:
    with listening(session, target, ANSWER):
        times: list[float] = json.loads(run(session, source, ASK, target, count))
    return times


def arrivals(session: lab.Session, source: str, target: str, count: int, payload_bytes: int, gap_s: float) -> list[int]:
    with listening(session, target, COUNT) as receiver:
        run(session, source, SEND, target, count, payload_bytes, gap_s)
        assert receiver.stdout is not None
        numbers: list[int] = json.loads(receiver.stdout.readline())
    return numbers


def test_round_trips_last_as_long_as_the_latencies_say(runtime_folder: Any) -> None:
    hosts = [
        {"name": "a", "latency": "3ms"},
        {"name": "b", "switch": "tor"},
        {"name": "c", "machine": "m", "latency": "20ms"},
        {"name": "d", "machine": "m"},
    ]
    switches = [{"name": "core"}, {"name": "tor", "parent": "core", "latency": "10ms"}]
    machines = [{"name": "m", "switch": "core"}]
    with lab.session(topology(hosts, switches=switches, machine=machines), agents=False) as session:
        for source, target, expected_s in (
            ("a", "b", 0.026),
            ("b", "a", 0.026),
            ("d", "a", 0.006),
            ("c", "a", 0.046),
            ("c", "b", 0.060),
            ("d", "c", 0.0),  # on one machine: like caps, latency is between machines only
        ):
            times = round_trip_s(session, source, target)
            assert min(times) >= 0.999 * expected_s - 1e-4
            assert statistics.median(times) < expected_s + 0.005


def test_packets_keep_their_order_and_their_bytes(runtime_folder: Any) -> None:
    hosts = [{"name": "a", "latency": "1ms", "jitter": "5ms"}, {"name": "b"}]
    with lab.session(topology(hosts), agents=False) as session:
        times = round_trip_s(session, "a", "b", 60)
        assert min(times) > 0.0019
        assert max(times) - min(times) > 0.002
        numbers = arrivals(session, "a", "b", 3000, 200, 2e-4)
        assert numbers == sorted(numbers)
        assert len(numbers) > 2900
        for source, target in (("a", "b"), ("b", "a")):
            with listening(session, target, TAKE) as taker:
                digest = run(session, source, GIVE, target, 20_000_000).strip()
                assert taker.stdout is not None
                assert json.loads(taker.stdout.readline()) == [digest, 20_000_000]


@pytest.mark.skipif(shutil.which("ip") is None, reason="no iproute2")
@pytest.mark.parametrize("keys", [{"latency": "1ms"}, {"latency": "1ms", "loss": 1e-6}], ids=["whole", "cut"])
def test_tunnels_and_large_frames_pass(runtime_folder: Any, keys: dict[str, Any]) -> None:
    """VXLAN's super-packets, which a packet socket cannot describe, and frames of 9,014 bytes."""
    hosts = [{"name": name, "mtu": 9000, **keys} for name in "ab"]
    with lab.session(topology(hosts), agents=False) as session:
        addresses = {host.name: host.address for host in session.status().hosts}
        for name, other, inner in (("a", "b", "10.77.0.1"), ("b", "a", "10.77.0.2")):
            link = f"ip link add v type vxlan id 7 dstport 4789 remote {addresses[other]} local {addresses[name]}"
            steps = f"{link} && ip addr add {inner}/24 dev v && ip link set v mtu 1450 up"
            made = session.run(name, ["sh", "-c", steps], capture_output=True, text=True)
            if made.returncode:
                pytest.skip(f"no VXLAN: {made.stderr.strip()}")
        for target in ("b", "10.77.0.2"):
            with listening(session, "b", TAKE) as taker:
                digest = run(session, "a", GIVE, target, 10_000_000).strip()
                assert taker.stdout is not None
                assert json.loads(taker.stdout.readline()) == [digest, 10_000_000]
        assert session.status().warnings == ()


def test_loss_hits_single_packets(runtime_folder: Any) -> None:
    hosts: list[dict[str, Any]] = [{"name": "a", "loss": 0.1}, {"name": "b"}]
    with lab.session(topology(hosts), agents=False) as session:
        numbers = arrivals(session, "a", "b", 4000, 1000, 2e-4)
        assert 0.07 < 1 - len(numbers) / 4000 < 0.13  # six standard deviations
        with listening(session, "b", TAKE) as taker:
            digest = run(session, "a", GIVE, "b", 1_000_000).strip()
            assert taker.stdout is not None
            assert json.loads(taker.stdout.readline()) == [digest, 1_000_000]


def test_a_policer_drops_what_a_cap_would_hold(runtime_folder: Any) -> None:
    hosts: list[dict[str, Any]] = [
        {"name": "a", "egress": "800kbit", "burst": "64kb", "policer": True},
        {"name": "b", "egress": "4mbit", "burst": "64kb", "queue": "1mb"},
        {"name": "c"},
    ]
    with lab.session(topology(hosts), agents=False) as session:
        for source in "ab":
            round_trip_s(session, source, "c", 1)  # so that no packet waits for ARP
        # 500 frames of 1,042 bytes at once: 64 KiB hold 62 of them.
        policed = arrivals(session, "a", "c", 500, 1000, 0.0)
        assert 55 < len(policed) < 250
        assert policed[:50] == list(range(50))
        assert len(arrivals(session, "b", "c", 500, 1000, 0.0)) == 500


def test_a_deep_bucket_refills_no_faster_than_its_rate(runtime_folder: Any) -> None:
    """HTB would clip a bucket of ten minutes, and let it exceed the NIC."""
    hosts = [{"name": "a", "rate": "100mbit", "egress": "1mbit", "burst": "75mb"}, {"name": "b"}]
    with lab.session(topology(hosts), agents=False) as session, listening(session, "b", TAKE) as taker:
        code = "import time\nbegun = time.perf_counter()\n" + GIVE + "print(time.perf_counter() - begun)\n"
        digest, took_s = run(session, "a", code, "b", 20_000_000).split()
        assert taker.stdout is not None
        assert json.loads(taker.stdout.readline()) == [digest, 20_000_000]
    # 20 MB at 100 Mbit/s take 1.7 s; buffers hold at most a fifth of it when the sender has ended.
    assert 1.2 < float(took_s) < 10


def test_without_its_element_a_lab_ends(runtime_folder: Any) -> None:
    with lab.session(topology([{"name": "a", "latency": "1ms"}]), agents=False):
        until(lambda: any(" impair" in line for line in processes_of(runtime_folder).values()))
        for pid, line in processes_of(runtime_folder).items():
            if " impair" in line:
                os.kill(pid, signal.SIGKILL)
        until(lambda: not processes_of(runtime_folder))


def test_an_element_that_cannot_start_is_named(runtime_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = runtime_folder / "agent"
    broken.write_text("#!/bin/sh\necho no such command >&2\nexit 2\n")
    broken.chmod(0o755)
    monkeypatch.setenv("GAVOTTE_AGENT", str(broken))
    message = "the links' process exited at once; it printed: no such command"
    with pytest.raises(AgentError, match=message), lab.session(topology([{"name": "a", "loss": 0.5}]), agents=False):
        pass
