"""Pairs that were never measured are guessed from their hosts' others, and the Network marks them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.builders import history
from tests.model.synthetic import disturbed, hot, truth
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, write_history
from gavotte.formats.network import read_network
from gavotte.model import find_constant, judge, model, random_rings, usual_degree
from gavotte.model.filling import filled
from gavotte.model.stopping import settled
from gavotte.model.subset import reached

SIZE = 32


def sparse(times: Floats, seed: int = 1) -> Floats:
    size = times.shape[-1]
    return np.asarray(np.where(random_rings(size, usual_degree(size), seed=seed), times, np.nan))


def caps(size: int, seed: int) -> Floats:
    """Seconds a byte where each host's own caps limit, out and in."""
    out, into = 1 / np.random.default_rng(seed).uniform(10e6, 100e6, (2, size))
    times: Floats = np.maximum(out[:, None], into[None, :])
    np.fill_diagonal(times, np.nan)
    return times


def test_hosts_own_caps_are_guessed_as_the_slower_of_two() -> None:
    whole = caps(SIZE, 3)
    result = filled(sparse(whole))
    assert result.form == "bottleneck"
    assert result.typical_error < 0.02
    off = ~np.eye(SIZE, dtype=bool)
    wrong = np.abs(result.values / whole - 1)[off]
    assert np.median(wrong) < 0.01
    assert np.isnan(np.diag(result.values)).all()


@pytest.mark.parametrize("seed", range(12))
def test_noise_does_not_choose_the_form(seed: int) -> None:
    # By either form, more than half of the set-aside pairs are guessed to 0.1 %; of the rest, one is 40 % off.
    rate = 1e6 * np.array([20, 40, 60, 30, 50, 25, 45, 35])[:, None] * np.ones(8)
    noisy = 8 / (rate * np.random.default_rng(seed).lognormal(0, 0.001, rate.shape))
    known = np.where(random_rings(8, 3, seed=0), noisy, np.nan)
    result = filled(known)
    off = ~np.eye(8, dtype=bool)
    assert np.abs(result.values * rate / 8 - 1)[off].max() < 0.02


def test_factors_of_senders_and_receivers_are_guessed_as_their_product() -> None:
    rng = np.random.default_rng(4)
    whole = rng.uniform(1, 5, SIZE)[:, None] * rng.uniform(1, 5, SIZE)[None, :] * rng.lognormal(0, 0.02, (SIZE, SIZE))
    np.fill_diagonal(whole, np.nan)
    known = sparse(whole)
    result = filled(known)
    assert result.form == "product"
    never = np.isnan(known) & ~np.eye(SIZE, dtype=bool)
    assert np.quantile(np.abs(np.log(result.values / whole))[never], 0.95) < 0.1
    assert 0.005 < result.spread < 0.1
    assert (result.values[~never & ~np.eye(SIZE, dtype=bool)] == known[np.isfinite(known)]).all()


def test_a_sparse_history_becomes_a_network_only_when_asked() -> None:
    rng = np.random.default_rng(5)
    whole = truth(SIZE, rng)
    measured = history(8e6 / sparse(disturbed(whole, 8, rng)))
    with pytest.raises(GavotteError, match="--fill"):
        model(measured)
    constant = find_constant(measured, fill=True)
    network = model(measured, constant=constant)
    assert all(rate is not None for i, row in enumerate(network.rate_bps) for j, rate in enumerate(row) if i != j)
    assert "never measured" in network.notes[-1]
    never = np.isnan(measured.beta_Bps).all(axis=0) & ~np.eye(SIZE, dtype=bool)
    rate_bps = np.array(network.rate_bps, dtype=np.float64)
    # Racks are no property of single hosts, so guesses are poor in this case, and marked so.
    assert constant.guess is not None
    off_by = np.median(np.abs(np.log(rate_bps * whole / 64e6))[never])
    assert np.log1p(constant.guess.typical_error) == pytest.approx(off_by, rel=0.3)
    # Guesses are less certain than measured rates, and no cap depends on one.
    low_bps = np.array(network.rate_low_bps, dtype=np.float64)
    assert (
        np.median((low_bps / rate_bps)[never]) < np.median((low_bps / rate_bps)[~never & np.isfinite(rate_bps)]) - 0.1
    )
    best = np.where(never, 0.0, np.nan_to_num(rate_bps)).max(axis=1)
    assert [host.egress_bps for host in network.hosts] == pytest.approx(best.tolist())
    findings = judge(measured, constant)
    assert findings.measured_share == pytest.approx(usual_degree(SIZE) / (SIZE - 1))
    assert findings.subset is not None
    assert findings.gains is not None
    assert any("of the pairs were measured" in text for text in findings.advice)


