"""`gavotte compare` as a user calls it: each verdict and its exit status, series of the store, and placing again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.compare.clouds import Weather, cloud, rates
from tests.shell import gavotte

from gavotte.cli.sources import span_of
from gavotte.formats.app import write_app
from gavotte.formats.history import History, write_history
from gavotte.formats.network import write_network
from gavotte.formats.placement import write_placement
from gavotte.store import open_store

pytestmark = pytest.mark.slow

DAY_S = 86_400.0
MONDAY_S = 1_763_942_400.0
"""2025-11-24 in UTC."""


def slowed() -> np.ndarray:
    after = rates(1).copy()
    after[3] /= 2.1
    return after


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Histories of four days: as on Monday, a slow host, noise, and a host less."""
    for name, history in {
        "monday": cloud(rates(1), 1),
        "tuesday": cloud(rates(1), 2),
        "slow": cloud(slowed(), 3),
        "noisy": cloud(rates(1), 4, weather=Weather(0.3)),
        "fewer": cloud(rates(1), 5).of_hosts([0, 1, 2, 4, 5]),
    }.items():
        write_history(tmp_path / f"{name}.npz", history)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("monday.npz tuesday.npz", 0, "alike: the rates of 30 paths, each within 10 %"),
        ("monday.npz slow.npz", 3, "different: the rates of 5 of 30 paths by more than 10 %; 25 are alike"),
        ("monday.npz slow.npz --margin 60%", 0, "each within 60 %"),
        ("monday.npz fewer.npz", 3, "different: the rates of all 20 paths are alike"),
        ("monday.npz noisy.npz", 4, "cannot tell: the rates of "),
        ("monday.npz missing.npz", 1, "error: missing.npz: no such file"),
        ("monday.npz a.app.toml", 1, "error: a.app.toml: is an App; use a History or a Network"),
        ("monday.npz ./", 1, "error: .: is a folder; name a file in it"),
        ("monday.npz nowhere --store s.sqlite3", 1, "error: s.sqlite3"),
        ("monday.npz tuesday.npz --margin much", 2, "`much` is not a share"),
        ("monday.npz tuesday.npz --significance 60%", 2, "--significance: use more than 0%, and at most 50%"),
        ("monday.npz tuesday.npz --margin 5", 2, "`5` has no unit: use 5%"),
        ("monday.npz tuesday.npz --margin 0.05", 0, "each within 5 %"),
        ("monday.npz tuesday.npz --app a.app.toml", 2, "--app and --placement need each other"),
    ],
)
def test_the_exit_status_is_the_verdict(days: Path, words: str, status: int, message: str) -> None:
    write_app(days / "a.app.toml", builders.app("a", ("x", "y", 10**6)))
    result = gavotte("compare", *words.split(), cwd=days)
    assert result.returncode == status, result.stderr
    assert message in result.stderr


def test_findings_come_first_and_the_table_has_what_is_not_alike(days: Path) -> None:
    lines = gavotte("compare", "monday.npz", "slow.npz", cwd=days).stdout.splitlines()
    assert lines[:2] == ["h3 sends 2.1 times slower than before (5 of 5 paths)", ""]
    assert len(lines) == 3 + 5
    assert len(gavotte("compare", "monday.npz", "slow.npz", "--all", cwd=days).stdout.splitlines()) == 3 + 60
    document = json.loads(gavotte("compare", "monday.npz", "slow.npz", "--json", cwd=days).stdout)
    assert (document["verdict"], document["placement"]) == ("different", None)
    assert document["counts"] == {"alike": 25, "different": 5, "cannot tell": 0}
    (path,) = [
        each
        for each in document["paths"]
        if (each["quantity"], each["source"], each["target"]) == ("rate_bps", "h3", "h0")
    ]
    assert path["relative"] == pytest.approx(1 / 2.1 - 1, abs=0.05)
    assert path["low"] < path["relative"] < path["high"]


