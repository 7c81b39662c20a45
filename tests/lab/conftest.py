"""A runtime folder for each test, and an agent that only greets."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

LISTENER = f"""#!{sys.executable} -SE
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[sys.argv.index("--socket") + 1])
listener.listen()
while True:
    peer = listener.accept()[0]
    if peer.recv(100):
        peer.send(b"h")
    peer.close()
"""


@pytest.fixture
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder of one test, its path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="gvt-", dir="/tmp"))
    monkeypatch.setenv("GAVOTTE_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("GAVOTTE_LAB", raising=False)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def listener(runtime_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a program that listens as an agent does, and have the lab use it as its agent."""
    path = runtime_folder / "agent"
    path.write_text(LISTENER)
    path.chmod(0o755)
    monkeypatch.setenv("GAVOTTE_AGENT", str(path))
    return path