def test_a_few_pairs_without_an_answer_are_guessed_unasked_and_marked() -> None:
    """3 of 132 are missing: the other 129 are worth a Network."""
    rng = np.random.default_rng(11)
    rack = np.arange(12) // 4
    hops = np.where(rack[:, None] == rack[None, :], 2, 4)
    rates = np.where(hops == 2, 100e6, 30e6) * rng.lognormal(0, 0.05, (3, 12, 12))
    lost = [(0, 1), (5, 9), (11, 2)]
    for source, target in lost:
        rates[:, source, target] = np.nan
    network = model(history(rates, hops=hops))
    for source, target in lost:
        assert network.rate_bps[source][target] == pytest.approx(
            8 * np.nanmedian(rates[:, hops == hops[source, target]]), rel=0.2
        )
    marked = [(i, j) for i, row in enumerate(network.doubt) for j, each in enumerate(row) if each == "guessed"]
    assert marked == lost
    assert "3 pairs were never measured" in network.notes[-1]
    with pytest.raises(GavotteError, match="3 of 132 paths were never measured"):
        find_constant(history(rates), fill=False)


def test_a_guess_is_as_disturbed_as_what_it_rests_on() -> None:
    rng = np.random.default_rng(9)
    measured = history(8e6 / sparse(hot(truth(SIZE, rng), 8, rng)))
    constant = find_constant(measured, method="mean", fill=True)
    excess = np.array(model(measured, constant=constant).excess, dtype=np.float64)
    never = np.isnan(measured.beta_Bps).all(axis=0) & ~np.eye(SIZE, dtype=bool)
    assert np.isnan(excess.diagonal()).all()
    assert excess[never].min() >= 0
    assert excess[never].max() <= np.nanmax(excess[~never])
    undisturbed = find_constant(measured, method="mode", fill=True).rate_bps[~never]
    np.testing.assert_allclose(constant.undisturbed_bps[~never], undisturbed)
    assert judge(measured, constant).measured_share < 1


def test_a_whole_history_says_what_some_pairs_would_have_done() -> None:
    rng = np.random.default_rng(6)
    measured = history(8e6 / disturbed(truth(SIZE, rng), 5, rng))
    findings = judge(measured, find_constant(measured, method="mode"))
    assert findings.measured_share == 1
    assert findings.subset is not None
    assert 0 < findings.subset.gain < findings.subset.full_gain
    assert any("measuring 10 pairs out of each host" in text for text in findings.advice)


def test_a_host_nobody_reached_cannot_be_guessed() -> None:
    values = np.ones((2, 4, 4)) * 1e6
    values[:, :, 2] = np.nan
    with pytest.raises(GavotteError, match="h2"):
        find_constant(history(values), fill=True)


def test_some_pairs_settle_too() -> None:
    rng = np.random.default_rng(7)
    times = sparse(disturbed(truth(12, rng), 6, rng, spikes=0, band=0.001))
    assert settled(times).stop
    assert reached(~np.isnan(times[0]))
    assert not reached(np.zeros((3, 3), dtype=bool))
    late = times.copy()
    late[:4][:, random_rings(12, 1, seed=1)] = np.nan
    assert not settled(late).stop


def test_the_command_fills(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    source, target = tmp_path / "h.npz", tmp_path / "n.json"
    write_history(source, history(8e6 / sparse(disturbed(truth(SIZE, rng), 4, rng))))
    refused = CliRunner().invoke(app, ["model", str(source)])
    assert isinstance(refused.exception, GavotteError)
    assert "--fill" in refused.exception.hint
    run = CliRunner().invoke(app, ["model", str(source), "--fill", "-o", str(target), "--json"])
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert document["constant"]["subset"]["share"] == pytest.approx(10 / 31)
    assert "guessed" in run.stderr
    assert read_network(target).rate_bps[0][1] is not None
