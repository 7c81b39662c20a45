"""Alike, different, cannot tell: how often each is wrong, and what exact and missing values give."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import stats

from gavotte.terms.equivalence import (
    ALIKE,
    CANNOT_TELL,
    DIFFERENT,
    POWER,
    SIGNIFICANCE,
    Floats,
    Judgement,
    Means,
    Verdict,
    holm,
    judge,
)

MARGIN = 0.05
SEEDS = 400
CHANCE = 3 * (SIGNIFICANCE * (1 - SIGNIFICANCE) / SEEDS) ** 0.5
"""Three standard deviations of a count at the significance level, as a share of the seeds."""


def measured(
    rng: np.random.Generator, noise: float, count: int, *, cells: int = 1, change: float | Floats = 0.0
) -> Means:
    """Return means of values with this standard deviation, around 1 + change."""
    values = (1 + np.broadcast_to(change, cells))[:, None] + noise * rng.standard_normal((cells, count))
    return Means.of(values.tolist())


def verdicts(noise: float, count: int, *, cells: int = 1, change: float = 0.0) -> list[Verdict]:
    """Return the verdict of each seed. The change is that of the last cell."""
    changes = np.zeros(cells)
    changes[-1] = change
    results = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        first = measured(rng, noise, count, cells=cells)
        results.append(judge(first, measured(rng, noise, count, cells=cells, change=changes), MARGIN).whole)
    return results


NOISES = (0.005, 0.02, 0.1, 0.3)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, 12])
@pytest.mark.parametrize("count", [3, 8])
@pytest.mark.parametrize("noise", NOISES)
def test_equal_results_seldom_differ(noise: float, count: int, cells: int) -> None:
    assert verdicts(noise, count, cells=cells).count("different") <= (SIGNIFICANCE + CHANCE) * SEEDS


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("change", [MARGIN, -MARGIN, 0.08, -0.24])
@pytest.mark.parametrize("count", [3, 8])
@pytest.mark.parametrize("noise", NOISES)
def test_alike_is_said_of_what_is_within_the_margin_alone(noise: float, count: int, change: float) -> None:
    """Among four cells, one truly is at the margin or beyond it: at most a share of the significance may miss it."""
    for cells in (1, 4):
        assert verdicts(noise, count, cells=cells, change=change).count("alike") <= (SIGNIFICANCE + CHANCE) * SEEDS


def test_little_noise_is_enough_for_both_answers() -> None:
    assert verdicts(0.01, 5, cells=4).count("alike") >= 0.95 * SEEDS
    assert verdicts(0.01, 5, cells=4, change=-0.24).count("different") >= 0.95 * SEEDS


@pytest.mark.slow
def test_a_difference_that_could_have_been_seen_is_seen() -> None:
    rng = np.random.default_rng(5)
    typical = np.median([judge(measured(rng, 0.1, 8), measured(rng, 0.1, 8), MARGIN).detectable for _ in range(100)])
    assert verdicts(0.1, 8, change=float(typical)).count("different") == pytest.approx(POWER * SEEDS, rel=0.1)


@pytest.mark.slow
def test_the_repetitions_asked_for_show_that_nothing_has_changed() -> None:
    rng = np.random.default_rng(6)
    needs = [judge(measured(rng, 0.05, 8), measured(rng, 0.05, 8), MARGIN).repetitions for _ in range(100)]
    assert verdicts(0.05, int(np.nanmedian(needs))).count("alike") == pytest.approx(POWER * SEEDS, rel=0.15)


def test_the_interval_is_that_of_all_ratios_that_are_not_rejected() -> None:
    rng = np.random.default_rng(7)
    one, other = rng.normal(10, 1, 8), rng.normal(12, 2, 11)
    result = judge(Means.of([one.tolist()]), Means.of([other.tolist()]), MARGIN)
    for end in (result.low[0], result.high[0]):
        p = stats.ttest_ind(one * (1 + end), other, equal_var=False).pvalue
        assert p == pytest.approx(0.05, abs=0.005)


def exact(*values: float) -> Means:
    """Return means that are known exactly."""
    mean = np.array(values)
    return Means(mean, np.zeros_like(mean), np.full(mean.shape, np.inf), np.ones(mean.shape, dtype=np.int64))


def test_exact_values_are_compared_exactly() -> None:
    result = judge(exact(1, 1, 1, 0, 0, -2), exact(1.05, 0.95, 1.051, 0, 1, -2.2), MARGIN)
    assert result.verdict.tolist() == [ALIKE, ALIKE, DIFFERENT, ALIKE, DIFFERENT, DIFFERENT]
    assert result.relative[[2, 5]] == pytest.approx([0.051, 0.1])


def test_exact_values_need_no_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = exact(1, 1, 1, 0, np.nan), exact(1.05, 1.051, 0.5, 0, 1)
    result = judge(one, other, MARGIN)
    monkeypatch.setitem(sys.modules, "scipy", None)
    without = judge(one, other, MARGIN)
    for name in ("relative", "low", "high", "chance", "verdict", "detectable", "repetitions"):
        assert np.array_equal(getattr(without, name), getattr(result, name), equal_nan=True)
    assert without.chance[:4].tolist() == [1, 0, 0, 1]


def test_a_value_alone_or_none_tells_nothing() -> None:
    result: Judgement = judge(
        Means.of([[1.0], [], [1.0, 1.01]]), Means.of([[2.0, 2.1], [1.0, 1.1], [1.0, 1.01]]), MARGIN
    )
    assert result.verdict.tolist() == [CANNOT_TELL, CANNOT_TELL, ALIKE]
    assert np.isnan(result.chance[:2]).all()


def test_holm_never_exceeds_one_and_keeps_the_order() -> None:
    assert holm([0.5, 0.01, 0.9]).tolist() == pytest.approx([1.0, 0.03, 1.0])
