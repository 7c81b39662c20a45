"""Probes during which a host kept its agent from running: what still counts, what is repeated, and what is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from typer.testing import CliRunner

from gavotte.agents import agent_pb2 as pb
from gavotte.cli.verbs import app
from gavotte.formats.inventory import write_inventory
from gavotte.hosts.check import HostState
from gavotte.measure import Measurement, measure
from gavotte.measure.adapt.overlap import Together, judge
from gavotte.measure.adapt.results import PathResult, Results
from gavotte.measure.adapt.withheld import FRESH_S, Gap, find_gap, limited_by_host
from gavotte.measure.plan.methods.method import RateVerdict, Reading
from gavotte.terms.goodput import GOODPUT_PER_WIRE

THROTTLED = pb.Withheld(seconds=0.08, throttled_s=0.062, quota_cpus=0.2)
STOLEN = pb.Withheld(seconds=0.08, stolen_s=0.03)
GAP = Gap("b", "throttled", 0.062, 0.08, 0.2)


class ThrottledNetwork(PlayedNetwork):
    """Agents of which one is throttled by its quota for its first trains on each path.

    Attributes:
        spoilt: how many trains of each path the quota spoils.
        unsteady: whether spoilt trains find no rate.
        slows_tcp: whether the quota also slows bulk TCP.
        pauses_s: pauses of the trains of each path.
    """

    def __init__(self, oracle: Oracle, host: str, spoilt: int) -> None:
        super().__init__(oracle, seed=1)
        self._host, self.spoilt = host, spoilt
        self.unsteady, self.slows_tcp = False, True
        self.pauses_s: dict[tuple[str, str], list[float]] = {}

    def say(self, requests: Mapping[str, pb.MeasureRequest]) -> Iterator[tuple[str, pb.ProbeReply]]:
        trains = {
            (name, probe.round): probe.gated_train
            for name, part in requests.items()
            for probe in part.probes
            if probe.WhichOneof("kind") == "gated_train"
        }
        for name, reply in super().say(requests):
            if self.slows_tcp and reply.HasField("bulk") and self._host in (name, reply.peer):
                self._withheld(name, reply).CopyFrom(THROTTLED)
                reply.bulk.goodput_bps /= 8
            if (name, reply.round) in trains and self._host in (name, reply.peer):
                pauses_s = self.pauses_s.setdefault((name, reply.peer), [])
                pauses_s.append(trains[name, reply.round].pause_s)
                if len(pauses_s) <= self.spoilt:
                    self._spoil(name, reply)
            yield name, reply

    def _withheld(self, name: str, reply: pb.ProbeReply) -> pb.Withheld:
        return reply.sender_withheld if name == self._host else reply.receiver_withheld

    def _spoil(self, name: str, reply: pb.ProbeReply) -> None:
        self._withheld(name, reply).CopyFrom(THROTTLED)
        train, rate_bps = reply.gated_train, reply.gated_train.rate_bps / 4
        if self.unsteady:
            reply.gated_train.CopyFrom(pb.GatedTrainResult(refusal="unsteady", refused=pb.GATED_REFUSAL_UNSTEADY))
            reply.error, reply.failure = "the train was refused: unsteady", pb.FAILURE_NO_RATE
            return
        train.verdict, train.rate_bps, train.low_bps = pb.VERDICT_HOST_LIMITED, rate_bps, rate_bps


def network(spoilt: int) -> ThrottledNetwork:
    return ThrottledNetwork(
        Oracle(builders.topology([{"name": name, "egress": "60mbit"} for name in "abc"])), "b", spoilt
    )


def rates_bps(result: Measurement) -> list[float]:
    return [path.reading.goodput_bps for _, path in sorted(result.newest.items())]


def test_a_train_that_a_quota_spoilt_is_repeated_with_a_full_quota() -> None:
    played = network(spoilt=2)
    with played.held():
        result = measure(played.inventory)
    assert rates_bps(result) == pytest.approx([60e6 * GOODPUT_PER_WIRE] * 6, rel=0.02)
    assert not result.gaps
    assert not result.doubtful
    assert all(pauses_s[-1] == FRESH_S for pauses_s in played.pauses_s.values())


def test_a_host_that_stays_throttled_is_named_after_two_repetitions() -> None:
    played = network(spoilt=99)
    with played.held():
        result = measure(played.inventory)
    assert set(result.gaps) == {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}
    assert {path.reading.verdict for path in result.newest.values() if path.gap} == {"host-limited"}
    assert rates_bps(result)[1] == pytest.approx(60e6 * GOODPUT_PER_WIRE, rel=0.02)
    repeated = Counter(sum(pause_s == FRESH_S for pause_s in each) for each in played.pauses_s.values())
    assert repeated == {2: 4}
    assert not result.doubtful
    assert {row["reason"] for row in result.to_records() if "b" in (row["source"], row["target"])} == {str(GAP)}


@pytest.mark.parametrize("slows_tcp", [False, True])
def test_tcp_measures_paths_on_which_the_quota_spoils_every_train(slows_tcp: bool) -> None:
    played = network(spoilt=99)
    played.unsteady, played.slows_tcp = True, slows_tcp
    with played.held():
        result = measure(played.inventory)
    paths = [path for pair, path in result.newest.items() if 1 in pair]
    assert (result.answered, result.busy, result.doubtful) == (6, [], [])
    # The refusals show the host. They are no evidence of what TCP's rate is worth.
    expected_bps, verdict = (7.5e6, "host-limited") if slows_tcp else (60e6, "unproven")
    assert [path.reading.goodput_bps for path in paths] == pytest.approx([expected_bps] * 4, rel=0.1)
    assert {(path.reading.verdict, path.reading.by_tcp) for path in paths} == {(verdict, "refused")}
    assert [path.gap for path in paths] == [GAP if slows_tcp else None] * 4


def test_tcp_without_a_gap_replaces_a_lower_bound() -> None:
    played = network(spoilt=99)
    played.slows_tcp = False
    with played.held():
        result = measure(played.inventory)
    assert rates_bps(result) == pytest.approx([60e6 * GOODPUT_PER_WIRE] * 6, rel=0.1)
    assert not result.gaps
    assert {path.reading.verdict for pair, path in result.newest.items() if 1 in pair} == {"unproven"}


@pytest.mark.slow
def test_the_table_and_a_warning_name_the_host(tmp_path: Path) -> None:
    played, hosts = network(spoilt=99), tmp_path / "h.hosts.toml"
    write_inventory(hosts, played.inventory)
    with played.held():
        done = CliRunner().invoke(app, ["measure", "--hosts", str(hosts)])
    assert done.exit_code == 0, done.output
    assert f"warning: {GAP}: a to b and 3 more may carry more, marked !" in done.output
    assert done.output.count("!\n") + done.output.count("! ") == 4


@pytest.mark.parametrize("verdict", get_args(RateVerdict))
def test_steal_spoils_a_proven_rate_and_a_quota_does_not(verdict: RateVerdict) -> None:
    throttled = find_gap("a", "b", pb.ProbeReply(receiver_withheld=THROTTLED), verdict)
    assert throttled == (None if verdict == "path-limited" else GAP)
    stolen = find_gap("a", "b", pb.ProbeReply(sender_withheld=STOLEN), verdict)
    assert str(stolen) == "the hypervisor took a processor from a for 30 ms of 80 ms"


def test_short_gaps_lower_only_averages() -> None:
    one_tick = pb.ProbeReply(sender_withheld=pb.Withheld(seconds=0.08, throttled_s=0.007, stolen_s=0.01, waited_s=0.07))
    assert find_gap("a", "b", one_tick, "host-limited") is None
    assert find_gap("a", "b", one_tick, "unproven") == Gap("a", "throttled", 0.007, 0.08)
    assert find_gap("a", "b", pb.ProbeReply(), "unproven") is None


def test_only_a_refused_train_gets_the_host_as_a_further_reason() -> None:
    unsteady = limited_by_host(Reading(float("nan"), refusal="unsteady", failure=pb.FAILURE_NO_RATE), GAP)
    assert unsteady.refusal == f"unsteady; {GAP}"
    away = Reading(float("nan"), refusal="gone", failure=pb.FAILURE_VANISHED)
    assert limited_by_host(away, GAP) == away


def test_a_rate_that_shows_a_host_replaces_only_smaller_lower_bounds() -> None:
    results = Results(network(0).inventory, "train", 1)
    shown: list[float] = []
    for path in (
        PathResult(Reading(2e8, verdict="host-limited"), gap=GAP),
        PathResult(Reading(1e8, verdict="host-limited"), gap=GAP),
        PathResult(Reading(3e8, verdict="host-limited"), gap=GAP),
        PathResult(Reading(2.5e8, verdict="path-limited")),
        PathResult(Reading(9e8, verdict="host-limited"), gap=GAP),
    ):
        results.add(0, 0, 1, path)
        shown.append(results.paths[0, 0, 1].reading.goodput_bps)
    assert shown == [2e8, 2e8, 3e8, 2.5e8, 2.5e8]


def test_a_low_sum_of_a_throttled_host_shares_no_link() -> None:
    outcome = Together(0.2, (5e7, 5e7), 1e8, 1e8, (5e7, 5e7), (True, True))
    assert judge([1e8, 1e8], outcome) == ("shared", "")
    throttled = Together(0.2, (5e7, 5e7), 1e8, 1e8, (5e7, 5e7), (True, True), gap=str(GAP))
    assert judge([1e8, 1e8], throttled) == ("unknown", str(GAP))


def test_a_check_names_quotas_below_one_processor_and_steal() -> None:
    def warnings(**values: float) -> str:
        return "; ".join(HostState("a", "10.0.0.1", "unix:a", True, True, "ready", **values).warnings)  # type: ignore[arg-type]

    assert "allows 0.2 of a processor" in warnings(cpu_quota=0.2)
    assert "gave 25 % of its processors' time to others" in warnings(stolen=0.25)
    assert warnings(cpu_quota=1.5, stolen=0.05) == warnings() == ""
