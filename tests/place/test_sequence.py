"""Applications in sequence, and migrations that pay for themselves."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.builders import MB
from tests.examples import examples
from tests.place.clouds import cloud
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App, read_app, write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import read_placement
from gavotte.place import Effort, evaluate, place
from gavotte.place.sequence import Live, arrive, reconsider, sequence, state_of, unfold
from gavotte.simulate import Advance, replay_placement


def network(size: int = 4, **fields: Any) -> Network:
    """Egress 8, 16, 24, ... Mbit/s; no latency, which the forecast leaves out."""
    return cloud(size, latency_s=[[None] * size for _ in range(size)], **fields)


def pair(name: str, size: int = 6 * MB, *, arrival_s: float = 0.0, cpus: float = 2.0) -> App:
    """Two tasks that need a host each."""
    return builders.app(name, ("a", "b", size), arrival_s=arrival_s, cpus=cpus)


def drawn(seed: int, count: int = 3) -> list[App]:
    rng = random.Random(seed)
    apps = []
    for number in range(count):
        tasks = [{"name": f"t{i}", "cpus": rng.choice([0.5, 1.0])} for i in range(3)]
        ways = [
            (f"t{a}", f"t{b}", rng.randint(MB, 9 * MB), rng.randint(0, 1))
            for a, b in (rng.sample(range(3), 2) for _ in range(4))
        ]
        apps.append(builders.app(f"app{number}", *ways, tasks=tasks, arrival_s=rng.uniform(0, 2) * number))
    return apps


@pytest.mark.parametrize("method", ["auto", "optimal", "search", "greedy"])
def test_what_runs_is_cross_traffic_only_while_it_runs(method: str) -> None:
    net = network(6)
    apps = [pair("first", 24 * MB), pair("second", arrival_s=1.0), pair("late", arrival_s=99.0)]
    done = sequence(net, apps, Advance(net), effort=Effort(method=method, time_limit_s=0.2))
    senders = {one.app: one.placement.assignment["a"] for one in done.arrivals}
    assert senders == {"first": "vm5", "second": "vm4", "late": "vm5"}
    assert [one.beside for one in done.arrivals] == [[], ["first"], []]
    assert done.running_s == pytest.approx({"first": 4.0, "second": 1.2, "late": 1.0})
    assert done.sum_s == pytest.approx(6.2)
    assert done.reviews == []


@pytest.mark.slow
def test_without_reviews_it_takes_what_the_simulator_says() -> None:
    for seed in range(8):
        net, apps = network(), drawn(seed)
        done = sequence(net, apps, Advance(net), effort=Effort(method="auto", time_limit_s=0.1))
        replayed = replay_placement(net, apps, done.placement)
        assert done.running_s == pytest.approx(replayed.apps, rel=1e-6, abs=1e-5)
        assert done.placement.completion_s == pytest.approx(replayed.completion_s, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize(("cost_s", "moved"), [(0.0, True), (4.4, True), (4.6, False), (50.0, False)])
def test_a_task_moves_if_that_saves_more_than_it_costs(cost_s: float, moved: bool) -> None:
    """6 MB at 8 Mbit/s take 6 s; from vm3, 1.5 s."""
    net = network()
    live = Live(pair("one"), {"a": "vm0", "b": "vm1"})
    decision = reconsider(net, [live], Advance(net), migration_s=cost_s, effort=Effort(time_limit_s=0.2))
    assert decision.keep_s == pytest.approx(6.0)
    if moved:
        assert [(move.task, move.source, move.target) for move in decision.moves] == [("a", "vm0", "vm3")]
        assert decision.saving_s == pytest.approx(4.5 - cost_s)
        assert (decision.cost_s, decision.pause_s) == (cost_s, [cost_s])
    else:
        assert (decision.moves, decision.saving_s, decision.pause_s) == ([], 0.0, [0.0])
        assert decision.assignments == [{"a": "vm0", "b": "vm1"}]


def test_equal_hosts_are_no_reason_to_move() -> None:
    hosts = [{"name": f"vm{m}", "cpus": 2.0, "egress_bps": 8e6} for m in range(4)]
    net = network(hosts=hosts)
    live = [Live(pair("one"), {"a": "vm2", "b": "vm1"}), Live(pair("two"), {"a": "vm0", "b": "vm3"})]
    for method in ("auto", "greedy", "random"):
        assert (
            reconsider(net, live, Advance(net), migration_s=0.0, effort=Effort(method=method, time_limit_s=0.1)).moves
            == []
        )


def test_an_application_that_is_moving_is_left_alone() -> None:
    net = network()
    live = [Live(pair("one"), {"a": "vm0", "b": "vm1"}, pause_s=1.0)]
    decision = reconsider(net, live, Advance(net), migration_s=0.0, effort=Effort(time_limit_s=0.1))
    assert (decision.moves, decision.pause_s) == ([], [1.0])
    assert decision.keep_s == pytest.approx(7.0)


@given(st.integers(0, 10_000), st.sampled_from(["auto", "greedy", "random", "round-robin"]), st.floats(0, 2))
@examples(15)
def test_decisions_keep_the_rules_and_are_never_for_the_worse(seed: int, method: str, cost_s: float) -> None:
    net, apps = network(), drawn(seed)
    live = [Live(one, place(net, [one], "random", seed=seed).assignment) for one in apps]
    joined = {f"{one.app.name}/{task}": host for one in live for task, host in one.assignment.items()}
    try:
        evaluate(net, apps, joined)
    except InfeasibleError:
        return  # drawn one by one they overbook a host
    advance = Advance(net)
    decision = reconsider(net, live, advance, migration_s=cost_s, effort=Effort(method=method, time_limit_s=0.05))
    after = {f"{one.name}/{t}": h for one, own in zip(apps, decision.assignments, strict=True) for t, h in own.items()}
    evaluate(net, apps, after)
    assert decision.move_s <= decision.keep_s
    assert (decision.saving_s > 0) == bool(decision.moves)
    assert decision.cost_s == pytest.approx(cost_s * len(decision.moves))
    moved = advance(apps, decision.assignments, pause_s=decision.pause_s)
    assert sum(moved.finish_s) == pytest.approx(decision.move_s)
    again = reconsider(net, live, advance, migration_s=cost_s, effort=Effort(method=method, time_limit_s=0.05))
    assert again == decision


def test_reviews_shorten_what_a_bad_start_made_long() -> None:
    net, apps = network(), [pair("one", 12 * MB), pair("two", 12 * MB, arrival_s=1.0)]
    plain = sequence(net, apps, Advance(net), effort=Effort(method="min-machines", time_limit_s=1.0))
    reviewed = sequence(
        net, apps, Advance(net), every_s=2.0, migration_s=0.5, effort=Effort(method="min-machines", time_limit_s=1.0)
    )
    assert plain.arrivals[0].placement.assignment == {"a": "vm0", "b": "vm1"}
    first = reviewed.reviews[0]
    assert (first.time_s, first.apps) == (2.0, ["one", "two"])
    assert first.decision.moves
    # No application arrives after the first review, so it saves what it promised.
    assert plain.sum_s - reviewed.sum_s >= first.decision.saving_s - 1e-4
    assert reviewed.placement.assignment == plain.placement.assignment
    assert reviewed.placement.completion_s == pytest.approx(plain.placement.completion_s)
    assert reviewed.final["one"] != reviewed.arrivals[0].placement.assignment
    dear = sequence(
        net, apps, Advance(net), every_s=2.0, migration_s=60.0, effort=Effort(method="min-machines", time_limit_s=1.0)
    )
    assert dear.running_s == pytest.approx(plain.running_s, rel=1e-5)


def test_fast_hosts_that_are_free_soon_are_waited_for() -> None:
    # One more second on the fast pair for the first one, 28 on the slow pair for the second one.
    rates = [[80e6 if {m, n} <= {"a", "b"} else 8e6 for n in "abcd"] for m in "abcd"]
    net = builders.network("abcd", rates, latency_s=[[None] * 4 for _ in range(4)], cpus=2.0)
    live = [
        Live(pair("first", 10 * MB), {"a": "a", "b": "b"}),
        Live(pair("second", 28 * MB), {"a": "c", "b": "d"}),
    ]
    decision = reconsider(net, live, Advance(net), migration_s=3.0, every_s=2.0)
    assert not decision.moves
    assert decision.move_s == decision.keep_s == pytest.approx(29.0)
    (left,) = [Live(one.app, one.assignment) for one in live[1:]]
    then = reconsider(net, [left], Advance(net), migration_s=3.0, every_s=2.0)
    assert {move.target for move in then.moves} == {"a", "b"}
    # The first one has half a minute left on the fast pair, so that it pays to change places.
    longer = [replace(live[0], app=pair("first", 300 * MB)), replace(live[1], app=pair("second", 4000 * MB))]
    assert len(reconsider(net, longer, Advance(net), migration_s=3.0, every_s=2000.0).moves) == 4


def test_auto_is_never_worse_than_greedy_by_the_forecast_it_chooses_by() -> None:
    for seed in range(6):
        net, (first, second) = network(), drawn(seed, 2)
        advance = Advance(net)
        live = [Live(first, place(net, [first], "greedy").assignment)]
        sums = {}
        for method in ("auto", "greedy"):
            result = arrive(net, second, live, advance, effort=Effort(method=method, time_limit_s=0.05))
            sums[method] = sum(advance([first, second], [live[0].assignment, result.assignment]).finish_s)
        assert sums["auto"] <= sums["greedy"] + 1e-9


def test_room_is_held_while_an_application_runs() -> None:
    net = network(2)
    with pytest.raises(InfeasibleError):
        sequence(net, [pair("one"), pair("two", arrival_s=1.0)], Advance(net))
    done = sequence(net, [pair("one"), pair("two", arrival_s=60.0)], Advance(net))
    assert done.arrivals[1].beside == []


def test_round_robin_goes_on_where_it_stopped() -> None:
    net = network(5)
    apps = [pair(name, 60 * MB, arrival_s=at, cpus=0.5) for at, name in enumerate(("one", "two", "three"))]
    done = sequence(net, apps, Advance(net), effort=Effort(method="round-robin", time_limit_s=1.0))
    assert [list(one.placement.assignment.values()) for one in done.arrivals] == [
        ["vm0", "vm1"],
        ["vm2", "vm3"],
        ["vm4", "vm0"],
    ]


def test_an_application_without_transfers_ends_as_it_arrives() -> None:
    net = network()
    done = sequence(net, [pair("one", 0), pair("two", arrival_s=3.1)], Advance(net), every_s=0.5)
    assert done.running_s == pytest.approx({"one": 0.0, "two": 1.5})
    assert [review.time_s for review in done.reviews] == [3.5, 4.0, 4.5]


def test_a_review_that_meets_an_arrival_comes_after_it() -> None:
    net = network()
    apps = [pair("one"), pair("two", arrival_s=1.0)]
    done = sequence(
        net, apps, Advance(net), every_s=1.0, migration_s=60.0, effort=Effort(method="min-machines", time_limit_s=1.0)
    )
    assert done.reviews[0].apps == ["one", "two"]
    assert [review.time_s for review in done.reviews] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_errors_are_one_line() -> None:
    net = network()
    with pytest.raises(GavotteError, match="cannot reconsider every 0 s"):
        sequence(net, [pair("one")], Advance(net), every_s=0.0)
    with pytest.raises(GavotteError, match="a migration cannot cost -1 s"):
        reconsider(net, [Live(pair("one"), {"a": "vm0", "b": "vm1"})], Advance(net), migration_s=-1.0)
    with pytest.raises(GavotteError, match="unknown method `best`"):
        sequence(net, [pair("one")], Advance(net), effort=Effort(method="best", time_limit_s=1.0))
    with pytest.raises(GavotteError, match="two applications are called `one`"):
        sequence(net, [pair("one"), pair("one")], Advance(net))


def test_command_line(tmp_path: Path) -> None:
    net, apps = network(), [pair("one", 12 * MB), pair("two", 12 * MB, arrival_s=1.0)]
    write_network(tmp_path / "n.network.json", net)
    files = [tmp_path / f"{app.name}.app.toml" for app in apps]
    for file, app in zip(files, apps, strict=True):
        write_app(file, app)
    target = tmp_path / "p.placement.json"
    line = ["sequence", str(tmp_path / "n.network.json"), *map(str, files), "--method", "min-machines"]
    line += ["--every", "2", "--migration-cost", "0.5"]
    runner = CliRunner()
    ran = runner.invoke(gavotte, [*line, "--json", "-o", str(target)])
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    expected = sequence(
        net, apps, Advance(net), every_s=2.0, migration_s=0.5, effort=Effort(method="min-machines", time_limit_s=1.0)
    )
    assert document["sum_s"] == pytest.approx(expected.sum_s)
    assert document["running_s"] == pytest.approx(expected.running_s)
    assert len(document["reviews"][0]["moves"]) == len(expected.reviews[0].decision.moves)
    assert read_placement(target).assignment == expected.placement.assignment
    shown = runner.invoke(gavotte, line)
    assert shown.exit_code == 0
    for text in ("arrives", "migrates", "vm0: a; vm1: b", "of pause", f"{expected.running_s['two']:.3f}"):
        assert text in shown.stdout
    assert "sum of running times" in shown.stderr
    assert runner.invoke(gavotte, line[:-2]).exit_code == 2, "a cost must be stated"
    folder = tmp_path / "not" / "there"
    moved = runner.invoke(gavotte, [*line, "-o", str(target), "--migrated", str(folder)])
    assert moved.exit_code == 0, moved.output
    moves = sum(len(review.decision.moves) for review in expected.reviews)
    assert f"with the {moves} migrations" in moved.stderr
    unfolded, placement = unfold(apps, expected, state_of(net, 0.5))
    assert [read_app(folder / file.name) for file in files] == unfolded
    assert read_placement(target).assignment == placement.assignment
    simulated = ["simulate", str(target), *(str(folder / file.name) for file in files), "--network", line[1]]
    assert runner.invoke(gavotte, simulated).exit_code == 0
    assert runner.invoke(gavotte, [*line, "--migrated", str(folder)]).exit_code == 2, "it goes with -o"
    refused = runner.invoke(gavotte, [*line, "-o", str(target), "--migrated", str(target)])
    assert refused.exit_code == 1
    assert f"{target}: cannot create this folder" in str(refused.exception)
