"""The predicted time of a job under another placement, and when no prediction is possible."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests import builders
from tests.builders import MB, MBIT
from tests.examples import examples
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


def test_a_runs_time_alone_does_not_show_what_computing_hides() -> None:
    result = forecast_of([15.0])
    assert result.modelled_s == (10.0, 1.0)
    assert (result.low_s, result.high_s) == pytest.approx((1.5, 15.0))
    assert (result.saving_low, result.saving_waited, result.saving_high) == pytest.approx((0.0, 0.6, 0.9))
    assert result.reason == "took 15 s, will take 1.5 to 15 s: 0% to 90% saved"
    assert "if its tasks wait for all that they send, at least 60% is saved" in result.hidden


def test_the_time_that_tasks_compute_narrows_both_ends() -> None:
    none, some, most = (forecast_of([15.0], computing_s=each) for each in (0.0, 4.0, 14.5))
    # Buffers of 64 KiB may hide as much again of the sending as they carry.
    burst_s = 8 * 65536 / (8 * MBIT)
    assert (none.low_s, none.high_s) == pytest.approx((1.5, 6.0 + 0.9 * burst_s))
    assert (some.low_s, some.high_s) == pytest.approx((4.0, 15 - 0.9 * (10 - 4 - burst_s)))
    assert (most.low_s, most.high_s) == pytest.approx((14.5, 15.0))
    assert {each.hidden for each in (none, some, most)} == {""}


def test_a_slower_placement_may_cost_nothing_where_computing_hides_it() -> None:
    question = Question(cloud(), [APP])
    unknown, none = (
        forecast(question, AFTER, BEFORE, [15.0], computing_s=each, rate_error=0.0) for each in (None, 0.0)
    )
    assert (unknown.low_s, unknown.high_s) == pytest.approx((15.0, 150.0))
    assert (none.low_s, none.high_s) == pytest.approx((24.0, 150.0), rel=0.03)


def test_the_verdict_is_on_the_time_of_the_run() -> None:
    result = forecast_of([15.0], computing_s=0.0)
    assert result.verdict(0.1) == "this placement saves at least 8.9 s of 15 s: it is worth the move"
    assert result.verdict(10.0) == "this placement may save 8.9 s only, or up to 14 s of 15 s: one run under it decides"
    assert result.verdict(14.0) == "this placement saves at most 14 s of 15 s: the placement of the run will do"
    unknown = forecast_of([15.0])
    assert unknown.verdict(0.1) == "this placement may save nothing, or up to 14 s of 15 s: one run under it decides"
    back = forecast(Question(cloud(), [APP]), AFTER, BEFORE, [5.0], rate_error=0.0)
    assert back.verdict(0.1) == "this placement saves nothing of 5 s: the placement of the run will do"


def test_a_run_faster_than_the_model_makes_all_of_it_faster() -> None:
    result = forecast_of([5.0], computing_s=0.0)
    assert (result.low_s, result.high_s) == pytest.approx((0.5, 0.5), rel=0.15)
    unknown = forecast_of([5.0])
    assert (unknown.low_s, unknown.high_s) == pytest.approx((0.5, 5.0))


def test_errors_of_rates_and_of_runs_widen_the_interval() -> None:
    exact, rates, runs = (
        forecast_of(took_s, rate_error=error, computing_s=1.0)
        for took_s, error in (([15.0], 0.0), ([15.0], 0.09), ([13.0, 17.0], 0.0))
    )
    for result in (rates, runs):
        assert result.low_s is not None
        assert result.high_s is not None
        assert result.low_s < (exact.low_s or 0)
        assert result.high_s > (exact.high_s or 0)
    assert rates == forecast_of([15.0], rate_error=0.09, computing_s=1.0)
    assert runs.took_s == 15.0


def test_all_within_a_host_keeps_what_else_the_job_does() -> None:
    prediction = forecast(Question(cloud(cpus=2.0), [APP]), BEFORE, {"a": "vm0", "b": "vm0"}, [15.0], rate_error=0.0)
    assert (prediction.low_s, prediction.high_s) == pytest.approx((0.0, 15.0))
    back = forecast(Question(cloud(cpus=2.0), [APP]), {"a": "vm0", "b": "vm0"}, BEFORE, [5.0], rate_error=0.0)
    assert (back.low_s, back.high_s) == pytest.approx((10.0, 15.0))


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
    for computing_s in (-1.0, 1.5, float("nan")):
        with pytest.raises(GavotteError, match="of computing are not in a run of 1 s"):
            forecast_of([1.0], computing_s=computing_s)
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
    alone, known = (runner.invoke(gavotte, [*words, *more]).output for more in ([], ["--computing", "2"]))
    assert "took 15 s, will take 1.5 to 15 s" in alone
    assert "give the time that they compute by --computing" in alone
    assert "took 15 s, will take 2 to 7.86 s" in known
    assert "--computing" not in known
    document = json.loads(runner.invoke(gavotte, [*words, "--json"]).stdout)["forecast"]
    assert document["saving_waited"] == pytest.approx(0.6)
    assert document["hidden"]
    assert runner.invoke(gavotte, words[:5]).exit_code == 2
    assert runner.invoke(gavotte, [*words[:3], "--computing", "2"]).exit_code == 2


@dataclass(frozen=True)
class Job:
    """A job of steps that compute, then send over one link.

    Attributes:
        steps: seconds of computing and of sending in each step, at the rates of the old placement.
        overlap: `none`: each step waits for the one before; `step`: a step sends while it computes; `queue`: what a
            step sends leaves while later steps compute.
        rest_s: start and end, during which nothing is computed or sent.
    """

    steps: tuple[tuple[float, float], ...]
    overlap: str
    rest_s: float

    def took_s(self, scale: float) -> float:
        """Return the run's time if all sending takes `scale` times as long as under the old placement."""
        computed_s = sent_s = self.rest_s
        for computing_s, sending_s in self.steps:
            if self.overlap == "queue":
                computed_s += computing_s
                sent_s = max(sent_s, computed_s) + scale * sending_s
            elif self.overlap == "step":
                sent_s += max(computing_s, scale * sending_s)
            else:
                sent_s += computing_s + scale * sending_s
        return max(computed_s, sent_s)


