"""The predicted time of a job under another placement, and when no prediction is possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.builders import MB, MBIT
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import write_placement
from gavotte.place import Forecast, Question, forecast

APP = builders.app("job", ("a", "b", 10 * MB))
BEFORE, AFTER = {"a": "vm0", "b": "vm1"}, {"a": "vm0", "b": "vm2"}
RATES = [[None, 8 * MBIT, 80 * MBIT], [8 * MBIT, None, 8 * MBIT], [80 * MBIT, 8 * MBIT, None]]


def cloud(**fields: Any) -> Network:
    """10 MB take 10 s from vm0 to vm1, 1 s to vm2."""
    return builders.network(3, RATES, **fields)


def forecast_of(took_s: list[float], network: Network | None = None, **options: Any) -> Forecast:
    return forecast(Question(network or cloud(), [APP]), BEFORE, AFTER, took_s, **{"rate_error": 0.0} | options)


def test_what_a_run_took_beyond_the_model_stays_or_shrinks() -> None:
    result = forecast_of([15.0])
    assert result.modelled_s == (10.0, 1.0)
    assert (result.low_s, result.high_s) == pytest.approx((1.5, 6.0))
    assert (result.saving_low, result.saving_high) == pytest.approx((0.6, 0.9))
    assert result.reason == "took 15 s, will take 1.5 to 6 s: 60% to 90% saved"


def test_the_verdict_is_on_the_time_of_the_run() -> None:
    result = forecast_of([15.0])
    assert result.verdict(0.1) == "this placement saves at least 9 s of 15 s: it is worth the move"
    assert result.verdict(10.0) == "this placement may save 9 s only, or up to 14 s of 15 s: one run under it decides"
    assert result.verdict(14.0) == "this placement saves at most 14 s of 15 s: the placement of the run will do"
    back = forecast(Question(cloud(), [APP]), AFTER, BEFORE, [5.0], rate_error=0.0)
    assert back.verdict(0.1) == "this placement saves nothing of 5 s: the placement of the run will do"


def test_a_run_faster_than_the_model_makes_all_of_it_faster() -> None:
    result = forecast_of([5.0])
    assert (result.low_s, result.high_s) == pytest.approx((0.5, 0.5))


def test_errors_of_rates_and_of_runs_widen_the_interval() -> None:
    exact, rates, runs = forecast_of([15.0]), forecast_of([15.0], rate_error=0.09), forecast_of([13.0, 17.0])
    for result in (rates, runs):
        assert result.low_s is not None
        assert result.high_s is not None
        assert result.low_s < (exact.low_s or 0)
        assert result.high_s > (exact.high_s or 0)
    assert rates == forecast_of([15.0], rate_error=0.09)
    assert runs.took_s == 15.0


def test_all_within_a_host_keeps_what_else_the_job_does() -> None:
    prediction = forecast(Question(cloud(cpus=2.0), [APP]), BEFORE, {"a": "vm0", "b": "vm0"}, [15.0], rate_error=0.0)
    assert (prediction.low_s, prediction.high_s) == pytest.approx((0.0, 5.0))
    back = forecast(Question(cloud(cpus=2.0), [APP]), {"a": "vm0", "b": "vm0"}, BEFORE, [5.0], rate_error=0.0)
    assert (back.low_s, back.high_s) == pytest.approx((15.0, 15.0))


RACK = [{"name": "rack-0", "members": ["vm0", "vm2"]}, {"name": "rack-1", "members": ["vm1"]}]


@pytest.mark.parametrize(
    ("verdict", "deciding"),
    [
        ({"link": "out of rack-0", "verdict": "unknown", "at_least_bps": 5 * MBIT}, True),
        ({"link": "into rack-1, into vm1", "verdict": "unknown"}, True),
        ({"link": "out of vm0", "verdict": "unknown", "at_least_bps": 40 * MBIT}, True),
        ({"link": "out of rack-0", "verdict": "unknown", "at_least_bps": 9 * MBIT}, False),
        ({"link": "into rack-0", "verdict": "unknown", "at_least_bps": 5 * MBIT}, False),
        ({"link": "out of rack-0", "verdict": "open", "at_least_bps": 5 * MBIT}, False),
    ],
)
def test_an_unknown_link_that_decides_is_named(verdict: dict[str, Any], deciding: bool) -> None:
    result = forecast_of([15.0], cloud(groups=RACK, verdicts=[verdict]))
    assert (result.low_s is None) is deciding
    assert [f"`{verdict['link']}`" in each for each in result.unknown] == [True] * deciding
    assert ("cannot predict" in result.reason) is deciding


@pytest.mark.parametrize(
    "fields",
    [
        {"rate_bps": [[None, None, 80 * MBIT], *RATES[1:]]},
        {"doubt": [[None, None, "guessed"], [None] * 3, [None] * 3]},
    ],
)
def test_paths_whose_rates_are_unknown_are_named(fields: dict[str, Any]) -> None:
    assert forecast_of([15.0], cloud().model_copy(update=fields)).unknown == ("the rate of a path",)


def test_what_is_no_run_is_refused() -> None:
    for took_s in ([], [0.0], [float("inf")]):
        with pytest.raises(GavotteError, match="needs the seconds of a run"):
            forecast_of(took_s)
    with pytest.raises(GavotteError, match="out of range"):
        forecast_of([1.0], rate_error=1.0)
    with pytest.raises(GavotteError, match="no host for task `a`"):
        forecast(Question(cloud(), [APP]), {"b": "vm1"}, AFTER, [1.0])


@pytest.mark.slow
def test_the_command_predicts(tmp_path: Path) -> None:
    network, app, before = (tmp_path / each for each in ("n.network.json", "a.app.toml", "p.placement.json"))
    write_network(network, cloud())
    write_app(app, APP)
    write_placement(before, builders.placement(BEFORE, "job"))
    words = ["place", str(network), str(app), "--ran", str(before), "--took", "15", "--rate-error", "0"]
    runner = CliRunner()
    assert "took 15 s, will take 1.5 to 6 s" in runner.invoke(gavotte, words).output
    document = json.loads(runner.invoke(gavotte, [*words, "--json"]).stdout)["forecast"]
    assert document["saving_low"] == pytest.approx(0.6)
    assert runner.invoke(gavotte, words[:5]).exit_code == 2