def test_it_says_whether_to_place_again(days: Path) -> None:
    """Two tasks fill a host each. On the slow host, another placement pays; on others it does not."""
    write_app(days / "a.app.toml", builders.app("a", ("x", "y", 10**9), cpus=4.0))
    best = int(np.argmax(rates(1)[3] * (np.arange(6) != 3)))
    write_placement(days / "p.placement.json", builders.placement({"x": "h3", "y": f"h{best}"}, "a"))
    words = ("--placement", "p.placement.json", "--app", "a.app.toml", "--json")
    moved = json.loads(gavotte("compare", "monday.npz", "slow.npz", *words, cwd=days).stdout)["placement"]
    assert moved["again"]
    assert moved["now_s"] == pytest.approx(2.1 * moved["before_s"], rel=0.1)
    assert moved["best_s"] < 0.8 * moved["now_s"]
    shown = gavotte("compare", "monday.npz", "slow.npz", *words[:-1], cwd=days).stdout
    assert "\nplace again: predicted " in shown
    gone = json.loads(gavotte("compare", "monday.npz", "fewer.npz", *words, cwd=days).stdout)["placement"]
    assert (gone["again"], gone["restart"]) == (True, ["x"])
    matrix = np.where(np.eye(3), np.nan, 1e8)
    for name, factor in (("a", 1.0), ("b", 1.02)):
        write_network(days / f"{name}.network.json", builders.network(3, matrix * factor, 1e-4, cpus=4.0))
    write_placement(days / "p.placement.json", builders.placement({"x": "vm0", "y": "vm1"}, "a"))
    kept = gavotte("compare", "a.network.json", "b.network.json", *words[:-1], cwd=days)
    assert kept.returncode == 0
    assert kept.stdout.startswith("keep the placement: predicted ")


def at(history: History, time_s: float) -> History:
    """Return a History that begins at another time."""
    return builders.history(history.beta_Bps, history.alpha_s, every_s=60.0, time_s=history.time_s + time_s)


def test_a_series_is_compared_by_its_days(days: Path) -> None:
    with open_store(days / "s.sqlite3") as store:
        store.add("cloud", at(cloud(rates(1), 1), MONDAY_S))
        store.add("cloud", at(cloud(slowed(), 2), MONDAY_S + DAY_S))
        store.add("other", at(cloud(rates(1), 3), MONDAY_S))

    def compared(*words: str) -> int:
        return gavotte("compare", *words, "--store", "s.sqlite3", cwd=days).returncode

    assert compared("cloud@2025-11-24", "cloud@2025-11-25") == 3
    assert compared("cloud@..2025-11-25", "cloud@2025-11-25..") == 3
    assert compared("cloud@2025-11-24", "other") == 0
    assert compared("monday.npz", "cloud@2025-11-24") == 0
    empty = gavotte("compare", "cloud@2025-11-20", "cloud", "--store", "s.sqlite3", cwd=days)
    assert (empty.returncode, empty.stderr.count("\n")) == (1, 1)
    assert "no snapshot in that time" in empty.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_exported_files_are_compared(days: Path, ending: str) -> None:
    with open_store(days / "s.sqlite3") as store:
        store.add("cloud", cloud(rates(1), 2))
    gavotte("history", "export", "cloud", "-o", f"c.{ending}", "--store", "s.sqlite3", cwd=days)
    assert gavotte("compare", "monday.npz", f"c.{ending}", cwd=days).returncode == 0


def test_a_window_has_two_ends_or_is_a_day() -> None:
    day = span_of("2025-11-24")
    assert (day.since_s, day.until_s) == (MONDAY_S, MONDAY_S + DAY_S)
    assert span_of("2025-11-24T12:00:00Z..").since_s == MONDAY_S + DAY_S / 2
    assert span_of("..1764000000").until_s == 1764000000
    assert (span_of("").since_s, span_of("").until_s) == (None, None)
