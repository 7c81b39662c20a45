"""Inputs that take long: what the reader waits for is printed, and Ctrl-C ends the wait."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from tests.profile.frames import A, B, pcap_bytes, udp, write
from tests.shell import GAVOTTE

from gavotte.errors import FormatError
from gavotte.profile import Request, attending, read_traffic


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(attending, "FIRST_S", 0.05)
    return []


def test_a_pipe_says_what_it_waits_for(tmp_path: Path, lines: list[str]) -> None:
    """First no program has it open, then one that sends nothing, then the whole capture comes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    enough = threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        if "named pipe" not in line:
            enough.set()

    def feed() -> None:
        with fifo.open("wb") as stream:
            enough.wait(30)
            stream.write(pcap_bytes([udp(payload=9)]))

    feeding = threading.Timer(0.3, feed)
    feeding.start()
    traffic = read_traffic("pcap", Request([fifo], waiting=say))
    feeding.join()
    assert traffic.counts[A, B].bytes == 9
    assert lines[0] == f"waiting for a program to write to {fifo}, which is a named pipe; Ctrl-C stops"
    assert lines[-1] == f"reading {fifo}, until the program that writes to it ends; Ctrl-C stops"


def test_a_large_file_says_how_far_it_is(tmp_path: Path, lines: list[str]) -> None:
    path = write(tmp_path, bytes(5000))
    enough = threading.Event()

    def read() -> int:
        with path.open("rb", buffering=0) as stream:
            stream.read(2000)
            enough.wait(30)
        return 7

    def say(line: str) -> None:
        lines.append(line)
        enough.set()

    assert attending.attend(read, [str(path)], say) == 7
    assert lines[0] == f"reading {path}: 2.00 kB of 5.00 kB; Ctrl-C stops"


def test_errors_pass_and_short_reads_say_nothing(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(FormatError, match="is empty"):
        read_traffic("pcap", Request([write(tmp_path, b"")], waiting=lines.append))
    assert lines == []


@pytest.mark.slow
def test_ctrl_c_ends_a_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    words = [str(GAVOTTE), "profile", "pcap", "fifo"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("waiting for a program to write to fifo")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) != 0
        assert "Traceback" not in waiting.stderr.read()
