"""Commands that a watch runs when it advises a new placement, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.shell import GAVOTTE, processes_of, until
from tests.watch.placed import placed
from tests.watch.test_belief import app as pair
from tests.watch.test_keeping import SLOW, six
from tests.watch.test_observing import lines, operations
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.network import write_network
from gavotte.formats.placement import Placement, read_placement, write_placement
from gavotte.place import evaluate
from gavotte.watch import Execution, Executor

APPEND = "import json, sys; print(json.load(open(sys.argv[2]))['assignment']['x'], file=open(sys.argv[1], 'a'))"


def placement(**assignment: str) -> Placement:
    return placed([pair(0)], assignment).placement


class Running:
    """An executor whose command appends the advised placement to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes, self.complaints = list[str](), list[str]()
        self.executors = list[Executor]()
        self.stop = threading.Event()

    def start(self, *words: str, every_s: float = 0.0, dry: bool = False) -> Executor:
        line = list(words) or [sys.executable, "-c", APPEND, str(self.folder / "seen"), "{placement}"]
        execution = Execution(line, self.folder / "p.advised.placement.json", every_s, dry)
        self.executors.append(Executor(execution, self.notes.append, self.complaints.append))
        return self.executors[-1]

    @property
    def hosts(self) -> list[str]:
        """The host of task `x` in each placement that the command got."""
        path = self.folder / "seen"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.stop.set()
    for executor in made.executors:
        executor.close(made.stop)


def test_a_command_gets_each_new_placement_once(running: Running) -> None:
    executor = running.start()
    executor.advise(placement(x="a", y="b"))
    until(lambda: running.hosts == ["a"])
    until(lambda: any("ended after" in note for note in running.notes))
    executor.advise(placement(x="a", y="b"))
    executor.advise(placement(x="c", y="b"))
    until(lambda: running.hosts == ["a", "c"])
    executor.close(running.stop)
    assert (running.hosts, running.complaints) == (["a", "c"], [])
    assert read_placement(running.folder / "p.advised.placement.json").assignment == {"x": "c", "y": "b"}
    assert sorted(path.name for path in running.folder.iterdir()) == ["p.advised.placement.json", "seen"]


def test_the_newest_advice_waits_for_its_time_and_staying_cancels_it(running: Running) -> None:
    executor = running.start(every_s=2.0)
    executor.advise(placement(x="a", y="b"))
    until(lambda: running.hosts == ["a"])
    executor.advise(placement(x="b", y="a"))
    executor.advise(placement(x="c", y="b"))
    until(lambda: running.hosts == ["a", "c"])
    assert any("since it ran less than --exec-every ago" in note for note in running.notes)
    executor.advise(placement(x="d", y="b"))
    executor.advise(None)
    executor.close(running.stop)
    assert running.hosts == ["a", "c"]
    assert not any("before the newest advice" in note for note in running.notes)


def test_advice_that_still_waits_at_the_end_is_named(running: Running) -> None:
    executor = running.start(every_s=600.0)
    executor.advise(placement(x="a", y="b"))
    until(lambda: running.hosts == ["a"])
    executor.advise(placement(x="b", y="a"))
    executor.close(running.stop)
    assert running.hosts == ["a"]
    assert running.notes[-1] == "--exec: the watch ends before the newest advice may be carried out"


def test_a_dry_run_names_the_command_and_writes_nothing(running: Running) -> None:
    executor = running.start("scontrol", "a b", "{placement}", dry=True)
    executor.advise(placement(x="a", y="b"))
    executor.close(running.stop)
    assert running.notes == [f"--exec would run: scontrol 'a b' {running.folder}/p.advised.placement.json"]
    assert list(running.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["sh", "-c", "exit 3"], "--exec exited with status 3"),
        (["sh", "-c", "kill -9 $$"], "--exec exited with status 137"),
        (["/nowhere/restart"], "--exec: [Errno 2] No such file or directory: '/nowhere/restart'"),
    ],
)
def test_a_failure_is_reported_and_the_same_advice_tried_again(
    running: Running, words: list[str], complaint: str
) -> None:
    executor = running.start(*words)
    for count in (1, 2):
        executor.advise(placement(x="a", y="b"))
        until(lambda: len(running.complaints) == count)  # noqa: B023
    executor.close(running.stop)
    assert running.complaints == [complaint] * 2


