"""The effect of an event on a Network, and on a running application."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pytest
from tests import builders
from tests.builders import history
from tests.model.synthetic import hot, truth
from tests.watch.placed import placed

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Group, Network
from gavotte.model import model
from gavotte.place import Running, evaluate
from gavotte.watch import Event, Shift, Watcher
from gavotte.watch.belief import MESSAGE_BYTES, expected_times, renewed, without
from gavotte.watch.detect import Edge
from gavotte.watch.reassessing import reassess

NAMES = ["a", "b", "c", "d"]


def network(rate_bps: float = 1e9) -> Network:
    return builders.network(NAMES, rate_bps, 0.001, cpus=1.0, egress_bps=rate_bps)


def moved(source: str, targets: str, after_bps: float) -> Event:
    after_s = 0.001 + 8 * MESSAGE_BYTES / after_bps
    moves = tuple(Shift(source, target, 0.065, after_s) for target in targets)
    return Event("moved", 3, (source,), moves, len(moves))


def test_times_are_latency_and_bytes_over_rate() -> None:
    times = expected_times(network())
    assert len(times) == 12
    assert times["a", "b"] == pytest.approx(0.001 + 0.064)


def test_expected_excess_is_in_rates_and_not_in_times_to_watch_by() -> None:
    excess = [[None, 0.6, 0.0, None], *([None] * 4 for _ in range(3))]
    before = network().model_copy(update={"excess": excess})
    times = expected_times(before)
    assert times["a", "b"] == pytest.approx(0.001 + 0.064 / 1.6)
    assert times["a", "c"] == times["b", "a"] == pytest.approx(0.001 + 0.064)
    after = renewed(before, moved("a", "b", 8e8))
    assert after.rate_bps[0][1] == pytest.approx(5e8)
    assert expected_times(after)["a", "b"] == pytest.approx(0.001 + 0.08)


@pytest.mark.parametrize("method", ["auto", "mean"])
def test_quiet_times_of_hot_pairs_are_no_moves(method: str) -> None:
    rng = np.random.default_rng(2)
    wanted = truth(10, rng)
    learnt = model(history(8e6 / hot(wanted, 12, rng, share=0.4)), method=method)
    assert learnt.excess
    assert learnt.band is not None
    at = {name: i for i, name in enumerate(learnt.names)}

    def quiet(pairs: Collection[Edge]) -> Mapping[Edge, float]:
        return {(s, t): 1e-4 + wanted[at[s], at[t]] * float(rng.lognormal(0, 0.02)) for s, t in pairs}

    watcher = Watcher(expected_times(learnt), max(0.03, learnt.band), quiet)
    assert [event for _ in range(60) for event in watcher.tick()] == []


def test_what_was_measured_is_in_doubt_no_more() -> None:
    doubt = [[None, "guessed", "earlier", None], [None] * 4, [None] * 4, ["guessed", None, None, None]]
    before = Network.model_validate(network().model_dump() | {"doubt": doubt})
    looked = renewed(before, Event("false-alarm", 1, ("a",), calibrated=1, measured=(("a", "b"), ("b", "c"))))
    assert looked.doubt[0] == [None, None, "earlier", None]
    assert looked.rate_bps == before.rate_bps
    after = renewed(looked, moved("a", "c", 5e8))
    assert (after.doubt[0], after.doubt[3][0]) == ([None] * 4, "guessed")
    assert renewed(after, Event("came", 2, ("d",), measured=(("d", "a"),))).doubt == []


def test_rates_and_caps_follow_what_moved() -> None:
    before = network()
    after = renewed(before, moved("a", "bcd", 2.5e8))
    assert after.rate_bps[0][1:] == [pytest.approx(2.5e8)] * 3
    assert after.rate_bps[1] == before.rate_bps[1]
    assert after.hosts[0].egress_bps == pytest.approx(2.5e8)
    assert after.hosts[0].ingress_bps is None
    assert after.hosts[1].egress_bps == 1e9
    assert before.rate_bps[0][1] == 1e9


def test_one_slow_pair_lowers_no_cap() -> None:
    after = renewed(network(), moved("a", "b", 1e8))
    assert after.rate_bps[0][1] == pytest.approx(1e8)
    assert after.hosts[0].egress_bps == 1e9


def test_a_host_that_is_gone_changes_no_rate() -> None:
    before = network()
    assert renewed(before, Event("gone", 1, ("a",))) is before
    assert renewed(before, moved("a", "z", 1e8)).rate_bps == before.rate_bps


RACKS = [
    Group(name="r0", members=["a", "b"], up_bps=4e9, down_bps=4e9),
    Group(name="r1", members=["c", "d"], up_bps=4e9, down_bps=None),
]


def test_a_racks_cap_follows_what_leaves_it_and_one_hosts_pairs_do_not_move_it() -> None:
    before = network().model_copy(update={"groups": RACKS})
    moves = (*moved("a", "cd", 2e8).moves, *moved("b", "cd", 2.2e8).moves)
    r0, r1 = renewed(before, Event("moved", 3, ("a", "b"), moves, 4)).groups
    assert r0.up_bps == pytest.approx(4e9 * 0.21, rel=0.06)
    assert r0.down_bps == 4e9
    assert (r1.up_bps, r1.down_bps) == (4e9, None)
    assert renewed(before, moved("a", "bcd", 2e8)).groups == RACKS
    # All moved, but each by its own.
    moves = (*moved("a", "cd", 2e8).moves, *moved("b", "cd", 5e8).moves)
    assert renewed(before, Event("moved", 3, ("a", "b"), moves, 4)).groups == RACKS


def test_hosts_that_are_gone_take_their_rows_and_their_groups_with_them() -> None:
    pods = [Group(name="pod", members=list("abd")), *RACKS[1:], Group(name="r2", members=["a"], parent="pod")]
    before = network().model_copy(update={"groups": pods, "rate_low_bps": network(9e8).rate_bps})
    after = without(before, {"a", "c"})
    assert after == Network.model_validate(after.model_dump())
    assert after.names == ["b", "d"]
    assert after.rate_low_bps == [[None, 9e8], [9e8, None]]
    assert [(group.name, group.members) for group in after.groups] == [("pod", ["b", "d"]), ("r1", ["d"])]
    assert without(before, ()) == before
    with pytest.raises(GavotteError, match="no host is left"):
        without(before, set(NAMES))


def app(memory_bytes: int, name: str = "pair", **constraints: object) -> App:
    tasks = [{"name": task, "memory_bytes": memory_bytes} for task in ("x", "y")]
    return builders.app(name, ("x", "y", 1_000_000_000), tasks=tasks, constraints=constraints)


def test_a_placement_on_a_slow_host_is_worth_leaving_and_when() -> None:
    before = network()
    after = renewed(before, moved("a", "bcd", 1e8))
    reassessed = reassess(before, after, placed([app(100_000_000)], {"x": "a", "y": "b"}))
    assert reassessed.before_s == pytest.approx(8.0)
    assert reassessed.now_s == pytest.approx(80.0)
    assert reassessed.best_s == pytest.approx(8.0)
    # x leaves the slow host at 100 Mbit/s, or swaps with y.
    assert reassessed.migration_s == pytest.approx(8.0)
    assert reassessed.runs == pytest.approx(8 / 72)
    assert "with 2 tasks moved in 8.00 s, which pays after 1 run" in reassessed.text


def test_a_placement_elsewhere_stays() -> None:
    before = network()
    after = renewed(before, moved("a", "bcd", 1e8))
    reassessed = reassess(before, after, placed([app(0)], {"x": "c", "y": "d"}))
    assert reassessed.runs is None
    assert reassessed.assignment == {"x": "c", "y": "d"}
    with pytest.raises(GavotteError, match="`z`, which is not a host"):
        reassess(before, after, placed([app(0)], {"x": "c", "y": "z"}))


def test_what_a_gone_host_had_is_restarted_elsewhere_without_sending_its_state() -> None:
    before = network()
    reassessed = reassess(before, before, placed([app(100_000_000)], {"x": "a", "y": "b"}), gone={"a"})
    assert reassessed.restart == ("x",)
    assert reassessed.assignment is not None
    assert reassessed.assignment["x"] in "cd"
    assert reassessed.assignment["y"] == "b"
    assert reassessed.now_s == pytest.approx(8.0)
    assert (reassessed.migration_s, reassessed.runs) == (0.0, None)
    assert f"8.00 s now with what was lost restarted; restart x on {reassessed.assignment['x']}" in reassessed.text


@pytest.mark.slow
def test_who_stands_in_the_way_of_a_restart_moves_and_that_costs() -> None:
    even = network()
    hosts = [host.model_copy(update={"cpus": 2.0 if host.name in "ab" else 1.0}) for host in even.hosts]
    before, one = even.model_copy(update={"hosts": hosts}), app(100_000_000)
    big = one.model_copy(update={"task": [one.task[0].model_copy(update={"cpus": 2.0}), one.task[1]]})
    running = placed([big], {"x": "a", "y": "b"})
    reassessed = reassess(before, before, running, gone={"a"})
    assert reassessed.assignment is not None
    assert reassessed.assignment["x"] == "b"
    assert reassessed.assignment["y"] in "cd"
    assert reassessed.restart == ("x",)
    assert reassessed.migration_s == pytest.approx(0.8)
    assert "restarted and 1 task moved in 0.80 s; restart x on b" in reassessed.text
    reassessed = reassess(before, before, running, gone={"a", "b"})
    assert (reassessed.assignment, reassessed.now_s, reassessed.restart) == (None, None, ("x", "y"))
    assert reassessed.text.startswith("the hosts of x, y are gone, and no other placement fits: ")


def test_no_task_is_placed_on_a_host_that_is_gone() -> None:
    before = network()
    both = Event("moved", 3, ("a",), (*moved("a", "bcd", 1e8).moves, *(moved(s, "a", 1e8).moves[0] for s in "bcd")), 6)
    reassessed = reassess(before, renewed(before, both), placed([app(0)], {"x": "a", "y": "b"}), gone={"c"})
    assert reassessed.assignment is not None
    assert set(reassessed.assignment.values()) == {"b", "d"}


def test_several_applications_are_reviewed_as_one() -> None:
    before = network()
    apps = [app(0, "one"), app(0, "two")]
    running = placed(apps, {"one/x": "a", "one/y": "b", "two/x": "c", "two/y": "d"})
    assert reassess(before, before, running).before_s == pytest.approx(8.0)
    reassessed = reassess(before, before, running, gone={"d"})
    assert reassessed.restart == ("two/y",)
    assert reassessed.assignment is None


def test_a_placement_of_other_applications_is_refused() -> None:
    placement = evaluate(network(), [app(0)], {"x": "a", "y": "b"})
    assert reassess(network(), network(), Running([app(0)], placement)).assignment == {"x": "a", "y": "b"}
    with pytest.raises(GavotteError, match="`other` is not in the placement"):
        reassess(network(), network(), Running([app(0), app(0, "other")], placement))
    with pytest.raises(GavotteError, match="an application `pair`"):
        reassess(network(), network(), Running([app(0, "other")], placement))
    with pytest.raises(GavotteError, match="two applications have the same name"):
        reassess(network(), network(), Running([app(0), app(1)], placement))


@pytest.mark.parametrize("count", [2, 4])
def test_a_watch_follows_a_racks_uplink(count: int) -> None:
    size = 4 * count
    names = [f"h{i:02}" for i in range(size)]

    def cloud(share: float) -> Network:
        rates = [
            [None if i == j else 9e8 if i // 4 == j // 4 else 4e8 * (share if i < 4 else 1) for j in range(size)]
            for i in range(size)
        ]
        racks = [Group(name=f"r{r}", members=names[4 * r : 4 * r + 4], up_bps=4e9, down_bps=4e9) for r in range(count)]
        return builders.network(names, rates, 1e-4, groups=racks)

    true_s, generator = expected_times(cloud(0.4)), np.random.default_rng(1)

    def measured(pairs: Collection[Edge]) -> Mapping[Edge, float]:
        return {edge: true_s[edge] * float(np.exp(generator.normal(0, 0.03))) for edge in pairs}

    belief = cloud(1.0)
    watcher = Watcher(expected_times(belief), 0.05, measured, seed=1)
    for _ in range(40):
        for event in watcher.tick():
            belief = renewed(belief, event)
    assert belief.groups[0].up_bps == pytest.approx(1.6e9, rel=0.1)
    assert belief.groups[0].down_bps == 4e9
    assert [group.up_bps for group in belief.groups[1:]] == [4e9] * (count - 1)
