"""Real agents behind mutual TLS on loopback: accepted controllers, and one line for refused ones."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from tests.shell import until

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.agent_pb2_grpc import AgentStub
from gavotte.agents.binary import agent_binary
from gavotte.agents.reach.keys import KEYS_VARIABLE
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.hosts import Bearer, HostState, check, keys


@contextmanager
def served(folder: Path, host: str = "a", *, address: str = "127.0.0.1") -> Iterator[int]:
    """Run an agent with a host's keys; yield its control port."""
    with socket.create_server((address, 0)) as holder:
        port = holder.getsockname()[1]
    place = folder / "hosts" / host
    line = [
        agent_binary(),
        "serve",
        "--die-with-parent",
        "--bind",
        address,
        "--data-port",
        "0",
        "--tls",
        f"{address}:{port}",
    ]
    line += ["--ca", str(place / "ca.pem"), "--cert", str(place / "host.pem"), "--key", str(place / "host.key")]
    agent = subprocess.Popen(line, stderr=subprocess.PIPE)
    try:

        def listens() -> bool:
            assert agent.poll() is None, agent.stderr and agent.stderr.read()
            with suppress(OSError):
                socket.create_connection((address, port), 1).close()
                return True
            return False

        until(listens)
        yield port
    finally:
        agent.terminate()
        agent.communicate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    bearers = {"a": "127.0.0.1", "named": "localhost", "elsewhere": "10.9.9.9"}
    keys(folder / "keys", [Bearer(name, (place,)) for name, place in bearers.items()])
    keys(folder / "others", [Bearer("a", ("127.0.0.1",))])
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with served(folder / "keys") as port:
        yield port


def asked(route: str, folder: Path | None) -> HostState:
    inventory = {
        "format": "gavotte/hosts/1",
        "host": [{"name": "a", "address": "127.0.0.1", "agent": route}],
        **({} if folder is None else {"keys": str(folder)}),
    }
    return check(Inventory.model_validate(inventory)).hosts[0]


@pytest.mark.parametrize(("host", "place"), [("a", "127.0.0.1"), ("named", "localhost")])
def test_the_controller_gets_in(folder: Path, host: str, place: str) -> None:
    with served(folder / "keys", host) as port:
        state = asked(f"tls://{place}:{port}", folder / "keys")
    assert state.usable
    assert state.verdict == "ready"
    assert state.cpus is not None
    assert state.memory_bytes > 0


def test_a_certificate_of_a_name_that_the_route_gives(folder: Path) -> None:
    with served(folder / "keys", "elsewhere") as port:
        assert asked(f"tls://127.0.0.1:{port}?name=10.9.9.9", folder / "keys").usable
        assert not asked(f"tls://127.0.0.1:{port}?name=other", folder / "keys").usable


def test_keys_may_come_from_the_environment(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GavotteError, match="tls:// agents need keys"):
        asked(f"tls://127.0.0.1:{port}", None)
    monkeypatch.setenv(KEYS_VARIABLE, str(folder / "keys"))
    assert asked(f"tls://127.0.0.1:{port}", None).usable


def test_an_agent_of_another_authority(folder: Path, port: int) -> None:
    state = asked(f"tls://127.0.0.1:{port}", folder / "others")
    assert not state.reachable
    assert "its certificate is from another authority than" in state.verdict


@pytest.mark.parametrize("host", ["elsewhere", "named"])
def test_a_certificate_for_another_place(folder: Path, host: str) -> None:
    with served(folder / "keys", host) as port:
        state = asked(f"tls://127.0.0.1:{port}", folder / "keys")
    assert "its certificate is not for 127.0.0.1" in state.verdict


@pytest.mark.parametrize("kind", ["none", "of another authority", "of a host"])
def test_who_shows_no_controller_certificate_is_refused(folder: Path, port: int, kind: str) -> None:
    root = (folder / "keys" / "ca.pem").read_bytes()
    pair: tuple[bytes | None, bytes | None] = (None, None)
    if kind == "of another authority":
        pair = ((folder / "others/controller.key").read_bytes(), (folder / "others/controller.pem").read_bytes())
    elif kind == "of a host":
        pair = ((folder / "keys/hosts/a/host.key").read_bytes(), (folder / "keys/hosts/a/host.pem").read_bytes())
    with (
        grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(root, *pair)) as channel,
        pytest.raises(grpc.RpcError) as raised,
    ):
        AgentStub(channel).Health(pb.HealthRequest(), timeout=10)  # type: ignore[no-untyped-call]
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError):
        AgentStub(channel).Health(pb.HealthRequest(), timeout=10)  # type: ignore[no-untyped-call]


def test_a_refused_controller_is_told_so(folder: Path, port: int, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    shutil.copytree(folder / "others", mixed)
    shutil.copy(folder / "keys/ca.pem", mixed / "ca.pem")
    state = asked(f"tls://127.0.0.1:{port}", mixed)
    assert "rejects" in state.verdict, state.verdict
    assert "this controller's certificate" in state.verdict


def test_nothing_there(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
    state = asked(f"tls://127.0.0.1:{port}", folder / "keys")
    assert "connection refused" in state.verdict
    assert "\n" not in state.verdict


def test_what_does_not_speak_tls(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def answer() -> None:
            # Until the listener is shut down, which ends the wait with an error. Callers that hang up do not matter.
            while True:
                try:
                    peer, _ = silent.accept()
                except OSError:
                    return
                with peer, contextlib.suppress(OSError):
                    peer.recv(100)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            state = asked(f"tls://127.0.0.1:{silent.getsockname()[1]}", folder / "keys")
        finally:
            silent.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert not state.reachable
    assert "does not speak TLS" in state.verdict


@pytest.mark.parametrize("name", ["ca.pem", "controller.pem", "controller.key"])
def test_missing_and_open_keys(folder: Path, port: int, tmp_path: Path, name: str) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(folder / "keys", mine)
    if name == "controller.key":
        (mine / name).chmod(0o644)
        with pytest.raises(GavotteError, match=r"other users can read .*controller\.key; run: chmod 600"):
            asked(f"tls://127.0.0.1:{port}", mine)
    (mine / name).unlink()
    with pytest.raises(GavotteError, match=name):
        asked(f"tls://127.0.0.1:{port}", mine)
