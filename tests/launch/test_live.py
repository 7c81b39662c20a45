"""`gavotte sequence --live`: real programs start as they arrive, and move when a review says that it pays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MBIT
from tests.shell import GAVOTTE, gavotte, until

from gavotte.errors import GavotteError
from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import read_placement
from gavotte.launch.live import LiveQuestion, LiveResult, LiveSession, live
from gavotte.launch.live.progress import left_of, read_progress

STEPS = Path(__file__).with_name("programs") / "steps.py"
FAST, SLOW = 100 * MBIT, MBIT


def _network(slow: tuple[str, str] | None = None, hosts: int = 3) -> Network:
    """Return hosts with one core each and fast paths, but for one pair."""
    names = [f"vm{i}" for i in range(hosts)]
    rates = [[SLOW if slow in ((m, n), (n, m)) else FAST for n in names] for m in names]
    return builders.network(hosts, rates, cpus=1.0)


def _pair(name: str, seconds: float, arrival_s: float = 0.0) -> App:
    """Return two tasks that talk for some seconds on a fast path."""
    return builders.app(name, ("a", "b", round(seconds * FAST / 8)), arrival_s=arrival_s)


@dataclass
class Live:
    """A sequence that is carried out in a folder.

    Attributes:
        folder: the folder.
        network: the Network of the next decision.
        printed: lines of the session.
    """

    folder: Path
    network: Network = field(default_factory=_network)
    printed: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, *apps: App, steps: int, more: str = "", **asked: object) -> LiveResult:
        words = [sys.executable, str(STEPS), "{app}", "{hosts}", str(steps), str(self.folder), *more.split()]
        question = LiveQuestion(lambda: self.network, apps, words, self.folder / "live")
        return live(replace(question, **asked), LiveSession(self._hear, self._hear, self.stop))  # type: ignore[arg-type]

    def _hear(self, line: str) -> None:
        self.printed.append(line)

    @property
    def starts(self) -> list[list[str]]:
        """Name, hosts, step and number of each start."""
        return [line.split() for line in (self.folder / "starts").read_text().splitlines()]

    def spoil_once_started(self) -> threading.Thread:
        """Make the first application's path slow as soon as it has started."""

        def spoil() -> None:
            until(lambda: (self.folder / "starts").exists() and self.starts)
            first, second = self.starts[0][1].split(",")
            self.network = _network((first, second))

        thread = threading.Thread(target=spoil)
        thread.start()
        return thread


@pytest.fixture
def sequence(tmp_path: Path) -> Live:
    return Live(tmp_path)


def test_applications_start_beside_those_that_run(sequence: Live) -> None:
    sequence.network = _network(hosts=4)
    result = sequence.run(_pair("first", 5.0), _pair("second", 5.0, arrival_s=0.3), steps=20)
    assert [each.status for each in result.ran] == [0, 0]
    assert [start[0] for start in sequence.starts] == ["first", "second"]
    used = [host for start in sequence.starts for host in start[1].split(",")]
    assert sorted(used) == ["vm0", "vm1", "vm2", "vm3"]
    for each, start in zip(result.ran, sequence.starts, strict=True):
        stored = read_placement(sequence.folder / "live" / f"{each.app}.placement.json")
        assert stored.assignment == each.placements[-1]
        assert (sequence.folder / "live" / f"{each.app}.hosts").read_text().split() == start[1].split(",")
        assert f"{each.app} at step 0" in (sequence.folder / "live" / f"{each.app}.log").read_text()
        assert each.predicted_s == pytest.approx(5.0, rel=0.01)
    assert result.ran[1].started_s is not None
    assert result.ran[1].started_s >= 0.3
    assert result.sum_s == pytest.approx(sum(each.ended_s - each.arrived_s for each in result.ran))


def test_an_application_moves_when_its_path_becomes_slow(sequence: Live) -> None:
    spoiler = sequence.spoil_once_started()
    result = sequence.run(_pair("job", 20.0), steps=60, every_s=1.0, migration_s=0.1)
    spoiler.join()
    (ran,) = result.ran
    assert ran.status == 0
    first, second = sequence.starts
    assert first[3] == "1"
    assert second[3] == "2"
    # It continues at its checkpoint, on a pair of hosts whose path is fast.
    assert int(second[2]) > 0
    assert set(first[1].split(",")) != set(second[1].split(","))
    assert {move.task for move in ran.moves} <= {"a", "b"}
    assert len(ran.placements) == 2
    (decided,) = [each for each in result.reviews if each.decision.moves]
    assert decided.decision.saving_s > 0
    assert any("the Network has changed" in line for line in sequence.printed)


