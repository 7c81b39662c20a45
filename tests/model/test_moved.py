"""Pairs that moved during the measurement, and pairs that only seemed to."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import history
from tests.model.synthetic import disturbed, error, truth

from gavotte.formats.history import Floats
from gavotte.model import find_constant, judge, model
from gavotte.model.choosing import estimate, lasting, trials
from gavotte.model.estimators import band
from gavotte.model.moved import cut


def test_a_host_that_moved_is_known_by_what_came_after() -> None:
    rng = np.random.default_rng(1)
    before = truth(24, rng)
    after = before.copy()
    after[5] *= 2.5
    times = disturbed(before, 10, rng, spikes=0.05)
    times[6:] = disturbed(after, 4, rng, spikes=0.05)
    result = cut(times)
    assert result.hosts == (5,)
    assert result.share == pytest.approx(1 / 24, rel=0.1)
    assert np.isnan(result.times[:6, 5]).all()
    assert error(estimate(result.times, "mode"), after) < 0.05 < error(estimate(times, "mode"), after)


def test_hosts_that_moved_are_known_after_two_snapshots() -> None:
    rng = np.random.default_rng(9)
    before, other = truth(24, rng), truth(24, rng)
    after = before.copy()
    for host in (3, 17):
        after[host], after[:, host] = 1.6 * other[host], 1.6 * other[:, host]
    times = np.concatenate([disturbed(before, 3, rng, spikes=0.1), disturbed(after, 2, rng, spikes=0.1)])
    result = cut(times)
    assert result.hosts == (3, 17)
    assert np.isnan(result.times[:3, 3]).all()
    assert np.isfinite(result.times[:3, 5, 6]).all()


def test_a_pair_that_moved_moves_alone() -> None:
    rng = np.random.default_rng(2)
    times = disturbed(truth(8, rng), 10, rng, spikes=0.0)
    times[5:, 2, 3] /= 3
    result = cut(times)
    assert result.hosts == ()
    assert np.isnan(result.times[:5, 2, 3]).all()
    assert np.isfinite(result.times[5:, 2, 3]).all()
    assert np.isnan(result.times).sum() == 5 + 10 * 8


@pytest.mark.parametrize(("spikes", "load"), [(0.1, 0.0), (0.3, 0.0), (0.1, 0.4)])
def test_spikes_and_loads_are_no_moves(spikes: float, load: float) -> None:
    rng = np.random.default_rng(3)
    result = cut(disturbed(truth(40, rng), 10, rng, spikes=spikes, load=load))
    assert result.share == 0.0
    assert result.hosts == ()


def test_values_told_again_are_no_move() -> None:
    """As if a host's report, in ticks of 10 ms, stayed until its next one."""
    rng = np.random.default_rng(6)
    times: Floats = 0.01 * np.ceil(100 * rng.lognormal(-1.5, 1.0, (15, 40, 40)))
    for row in range(1, 15):
        times[row] = np.where(rng.random((40, 40)) < 0.86, times[row - 1], times[row])
    assert cut(times).share == 0.0
    assert band(times).width > 0.1
    assert trials(times).trials[0].fresh == pytest.approx(1 / 15 + 0.14 * 14 / 15, abs=0.02)


def test_pairs_measured_only_before_their_host_moved_are_kept_scaled_and_marked() -> None:
    rng = np.random.default_rng(7)
    before = truth(16, rng)
    times = disturbed(before, 10, rng, spikes=0.0, band=0.01)
    times[6:, :, 4] *= 3
    times[6:, 2, 4] = np.nan
    series = history(8e6 / times)
    network = model(series)
    rate = network.rate_bps[2][4]
    assert rate == pytest.approx(64e6 / (3 * before[2, 4]), rel=0.05)
    assert network.doubt[2][4] == "earlier"
    assert sum(each is not None for row in network.doubt for each in row) == 1
    assert network.notes[1:] == [
        "1 pair was measured only before its host moved; its older rate is kept, scaled as the host's others changed"
    ]


def test_a_cut_that_decides_worse_is_not_made() -> None:
    """Values that swing between two levels: the newest four agree, and the next are like the older ones."""
    rng = np.random.default_rng(8)
    times = disturbed(truth(24, rng), 12, rng, spikes=0.0, band=0.01)
    slow = rng.random((24, 24)) < 0.3
    times[6:10, slow] *= 4
    assert cut(times[:10]).share > 0.2
    assert cut(times).share == 0.0 or lasting(times).share == 0.0


def test_few_snapshots_show_no_move() -> None:
    rng = np.random.default_rng(4)
    times = disturbed(truth(8, rng), 4, rng)
    times[2:] *= np.where(np.eye(8, dtype=bool)[0], 9, 1)
    assert cut(times).times is times


def test_auto_says_who_moved_and_the_others_take_all_snapshots() -> None:
    rng = np.random.default_rng(5)
    before = truth(16, rng)
    times = disturbed(before, 10, rng, spikes=0.0)
    times[6:, :, 4] *= 3
    series = history(8e6 / times)
    constant = find_constant(series, method="auto")
    findings = judge(series, constant)
    assert findings.moved_hosts == ("h4",)
    assert "h4" in findings.advice[-1]
    rate = constant.rate_bps[0, 4]
    assert rate == pytest.approx(8 * 8e6 / (3 * before[0, 4]), rel=0.15)
    named = find_constant(series, method="median")
    assert judge(series, named).moved_hosts == ()
    assert named.rate_bps[0, 4] > 2 * rate
