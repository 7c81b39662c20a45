"""Latencies without the noise of single readings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests import builders

from gavotte.simulate.latencies import steady_latencies
from gavotte.tables import matrix

HOSTS = 16
_Floats = npt.NDArray[np.float64]


def noisy(true_s: _Floats, sigma: float, seed: int) -> list[list[float]]:
    """Return readings whose logarithm has this standard deviation, each direction on its own."""
    noise = np.random.default_rng(seed).normal(0, sigma, true_s.shape)
    return [[float(value) for value in row] for row in true_s * np.exp(noise)]


def steady(true_s: _Floats, sigma: float, seed: int, **more: object) -> _Floats:
    network = builders.network(len(true_s), 1e9, noisy(true_s, sigma, seed), **more)
    return matrix(steady_latencies(network).latency_s)


def pairs(table: _Floats) -> _Floats:
    return np.asarray(table[~np.eye(len(table), dtype=bool)])


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_becomes_one_latency(seed: int) -> None:
    values = pairs(steady(np.full((HOSTS, HOSTS), 1e-4), 0.9, seed))
    assert values.max() / values.min() < 1.6
    assert np.median(values) == pytest.approx(1e-4, rel=0.3)


@pytest.mark.parametrize("seed", range(5))
def test_racks_that_no_group_shows_stay_apart(seed: int) -> None:
    rack = np.arange(HOSTS) // 4
    true_s = np.where(rack[:, None] == rack[None, :], 30e-6, 90e-6)
    result = steady(true_s, 0.1, seed)
    within = (rack[:, None] == rack[None, :]) & ~np.eye(HOSTS, dtype=bool)
    assert result[within].max() < 0.6 * result[rack[:, None] != rack[None, :]].min()


@pytest.mark.parametrize("seed", range(5))
def test_a_far_host_stays_far_and_the_others_become_alike(seed: int) -> None:
    readings = np.array(noisy(np.full((HOSTS, HOSTS), 1e-4), 0.9, seed))
    readings[0, :] += 40e-3
    readings[:, 0] += 40e-3
    rows = [[float(value) for value in row] for row in readings]
    result = matrix(steady_latencies(builders.network(HOSTS, 1e9, rows)).latency_s)
    near = pairs(result[1:, 1:])
    assert result[0, 1:].min() > 40e-3
    assert near.max() / near.min() < 1.6


def test_exact_latencies_stay() -> None:
    true_s = np.array([[0.0 if m == n else 1e-5 * (1 + abs(m - n)) for n in range(HOSTS)] for m in range(HOSTS)])
    assert pairs(steady(true_s, 0.0, 0)) == pytest.approx(pairs(true_s))


def test_groups_and_machines_are_tiers_of_their_own() -> None:
    rack = np.arange(HOSTS) // 8
    true_s = np.where(rack[:, None] == rack[None, :], 50e-6, 80e-6)
    groups = [{"name": f"r{k}", "members": [f"vm{i}" for i in range(8 * k, 8 * k + 8)]} for k in range(2)]
    result = steady(true_s, 0.8, 3, groups=groups)
    for k in range(2):
        own = pairs(result[8 * k : 8 * k + 8, 8 * k : 8 * k + 8])
        assert own.max() / own.min() < 2.5
    assert np.array_equal(result, result.T, equal_nan=True)


def test_few_pairs_and_unknown_latencies_stay() -> None:
    network = builders.network(3, 1e9, [[0.0, 1e-4, 2e-4], [3e-4, 0.0, None], [2e-4, None, 0.0]])
    assert steady_latencies(network).latency_s == network.latency_s
    bare = builders.network(3, 1e9).model_copy(update={"latency_s": []})
    assert steady_latencies(bare) is bare