def test_nothing_moves_if_migration_costs_more_than_it_saves(sequence: Live) -> None:
    spoiler = sequence.spoil_once_started()
    result = sequence.run(_pair("job", 2.0), steps=30, every_s=0.5, migration_s=1000.0)
    spoiler.join()
    assert len(sequence.starts) == 1
    assert result.reviews
    assert not result.ran[0].moves


def test_a_program_that_does_not_stop_is_killed_and_continues(sequence: Live) -> None:
    spoiler = sequence.spoil_once_started()
    result = sequence.run(_pair("job", 20.0), steps=60, more="deaf", every_s=1.0, migration_s=0.1, end_s=0.2)
    spoiler.join()
    assert len(sequence.starts) == 2
    assert result.ran[0].status == 0


def test_an_application_without_room_waits_for_another_end(sequence: Live) -> None:
    result = sequence.run(_pair("first", 1.0), _pair("second", 1.0), steps=10)
    assert [each.app for each in result.ran] == ["first", "second"]
    assert result.ran[1].started_s is not None
    assert result.ran[1].started_s >= result.ran[0].ended_s
    assert any("second waits for room" in line for line in sequence.printed)


def test_an_application_without_any_room_is_named_and_the_others_run(sequence: Live) -> None:
    large = builders.app("large", tasks=[{"name": "t", "cpus": 64.0}])
    result = sequence.run(large, _pair("small", 1.0, arrival_s=0.1), steps=5)
    assert {each.app: each.status for each in result.ran} == {"large": None, "small": 0}
    assert result.failed == ["large"]
    assert any("large finds no room even alone" in line for line in sequence.printed)


def test_a_network_that_cannot_be_read_again_leaves_the_known_one(sequence: Live) -> None:
    reads = []

    def read() -> Network:
        reads.append(1)
        if len(reads) > 1:
            raise GavotteError("n.network.json: no such file")
        return sequence.network

    result = sequence.run(_pair("job", 1.0), steps=20, read=read, every_s=0.3, migration_s=1.0)
    assert result.ran[0].status == 0
    assert any("the Network that is known stays: n.network.json" in line for line in sequence.printed)


def test_progress_that_an_application_writes_replaces_the_projection(tmp_path: Path) -> None:
    app = builders.app("job", ("a", "b", 100), ("b", "c", 300, 1), ("c", "a", 100, 1))
    assert left_of(app, 0.0).transfer == app.transfer
    half = left_of(app, 0.6)
    assert [(each.source, each.bytes, each.phase) for each in half.transfer] == [("b", 150, 0), ("c", 50, 0)]
    assert left_of(app, 1.0).transfer == []
    file = tmp_path / "job.progress"
    for text, share in (("0.25\n", 0.25), ("", None), ("nan", None), ("1.5", None), ("half", None)):
        file.write_text(text)
        assert read_progress(file) == share
    assert read_progress(tmp_path / "none") is None


def test_a_slow_application_is_reviewed_by_its_own_progress(sequence: Live) -> None:
    # It seems to be done after a second, but says that it has hardly begun.
    spoiler = sequence.spoil_once_started()
    result = sequence.run(_pair("job", 1.0), steps=80, more="slow", every_s=1.5, migration_s=0.1)
    spoiler.join()
    assert len(result.ran[0].placements) == 2


def test_a_stop_ends_all_programs_and_what_they_have_started(sequence: Live) -> None:
    def stop() -> None:
        until(lambda: (sequence.folder / "helper").exists())
        sequence.stop.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    result = sequence.run(_pair("job", 60.0), _pair("later", 1.0, arrival_s=500.0), steps=10_000, more="helper")
    stopper.join()
    assert result.interrupted
    assert [each.app for each in result.ran] == ["job"]
    assert not _alive(int((sequence.folder / "helper").read_text()))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_network(tmp_path / "n.network.json", _network())
    write_app(tmp_path / "job.app.toml", _pair("job", 2.0))
    return tmp_path


def _command(steps: int, more: str = "") -> str:
    return f"{sys.executable} {STEPS} {{app}} {{hosts}} {steps} . {more}"


