"""Bytes that are encrypted on request: they arrive in every way, and no capture of the links shows them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MBIT
from tests.hosts import firewalls
from tests.hosts.firewalls import walled
from tests.running import running
from tests.shell import gavotte

from gavotte import lab
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copies, MemoryQueue, TransferOptions
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import (
    MODES,
    Broadcast,
    BroadcastQuestion,
    BroadcastSession,
    Client,
    Controller,
    HostCache,
    PullQuestion,
    Shuffle,
    pull,
    send,
    service,
    serving,
    shuffle,
)
from gavotte.transfer.conducting import Run
from gavotte.transfer.planning import MECHANISMS, Mechanism
from gavotte.transfer.queue_pb2_grpc import TransfersServicer

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed"),
]

HOSTS = "abcd"
PATTERN = b"This line of the object may not be read on any link.\n"
CONTENT = PATTERN * 20_000
RATE_BPS = 50 * MBIT * GOODPUT_PER_WIRE
CAPTURE_S = 20.0


def truth(names: Sequence[str] = HOSTS, latency_s: Sequence[Sequence[float]] | None = None) -> Network:
    ends = [{"name": name, "egress_bps": RATE_BPS, "ingress_bps": RATE_BPS} for name in names]
    return builders.network(ends, latency_s=latency_s)


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Four equal hosts of 50 Mbit/s."""
    hosts = [{"name": name, "egress": "50mbit", "ingress": "50mbit"} for name in HOSTS]
    with lab.session(builders.topology(hosts), source="tests") as session:
        yield session


@pytest.fixture(scope="module")
def far() -> Iterator[lab.Session]:
    """Two hosts that are 60 ms apart, so that a flow has several connections."""
    hosts = [{"name": name, "egress": "50mbit", "ingress": "50mbit"} for name in "ab"]
    hosts[0]["latency"] = "30ms"
    with lab.session(builders.topology(hosts), source="tests") as session:
        yield session


@dataclass
class Capture:
    """The packets of all links of a lab's hosts, once the block has ended."""

    content: bytes = b""

    @property
    def zeros(self) -> int:
        """Number of zeros in runs of 256, which the agents' own bytes have."""
        return 256 * self.content.count(bytes(256))


@contextmanager
def capture(session: lab.Session, folder: Path, hosts: Sequence[str]) -> Iterator[Capture]:
    """Capture everything that hosts send and receive over their links while the block runs."""
    captured, files = Capture(), {host: folder / f"{host}.pcap" for host in hosts}
    with ExitStack() as stack:
        programs = []
        for host, file in files.items():
            line = [
                "tcpdump",
                "-i",
                "any",
                "-U",
                "--immediate-mode",
                "-B",
                "16384",
                "-Z",
                "root",
                "-w",
                str(file),
                "tcp",
            ]
            program = session.exec(host, line, stderr=subprocess.PIPE, text=True)
            stack.enter_context(program)
            stack.callback(program.kill)
            assert program.stderr is not None
            assert any("listening on" in text for text in program.stderr)
            programs.append(program)
        yield captured
        for program in programs:
            program.send_signal(signal.SIGINT)
            program.wait(CAPTURE_S)
    captured.content = b"".join(file.read_bytes() for file in files.values())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "object"
    path.write_bytes(CONTENT)
    return path


def question(
    session: lab.Session, file: Path, mechanism: Mechanism, network: Network | None, *, encrypt: bool
) -> BroadcastQuestion:
    output, hosts = str(file.parent / "copy-{host}"), read_inventory(session.hosts_file)
    return BroadcastQuestion(str(file), hosts, "a", output, network=network, mechanism=mechanism, encrypt=encrypt)


def test_a_broadcast_is_read_on_its_links_unless_it_is_encrypted(
    cloud: lab.Session, file: Path, tmp_path: Path
) -> None:
    for encrypt in (False, True):
        with capture(cloud, tmp_path, HOSTS) as captured:
            done = send(question(cloud, file, "chain", truth(), encrypt=encrypt))
        assert (done.lost, done.encrypted) == ({}, encrypt)
        # Three edges of a chain, each seen at both ends, but for packets that the capture missed.
        assert len(captured.content) > 5 * len(CONTENT)
        assert (PATTERN in captured.content) != encrypt
        for host in HOSTS[1:]:
            copy = tmp_path / f"copy-{host}"
            assert copy.read_bytes() == CONTENT
            copy.unlink()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_encrypts(cloud: lab.Session, file: Path, tmp_path: Path, mechanism: Mechanism) -> None:
    session = BroadcastSession(times=tmp_path / "times.json")
    with capture(cloud, tmp_path, HOSTS) as captured:
        done = send(question(cloud, file, mechanism, None, encrypt=True), session)
    assert (done.lost, done.encrypted) == ({}, True)
    assert all((tmp_path / f"copy-{host}").read_bytes() == CONTENT for host in HOSTS[1:])
    assert len(captured.content) > 2 * len(CONTENT)
    assert PATTERN not in captured.content


