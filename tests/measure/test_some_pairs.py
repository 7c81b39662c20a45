"""`gavotte measure --pairs` over real packets, and the Network that `gavotte model --fill` makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.builders import topology
from tests.place.clouds import ring
from typer.testing import CliRunner

from gavotte import lab
from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.history import read_history
from gavotte.formats.network import read_network
from gavotte.terms.goodput import GOODPUT_PER_WIRE

MBPS = [20, 40, 60, 30, 50, 25, 45, 35]
CLOUD = topology([{"name": f"h{i}", "egress": f"{rate}mbit"} for i, rate in enumerate(MBPS)])


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(CLOUD, source="tests") as session:
        yield session


@pytest.mark.lab
def test_some_pairs_are_measured_and_the_others_guessed(session: lab.Session, tmp_path: Path) -> None:
    history, target = tmp_path / "h.npz", tmp_path / "n.json"
    words = [
        "measure",
        "--hosts",
        str(session.hosts_file),
        "--pairs",
        "3",
        "--count",
        "2",
        "-o",
        str(history),
        "--json",
    ]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert document["paths"] == document["answered"] == 24
    assert "24 paths" in run.stderr
    known = np.isfinite(read_history(history).beta_Bps).all(axis=0)
    assert known.sum(axis=0).tolist() == known.sum(axis=1).tolist() == [3] * 8
    learnt = CliRunner().invoke(app, ["model", str(history), "--fill", "-o", str(target)])
    assert learnt.exit_code == 0, learnt.output
    assert "32 pairs were never measured" in learnt.stderr
    rates = np.array(read_network(target).rate_bps, dtype=np.float64)
    expected = np.array(MBPS)[:, None] * 1e6 * GOODPUT_PER_WIRE * np.ones(8)
    off = np.abs(rates / expected - 1)[~np.eye(8, dtype=bool)]
    # One doubtful path may be off; a guess from three such paths is not.
    assert np.median(off) < 0.05
    assert (off < 0.2).mean() > 0.9
    job = tmp_path / "a.app.json"
    job.write_text(ring(cpus=1.0).model_dump_json())
    words = ["place", str(target), str(job), "--method", "search", "--json"]
    sure, hoped = (CliRunner().invoke(app, [*words, *more]) for more in (["--robust"], []))
    assert sure.exit_code == 0, sure.output
    assert json.loads(sure.stdout)["completion_s"] > json.loads(hoped.stdout)["completion_s"]


def test_how_many_pairs_is_checked(tmp_path: Path) -> None:
    hosts = tmp_path / "h.hosts.toml"
    hosts.write_text(
        'format = "gavotte/hosts/1"\n'
        + "".join(f'[[host]]\nname = "h{i}"\naddress = "10.0.0.{i + 1}"\nagent = "unix:/no.sock"\n' for i in range(4))
    )
    words = ["measure", "--hosts", str(hosts), "--dry-run", "--json", "--pairs"]
    for bad, hint in (("4", "use 1 to 3"), ("some", "use sparse"), ("0", "use 1 to 3")):
        run = CliRunner().invoke(app, [*words, bad])
        assert isinstance(run.exception, GavotteError)
        assert hint in run.exception.hint
    planned = CliRunner().invoke(app, [*words, "2"])
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["paths"] == 8
    assert CliRunner().invoke(app, [*words, "2", "--sharing"]).exit_code == 1
