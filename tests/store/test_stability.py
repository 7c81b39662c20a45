"""How steady a History is: spreads, errors by age, path lengths, and the command that shows them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.builders import history
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.history import History, write_history
from gavotte.store import stability
from gavotte.store.stability import SHARES, past_error


def growing(snapshots: int = 8, every_s: float = 60.0) -> History:
    """Three hosts; rates grow by a tenth of the first each snapshot, and the first pair has a shorter path."""
    values = np.array([1e6 * (10 + number) for number in range(snapshots)])
    rates = np.broadcast_to(values[:, None, None], (snapshots, 3, 3)).copy()
    rates[:, np.eye(3, dtype=bool)] = np.nan
    rates[0, 0, 1] = np.nan
    hops = np.array([[0, 1, 4], [1, 0, 4], [4, 4, 0]])
    return history(rates, time_s=every_s * np.arange(snapshots), hops=hops)


def test_an_older_measurement_is_compared_with_the_one_of_that_age() -> None:
    result = stability(growing(), ages_s=[60.0, 180.0, 3600.0])
    minute, three, hour = result.by_age
    # 1/11 to 1/17 of one pair, weighted alike; the first snapshot of one pair is missing.
    assert minute.count == 7 * 6 - 1
    assert minute.median == pytest.approx(1 / 14, rel=0.02)
    assert three.count == 5 * 6 - 1
    assert three.mean > 2.5 * minute.mean
    assert hour.count == 0
    assert np.isnan(hour.mean)


def test_a_snapshot_that_is_not_near_that_age_does_not_count() -> None:
    values = np.ones((3, 2, 2))
    assert past_error(values, np.array([0.0, 100.0, 200.0]), 50.0).count == 0
    assert past_error(values, np.array([0.0, 100.0, 200.0]), 90.0).count == 2 * 4


def test_spreads_by_time_and_by_path_length() -> None:
    result = stability(growing())
    assert [each.pairs for each in result.over_time] == [5] + 7 * [6]
    assert len(result.over_time[0].rate_bps) == len(SHARES)
    assert result.over_time[3].rate_bps[0] == pytest.approx(8 * 13e6)
    assert [(each.key, each.pairs) for each in result.by_hops] == [(1, 2), (4, 4)]


def test_the_command_shows_a_file(tmp_path: Path) -> None:
    file = tmp_path / "h.npz"
    write_history(file, growing())
    result = CliRunner().invoke(app, ["history", "stability", str(file), "--age", "1m", "--age", "2h"])
    assert result.exit_code == 0, result.output
    assert "path length" in result.output
    report = json.loads(CliRunner().invoke(app, ["history", "stability", str(file), "--json"]).stdout)
    assert [each["age_s"] for each in report["by_age"]] == [60, 300, 600, 1800]
    assert report["by_age"][3]["mean"] is None
    for bad in ("5", "xm", "-1s", ""):
        refused = CliRunner().invoke(app, ["history", "stability", str(file), "--age", bad])
        assert isinstance(refused.exception, GavotteError), bad