def test_a_command_ends_before_the_watch_unless_it_is_stopped(running: Running) -> None:
    executor = running.start("sh", "-c", "sleep 0.5; echo x > " + str(running.folder / "late"))
    executor.advise(placement(x="a", y="b"))
    executor.close(running.stop)
    assert (running.folder / "late").exists()
    executor = running.start("sh", "-c", f"echo x > {running.folder / 'up'}; sleep 600")
    executor.advise(placement(x="a", y="b"))
    until((running.folder / "up").exists)
    running.stop.set()
    executor.close(running.stop)
    assert not any("sleep 600" in line and str(running.folder) in line for line in processes_of("PATH=").values())


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A watch of 40 operations, of which the last 20 are slow on the edge between two running tasks."""
    write_network(tmp_path / "n.json", six())
    (tmp_path / "t.jsonl").write_text(lines(operations(20, 14) + operations(20, 15, slow=SLOW)))
    write_app(tmp_path / "pair.app.toml", pair(0))
    write_placement(tmp_path / "run.placement.json", evaluate(six(), [pair(0)], {"x": "h2", "y": "h5"}))
    names = ["--app", str(tmp_path / "pair.app.toml"), "--placement", str(tmp_path / "run.placement.json")]
    return ["watch", str(tmp_path / "n.json"), "--observations", str(tmp_path / "t.jsonl"), *names]


def test_a_watch_runs_the_command_with_the_advised_placement(tmp_path: Path, words: list[str]) -> None:
    copy = f"cp {{placement}} '{tmp_path / 'taken over'}'"
    run = CliRunner().invoke(app, [*words, "--count", "40", "--exec", copy, "--json"])
    assert run.exit_code == 0, run.output
    (event,) = (json.loads(line) for line in run.stdout.splitlines())
    assert "advised" not in event["placement"]
    advised = tmp_path / "run.advised.placement.json"
    assert read_placement(tmp_path / "taken over").assignment == event["placement"]["assignment"]
    assert f"--exec runs: cp {advised} '{tmp_path / 'taken over'}'" in run.stderr
    (tmp_path / "taken over").unlink()
    advised.unlink()
    dry = CliRunner().invoke(app, [*words, "--count", "40", "--exec", copy, "--dry-run"])
    assert f"--exec would run: cp {advised} '{tmp_path / 'taken over'}'" in dry.stderr
    assert not (tmp_path / "taken over").exists()
    assert not advised.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_with_the_watch(tmp_path: Path, words: list[str], number: int) -> None:
    environment = {**os.environ, "GAVOTTE_MARK": str(tmp_path)}
    line = [str(GAVOTTE), *words, "--exec", f"sh -c 'touch {tmp_path}/up; sleep 600'"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as watching:
        until((tmp_path / "up").exists)
        watching.send_signal(number)
        _, err = watching.communicate(timeout=60)
    assert (watching.returncode, b"Traceback" in err) == (0, False), err
    until(lambda: not processes_of(f"GAVOTTE_MARK={tmp_path}"))


Usage = Callable[[list[str]], list[str]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda words: [*words[:-4], "--exec", "true"], "--exec needs --app and --placement"),
        (lambda words: [*words, "--dry-run"], "--dry-run is for --exec"),
    ],
)
def test_options_that_need_another_are_refused(words: list[str], change: Usage, message: str) -> None:
    run = CliRunner().invoke(app, change(words))
    assert run.exit_code == 2
    assert message in " ".join(run.output.replace("│", " ").split())


def test_a_command_that_is_none_is_refused_at_the_start(words: list[str]) -> None:
    run = CliRunner().invoke(app, [*words, "--exec", "cat 'x"])
    assert isinstance(run.exception, GavotteError)
    assert "--exec `cat 'x`: no closing quotation" in str(run.exception)
