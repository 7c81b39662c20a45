"""The whole of `gavotte watch` without packets: hosts come and go, and mistakes are reported at once or survived."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from tests import builders
from tests.watch.placed import placed
from tests.watch.test_belief import app as pair
from tests.watch.test_belief import network
from tests.watch.test_observing import lines, operations
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.cli.watch import _sentence
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.network import FORMAT, Network, read_network, write_network
from gavotte.formats.placement import read_placement, write_placement
from gavotte.place import Running, evaluate
from gavotte.watch import Event, Notice, Shift, WatchQuestion, WatchSession, keep, keeping
from gavotte.watch.detect import Edge
from gavotte.watch.loop import RETRY_TICKS
from gavotte.watch.ring import SILENT_TICKS

SLOW: Mapping[Edge, float] = {("h2", "h5"): 4.0}


def six() -> Network:
    return builders.network([f"h{i}" for i in range(6)], 1e9, cpus=1.0)


class Quiet:
    """A probe whose pairs take the Network's times; hosts that are dead or not listed do not answer."""

    dead: Collection[str] = ()
    listed: Collection[str] = ("a", "b", "c", "d")

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False

    def hosts(self) -> list[str]:
        return sorted(self.listed)

    def measure(self, pairs: Collection[Edge]) -> Mapping[Edge, float]:
        present = set(self.listed) - set(self.dead)
        return {edge: 0.065 for edge in pairs if set(edge) <= present}

    def close(self) -> None:
        self.closed = True


def test_when_hosts_go_or_come_the_running_placement_is_reviewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "Probe", Quiet)
    places, events, waits = {"x": "a", "y": "b"}, list[Notice](), 0

    def wait(_: float) -> bool:
        nonlocal waits
        waits += 1
        monkeypatch.setattr(Quiet, "dead", ("a",) if waits < SILENT_TICKS + 2 else ())
        return False

    def notify(each: Notice) -> None:
        events.append(each)
        if each.placement is not None and each.placement.assignment is not None:
            places.update(each.placement.assignment)

    def running() -> Running:
        return placed([pair(0)], places)

    kept = keep(
        WatchQuestion(network(), hosts="lab", count=SILENT_TICKS + 2 * RETRY_TICKS, seed=7),
        WatchSession(wait, notify, complain=lambda text: pytest.fail(text), running=running),
    )
    assert [each.event.kind for each in events] == ["gone", "came"]
    assert events[0].placement is not None
    assert events[0].placement.restart == ("x",)
    assert places["x"] in ("c", "d")
    assert events[1].placement is not None
    assert events[1].placement.restart == ()
    assert events[1].document["seed"] == 7
    assert (kept.hosts, kept.gone) == (4, frozenset())


