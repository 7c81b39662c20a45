"""Packets captured as they come."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.shell import GAVOTTE, gavotte

from gavotte.errors import GavotteError
from gavotte.profile import Request, read_traffic

capturing = pytest.mark.skipif(
    shutil.which("tcpdump") is None or os.geteuid() != 0, reason="wants tcpdump and the right to capture"
)


@pytest.mark.lab
@capturing
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, None])
def test_each_byte_counts_once_as_it_comes(stop: signal.Signals | None) -> None:
    """On loopback, where each packet is seen twice, as super-packets of up to 64 kB."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        ends = [f"{name}=127.0.0.1:{each.getsockname()[1]}" for name, each in (("to", server), ("from", client))]
        words = ["profile", "pcap", "--interface", "lo", "--json", *(word for end in ends for word in ("--task", end))]
        words += ["--for", "3" if stop is None else "60"]
        with subprocess.Popen([GAVOTTE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            assert watching.stderr is not None
            assert "waiting at lo" in watching.stderr.readline()
            client.connect(server.getsockname())
            taken, _ = server.accept()
            with taken:
                for _ in range(30):
                    client.sendall(bytes(100_000))
                    assert len(taken.recv(100_000, socket.MSG_WAITALL)) == 100_000
                taken.sendall(bytes(1000))
                assert client.recv(1000, socket.MSG_WAITALL)
            if stop is not None:
                watching.send_signal(stop)
            printed, message = watching.communicate(timeout=60)
    assert watching.returncode == 0, message
    document = json.loads(printed)
    assert {(pair["source"], pair["target"]): pair["bytes"] for pair in document["pairs"]} == {
        ("from", "to"): 3_000_000,
        ("to", "from"): 1000,
    }
    assert document["report"]["dropped_packets"] >= 0


@capturing
def test_what_cannot_be_captured_is_one_line() -> None:
    result = gavotte("profile", "pcap", "--interface", "nowhere0", "--for", "1")
    assert result.returncode == 1
    assert result.stderr.startswith("error: tcpdump cannot capture on nowhere0: ")
    assert len(result.stderr.splitlines()) <= 2


def test_requests_that_make_no_sense(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(GavotteError, match="files and an interface"):
        read_traffic("pcap", Request([tmp_path / "a.pcap"], interface="lo"))
    with pytest.raises(GavotteError, match="has no packets to capture"):
        read_traffic("spark", Request([tmp_path / "a"], interface="lo"))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(GavotteError, match="tcpdump is not installed"):
        read_traffic("pcap", Request([], interface="lo"))
