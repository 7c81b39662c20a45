"""What an event does to a Network, and to an application that runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pytest
from tests.model.synthetic import history, hot, truth

from gavotte.formats.app import App, Task, Transfer
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.model import model
from gavotte.watch import Event, Move, Watcher
from gavotte.watch.belief import MESSAGE_BYTES, expected_times, renewed
from gavotte.watch.detect import Edge
from gavotte.watch.running import Running, review

NAMES = ["a", "b", "c", "d"]


def network(rate_bps: float = 1e9) -> Network:
    hosts = [Host(name=name, cpus=1.0, egress_bps=rate_bps, ingress_bps=None) for name in NAMES]
    rates = [[None if i == j else rate_bps for j in range(4)] for i in range(4)]
    latency = [[None if i == j else 0.001 for j in range(4)] for i in range(4)]
    return Network(format=FORMAT, hosts=hosts, rate_bps=rates, latency_s=latency)


def moved(source: str, targets: str, after_bps: float) -> Event:
    after_s = 0.001 + 8 * MESSAGE_BYTES / after_bps
    moves = tuple(Move(source, target, 0.065, after_s) for target in targets)
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


def app(memory_bytes: int) -> App:
    tasks = [Task(name=name, cpus=1.0, memory_bytes=memory_bytes) for name in ("x", "y")]
    transfer = Transfer(source="x", target="y", bytes=1_000_000_000)
    return App(format="gavotte/app/1", name="pair", task=tasks, transfer=[transfer])


def test_a_placement_on_a_slow_host_is_worth_leaving_and_when() -> None:
    before = network()
    after = renewed(before, moved("a", "bcd", 1e8))
    found = review(before, after, Running(app(100_000_000), {"x": "a", "y": "b"}))
    assert found is not None
    assert found.before_s == pytest.approx(8.0)
    assert found.now_s == pytest.approx(80.0)
    assert found.best_s == pytest.approx(8.0)
    # x leaves the slow host at 100 Mbit/s, or swaps with y.
    assert found.migration_s == pytest.approx(8.0)
    assert found.runs == pytest.approx(8 / 72)
    assert "pays after 1 runs" in found.text


def test_a_placement_elsewhere_stays() -> None:
    before = network()
    after = renewed(before, moved("a", "bcd", 1e8))
    found = review(before, after, Running(app(0), {"x": "c", "y": "d"}))
    assert found is not None
    assert found.runs is None
    assert found.assignment == {"x": "c", "y": "d"}
    assert review(before, after, Running(app(0), {"x": "c", "y": "z"})) is None