@pytest.mark.parametrize("mode", MODES)
def test_a_shuffle_is_read_on_its_links_unless_it_is_encrypted(cloud: lab.Session, tmp_path: Path, mode: str) -> None:
    flows = [HostBytes("a", "b", 600_000), HostBytes("b", "c", 600_001), HostBytes("c", "a", 300_000)]
    size, seen = sum(flow.bytes for flow in flows), {}
    for encrypt in (False, True):
        with capture(cloud, tmp_path, HOSTS) as captured:
            done = shuffle(flows, read_inventory(cloud.hosts_file), truth(), mode=mode, encrypt=encrypt)
        assert (done.bytes, done.encrypted) == (size, encrypt)
        assert len(captured.content) > 2 * size
        seen[encrypt] = captured.zeros
    # Agents send zeros. Those of greetings, which fill one segment each, are not encrypted.
    assert seen[False] > 1.8 * size
    assert seen[True] < 0.1 * size


def test_far_hosts_encrypt_each_of_their_connections(far: lab.Session, file: Path, tmp_path: Path) -> None:
    network = truth("ab", latency_s=[[0.0, 0.03], [0.03, 0.0]])
    with capture(far, tmp_path, "ab") as captured:
        done = send(question(far, file, "auto", network, encrypt=True))
        moved = shuffle([HostBytes("a", "b", 2_000_000)], read_inventory(far.hosts_file), network, encrypt=True)
    assert (done.lost, moved.bytes) == ({}, 2_000_000)
    assert (tmp_path / "copy-b").read_bytes() == CONTENT
    assert PATTERN not in captured.content
    # Both ends see up to 64 greetings of each, with a segment of zeros in either direction.
    assert captured.zeros < 2 * 2_000_000 * 0.3


