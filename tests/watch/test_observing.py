"""Changes are seen in the times of operations that run anyway; a file of them is followed as it grows."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import history
from tests.model.synthetic import truth
from tests.shell import GAVOTTE
from tests.watch.test_loop import Cloud, ticks
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.network import read_network, write_network
from gavotte.model import model
from gavotte.store import open_store
from gavotte.watch import Event, Operation, Tail, TreeWatch, Watcher, follow
from gavotte.watch.detect import Edge
from gavotte.watch.observing import LEARN, MOST_OPEN

EDGES = [("h0", "h1"), ("h0", "h2"), ("h1", "h3"), ("h1", "h4"), ("h2", "h5")]


def operations(count: int, seed: int, *, slow: Mapping[Edge, float] | None = None) -> list[Operation]:
    rng = np.random.default_rng(seed)
    usual = dict(zip(EDGES, (0.1, 0.13, 0.2, 0.26, 0.1), strict=True))
    return [
        Operation(
            "tree",
            {edge: took * float(rng.lognormal(0, 0.03)) * (slow or {}).get(edge, 1.0) for edge, took in usual.items()},
        )
        for _ in range(count)
    ]


def lines(taken: list[Operation], run: str = "r", first: int = 1) -> str:
    return "".join(
        json.dumps(
            {
                "format": "gavotte/record/1",
                "kind": "broadcast",
                "metric": "transfer_s",
                "value": value,
                "time_s": 1.0,
                "labels": {
                    "run": run,
                    "operation": number,
                    "edges": len(each.seconds),
                    "tree": each.tree,
                    "source": source,
                    "target": target,
                },
            }
        )
        + "\n"
        for number, each in enumerate(taken, start=first)
        for (source, target), value in each.seconds.items()
    )


def unexpected(event: object) -> None:
    raise AssertionError(event)


def watched(watcher: Watcher, taken: list[Operation]) -> list[Event]:
    return [event for each in taken for event in watcher.observe(each)]


def test_what_an_edge_usually_takes_is_learnt_and_a_move_is_found() -> None:
    tree = TreeWatch(0.02)
    assert [change for each in operations(60, 1) for change in tree.take(each)] == []
    matches = [change for each in operations(8, 2, slow={("h1", "h4"): 3.0}) for change in tree.take(each)]
    assert {(change.source, change.target) for change in matches} == {("h1", "h4")}
    assert matches[0].factor == pytest.approx(3.0, rel=0.1)
    tree.rebase(("h1", "h4"), matches[0].factor)
    assert [change for each in operations(40, 3, slow={("h1", "h4"): 3.0}) for change in tree.take(each)] == []


def test_without_measuring_the_factors_are_believed() -> None:
    cloud = Cloud(6)
    watcher = Watcher(dict(cloud.seconds), 0.02, None)
    assert watched(watcher, operations(20, 4)) == []
    before = watcher.expected_s["h1", "h3"]
    events = watched(watcher, operations(20, 5, slow={("h1", "h3"): 2.0}))
    assert [event.kind for event in events] == ["moved"]
    assert [(move.source, move.target) for move in events[0].moves] == [("h1", "h3")]
    assert events[0].calibrated == 0
    assert watcher.expected_s["h1", "h3"] == pytest.approx(2 * before, rel=0.1)
    assert watcher.tick() == []


def test_with_agents_what_moved_is_calibrated() -> None:
    cloud = Cloud(6)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    assert watched(watcher, operations(LEARN + 5, 6)) == []
    cloud.slower("h1", 2.0)
    events = watched(watcher, operations(20, 7, slow={("h1", "h3"): 2.0, ("h1", "h4"): 2.0}))
    assert {event.kind for event in events} <= {"moved", "false-alarm"}
    assert events[0].kind == "moved"
    assert {move.source for move in events[0].moves} == {"h1"}
    assert events[0].calibrated > 5
    # Calibration finds no move: the event is reported once, and the new time then counts as usual.
    quiet = watched(watcher, operations(30, 8, slow={("h1", "h3"): 2.0, ("h1", "h4"): 2.0, ("h2", "h5"): 1.5}))
    assert [event.kind for event in quiet] == ["false-alarm"]


def test_the_papers_threshold_calibrates_after_one_operation() -> None:
    cloud, slow = Cloud(6), {("h1", "h3"): 4.0}
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure, threshold=1.0)
    assert watched(watcher, operations(LEARN + 5, 6)) == []
    (spike,) = watched(watcher, operations(1, 7, slow=slow))
    assert (spike.kind, spike.alarm, spike.hosts) == ("false-alarm", "threshold", ("h1", "h3"))
    assert watched(watcher, operations(20, 8)) == []
    cloud.slower("h1", 4.0)
    (moved,) = watched(watcher, operations(1, 9, slow=slow))
    assert (moved.kind, moved.alarm, moved.movers) == ("moved", "threshold", ("h1",))
    # Twice the time on an edge outside the longest way does not double the operation.
    assert watched(watcher, operations(1, 9, slow=slow | {("h0", "h2"): 2.5})) == []
    with pytest.raises(GavotteError, match="spike"):
        Watcher(dict(cloud.seconds), 0.02, None, threshold=1.0)


def test_what_the_ring_found_is_not_found_again_by_a_tree() -> None:
    cloud = Cloud(6)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    assert watched(watcher, operations(LEARN + 5, 6)) == []
    cloud.slower("h1", 2.0)
    assert [event.kind for event in ticks(watcher, 12)] == ["moved"]
    assert watched(watcher, operations(20, 7, slow={("h1", "h3"): 2.0, ("h1", "h4"): 2.0})) == []


def test_what_one_tree_found_is_not_believed_again_for_another() -> None:
    cloud, slow = Cloud(6), {("h1", "h3"): 2.0}
    watcher = Watcher(dict(cloud.seconds), 0.02, None)
    before = watcher.expected_s["h1", "h3"]
    for tree in ("one", "two"):
        assert watched(watcher, [Operation(tree, each.seconds) for each in operations(LEARN + 5, 6)]) == []
    kinds = [
        [event.kind for event in watched(watcher, [Operation(tree, e.seconds) for e in operations(20, 7, slow=slow)])]
        for tree in ("one", "two")
    ]
    assert kinds == [["moved"], []]
    assert watcher.expected_s["h1", "h3"] == pytest.approx(2 * before, rel=0.1)


def test_pairs_without_a_rate_are_told_of_once() -> None:
    cloud, message = Cloud(5), list[str]()
    watcher = Watcher(dict(cloud.seconds), 0.02, None, complain=message.append)
    watched(watcher, operations(20, 9))
    assert len(message) == 1
    assert "h2 to h5" in message[0]


def test_hosts_that_the_network_lacks_count_for_nothing() -> None:
    cloud = Cloud(3)
    watcher = Watcher(dict(cloud.seconds), 0.02, None)
    assert watched(watcher, operations(20, 9) + operations(20, 10, slow={("h1", "h4"): 9.0})) == []


@given(
    key=st.sampled_from(["run", "operation", "edges", "tree", "source", "target"]),
    wrong=st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.integers(-(2**70), 2**70)),
)
def test_labels_of_any_kind_are_taken_or_told(
    tmp_path_factory: pytest.TempPathFactory, key: str, wrong: object
) -> None:
    record = json.loads(lines(operations(1, 1)).splitlines()[0])
    record["labels"][key] = wrong
    path, message = tmp_path_factory.mktemp("tail") / "t.jsonl", list[str]()
    path.write_text(json.dumps(record) + "\n")
    assert len(Tail(path, message.append).read()) <= 1
    assert len(message) <= 1


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_passed_over(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path, message = tmp_path_factory.mktemp("tail") / "t.jsonl", list[str]()
    path.write_bytes(data + b"\n" + lines(operations(1, 1)).encode())
    assert len(Tail(path, message.append).read()) == 1


def test_labels_that_are_no_numbers_are_told_of(tmp_path: Path) -> None:
    path, message = tmp_path / "t.jsonl", list[str]()
    path.write_text(lines(operations(1, 1)).replace('"operation": 1', '"operation": "first"', 1))
    assert Tail(path, message.append).read() == []
    assert len(message) == 1
    assert "t.jsonl:1" in message[0]


def test_ranks_that_share_a_host_write_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    text = lines([Operation("t", {("a", "b"): 2.0, ("a", "c"): 3.0})]).replace('"edges": 2', '"edges": 4')
    first = text.splitlines()[0]
    nothing = first.replace('"value": 2.0', '"value": 0.0')
    path.write_text(text + first.replace("2.0", "4.0") + "\n" + nothing + "\n")
    tail = Tail(path, unexpected)
    assert tail.read() == [Operation("t", {("a", "b"): 3.0, ("a", "c"): 3.0})]
    assert tail._open == {}


def test_operations_that_never_end_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    first = [lines([each], run=f"r{number}").splitlines()[0] for number, each in enumerate(operations(500, 1))]
    path.write_text("\n".join(first) + "\n")
    tail = Tail(path, unexpected)
    assert tail.read() == []
    assert len(tail._open) <= MOST_OPEN
    with pytest.raises(FormatError, match="cannot be read"):
        Tail(tmp_path, unexpected).read()


def test_a_file_is_followed_line_by_line(tmp_path: Path) -> None:
    path, message = tmp_path / "t.jsonl", list[str]()
    tail = Tail(path, message.append)
    assert tail.read() == []
    two = operations(2, 11)
    text = lines(two)
    path.write_text(text[:300])
    assert tail.read() == []
    path.write_text(text)
    assert tail.read() == two
    assert tail.read() == []
    with path.open("a") as file:
        file.write('no record\n{"format": "gavotte/record/1"}\n')
    assert tail.read() == []
    assert len(message) == 2
    assert f"{path}:11" in message[0]
    path.write_text(lines(two[:1], run="s"))
    assert tail.read() == two[:1]


def test_following_ends_when_told(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(lines(operations(5, 12)))
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 1:
            with path.open("a") as file:
                file.write(lines(operations(3, 13), first=6))
        return len(pauses) == 2

    watcher = Watcher(dict(Cloud(6).seconds), 0.02, None)
    tail = Tail(path, unexpected)
    assert follow(watcher, tail, every_s=3.0, wait=wait, report=unexpected) == 8
    assert pauses == [3.0, 3.0]
    assert follow(watcher, Tail(path, unexpected), every_s=1.0, wait=wait, report=unexpected, count=4) == 4


def test_the_command_follows_operations_alone(tmp_path: Path) -> None:
    source, target, times = tmp_path / "n.json", tmp_path / "out.json", tmp_path / "t.jsonl"
    write_network(source, model(history(8e6 / truth(6, np.random.default_rng(0))[None])))
    slow = operations(20, 15, slow={("h2", "h5"): 4.0})
    times.write_text(lines(operations(20, 14) + slow))
    words = ["watch", str(source), "--observations", str(times), "-o", str(target), "--count", "40", "--json"]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    (event,) = (json.loads(line) for line in run.stdout.splitlines())
    assert event["kind"] == "moved"
    assert event["hosts"] == ["h2", "h5"]
    before, after = read_network(source), read_network(target)
    was, now = before.rate_bps[2][5], after.rate_bps[2][5]
    low, lower = before.rate_low_bps[2][5], after.rate_low_bps[2][5]
    assert was is not None
    assert now == pytest.approx(was / 4, rel=0.1)
    assert low is not None
    assert lower == pytest.approx(low / 4, rel=0.1)
    assert CliRunner().invoke(app, ["watch", str(source)]).exit_code == 2


def test_a_store_keeps_events(tmp_path: Path) -> None:
    source, times, kept = tmp_path / "n.json", tmp_path / "t.jsonl", tmp_path / "s.sqlite3"
    write_network(source, model(history(8e6 / truth(6, np.random.default_rng(0))[None])))
    times.write_text(lines(operations(20, 14) + operations(20, 15, slow={("h2", "h5"): 4.0})))
    words = ["watch", str(source), "--observations", str(times), "--count", "40"]
    run = CliRunner().invoke(app, [*words, "--store", str(kept)])
    assert run.exit_code == 0, run.output
    with open_store(kept, create=False) as store:
        (record,) = store.records("watch")
    assert record.labels["text"] == run.stdout.strip()
    assert record.labels["event"] == "moved"
    assert record.labels["hosts"] == "h2,h5"
    assert record.value == 1
    wrong = CliRunner().invoke(app, [*words, "--store", str(source)])
    assert wrong.exit_code == 1
    assert "n.json" in str(wrong.exception)


@pytest.mark.slow
def test_a_signal_ends_the_following(tmp_path: Path) -> None:
    source, times = tmp_path / "n.json", tmp_path / "t.jsonl"
    write_network(source, model(history(8e6 / truth(6, np.random.default_rng(0))[None])))
    times.write_text(lines(operations(20, 14) + operations(20, 15, slow={("h2", "h5"): 4.0})))
    words = [str(GAVOTTE), "watch", str(source), "--observations", str(times), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        late = threading.Timer(60, watching.kill)
        late.start()
        try:
            assert watching.stdout is not None
            assert json.loads(watching.stdout.readline())["kind"] == "moved"
            watching.send_signal(signal.SIGTERM)
            _, report = watching.communicate(timeout=60)
        finally:
            late.cancel()
            watching.kill()
    assert watching.returncode == 0
    assert "40 operations" in report
