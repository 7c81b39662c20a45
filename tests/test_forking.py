"""A forked command is a process like a fresh one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.shell import forks, gavotte


def test_a_fork_prints_and_ends_as_a_fresh_process_does(tmp_path: Path) -> None:
    (tmp_path / "a.app.toml").write_text('format = "gavotte/app/1"\nname = "a"\ntask = [{ name = "t", cpu = 1 }]\n')
    lines: list[tuple[str, ...]] = [
        ("--version",),
        ("place", "n.json", "a.app.toml"),
        ("schema", "app"),
        ("measure",),
        ("place", "--\udce9"),
        ("simulate", "--help"),
    ]
    for words in lines:
        results = [gavotte(*words, cwd=tmp_path, fresh=fresh) for fresh in (True, False)]
        first, second = ((each.returncode, each.stdout, each.stderr) for each in results)
        assert first == second, words


def test_a_fork_has_its_own_folder_environment_and_files(tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text("{}")
    assert "n.json: no such file" not in gavotte("place", "n.json", "a.app.toml", cwd=tmp_path).stderr
    assert "n.json: no such file" in gavotte("place", "n.json", "a.app.toml").stderr
    shown = gavotte("history", "list", env=os.environ | {"GAVOTTE_STORE": f"{tmp_path}/none/s.sqlite3"})
    assert str(tmp_path) in shown.stdout + shown.stderr
    assert not forks().fits(os.environ | {"LC_ALL": "nowhere"})


def test_a_fork_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(subprocess.TimeoutExpired):
        gavotte("profile", "pcap", tmp_path / "fifo", timeout=1)
    assert gavotte("--version").returncode == 0