def test_hosts_that_the_inventory_does_not_list_are_gone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "Probe", Quiet)
    monkeypatch.setattr(Quiet, "listed", ("b", "c"))
    events = list[Notice]()
    keep(
        WatchQuestion(network(), hosts="lab", count=1),
        WatchSession(
            wait=lambda _: False,
            notify=events.append,
            complain=lambda text: pytest.fail(text),
            running=lambda: placed([pair(0)], {"x": "a", "y": "b"}),
        ),
    )
    assert [(each.event.kind, each.event.hosts) for each in events] == [("gone", ("a", "d"))]
    assert events[0].placement is not None
    assert events[0].placement.assignment == {"x": "c", "y": "b"}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A watch of 40 operations, of which the last 20 are slow on one edge."""
    write_network(tmp_path / "n.json", six())
    (tmp_path / "t.jsonl").write_text(lines(operations(20, 14) + operations(20, 15, slow=SLOW)))
    return ["watch", str(tmp_path / "n.json"), "--observations", str(tmp_path / "t.jsonl"), "--count", "40", "--json"]


@pytest.mark.parametrize(
    ("names", "assignment", "message"),
    [
        (["pair"], {"x": "h0"}, "no host for task `y`"),
        (["pair"], {"x": "h0", "y": "z"}, "`z`, which is not a host"),
        (["other"], {"x": "h0", "y": "h1"}, "an application `pair`"),
        (["pair", "more"], {"x": "h0", "y": "h1"}, "`more` is not in the placement"),
    ],
)
def test_a_placement_that_cannot_be_evaluated_is_told_at_the_start(
    tmp_path: Path, words: list[str], names: list[str], assignment: dict[str, str], message: str
) -> None:
    placed = evaluate(six(), [pair(0)], {"x": "h0", "y": "h1"}).model_copy(update={"assignment": assignment})
    write_placement(tmp_path / "p.json", placed)
    words += ["--placement", str(tmp_path / "p.json")]
    for name in names:
        write_app(tmp_path / f"{name}.toml", pair(0, name))
        words += ["--app", str(tmp_path / f"{name}.toml")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 1
    assert isinstance(run.exception, GavotteError)
    assert message in str(run.exception)
    assert run.stdout == ""


@pytest.mark.slow
def test_several_applications_of_one_placement_are_reviewed(tmp_path: Path, words: list[str]) -> None:
    apps = [pair(0, "one"), pair(0, "two")]
    assignment = {"one/x": "h2", "one/y": "h5", "two/x": "h0", "two/y": "h1"}
    write_placement(tmp_path / "p.json", evaluate(six(), apps, assignment))
    words += ["--placement", str(tmp_path / "p.json")]
    for each in apps:
        write_app(tmp_path / f"{each.name}.toml", each)
        words += ["--app", str(tmp_path / f"{each.name}.toml")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    (event,) = (json.loads(line) for line in run.stdout.splitlines())
    assert event["seed"] == 0
    assert event["alarm"] == "cusum"
    assert event["placement"]["before_s"] == pytest.approx(8.0)
    assert event["placement"]["now_s"] == pytest.approx(32.0, rel=0.1)
    assert event["placement"]["assignment"].keys() == assignment.keys()
    assert read_placement(tmp_path / "p.json").assignment == assignment


def test_an_output_that_cannot_be_written_is_told_at_the_start_and_survived_later(
    tmp_path: Path, words: list[str]
) -> None:
    run = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "none" / "out.json")])
    assert isinstance(run.exception, GavotteError)
    assert run.stdout == ""
    folder, times, events, message = tmp_path / "folder", tmp_path / "later.jsonl", list[Notice](), list[str]()
    folder.mkdir()
    times.write_text(lines(operations(20, 14)))

    def wait(_: float) -> bool:
        assert read_network(folder / "out.json") == six()
        shutil.rmtree(folder)
        with times.open("a") as file:
            file.write(lines(operations(20, 15, slow=SLOW), first=21))
        return False

    keep(
        WatchQuestion(six(), observations=times, count=40),
        WatchSession(wait, events.append, message.append, output=folder / "out.json"),
    )
    assert [each.event.kind for each in events] == ["moved"]
    assert len(message) == 1
    assert "cannot be written" in message[0]


@pytest.mark.parametrize(("command", "message"), [("", "empty"), ("  ", "empty"), ("cat 'x", "no closing quotation")])
def test_a_command_that_is_none_is_told_at_the_start(words: list[str], command: str, message: str) -> None:
    run = CliRunner().invoke(app, [*words, "--command", command])
    assert isinstance(run.exception, GavotteError)
    assert message in str(run.exception)


def test_what_a_command_prints_does_not_mix_with_events(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    run = CliRunner().invoke(app, [*words, "--command", "echo a 'word  or two'"])
    assert run.exit_code == 0, run.output
    assert [json.loads(line)["kind"] for line in run.stdout.splitlines()] == ["moved"]
    written = capfd.readouterr()
    assert "word" not in written.out
    assert "a word  or two" in written.err


def test_a_threshold_needs_hosts_and_operations(words: list[str]) -> None:
    assert CliRunner().invoke(app, [*words, "--threshold", "1"]).exit_code == 2


def test_an_event_says_what_alarmed_and_who_moved() -> None:
    moves = tuple(Shift("a", target, 1.0, 2.0) for target in "bc")
    text = _sentence(Event("moved", 1, ("a", "b"), moves, 5, "threshold", ("a",)))
    assert text == "moved: 2 of 5 pairs of a, b measured again, all of a, times x 2.00, threshold passed"
    text = _sentence(Event("false-alarm", 1, ("a", "b"), (), 5, "cusum"))
    assert text == "false alarm: 5 pairs of a, b are as before"


def test_there_is_something_to_watch_by() -> None:
    with pytest.raises(GavotteError, match="nothing to watch"):
        keep(WatchQuestion(six()), WatchSession(lambda _: True, lambda _: None, lambda _: None))


def test_a_network_of_caps_alone_is_refused_before_its_pairs_are_looked_at(tmp_path: Path) -> None:
    many = Network.model_validate(
        {"format": FORMAT, "hosts": [{"name": f"h{m}", "egress_bps": 1e9} for m in range(100_000)]}
    )
    question = WatchQuestion(many, None, tmp_path / "o.jsonl")
    session = WatchSession(lambda _: True, lambda _: None, lambda _: None)
    with pytest.raises(GavotteError, match="no pair of the network has a rate, so that no time of a transfer"):
        keep(question, session)
