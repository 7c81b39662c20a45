"""The line that ssh runs on a host, under every login shell of this machine."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gavotte.agents.binary import Binary
from gavotte.agents.reach.script import remote_line

SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "csh", "tcsh", "fish", "ksh") if shutil.which(shell)]
CONTENT = b'#!/bin/sh\necho "gavotte-agent: ready $*"\ncat\nexit 7\n'
STARTS = "gavotte-agent: starts 10.0.0.9 5 10.0.0.1 22"


def binary(content: bytes = CONTENT, machine: str = platform.machine()) -> Binary:
    return Binary("agent", machine, hashlib.sha256(content).hexdigest(), content)


def run(
    shell: str,
    cache: Path,
    *,
    agent: Binary | None = None,
    stdin: bytes = b"",
    start: bool = True,
    sockets: str = "",
    path: str = "/usr/bin:/bin",
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    agent = agent or binary()
    line = remote_line({agent.machine: agent}, socket=f"{sockets or cache.parent}/x.sock", data_port=7411, start=start)
    env = {"PATH": path, "XDG_CACHE_HOME": str(cache), "SSH_CONNECTION": "10.0.0.9 5 10.0.0.1 22"} | (env or {})
    return subprocess.run([shell, "-c", line], input=stdin, capture_output=True, env=env, timeout=30, check=False)


@pytest.mark.parametrize("shell", SHELLS)
def test_it_installs_once_and_starts(shell: str, tmp_path: Path) -> None:
    machine = platform.machine()
    cache = tmp_path / "a cache"
    first = run(shell, cache, stdin=CONTENT + b"more")
    starts = f"{STARTS}\ngavotte-agent: ready serve --socket {tmp_path}/x.sock".encode()
    kept = f"{machine} {cache}/gavotte\n".encode()
    assert first.stdout.startswith(b"gavotte-agent: wants " + kept + starts), first
    assert first.stdout.endswith(b"more")
    assert first.returncode == 7
    second = run(shell, cache, stdin=b"more")
    assert second.stdout.startswith(b"gavotte-agent: has " + kept + starts), second
    assert run(shell, cache, start=False).stdout == b"gavotte-agent: has " + kept
    assert [path.name for path in (cache / "gavotte").iterdir()] == [binary().file_name]


@pytest.mark.parametrize("sent", [b"", CONTENT[:-1], CONTENT[:-1] + b"x"])
def test_damaged_bytes_are_not_kept(sent: bytes, tmp_path: Path) -> None:
    done = run("sh", tmp_path, stdin=sent)
    assert done.stdout.splitlines()[1].startswith(b"gavotte-agent: mismatch ")
    assert done.returncode == 1
    assert not list((tmp_path / "gavotte").iterdir())


def test_another_architecture(tmp_path: Path) -> None:
    agent = dataclasses.replace(binary(), machine="pdp11")
    done = run("sh", tmp_path, agent=agent)
    assert done.stdout == f"gavotte-agent: machine {platform.machine()}\n".encode()
    assert done.returncode == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_another_folder_where_the_usual_one_cannot_be_used(shell: str, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "file").touch()
    env = {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    for word in ("wants", "has"):
        done = run(shell, tmp_path / "file", stdin=CONTENT, start=False, env=env)
        assert done.stdout.decode().splitlines() == [
            f"gavotte-agent: skips {tmp_path}/file/gavotte: cannot be created",
            f"gavotte-agent: {word} {platform.machine()} {tmp_path}/runtime/gavotte",
        ]
    assert (tmp_path / "runtime" / "gavotte" / binary().file_name).read_bytes() == CONTENT


def test_a_socket_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("sh", tmp_path / "cache", sockets=f"{tmp_path}/file")
    assert (done.stdout, done.returncode) == (b"gavotte-agent: socket /tmp\n", 1)


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A folder with the programs that the line calls; its `mkdir` fails, so that no folder can be used."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "sha256sum", "cut", "uname", "id", "rmdir", "rm", "head", "wc", "chmod", "cat"):
        (programs / name).symlink_to(shutil.which(name) or name)
    for name, text in (("mkdir", 'case "$1" in *.try) exit 0; esac; exit 1'), ("rmdir", "exit 0")):
        (programs / name).unlink(missing_ok=True)
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return programs


def test_memory_where_no_folder_will_do(nowhere: Path, tmp_path: Path) -> None:
    kept = run("sh", tmp_path / "cache", path=str(nowhere), start=False)
    assert kept.stdout.decode().splitlines()[-1] == "gavotte-agent: nowhere"
    assert kept.returncode == 1
    (nowhere / "python3").symlink_to(sys.executable)
    kept = run("sh", tmp_path / "cache", path=str(nowhere), start=False)
    assert kept.stdout.decode().splitlines()[-1] == f"gavotte-agent: has {platform.machine()} memory"
    # A script has no place of its own in memory, so the agent must be a program; it prints its arguments.
    content = Path("/bin/echo").read_bytes()
    done = run("sh", tmp_path / "cache", path=str(nowhere), agent=binary(content), stdin=content)
    *skips, wants, starts, message = done.stdout.decode().splitlines()
    assert len(skips) == 5
    assert all(": cannot be created" in line for line in skips)
    assert wants == f"gavotte-agent: wants {platform.machine()} memory"
    assert (starts, message.split()[:3]) == (STARTS, ["serve", "--socket", f"{tmp_path}/x.sock"])
    damaged = run("sh", tmp_path / "cache", path=str(nowhere), agent=binary(content), stdin=content[:-1] + b"x")
    assert damaged.stdout.decode().splitlines()[-1].startswith("gavotte-agent: mismatch ")
    assert damaged.returncode == 1
