"""Trees and mappings, and their times."""

from __future__ import annotations

import numpy as np
import pytest
from tests.model.synthetic import disturbed, truth

from gavotte.errors import GavotteError
from gavotte.model.decisions import (
    TaskGraph,
    binomial,
    broadcast_s,
    earliest_first,
    mapped,
    mapping_s,
    random_tasks,
)
from gavotte.model.stopping import settled
from gavotte.model.subset import cost_of_subset, random_rings, usual_degree


def test_the_binomial_tree_is_mpichs() -> None:
    tree = binomial(8, 0)
    assert tree.parent.tolist() == [0, 0, 0, 2, 0, 4, 4, 6]
    assert tree.order.tolist()[:2] == [0, 4]
    assert broadcast_s(tree, np.ones((8, 8))) == 3
    assert sorted(binomial(5, 3).order.tolist()) == list(range(5))
    assert broadcast_s(binomial(5, 3), np.ones((5, 5))) == 3


@pytest.mark.parametrize("size", [1, 2, 3, 7, 33])
def test_every_tree_reaches_all(size: int) -> None:
    times = truth(size, np.random.default_rng(size))
    for tree in (binomial(size, size - 1), earliest_first(times, size - 1)):
        assert sorted(tree.order.tolist()) == list(range(size))
        assert np.isfinite(broadcast_s(tree, np.nan_to_num(times)))


def test_a_host_sends_to_one_child_after_the_other() -> None:
    times = np.full((3, 3), 5.0)
    times[0, 1], times[0, 2], times[1, 2] = 1.0, 2.0, 4.0
    assert broadcast_s(earliest_first(times, 0), times) == 3.0
    both = np.stack([times, 2 * times])
    np.testing.assert_array_equal(broadcast_s(earliest_first(times, 0), both), [3.0, 6.0])


def test_the_mapping_puts_talkers_near() -> None:
    times = np.full((4, 4), 10.0)
    times[0, 3] = times[3, 0] = times[1, 2] = times[2, 1] = 1.0
    tasks = TaskGraph(np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2]), np.array([8.0, 8.0, 6.0, 6.0]))
    place = mapped(tasks, times)
    assert sorted(place.tolist()) == [0, 1, 2, 3]
    assert mapping_s(tasks, place, times) == 8.0
    assert mapping_s(tasks, np.arange(4), times) == 80.0


def test_mapping_a_graph_in_parts() -> None:
    times = truth(12, np.random.default_rng(0))
    apart = TaskGraph(np.array([0, 5]), np.array([1, 6]), np.array([1.0, 2.0]))
    assert sorted(mapped(apart, times).tolist()) == list(range(12))
    tasks = random_tasks(12, 1)
    assert (tasks.source != tasks.target).all()
    assert len({*zip(tasks.source.tolist(), tasks.target.tolist(), strict=True)}) == 12 * 8


def test_calibration_ends_when_the_decision_stays() -> None:
    rng = np.random.default_rng(1)
    wanted = truth(24, rng)
    quiet = disturbed(wanted, 4, rng, spikes=0.0, band=0.001)
    assert settled(quiet).stop
    assert not settled(quiet[:2]).stop
    changed = np.concatenate([quiet[:2], np.stack([np.nan_to_num(wanted).T + np.diag([np.nan] * 24)] * 3)])
    assert not settled(changed).stop
    assert max(settled(changed).regrets) > 0.01


def test_hosts_that_never_answered_do_not_keep_calibration_going() -> None:
    rng = np.random.default_rng(2)
    times = disturbed(truth(12, rng), 5, rng, spikes=0.0, band=0.001)
    times[:, [3, 7]] = np.nan
    times[:, :, [3, 7]] = np.nan
    assert settled(times).stop
    present = np.delete(np.delete(times, [3, 7], axis=1), [3, 7], axis=2)
    assert settled(times) == settled(present)
    assert not settled(np.full((5, 4, 4), np.nan)).stop
    # A pair that fell silent still counts, by its earlier times.
    times[3:, 5] = np.nan
    times[3:, :, 5] = np.nan
    assert settled(times).stop


@pytest.mark.parametrize(("size", "degree"), [(2, 1), (5, 4), (16, 8), (33, 11)])
def test_rings_give_every_host_as_many_pairs_each_way(size: int, degree: int) -> None:
    chosen = random_rings(size, degree, seed=4)
    assert (chosen.sum(axis=0) == degree).all()
    assert (chosen.sum(axis=1) == degree).all()
    assert not chosen.diagonal().any()
    earliest_first(np.where(chosen, 1.0, np.nan), 0)


def test_some_pairs_cost_some_gain_and_all_pairs_none() -> None:
    rng = np.random.default_rng(5)
    times = truth(64, rng)
    few = cost_of_subset(times, random_rings(64, usual_degree(64)))
    assert few.share == pytest.approx(12 / 63)
    assert 0 < few.gain < few.full_gain
    every = cost_of_subset(times, ~np.eye(64, dtype=bool))
    assert every.gain == every.full_gain
    with pytest.raises(GavotteError, match="9 others"):
        random_rings(9, 9)