@pytest.mark.skipif(bool(firewalls.lacking()), reason=firewalls.lacking())
def test_hosts_that_accept_no_connections_encrypt(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    flows = [HostBytes("b", "c", 300_000), HostBytes("c", "b", 300_000)]
    with walled(cloud, "c", firewalls.NO_TCP_IN), capture(cloud, tmp_path, HOSTS) as captured:
        done = send(question(cloud, file, "chain", truth(), encrypt=True))
        moved = shuffle(flows, read_inventory(cloud.hosts_file), truth(), encrypt=True)
    assert (done.lost, moved.bytes) == ({}, 600_000)
    assert (tmp_path / "copy-c").read_bytes() == CONTENT
    assert PATTERN not in captured.content
    assert captured.zeros < 0.2 * moved.bytes


def test_a_pull_encrypts(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    cache = HostCache(str(tmp_path / "cache-{host}"), 1 << 30)
    hosts, output = read_inventory(cloud.hosts_file), str(tmp_path / "copy-{host}")
    with capture(cloud, tmp_path, HOSTS) as captured:
        first = pull(PullQuestion(str(file), hosts, "a", "b", output, cache, encrypt=True))
        second = pull(PullQuestion(str(file), hosts, "a", "c", output, cache, encrypt=True))
    assert first.encrypted
    # It comes from the cache of the first, and not from the source.
    assert second.sent_bytes.get("b")
    assert (tmp_path / "copy-c").read_bytes() == CONTENT
    assert len(captured.content) > len(CONTENT)
    assert PATTERN not in captured.content


def test_the_queue_encrypts_what_asks_for_it(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), truth(), MemoryQueue(), "fair")
    copies, size = Copies(str(file), "a", str(tmp_path / "copy-{host}")), 900_000
    socket = tmp_path / "t.sock"
    with running(controller), serving(controller, socket), Client(socket) as client:
        with capture(cloud, tmp_path, HOSTS) as captured:
            asked = [
                client.submit([HostBytes("b", "d", size)], encrypt=True),
                client.submit_broadcast(copies, ["b", "c"], encrypt=True),
            ]
            done = [client.wait(each["id"], 60.0) for each in asked]
        plain = client.submit([HostBytes("b", "d", 1)])
    assert [(each["state"], each["encrypted"]) for each in done] == [("done", True)] * 2
    assert not plain["encrypted"]
    assert (tmp_path / "copy-c").read_bytes() == CONTENT
    assert PATTERN not in captured.content
    assert captured.zeros < 0.2 * size


@pytest.mark.parametrize("mechanism", ["chain", "cornet", "mesh", "packing"])
@pytest.mark.parametrize("sealed", ["all others", "one host"])
def test_a_parent_refuses_a_child_that_encrypts_differently(
    cloud: lab.Session, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: str, mechanism: Mechanism
) -> None:
    others = sealed == "all others"
    ask = Run._request

    def differing(self: Run, name: str) -> pb.BroadcastRequest:
        request = ask(self, name)
        request.encrypt = others != (name == "b")
        return request

    monkeypatch.setattr(Run, "_request", differing)
    with capture(cloud, tmp_path, HOSTS) as captured:
        done = send(question(cloud, file, mechanism, truth(), encrypt=others))
    reason = (
        "the broadcast is encrypted, but the subscription is not"
        if others
        else "the subscription is encrypted, but the broadcast is not"
    )
    assert list(done.lost) == ["b"]
    assert done.lost["b"].startswith("it could get no blocks from")
    assert done.lost["b"].count(reason) == 1
    assert "\n" not in done.lost["b"]
    assert all((tmp_path / f"copy-{host}").read_bytes() == CONTENT for host in "cd")
    assert not (tmp_path / "copy-b").exists()
    # The host that differs has sent and got nothing in the clear.
    assert (PATTERN in captured.content) != others


def test_an_older_controller_does_not_send_in_the_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service._Service, "SubmitEncrypted", TransfersServicer.SubmitEncrypted)
    controller = Controller(builders.inventory(HOSTS), truth(), MemoryQueue())
    socket = tmp_path / "t.sock"
    older = pytest.raises(GavotteError, match="is older than this command")
    with serving(controller, socket), Client(socket) as client, older:
        client.submit([HostBytes("a", "b", 1)], encrypt=True)
    assert controller.list() == []


def test_options_of_a_controller_are_kept() -> None:
    controller = Controller(builders.inventory(HOSTS), truth(), MemoryQueue())
    queued = controller.submit([HostBytes("a", "b", 1)], options=TransferOptions("ada", encrypt=True))
    assert (queued.user, queued.encrypt, queued.as_dict()["encrypted"]) == ("ada", True, True)


def test_programs_that_send_again_encrypt(cloud: lab.Session, tmp_path: Path) -> None:
    inventory = read_inventory(cloud.hosts_file)
    broadcasts = Broadcast(inventory, "a", targets=["b"], network=truth(), folder=str(tmp_path))
    with capture(cloud, tmp_path, HOSTS) as captured:
        copied = broadcasts.send(CONTENT, encrypt=True)
        moved = Shuffle(inventory, truth(), encrypt=True).send({("a", "b"): 500_000})
    assert (copied.lost, copied.encrypted, moved.encrypted) == ({}, True, True)
    assert Path(copied.receivers[0].path).read_bytes() == CONTENT
    assert PATTERN not in captured.content
    assert captured.zeros < 0.2 * moved.bytes


def test_the_commands_say_that_they_encrypted(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    hosts = ("--hosts", cloud.hosts_file, "--encrypt")
    copy = ("--from", "a", "-o", tmp_path / "copy-{host}")
    brought = gavotte("broadcast", file, *copy, "--to", "b", *hosts)
    assert brought.returncode == 0, brought.stderr
    assert "1 copy, encrypted, in " in brought.stderr
    done = gavotte("broadcast", file, *copy, "--to", "c", *hosts, "--json")
    assert json.loads(done.stdout)["encrypted"] is True
    matrix = tmp_path / "bytes.csv"
    matrix.write_text("source,target,bytes\na,b,100000\n")
    moved = gavotte("shuffle", matrix, *hosts)
    assert "moved, encrypted, in " in moved.stderr, moved.stderr
    assert json.loads(gavotte("shuffle", matrix, *hosts, "--json").stdout)["encrypted"] is True
    pulled = gavotte("pull", file, "--on", "d", "--cache", tmp_path / "cache-{host}", *copy, *hosts)
    assert ", encrypted, in " in pulled.stderr, pulled.stderr