TIMES = st.one_of(st.just(0.0), st.floats(0.01, 10.0))
JOBS = st.builds(
    Job,
    steps=st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=6).map(tuple),
    overlap=st.sampled_from(("none", "step", "queue")),
    rest_s=TIMES,
)


@examples(100)
@given(
    job=JOBS,
    scale=st.floats(0.05, 4.0),
    reached=st.floats(0.5, 1.0),
    computing=st.sampled_from(("unknown", "known")),
)
def test_the_interval_has_the_time_of_every_simulated_job(
    job: Job, scale: float, reached: float, computing: str
) -> None:
    """`reached` is the share of the Network's rates that the job's connections get."""
    modelled_s = reached * sum(sending_s for _, sending_s in job.steps)
    computed_s = sum(computing_s for computing_s, _ in job.steps)
    took_s = job.took_s(1.0)
    assume(took_s > 0.01 and modelled_s > 0.01)
    rate_bps = 8 * 10 * MB / modelled_s
    rates = [[None, rate_bps, rate_bps / scale], [rate_bps, None, rate_bps], [rate_bps, rate_bps, None]]
    result = forecast(
        Question(builders.network(3, rates), [APP]),
        BEFORE,
        AFTER,
        [took_s],
        computing_s=min(computed_s, took_s) if computing == "known" else None,
        rate_error=0.0,
    )
    assert result.low_s is not None
    assert result.high_s is not None
    slack_s = 1e-3 * took_s
    assert result.low_s - slack_s <= job.took_s(scale) <= result.high_s + slack_s
