"""`gavotte report` from files, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.test_report import measured, placed, ranks
from typer.testing import CliRunner

from gavotte.cli.verbs import app as command
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.history import write_history
from gavotte.formats.network import write_network
from gavotte.formats.placement import write_placement
from gavotte.formats.record import Record, write_records
from gavotte.model import model


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    past = measured(["a", "b", "c"])
    network, app = model(past), ranks(4)
    placement = placed(network, app)
    write_history("h.npz", past)
    write_history("other.npz", measured(["x", "y", "z"]))
    write_network("n.network.json", network)
    write_network("few.network.json", model(past.without(["c"])))
    write_app("a.app.toml", app)
    write_placement("p.placement.json", placement)
    labels = {"method": placement.method, "seed": placement.seed, "predicted_s": placement.completion_s}
    other = labels | {"seed": 8}
    write_records(
        "r.jsonl",
        [
            Record(kind="run", metric="completion_s", value=2.0, time_s=0.0, labels=labels),
            Record(kind="run", metric="completion_s", value=3.0, time_s=1.0, labels=labels),
            Record(kind="run", metric="completion_s", value=99.0, time_s=1.0, labels=other),
        ],
    )
    return tmp_path


def test_all_of_it(files: Path) -> None:
    words = "report --network n.network.json --history h.npz --app a.app.toml --placement p.placement.json"
    result = CliRunner().invoke(command, [*words.split(), "--run", "r.jsonl", "-o", "r.html", "--json"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["placements"]
    assert (row["method"], row["predicted_s"], row["measured_s"]) == ("by hand", 2.0, 2.5)
    assert row["simulated_s"] > 0
    assert "2.500 s" in (files / "r.html").read_text()
    assert "wrote r.html" in result.stderr


def test_a_network_alone(files: Path) -> None:
    result = CliRunner().invoke(command, ["report", "--network", "n.network.json", "-o", "r.html"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "wrote r.html\n")
    assert "<h2>Placements" not in (files / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("--network missing.json", "missing.json: no such file"),
        ("--network h.npz", "h.npz: is a History; use a Network"),
        ("--network n.network.json --history n.network.json", "n.network.json: is a Network; use a History"),
        ("--network n.network.json --history other.npz", "host `a` of the Network is not in the History"),
        ("--network n.network.json --placement p.placement.json", "p.placement.json: its applications are missing"),
        (
            "--network few.network.json --app a.app.toml --placement p.placement.json",
            "p.placement.json: `c` is not a host of few.network.json",
        ),
        ("--network n.network.json --app p.placement.json", "p.placement.json: "),
        ("--network n.network.json --run a.app.toml", "a.app.toml:1: is "),
    ],
)
def test_wrong_input_is_one_line(files: Path, words: str, wrong: str) -> None:
    result = CliRunner().invoke(command, ["report", *words.split(), "-o", "r.html"])
    assert isinstance(result.exception, GavotteError)
    assert str(result.exception).startswith(wrong)
    assert "\n" not in str(result.exception)
    assert not (files / "r.html").exists()
