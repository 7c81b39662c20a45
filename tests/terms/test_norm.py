"""One Norm(N_E), by medians or by a given constant."""

from __future__ import annotations

import numpy as np
import pytest
from tests.model.synthetic import disturbed, truth

from gavotte.collective import norm_of as benchmarks_norm
from gavotte.model.choosing import estimate
from gavotte.model.findings import norm
from gavotte.terms.norm import TOLERANCE, norm_of


def test_benchmarks_and_model_share_one_norm() -> None:
    rng = np.random.default_rng(1)
    times = disturbed(truth(12, rng), 10, rng)
    constant = estimate(times, "mode")
    assert benchmarks_norm is norm_of
    whole = norm(times, constant, 0.05)
    assert (whole.share, whole.tolerance) == (norm_of(times, constant), TOLERANCE)
    assert (whole.wide_share, whole.wide_tolerance) == (
        norm_of(times, constant, tolerance=whole.wide_tolerance),
        3 * 0.05,
    )


@pytest.mark.parametrize("load", [0.0, 0.3])
def test_rare_slow_downs_count_once_by_either_constant(load: float) -> None:
    rng = np.random.default_rng(2)
    times = disturbed(truth(24, rng), 10, rng, spikes=0.1, band=0.02, load=load)
    times[3, 4] = np.nan
    times[:, 5, 6] = np.nan
    share = norm_of(times, 7 * estimate(times, "mode"))
    # A spike x (1 + Exp(2)) stays below 1.1 once in twenty.
    assert share == pytest.approx(0.095, abs=0.01)
    assert norm_of(times) == pytest.approx(share, abs=0.003)


def test_a_least_value_is_no_worse_for_a_load() -> None:
    rng = np.random.default_rng(3)
    wanted = truth(12, rng)
    times = wanted * np.array([1.0, 1.5, 0.7, 1.2, 2.0, 0.9])[:, None, None]
    assert norm_of(times, estimate(times, "min")) == 0.0
    assert norm_of(np.full((2, 3, 3), np.nan)) == 0.0


def test_frequent_slow_downs_count_more_by_medians() -> None:
    """The example of docs/concepts/constant.md."""
    rng = np.random.default_rng(0)
    times = disturbed(truth(24, rng), 10, rng, spikes=0.35, band=0.02)
    assert round(norm_of(times), 2) == 0.41
    assert round(norm_of(times, estimate(times, "mode")), 2) == 0.34
