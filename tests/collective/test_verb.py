"""`gavotte collective` and `gavotte map` as users call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import builders
from tests.collective.clouds import history, network
from tests.shell import gavotte

from gavotte.formats.app import write_app
from gavotte.formats.collective import read_collective
from gavotte.formats.history import write_history
from gavotte.formats.network import write_network
from gavotte.formats.placement import read_placement

pytestmark = pytest.mark.slow


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "n.network.json"
    write_network(path, network(8))
    return path


def test_a_tree(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.tree.json"
    past = tmp_path / "h.npz"
    write_history(past, history(network(8), 4, 0.1))
    done = gavotte(
        "collective", net, "--operation", "broadcast", "--root", "h3", "--bytes", "8MB", "--replay", past, "-o", out
    )
    assert done.returncode == 0, done.stderr
    assert "broadcast, root h3" in done.stdout
    assert "replayed over 4 snapshots" in done.stderr
    words: list[str | Path] = ["collective", net, "--operation", "broadcast", "--json", "--replay", past]
    quiet, noisy = (json.loads(gavotte(*words, *more).stdout)["replayed_s"] for more in ([], ["--norm", "0.5"]))
    assert len(quiet) == len(noisy) == 4
    assert quiet != noisy
    collective = read_collective(out)
    assert collective.bytes == 8 << 20
    again = gavotte("collective", net, "--operation", "broadcast", "--root", "h3", "--bytes", "8MB", "--json")
    assert json.loads(again.stdout) == collective.model_dump(mode="json")


def test_a_ring(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.tree.json"
    done = gavotte("collective", net, "--operation", "allgather", "--algorithm", "ring", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "allgather, around a ring of " in done.stdout
    assert read_collective(out).stages[0].ring > 1


def test_a_shim_file(net: Path) -> None:
    words: list[str | Path] = [
        "collective",
        net,
        "--operation",
        "all",
        "--root",
        "all",
        "--format",
        "shim",
        "--algorithm",
        "ecef",
    ]
    done = gavotte(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["gavotte/shim/1", "ranks 8", "hosts h0 h1 h2 h3 h4 h5 h6 h7"]
    # Four operations from eight roots, and the two trees of allgather and allreduce.
    assert len(lines) == 3 + 3 * (4 * 8 + 2 * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--operation", "alltoall"], "unknown operation"),
        (["--operation", "gather", "--bytes", "8 apples"], "--bytes"),
        (["--operation", "all"], "holds a single operation"),
        (["--operation", "gather", "--format", "xml"], "unknown format"),
        (["--operation", "gather", "--root", "x"], "no rank runs on the root"),
        (["--operation", "gather", "--algorithm", "ring"], "a gather cannot use a ring"),
    ],
)
def test_errors_in_a_line(net: Path, arguments: list[str], message: str) -> None:
    done = gavotte("collective", net, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_map(net: Path, tmp_path: Path) -> None:
    app = tmp_path / "a.app.toml"
    write_app(app, builders.app("a", *((f"t{i}", f"t{(i + 1) % 6}", 10**7) for i in range(6))))
    out = tmp_path / "p.placement.json"
    done = gavotte("map", net, app, "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    placed = read_placement(out)
    assert json.loads(done.stdout)["assignment"] == placed.assignment
    order = gavotte("map", net, app, "--reorder", ",".join(f"h{i}" for i in range(8)))
    new_rank = [int(line) for line in order.stdout.split()]
    assert sorted(new_rank) == list(range(8))
    assert all(placed.assignment[f"t{new_rank[i]}"] == f"h{i}" for i in range(8) if new_rank[i] < 6)
    past = tmp_path / "h.npz"
    write_history(past, history(network(8), 5, 0.01))
    quiet, noisy = (
        json.loads(gavotte("map", net, app, "--json", "--replay", past, *more).stdout)["replayed_s"]
        for more in ([], ["--norm", "0.4"])
    )
    assert quiet == pytest.approx([placed.completion_s] * 5, rel=0.1)
    assert max(abs(a / b - 1) for a, b in zip(noisy, quiet, strict=True)) > 0.02
    assert gavotte("map", net, app, "--norm", "0.4").returncode == 2
    short = gavotte("map", net, app, "--reorder", "h0, h1")
    assert short.returncode == 1
    assert "no process runs on" in short.stderr
