"""The result of each estimator, with a known truth."""

from __future__ import annotations

import numpy as np
import pytest
from tests.model.synthetic import disturbed, error, truth

from gavotte.model.choosing import choose, estimate, trials
from gavotte.model.estimators import ESTIMATORS, band, ewma, load_of


@pytest.mark.parametrize("method", sorted(ESTIMATORS))
def test_a_constant_without_change_is_found_by_all(method: str) -> None:
    wanted = truth(9, np.random.default_rng(1))
    result = ESTIMATORS[method](np.stack([wanted] * 5))
    np.testing.assert_allclose(result.constant, wanted, rtol=1e-4)
    np.testing.assert_allclose(result.load, 1, rtol=1e-4)


@pytest.mark.parametrize(("method", "most"), [("rpca", 0.05), ("mode", 0.03), ("median", 0.08)])
def test_the_robust_ones_ignore_spikes_and_the_mean_does_not(method: str, most: float) -> None:
    rng = np.random.default_rng(2)
    wanted = truth(40, rng)
    times = disturbed(wanted, 10, rng, spikes=0.15)
    assert error(estimate(times, method), wanted) < most
    assert error(estimate(times, "mean"), wanted) > 0.2


@pytest.mark.parametrize("method", ["rpca", "mode"])
def test_a_load_on_all_pairs_is_told_apart(method: str) -> None:
    rng = np.random.default_rng(3)
    wanted = truth(30, rng)
    times = disturbed(wanted, 10, rng, spikes=0.1, load=0.3)
    result = ESTIMATORS[method](times)
    assert error(result.constant, wanted) < 0.04
    np.testing.assert_allclose(result.load, load_of(times, wanted), rtol=0.03)
    assert error(estimate(times, "min"), wanted) > 0.08


@pytest.mark.parametrize("method", sorted(ESTIMATORS))
def test_cells_that_were_not_measured_do_no_harm(method: str) -> None:
    rng = np.random.default_rng(4)
    wanted = truth(20, rng)
    times = disturbed(wanted, 10, rng, spikes=0.0, band=0.01)
    times[rng.random(times.shape) < 0.3] = np.nan
    times[:, 3, 5] = np.nan
    times[4] = np.nan
    result = estimate(times, method)
    assert np.isnan(result[3, 5])
    result[3, 5] = wanted[3, 5]
    # The pursuit has a price on D, so that seldom seen pairs come out low.
    assert error(result, wanted) < (0.05 if method == "rpca" else 0.02)


def test_the_band_is_seen_below_the_spikes() -> None:
    rng = np.random.default_rng(5)
    wanted = truth(40, rng)
    result = band(disturbed(wanted, 10, rng, spikes=0.2, band=0.08))
    assert result.width == pytest.approx(0.08, rel=0.1)
    assert result.agreeing[~np.eye(40, dtype=bool)].mean() == pytest.approx(8, abs=0.5)


def test_ewma_leans_to_the_newest() -> None:
    times = np.array([1.0, np.nan, 2.0])[:, None, None] * np.ones((3, 2, 2))
    np.testing.assert_allclose(ewma(times).constant, 0.7 * 1 + 0.3 * 2)


def test_times_of_zero_stay_zero() -> None:
    times = np.zeros((3, 4, 4))
    times[:, 0, 1] = 5.0
    result = estimate(times, "mode")
    assert result[0, 1] == pytest.approx(5.0)
    assert result[1, 0] == 0.0


def test_excess_makes_a_link_dear_that_is_often_slow() -> None:
    rng = np.random.default_rng(6)
    wanted = truth(24, rng)
    times = disturbed(wanted, 10, rng, spikes=0.0)
    # Everything that host 3 sends takes three times as long in four of ten snapshots.
    times[::3, 3] *= 3
    cost = estimate(times, "mode+excess")
    assert error(estimate(times, "mode"), wanted) < 0.03
    others = np.delete(np.arange(24), 3)
    assert np.nanmedian(cost[3] / wanted[3]) == pytest.approx(1.8, rel=0.15)
    assert np.nanmedian(cost[others] / wanted[others]) == pytest.approx(1.0, abs=0.05)


def test_excess_of_chance_alone_is_spread_over_all() -> None:
    rng = np.random.default_rng(7)
    wanted = truth(24, rng)
    times = disturbed(wanted, 10, rng, spikes=0.1)
    # A pair's own mean shows only chance in this case.
    assert error(estimate(times, "mode+excess"), wanted) < error(estimate(times, "mean"), wanted) / 4


@pytest.mark.slow
def test_auto_takes_a_robust_one_where_spikes_are_chance_and_not_where_they_belong_to_pairs() -> None:
    rng = np.random.default_rng(8)
    wanted = truth(48, rng)
    robust = choose(disturbed(wanted, 10, rng, spikes=0.3), seed=1)
    assert robust.method != "mean"
    hot = rng.random(wanted.shape) < 0.2
    times = disturbed(wanted, 10, rng, spikes=0.0)
    slow = 1 + hot * (rng.random(times.shape) < 0.4) * rng.exponential(4.0, times.shape)
    chosen = choose(times * slow, seed=1)
    assert chosen.method == "mean" or chosen.method.endswith("+excess")


def test_auto_believes_newer_values_where_all_drifts() -> None:
    rng = np.random.default_rng(10)
    walk = np.exp(np.cumsum(rng.normal(0, 0.25, (12, 40, 40)), axis=0))
    assert choose(truth(40, rng) * walk).method in ("ewma", "last")


def test_auto_chooses_by_what_the_constant_is_used_for() -> None:
    rng = np.random.default_rng(11)
    wanted = truth(40, rng)
    # A fifth of the pairs are slow every second time: trees avoid them, though their usual time is the undisturbed one.
    hot = rng.random(wanted.shape) < 0.2
    times = disturbed(wanted, 12, rng, spikes=0.0)
    times *= 1 + hot * (rng.random(times.shape) < 0.4) * rng.exponential(4.0, times.shape)
    tried = trials(times)
    costs = {purpose: tried.surest(purpose).method for purpose in ("trees", "placement", "prediction")}
    assert costs["trees"] == "mean" or costs["trees"].endswith("+excess")
    assert costs["prediction"] not in ("mean", "mode+excess", "rpca+excess")
    assert choose(times, purpose="prediction").method == costs["prediction"]
    chosen = choose(times, purpose="prediction")
    mean, error = chosen.over_base(chosen.method) or (0.0, 0.0)
    assert mean + error < 0


def test_values_that_repeat_the_last_one_decide_nothing() -> None:
    rng = np.random.default_rng(12)
    times = disturbed(truth(24, rng), 12, rng, spikes=0.3)
    # From the middle on, every report is the one before: `last` predicts it exactly, and has shown nothing by that.
    times[6:] = times[5]
    assert np.isnan([trial.mean_error for trial in trials(times).trials]).all()
    assert choose(times, purpose="prediction").method == "mean"


def test_auto_is_the_same_for_the_same_seed_and_says_nothing_of_two_snapshots() -> None:
    rng = np.random.default_rng(9)
    times = disturbed(truth(20, rng), 6, rng)
    assert choose(times, seed=3).method == choose(times, seed=3).method
    assert choose(times[:2]).trials == ()
