"""The lab's files: its owner, whether it is alive, which files are removed."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gavotte import lab
from gavotte.agents.binary import agent_binary
from gavotte.agents.runtime import lab_hosts_file, runtime_dir
from gavotte.errors import AgentError, GavotteError, UnsupportedError
from gavotte.lab import netlink, state
from gavotte.lab.state import LabState, Process


@pytest.fixture
def sleeper() -> Iterator[Process]:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process.of(child.pid)
    assert process is not None
    yield process
    child.communicate()


def record(keeper: Process | None = None, **changes: object) -> LabState:
    made = state.new_record("id", topology="t", session=False, agents=False, created_unix_s=1.0)
    return dataclasses.replace(made, keeper=keeper, hosts=(("a", "10.1.0.2"),), **changes)  # type: ignore[arg-type]


def put(folder: Path, what: LabState) -> Path:
    folder.mkdir()
    state.write_state(folder, what)
    return folder


def test_a_record_survives_its_file(runtime_folder: Path, sleeper: Process) -> None:
    written = record(sleeper, switches=(("s", ("10.1.0.1",)),))
    assert state.read_state(put(runtime_folder / "lab", written)) == written


def test_a_record_of_a_newer_version_is_read(runtime_folder: Path) -> None:
    folder = put(runtime_folder / "lab", record())
    data = json.loads((folder / "lab.json").read_text())
    (folder / "lab.json").write_text(json.dumps({**data, "later": 1}))
    assert state.read_state(folder) == record()


@pytest.mark.parametrize("name", ["a\0b", "../a", ""])
def test_a_record_whose_hosts_cannot_be_hosts_is_none(runtime_folder: Path, name: str) -> None:
    made = dataclasses.replace(record(), hosts=((name, "10.1.0.2"),))
    assert state.read_state(put(runtime_folder / "lab", made)) is None


def test_a_reused_process_number_is_not_the_keeper(sleeper: Process) -> None:
    assert record(sleeper).alive
    assert not record(Process(sleeper.pid, sleeper.started + 1)).alive


def test_an_age_does_not_depend_on_the_clock(sleeper: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    younger = Process(sleeper.pid, sleeper.started + 100 * os.sysconf("SC_CLK_TCK"))
    assert 0 <= sleeper.age_s < 60
    assert younger.age_s == 0


def test_a_lab_of_before_the_reboot_is_dead(sleeper: Process) -> None:
    assert not record(sleeper, boot="another").alive


def test_a_lab_that_starts_lives_as_long_as_its_owner(sleeper: Process) -> None:
    assert record(None, owner=sleeper).alive
    assert not record(None, owner=Process(sleeper.pid, 1)).alive


def test_a_process_that_has_ended_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    process = Process.of(child.pid)
    child.wait()
    assert process is None or not process.alive
    assert Process.of(child.pid) is None


def test_sweeping_removes_the_dead_and_only_them(runtime_folder: Path, sleeper: Process) -> None:
    dead = Process(sleeper.pid, 1)
    gone = [put(runtime_folder / "lab", record(dead)), put(runtime_folder / "s-000001", record(dead))]
    (runtime_folder / "s-000002").mkdir()
    kept = [put(runtime_folder / "s-000003", record(sleeper)), runtime_folder / "other"]
    (runtime_folder / "other").mkdir()
    assert lab.sweep() == 3
    assert all(folder.exists() for folder in kept)
    assert not any(folder.exists() for folder in gone)
    assert lab.sweep() == 0


def test_claiming_refuses_a_standing_lab(runtime_folder: Path, sleeper: Process) -> None:
    put(runtime_folder / "lab", record(sleeper))
    with pytest.raises(GavotteError, match="already up; remove it with `gavotte lab down`"):
        state.claim(runtime_folder, "lab", record())


def test_claiming_refuses_a_lab_that_starts(runtime_folder: Path) -> None:
    state.claim(runtime_folder, "lab", record())
    with pytest.raises(GavotteError, match="being started"):
        state.claim(runtime_folder, "lab", record())


def test_a_later_lab_in_the_same_folder_is_not_discarded(runtime_folder: Path) -> None:
    folder = put(runtime_folder / "lab", record())
    state.discard(folder, "another")
    assert folder.exists()
    state.discard(folder, "id")
    assert not folder.exists()


def test_the_runtime_folder_is_private(runtime_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAVOTTE_RUNTIME_DIR", str(runtime_folder / "deep" / "er"))
    assert runtime_dir().stat().st_mode & 0o777 == 0o700
    runtime_dir().chmod(0o777)
    with pytest.raises(GavotteError, match="other users can write"):
        runtime_dir()
    (runtime_folder / "file").touch()
    monkeypatch.setenv("GAVOTTE_RUNTIME_DIR", str(runtime_folder / "file"))
    with pytest.raises(GavotteError, match="cannot use the runtime directory"):
        runtime_dir()


def test_the_lab_meant_is_the_one_one_is_in(runtime_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab_hosts_file() == runtime_folder / "lab" / "lab.hosts.toml"
    monkeypatch.setenv("GAVOTTE_LAB", "/somewhere/s-1")
    assert lab_hosts_file() == Path("/somewhere/s-1/lab.hosts.toml")


def test_without_a_lab(runtime_folder: Path) -> None:
    assert lab.status() == lab.LabStatus(up=False)
    assert not lab.down()
    with pytest.raises(GavotteError, match="no lab is up; start one"):
        lab.execute("vm0", ["true"])


def test_a_missing_agent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAVOTTE_AGENT", "/nowhere/agent")
    with pytest.raises(UnsupportedError, match="/nowhere/agent is not a program"):
        agent_binary()
    monkeypatch.setenv("GAVOTTE_AGENT", sys.executable)
    assert agent_binary() == sys.executable
    monkeypatch.delenv("GAVOTTE_AGENT")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UnsupportedError, match="not installed"):
        agent_binary()


def test_a_missing_piece_of_the_kernel_is_named() -> None:
    message = netlink.Message(bytearray(), "htb on up", "htb")
    absent = netlink.refusal(message, errno.ENOENT)
    assert isinstance(absent, UnsupportedError)
    assert str(absent) == "this kernel has no `htb`; load it as root with `modprobe sch_htb`"
    refused = netlink.refusal(message, errno.EPERM)
    assert not isinstance(refused, UnsupportedError | AgentError)
    assert str(refused) == f"the kernel refused htb on up: {os.strerror(errno.EPERM)}"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": 1}', "[]", "7", '{"format": "\\u0000"}', '"\x00"'])
def test_a_record_that_makes_no_sense_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / state.RECORD).write_text(text)
    assert state.read_state(tmp_path) is None
