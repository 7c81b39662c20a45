"""Intervals go into the Network, and `place --robust` plans by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.builders import history
from tests.model.synthetic import disturbed, truth
from tests.place.clouds import ring
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.formats.app import App
from gavotte.formats.history import Proof, write_history
from gavotte.formats.network import read_network
from gavotte.model import model
from gavotte.place import evaluate, worst_case


def test_lower_ends_follow_the_band_and_how_many_snapshots_agree() -> None:
    rng = np.random.default_rng(1)
    times = truth(8, rng)
    measured = disturbed(times, 10, rng, spikes=0.0)
    measured[3:, 0, 1] *= 1 + rng.exponential(5.0, 7)
    network = model(history(8e6 / measured), method="mode")
    shares = np.array(network.rate_low_bps, dtype=np.float64) / np.array(network.rate_bps, dtype=np.float64)
    assert network.band == pytest.approx(0.05, rel=0.3)
    assert np.nanmedian(shares) == pytest.approx(np.exp(-1.96 * 1.25 * 0.05 / np.sqrt(10)), abs=0.015)
    assert shares[0, 1] < np.nanmedian(shares) - 0.01
    assert network.rate_low_bps[0][0] is None
    inside = (8 * 8e6 / times > np.array(network.rate_low_bps, dtype=np.float64))[~np.eye(8, dtype=bool)]
    assert inside.mean() > 0.9
    for host in network.hosts:
        assert host.egress_bps is not None
        assert host.egress_low_bps is not None
        assert 0.8 * host.egress_bps < host.egress_low_bps < host.egress_bps


def test_a_proof_that_is_wider_counts() -> None:
    values = np.full((1, 3, 3), 1e7)
    measured = history(values)
    proof = Proof.empty((1, 3, 3))
    proof.low_Bps[...] = np.where(np.isnan(measured.beta_Bps), np.nan, 0.999 * measured.beta_Bps)
    proof.low_Bps[0, 0, 1] = 0.6e7
    network = model(replace(measured, proof=proof), method="median")
    assert network.rate_low_bps[0][1] == pytest.approx(0.6 * 8e7)
    sure = network.rate_low_bps[1][0]
    assert sure is not None
    assert 0.8 * 8e7 < sure < 0.999 * 8e7


@pytest.mark.slow
def test_a_measured_history_can_be_placed_robustly(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    source, target, job, out = (tmp_path / name for name in ("h.npz", "n.json", "a.app.json", "p.json"))
    write_history(source, history(8e6 / disturbed(truth(6, rng), 6, rng)))
    some = App.model_validate(ring(cpus=4.0).model_dump())
    job.write_text(some.model_dump_json())
    learnt = CliRunner().invoke(app, ["model", str(source), "-o", str(target), "--method", "mode"])
    assert learnt.exit_code == 0, learnt.output
    words = ["place", str(target), str(job), "--method", "search", "--json"]
    plain, robust = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--robust", "-o", str(out)]))
    assert robust.exit_code == 0, robust.output
    answer = json.loads(robust.stdout)
    network = read_network(target)
    worst = evaluate(worst_case(network), [some], answer["assignment"]).completion_s
    assert answer["completion_s"] == pytest.approx(worst)
    assert worst > evaluate(network, [some], answer["assignment"]).completion_s
    hopeful = json.loads(plain.stdout)["assignment"]
    assert evaluate(worst_case(network), [some], hopeful).completion_s >= worst * (1 - 1e-9)


def test_a_path_next_to_nothing_has_an_interval_that_a_network_can_hold() -> None:
    values = np.full((3, 3, 3), 1e7)
    values[:, 0, 1] = 0.125
    network = model(history(values), method="min")
    assert network.rate_bps[0][1] == pytest.approx(1.0)
    assert network.rate_low_bps[0][1] == 1.0
