"""Spikes and loads are not changes; changes are found, soon, and where they are."""

from __future__ import annotations

import numpy as np
import pytest

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats
from gavotte.watch import Change, EdgeCusum, exceeds, movers
from gavotte.watch.detect import whole_s

EDGES = [("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f"), ("c", "g"), ("d", "h"), ("e", "i")]
EXPECTED = np.array([1.0, 2.0, 0.5, 0.7, 1.5, 1.0, 3.0, 0.2])
WIDTH = 0.05


def operations(count: int, seed: int, *, spikes: float = 0.1, load: float = 0.2) -> Floats:
    rng = np.random.default_rng(seed)
    shape = (count, len(EDGES))
    slow = 1 + (rng.random(shape) < spikes) * rng.exponential(5.0, shape)
    return np.asarray(EXPECTED * rng.lognormal(0, WIDTH, shape) * slow * np.exp(rng.normal(0, load, count))[:, None])


def test_spikes_and_loads_do_not_alarm() -> None:
    watcher = EdgeCusum(EDGES, EXPECTED, WIDTH)
    alarms = sum(bool(watcher.observe(times)) for times in operations(500, 1))
    assert alarms <= 2


@pytest.mark.parametrize("factor", [0.6, 1.25, 2.0, 5.0])
def test_a_link_that_moved_is_found_and_only_it(factor: float) -> None:
    watcher = EdgeCusum(EDGES, EXPECTED, WIDTH)
    times = operations(60, 2, spikes=0.05)
    times[30:, 3] *= factor
    for quiet in times[:30]:
        assert watcher.observe(quiet) == []
    number = 0
    changes: list[Change] = []
    while not changes:
        changes = watcher.observe(times[30 + number])
        number += 1
    assert [(c.source, c.target) for c in changes] == [("b", "e")]
    assert number <= 10
    assert changes[0].direction == ("slower" if factor > 1 else "faster")
    assert changes[0].factor == pytest.approx(factor, rel=0.2)
    assert changes[0].operations <= number
    assert movers(changes, EDGES) == []


def test_a_host_that_moved_is_named() -> None:
    watcher = EdgeCusum(EDGES, EXPECTED, WIDTH)
    times = operations(20, 3, spikes=0.0)
    times[:, [0, 2, 3]] *= 3
    for each in times:
        changes = watcher.observe(each)
    assert movers(changes, EDGES) == ["b"]


def test_one_spike_however_long_is_none() -> None:
    watcher = EdgeCusum(EDGES, EXPECTED, WIDTH)
    spike = EXPECTED.copy()
    spike[0] *= 1e6
    assert watcher.observe(spike) == []
    for _ in range(5):
        assert watcher.observe(EXPECTED) == []


def test_after_calibration_all_is_forgotten() -> None:
    watcher = EdgeCusum(EDGES, EXPECTED, WIDTH)
    moved = EXPECTED.copy()
    moved[1] *= 2
    for _ in range(10):
        changes = watcher.observe(moved)
    assert changes
    watcher.expect("a", "c", 2 * EXPECTED[1])
    for _ in range(50):
        assert watcher.observe(moved) == []


def test_edges_not_seen_keep_what_is_known_of_them() -> None:
    watcher = EdgeCusum(EDGES, EXPECTED, WIDTH)
    moved = EXPECTED.copy()
    moved[1] *= 2
    hidden = moved.copy()
    hidden[1] = np.nan
    matches = [bool(watcher.observe(hidden if number % 2 else moved)) for number in range(20)]
    assert matches.index(True) == 10
    assert watcher.observe(np.full(len(EDGES), np.nan)) == []


def test_two_edges_have_no_load_to_take_out() -> None:
    watcher = EdgeCusum(EDGES[:2], EXPECTED[:2], WIDTH)
    for _ in range(10):
        changes = watcher.observe(2 * EXPECTED[:2])
    assert len(changes) == 2


def test_the_papers_threshold() -> None:
    assert exceeds(2.0, 1.0)
    assert not exceeds(1.9, 1.0)
    assert exceeds(0.75, 1.0, 0.2)
    with pytest.raises(GavotteError, match="expected time of 0"):
        exceeds(1.0, 0.0)


def test_a_trees_time_is_that_of_its_longest_way() -> None:
    assert whole_s({("b", "d"): 4.0, ("a", "b"): 1.0, ("a", "c"): 4.5, ("d", "e"): 0.25}) == 5.25
    assert whole_s({("a", "b"): 1.0, ("b", "a"): 2.0}) == 3.0
    assert whole_s({}) == 0.0


def test_an_edge_without_an_expectation_is_refused() -> None:
    with pytest.raises(GavotteError, match="8 edges"):
        EdgeCusum(EDGES, np.where(EXPECTED > 2, np.nan, EXPECTED), WIDTH)
    with pytest.raises(GavotteError, match="not watched"):
        EdgeCusum(EDGES, EXPECTED, WIDTH).expect("a", "z", 1.0)
