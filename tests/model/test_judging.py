"""A History's verdict on its own constant, and the command that prints it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.builders import history
from tests.model.synthetic import disturbed, hot, truth
from tests.shell import gavotte
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.history import write_history
from gavotte.formats.network import read_network
from gavotte.model import find_constant, judge
from gavotte.model.choosing import Choice, estimate
from gavotte.model.findings import differing, enough, looked_at, norm, recalibrate_after_s, steps
from gavotte.model.intervals import interval
from gavotte.model.plot import picture


@pytest.mark.parametrize("load", [0.0, 0.3])
def test_the_norm_is_the_share_of_spikes_whatever_the_load(load: float) -> None:
    rng = np.random.default_rng(1)
    wanted = truth(40, rng)
    times = disturbed(wanted, 10, rng, spikes=0.2, band=0.02, load=load)
    # A spike x (1 + Exp(2)) stays below 1.1 once in twenty.
    assert norm(times, estimate(times, "mode"), 0.02).share == pytest.approx(0.19, abs=0.01)


@pytest.mark.parametrize("method", ["mean", "mode+excess", "rpca+excess"])
def test_expected_excess_is_no_part_of_what_times_are_compared_with(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(10)
    wanted = truth(16, rng)
    times = hot(wanted, 15, rng)
    measured = history(8e6 / times)
    monkeypatch.setattr("gavotte.model.constant.choose", lambda *_, **__: Choice(method))
    constant = find_constant(measured)
    assert constant.method == method
    off = ~np.eye(16, dtype=bool)
    slow = times > 1.5 * wanted
    # With the excess in the constant, undisturbed values of hot pairs count, too.
    assert judge(measured, constant).norm.share == pytest.approx(slow[:, off].mean(), abs=0.02)
    result = off & (slow.mean(axis=0) < 0.4)
    assert constant.undisturbed_bps[result] == pytest.approx((64e6 / wanted)[result], rel=0.05)
    assert np.median((constant.undisturbed_bps / constant.rate_bps)[result & (slow.mean(axis=0) > 0.3)]) > 1.3
    # The interval is that of the undisturbed rate, slower by the excess.
    assert (constant.rate_low_bps < constant.rate_bps)[result].all()
    monkeypatch.setattr("gavotte.model.constant.choose", lambda *_, **__: Choice("mode"))
    without = find_constant(measured)
    assert (constant.rate_low_bps / constant.rate_bps)[result] == pytest.approx(
        (without.rate_low_bps / without.rate_bps)[result]
    )


def test_an_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    wanted = truth(40, rng)
    times = disturbed(wanted, 10, rng, spikes=0.1)
    constant = find_constant(history(8e6 / times), method="mode")
    low, high, _ = interval(times, 8 * 8e6 / constant.rate_bps)
    off = ~np.eye(40, dtype=bool)
    inside = ((low <= wanted) & (wanted <= high))[off].mean()
    assert 0.94 < inside < 1.0
    assert (high / low)[off].max() < 1.3


def test_fewer_snapshots_are_enough_for_a_quieter_network() -> None:
    rng = np.random.default_rng(3)
    wanted = truth(30, rng)
    quiet = history(8e6 / disturbed(wanted, 10, rng, spikes=0.02, band=0.01))
    noisy = history(8e6 / disturbed(wanted, 10, rng, spikes=0.35, band=0.1))
    first, second = (judge(h, find_constant(h, method="median")) for h in (quiet, noisy))
    assert first.enough is not None
    assert second.enough is None or second.enough > first.enough
    assert first.steps[-1] == 0.0
    assert first.steps[0] < second.steps[0]


def test_enough_is_where_it_stays_good() -> None:
    assert enough([0.5, 0.05, 0.3, 0.08, 0.02, 0.0]) == 4
    assert enough([0.05, 0.05, 0.0]) == 1
    assert enough([0.5, 0.3, 0.0]) is None
    assert enough([0.0]) is None


@pytest.mark.parametrize("snapshots", [1, 2, 16, 17, 20, 33, 100, 1000, 100_000])
def test_a_long_series_is_looked_at_a_few_times(snapshots: int) -> None:
    after = looked_at(snapshots)
    assert after == sorted(set(after))
    assert len(after) <= 32
    assert after[-1] == snapshots
    assert after[:16] == list(range(1, min(16, snapshots) + 1))


@pytest.mark.slow
def test_steps_are_told_by_their_snapshots(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    times = disturbed(truth(5, rng), 400, rng, spikes=0.0, band=0.02)
    times[:100] = disturbed(truth(5, rng), 100, rng)
    measured = history(8e6 / times)
    result = find_constant(measured, method="median")
    findings = judge(measured, result)
    assert len(findings.steps) == len(findings.step_snapshots) <= 32
    assert findings.steps == steps(times, "median")
    assert findings.enough is not None
    assert findings.enough in [k for k in findings.step_snapshots if k > 100]
    assert f"{findings.enough} of 400 snapshots were enough" in findings.advice[1]
    assert enough([0.5, 0.4, 0.05, 0.0], [1, 2, 40, 400]) == 40
    # The axis ends at the number of snapshots, not at that of points.
    svg = picture(result, findings, kind="svg")
    assert svg != picture(result, replace(findings, step_snapshots=list(range(1, len(findings.steps) + 1))), kind="svg")
    source = tmp_path / "h.npz"
    write_history(source, measured)
    run = CliRunner().invoke(app, ["model", str(source), "--method", "last", "--json"])
    assert run.exit_code == 0, run.output
    constant = json.loads(run.stdout)["constant"]
    assert len(constant["steps"]) == len(constant["step_snapshots"])
    assert constant["step_snapshots"][-1] == 400


def test_one_factor_for_all_pairs_is_no_difference() -> None:
    wanted = truth(10, np.random.default_rng(4))
    assert differing(3 * wanted, wanted) == 0.0
    moved = wanted.copy()
    moved[0] *= 2
    assert differing(moved, wanted) == pytest.approx(0.1)


def test_a_network_that_moves_is_calibrated_again_sooner() -> None:
    rng = np.random.default_rng(5)
    wanted = truth(20, rng)
    still = disturbed(wanted, 10, rng, spikes=0.05)
    moving = still.copy()
    moving[5:, :6] *= 2
    hours = np.arange(10, dtype=np.float64) * 3600
    long, short = recalibrate_after_s(still, hours), recalibrate_after_s(moving, hours)
    assert long is not None
    assert short is not None
    # 6 of 20 senders moved in half of nine hours: a tenth moves in a third of that.
    assert short == pytest.approx(0.1 / 0.3 * 4.5 * 3600, rel=0.05)
    assert long > 5 * short
    assert recalibrate_after_s(still[:5], hours[:5]) is None


def test_tuning_pays_where_hosts_differ_and_not_where_all_are_alike() -> None:
    rng = np.random.default_rng(6)
    uneven = history(8e6 / disturbed(truth(30, rng), 8, rng))
    alike = np.full((30, 30), 0.1)
    np.fill_diagonal(alike, np.nan)
    # A band so wide that no constant predicts the next snapshot.
    even = history(8e6 / disturbed(alike, 8, rng, spikes=0.0, band=0.8))
    pays, not_so = (judge(h, find_constant(h)) for h in (uneven, even))
    assert pays.gains is not None
    assert pays.gains.broadcast.low > 0.1
    assert "pay" in pays.advice[0]
    assert not_so.gains is not None
    assert not_so.gains.broadcast.high < pays.gains.broadcast.low
    assert not_so.norm.share > 0.5
    assert "volatile" in not_so.advice[0]


def test_a_single_snapshot_is_judged_too() -> None:
    one = history(8e6 / truth(5, np.random.default_rng(7))[None])
    findings = judge(one, find_constant(one))
    assert findings.gains is None
    assert findings.method == "median"
    assert len(findings.advice) == 3


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("count", [1, 4])
def test_one_or_two_hosts_are_judged_without_gains(size: int, count: int) -> None:
    rng = np.random.default_rng(12)
    few = history(8e6 / disturbed(truth(size, rng), count, rng))
    for method in ("auto", "mode", "mean", "rpca"):
        findings = judge(few, find_constant(few, method=method))
        assert findings.subset is None
        assert findings.gains is None
        assert "at least 3 of each" in findings.advice[0]


def test_the_command_prints_and_draws_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    source, target, drawing = tmp_path / "h.npz", tmp_path / "n.json", tmp_path / "p.svg"
    write_history(source, history(8e6 / disturbed(truth(12, rng), 6, rng), every_s=600))
    run = CliRunner().invoke(app, ["model", str(source), "-o", str(target), "--plot", str(drawing), "--json"])
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert document["format"] == "gavotte/network/1"
    constant = document["constant"]
    assert constant["norm"]["tolerance"] == 0.1
    assert constant["seed"] == 0
    assert len(constant["steps"]) == 6
    assert {trial["method"] for trial in constant["held_out"]} >= {"mean", "mode", "rpca", "mode+excess"}
    low, rate, high = constant["rate_low_bps"][0][1], document["rate_bps"][0][1], constant["rate_high_bps"][0][1]
    assert low < rate < high
    assert read_network(target).rate_bps[0][1] == pytest.approx(rate)
    assert drawing.read_text().lstrip().startswith("<?xml")
    words = CliRunner().invoke(app, ["model", str(source), "--method", "rpca", "--seed", "5"])
    assert "learned from 6 snapshots by the method rpca" in words.stderr
    assert " % off the lasting value of their pair; the others scatter by " in words.stderr
    assert "norm" not in words.stderr
    assert "band" not in words.stderr
    loud = gavotte("-v", "model", source, "--method", "rpca", "--seed", "5")
    assert "norm 0." in loud.stderr
    assert "; band 0." in loud.stderr


def test_a_picture_is_the_same_each_time() -> None:
    rng = np.random.default_rng(9)
    some = history(8e6 / disturbed(truth(6, rng), 4, rng))
    constant = find_constant(some, method="mode")
    findings = judge(some, constant)
    assert picture(constant, findings) == picture(constant, findings)


def test_the_command_names_what_it_cannot_draw(tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["model", str(tmp_path / "h.npz"), "--plot", "x.bmp"])
    assert isinstance(run.exception, GavotteError)
    assert "ends in .png" in str(run.exception.hint)


def test_a_calibration_of_seconds_says_that_it_vouches_for_little() -> None:
    beta = np.full((6, 4, 4), 1e7)
    for every_s, short in ((1.0, True), (7200.0, False)):
        seen = history(beta, every_s=every_s)
        advice = next(line for line in judge(seen, find_constant(seen)).advice if line.startswith("measure again"))
        assert ("spread over hours" in advice) == short
