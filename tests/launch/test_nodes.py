"""Commands on several hosts as one job, with real processes: their streams, signals, statuses and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.shell import processes_of, until

from gavotte.errors import GavotteError
from gavotte.launch.nodes import Node, over_ssh, run_nodes
from gavotte.processes import guardian
from gavotte.processes.guardian import HEADER, frames_of, interface_of

SCRIPT = """
import json, os, sys
from gavotte.launch.nodes import Node, run_nodes
commands = json.loads(sys.argv[1])
nodes = [Node(f"h{i}", words, list, "127.0.0.1") for i, words in enumerate(commands)]
ended = run_nodes(nodes, dict(os.environ), python=sys.executable)
print(json.dumps([ended.failed, ended.status]), file=sys.stderr)
"""
SLEEP = ["sh", "-c", "echo up; sleep 600"]


def job(tmp_path: Path, *commands: Sequence[str]) -> subprocess.Popen[str]:
    """Run commands as one job, in a process of its own, with a mark in their environment."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(commands)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GAVOTTE_MARK": str(tmp_path)},
        start_new_session=True,
    )


def up(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for _ in range(count):
        assert process.stdout.readline() == "up\n"


def left(tmp_path: Path) -> dict[int, str]:
    return processes_of(f"GAVOTTE_MARK={tmp_path}")


def test_output_status_and_environment_pass(tmp_path: Path) -> None:
    with job(
        tmp_path, ["sh", "-c", "echo a $GAVOTTE_MARK $GLOO_SOCKET_IFNAME; pwd"], ["sh", "-c", "echo b"]
    ) as process:
        out, err = process.communicate(timeout=60)
    assert sorted(out.splitlines()) == sorted([f"a {tmp_path} lo", str(Path.cwd()), "b"])
    assert json.loads(err) == ["", 0]


def test_only_the_first_command_gets_the_input(tmp_path: Path) -> None:
    size = 3_000_000
    with job(tmp_path, ["wc", "-c"], ["sh", "-c", "cat; echo end"]) as process:
        out, err = process.communicate("x" * size, timeout=60)
    assert (sorted(out.split()), json.loads(err)) == ([str(size), "end"], ["", 0])


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -KILL $$", 137)])
def test_the_first_failure_ends_the_others(tmp_path: Path, script: str, status: int) -> None:
    with job(tmp_path, SLEEP, ["sh", "-c", script], SLEEP) as process:
        _, err = process.communicate(timeout=60)
    assert json.loads(err) == ["h1", status]
    until(lambda: not left(tmp_path))


def test_what_is_not_there_is_127(tmp_path: Path) -> None:
    with job(tmp_path, ["/nowhere/torchrun"]) as process:
        _, err = process.communicate(timeout=60)
    assert "cannot start `/nowhere/torchrun`: " in err
    assert json.loads(err.splitlines()[-1]) == ["h0", 127]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_all_commands(tmp_path: Path, number: signal.Signals) -> None:
    with job(tmp_path, SLEEP, SLEEP) as process:
        up(process, 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert json.loads(err)[1] == 128 + number
    until(lambda: not left(tmp_path))


def test_a_signal_passes_input_that_nobody_reads(tmp_path: Path) -> None:
    with job(tmp_path, SLEEP) as process:
        up(process, 1)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        written = 0

        def full() -> bool:
            nonlocal written
            try:
                written += os.write(process.stdin.fileno(), bytes(1 << 16))  # type: ignore[union-attr]
            except BlockingIOError:
                return True
            return False

        until(full)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdin.close()
    until(lambda: not left(tmp_path))


@pytest.mark.slow
def test_a_job_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    apart = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); print('up', flush=True)"
    stubborn = f"import signal, time; signal.signal(15, signal.SIG_IGN); {apart}; time.sleep(600)"
    with job(tmp_path, [sys.executable, "-c", stubborn], SLEEP) as process:
        up(process, 2)
        process.kill()
    until(lambda: not left(tmp_path))


def test_what_a_command_leaves_is_killed(tmp_path: Path) -> None:
    with job(tmp_path, ["sh", "-c", "setsid sleep 600 & echo up"]) as process:
        _, err = process.communicate(timeout=60)
    assert json.loads(err) == ["", 0]
    until(lambda: not left(tmp_path))


def test_a_connection_that_cannot_be_started_is_one_line() -> None:
    node = Node("h", ["true"], lambda words: ["/nowhere/ssh", *words], "127.0.0.1")
    with pytest.raises(GavotteError, match="cannot start `/nowhere/ssh`"):
        run_nodes([node], dict(os.environ))


def test_the_line_for_ssh_is_one_word_for_a_shell() -> None:
    assert over_ssh(["ssh", "h"])(["python3", "-c", "a b"]) == ["ssh", "h", "exec python3 -c 'a b'"]


@examples(200)
@given(st.lists(st.tuples(st.sampled_from([b"j", b"d", b"e", b"s"]), st.binary(max_size=20))), st.integers(0, 200))
def test_frames_are_read_in_pieces(frames: list[tuple[bytes, bytes]], cut: int) -> None:
    data = b"".join(HEADER.pack(kind, len(content)) + content for kind, content in frames)
    first, rest = frames_of(data[:cut])
    second, nothing = frames_of(rest + data[cut:])
    assert (first + second, nothing) == (frames, b"")


@examples(200)
@given(st.binary(max_size=40))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    try:
        frames, rest = frames_of(data)
    except ValueError:
        return
    assert sum(HEADER.size + len(content) for _, content in frames) + len(rest) == len(data)


@pytest.mark.parametrize("sent", [b"", b"x" * 100, b"j\0\0\0\2{}", b"j\0\0\0\1{", b"s\0\0\0\0"])
def test_a_strange_controller_starts_nothing(sent: bytes) -> None:
    ran = subprocess.run([sys.executable, guardian.__file__], input=sent, capture_output=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (143, b"", b"")


@pytest.mark.parametrize(
    ("address", "name"), [("127.0.0.1", "lo"), ("localhost", "lo"), ("203.0.113.1", ""), ("2001:db8::1", "")]
)
def test_the_interface_of_an_address(address: str, name: str) -> None:
    assert interface_of(address) == name
