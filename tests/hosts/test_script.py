"""The line that ssh runs on a host, under every login shell that is here."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from gavotte.agents.binary import Binary
from gavotte.agents.reach.script import remote_line

SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "csh", "tcsh", "fish", "ksh") if shutil.which(shell)]
CONTENT = b'#!/bin/sh\necho "gavotte-agent: ready $*"\ncat\nexit 7\n'


def binary(content: bytes = CONTENT, machine: str = platform.machine()) -> Binary:
    return Binary("agent", machine, hashlib.sha256(content).hexdigest(), content)


def run(
    shell: str, cache: Path, *, agent: Binary | None = None, stdin: bytes = b"", start: bool = True
) -> subprocess.CompletedProcess[bytes]:
    agent = agent or binary()
    line = remote_line({agent.machine: agent}, socket=str(cache / "x.sock"), data_port=7411, start=start)
    env = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(cache), "SSH_CONNECTION": "10.0.0.9 5 10.0.0.1 22"}
    return subprocess.run([shell, "-c", line], input=stdin, capture_output=True, env=env, timeout=30, check=False)


@pytest.mark.parametrize("shell", SHELLS)
def test_it_installs_once_and_starts(shell: str, tmp_path: Path) -> None:
    machine = platform.machine()
    cache = tmp_path / "a cache"
    first = run(shell, cache, stdin=CONTENT + b"more")
    starts = (
        f"gavotte-agent: starts 10.0.0.9 5 10.0.0.1 22\ngavotte-agent: ready serve --socket {tmp_path / 'a'}".encode()
    )
    assert first.stdout.startswith(f"gavotte-agent: wants {machine}\n".encode() + starts), first
    assert first.stdout.endswith(b"more")
    assert first.returncode == 7
    second = run(shell, cache, stdin=b"more")
    assert second.stdout.startswith(f"gavotte-agent: has {machine}\n".encode() + starts), second
    assert run(shell, cache, start=False).stdout == f"gavotte-agent: has {machine}\n".encode()
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
