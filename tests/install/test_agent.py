"""The command finds the agent that its wheel brought, wherever pip has put it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gavotte.agents.binary import AGENT, AGENT_VARIABLE, agent_binary
from gavotte.errors import UnsupportedError


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, and a Python without an agent next to it or on the PATH."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "usr" / "bin" / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv(AGENT_VARIABLE, raising=False)
    return tmp_path


def test_an_agent_of_the_wheel_is_found_away_from_python(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pip install --user` leaves it: the package in one folder, its scripts in another."""
    packages = bare / "home" / "lib" / "python3" / "site-packages"
    (packages / "gavotte-9.dist-info").mkdir(parents=True)
    (packages / "gavotte-9.dist-info" / "METADATA").write_text("Name: gavotte\nVersion: 9\n")
    (packages / "gavotte-9.dist-info" / "RECORD").write_text(f"../../../bin/{AGENT},,\ngavotte/__init__.py,,\n")
    monkeypatch.syspath_prepend(packages)
    with pytest.raises(UnsupportedError, match=f"`{AGENT}` is not installed"):
        agent_binary()
    installed = program(bare / "home" / "bin" / AGENT)
    assert Path(agent_binary()).resolve() == Path(installed)
    sibling = program(bare / "usr" / "bin" / AGENT)
    assert agent_binary() == sibling
    named = program(bare / "own" / "agent")
    monkeypatch.setenv(AGENT_VARIABLE, named)
    assert agent_binary() == named


def test_a_wheel_without_an_agent_leaves_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = program(bare / "somewhere" / AGENT)
    monkeypatch.setenv("PATH", str(Path(elsewhere).parent))
    assert agent_binary() == elsewhere