def test_the_command_prints_what_ran_where(files: Path) -> None:
    ran = gavotte("sequence", "n.network.json", "job.app.toml", "--live", _command(5), "--json", cwd=files)
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["ran"][0]["status"] == 0
    assert not document["interrupted"]
    assert "job starts on a=" in ran.stderr
    shown = gavotte("sequence", "n.network.json", "job.app.toml", "--live", _command(5), cwd=files)
    assert shown.returncode == 0, shown.stderr
    assert "ended at s" in shown.stdout


def test_a_dry_run_starts_nothing_and_shows_the_commands(files: Path) -> None:
    words = ["n.network.json", "job.app.toml", "--live", _command(5), "--dry-run"]
    ran = gavotte("sequence", *words, cwd=files)
    assert ran.returncode == 0, ran.stderr
    assert "--live would run: " in ran.stderr
    assert "job vm" in ran.stderr
    assert not (files / "starts").exists()
    assert not (files / "gavotte-live").exists()


def test_a_failing_program_fails_the_sequence(files: Path) -> None:
    ran = gavotte("sequence", "n.network.json", "job.app.toml", "--live", "sh -c 'exit 3'", cwd=files)
    assert ran.returncode == 1
    assert "job ended with status 3; its output is in" in ran.stderr
    missing = gavotte("sequence", "n.network.json", "job.app.toml", "--live", "./{app} x", cwd=files)
    assert missing.returncode == 1
    assert "job ended with status 127" in missing.stderr
    assert "./job" in (files / "gavotte-live" / "job.log").read_text()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--live", "x", "-o", "p.placement.json"], "--live writes its own placements"),
        (["--dry-run"], "--dry-run is for --live"),
        (["--live", ""], "--live is empty"),
        (["--live", "sh 'x"], "--live `sh 'x`: no closing quotation"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(files: Path, options: list[str], what: str) -> None:
    ran = gavotte("sequence", "n.network.json", "job.app.toml", *options, cwd=files)
    assert ran.returncode in (1, 2)
    assert what in ran.stderr


def test_a_program_that_does_not_exist_is_one_line(files: Path) -> None:
    ran = gavotte("sequence", files / "n.network.json", files / "job.app.toml", "--live", "nowhere {hosts}", cwd=files)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "error: cannot start `nowhere`: no such program; check its path\n"
    assert not (files / "gavotte-live").exists()


def test_a_command_that_is_the_same_for_all_is_doubted(files: Path) -> None:
    ran = gavotte("sequence", files / "n.network.json", files / "job.app.toml", "--live", "true {host}", cwd=files)
    assert ran.returncode == 0
    assert "warning: the command has none of {app}, {hosts}, {hostfile}, {placement}" in ran.stderr


def test_two_sequences_do_not_share_a_folder(sequence: Live) -> None:
    second: list[str] = []

    def again() -> None:
        until((sequence.folder / "starts").exists)
        with pytest.raises(GavotteError, match="another sequence runs in this folder"):
            sequence.run(_pair("other", 1.0), steps=1)
        second.append("refused")

    thread = threading.Thread(target=again)
    thread.start()
    result = sequence.run(_pair("job", 2.0), steps=20)
    thread.join()
    assert second == ["refused"]
    assert [each.app for each in result.ran] == ["job"]


def test_a_folder_that_cannot_be_made_is_one_line(files: Path) -> None:
    (files / "taken").write_text("")
    words = ["n.network.json", "job.app.toml", "--live", "true {app}", "--live-folder", "taken/live"]
    ran = gavotte("sequence", *words, cwd=files)
    assert ran.returncode == 1
    assert ran.stderr.endswith("taken/live: cannot write to this folder: Not a directory; name another one\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_programs_end_with_the_command(files: Path, number: signal.Signals) -> None:
    words = ["sequence", "n.network.json", "job.app.toml", "--live", _command(10_000, "helper")]
    process = subprocess.Popen([GAVOTTE, *words], cwd=files, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: (files / "helper").exists() and (files / "helper").read_text())
        os.kill(process.pid, number)
        status = process.wait(60)
    finally:
        process.kill()
        process.wait()
    assert status == (130 if number == signal.SIGINT else -signal.SIGKILL)
    helper = int((files / "helper").read_text())
    until(lambda: not _alive(helper))
