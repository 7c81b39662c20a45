"""Hosts that burst: the rate before, the rate after, and the bytes of credit between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
from tests import builders
from tests.builders import inventory
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork

from gavotte.agents import agent_pb2 as pb
from gavotte.measure import Measurement, measure
from gavotte.measure.adapt.credits import note_sending
from gavotte.measure.adapt.results import Results
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.adapt.state import State
from gavotte.measure.plan.cost import CostLimits
from gavotte.measure.plan.credit import Sending, Sendings, SpentCredits
from gavotte.measure.plan.methods import METHODS
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.method import Reading
from gavotte.measure.plan.path_plan import plan_paths
from gavotte.model import model
from gavotte.terms import Pair
from gavotte.terms.credit import find_credit
from gavotte.terms.goodput import GOODPUT_PER_WIRE

BIN_S = 0.01


def transfer(peak_bps: float, rate_bps: float, credit_bytes: float, seconds: float, noise: float = 0.0) -> list[float]:
    """Return the bytes in each bin of a transfer through a token bucket."""
    draw = np.random.default_rng(1)
    times_s = np.arange(0, seconds + BIN_S / 2, BIN_S)
    sent = np.minimum(peak_bps / 8 * times_s, credit_bytes + rate_bps / 8 * times_s)
    bins = np.diff(sent) * (1 + noise * draw.standard_normal(len(times_s) - 1))
    return [float(size) for size in bins]


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(("rate_bps", "seconds"), [(5e7, 1.0), (1.5e8, 2.0), (5e7, 70.0)])
def test_a_transfer_that_uses_up_a_credit_shows_all_three_numbers(
    rate_bps: float, seconds: float, noise: float
) -> None:
    size = (2e8 - rate_bps) / 8 * seconds / 2
    credit = find_credit(transfer(2e8, rate_bps, size, seconds, noise), BIN_S)
    assert credit is not None
    assert credit.peak_bps == pytest.approx(2e8, rel=0.02 + noise / 5)
    assert credit.rate_bps == pytest.approx(rate_bps, rel=0.02 + noise / 20)
    assert credit.size_bytes == pytest.approx(size, rel=0.03 + noise / 10)


def test_bytes_that_waited_for_lost_ones_do_not_count_as_rate() -> None:
    # A transfer of 4 s at 80 Mbit/s behind a credit of 5 MB at 40 Mbit/s: windows of 50 ms, in Mbit/s, around the fall.
    fall_mbps = [76.9, 35.0, 0.0, 66.7, 0.2, 101.0, 55.8, 41.2]
    windows_mbps = [76.5] * 18 + fall_mbps + [38.25] * 54
    bins = [rate / 8 * 1e6 * BIN_S for rate in windows_mbps for _ in range(5)]
    credit = find_credit([*bins, 0.0], BIN_S)
    assert credit is not None
    assert credit.rate_bps == pytest.approx(38.25e6, rel=0.002)
    assert credit.size_bytes == pytest.approx(4.78e6, rel=0.05)


def losing_packets(seconds: float, seed: int) -> list[float]:
    """Return the bytes in each bin of one connection that loses 1 % of its packets, with a round trip of 10 ms.

    Its window grows by about half a packet a round trip, and falls to 0.7 of itself at a loss: CUBIC, as Reno.
    """
    draw, window, bins = np.random.default_rng(seed), 10.0, []
    for _ in range(round(seconds / BIN_S)):
        bins.append(1448 * window)
        window = max(2.0, 0.7 * window) if draw.random() > 0.99**window else window + 0.53
    return bins


@pytest.mark.parametrize("seconds", [4.0, 12.0, 20.0])
def test_a_rate_that_random_losses_change_is_no_credit(seconds: float) -> None:
    assert [seed for seed in range(100) if find_credit(losing_packets(seconds, seed), BIN_S)] == []


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.5])
def test_a_steady_transfer_has_no_credit(noise: float) -> None:
    assert find_credit(transfer(1e8, 1e8, 0.0, 1.0, noise), BIN_S) is None
    assert find_credit([1e5] * 5, BIN_S) is None
    assert find_credit([], BIN_S) is None


def test_a_transfer_that_is_disturbed_for_a_while_has_no_credit() -> None:
    bins = transfer(1e8, 1e8, 0.0, 2.0)
    bins[80:130] = [size / 3 for size in bins[80:130]]
    assert find_credit(bins, BIN_S) is None


def test_bulk_reads_the_rate_after_a_credit_and_not_the_average() -> None:
    bins = [int(size) for size in transfer(2e8, 5e7, 1e7, 1.5)]
    flow = pb.FlowResult(bytes=sum(bins), seconds=1.5, bin_bytes=bins)
    result = pb.BulkResult(goodput_bps=8 * sum(bins) / 1.5, flows=[flow])
    reading = METHODS["bulk"].read(pb.ProbeReply(bulk=result))
    assert reading.goodput_bps == pytest.approx(5e7, rel=0.02)
    assert reading.peak_bps == pytest.approx(2e8, rel=0.02)
    assert GOODPUT_PER_WIRE * reading.bucket_bytes == pytest.approx(1e7, rel=0.03)


def test_a_transfer_of_minutes_has_no_more_bins_than_agents_allow() -> None:
    assert bulk(seconds=600).probe.bulk.bin_s == pytest.approx(0.075)
    assert bulk(seconds=60).probe.bulk.bin_s == BIN_S


def test_a_host_whose_rate_falls_for_good_is_a_suspect() -> None:
    sendings = Sendings()
    for number, (target, rate_bps) in enumerate([(1, 1e8), (2, 1e8), (3, 9.9e7), (4, 5e7), (5, 5e7)]):
        sendings.take(Sending((0, target), rate_bps, 1e6, 0.08 + 0.1 * number))
        sendings.take(Sending((6, target), [1e8, 5e7][number % 2], 1e6, 0.1 * number))
    assert sendings.suspects() == {0: [(0, 1), (0, 2), (0, 3)]}
    assert sendings.suspects(left_out=[0]) == {}
    credit = sendings.credit(0, 5e7)
    assert credit is not None
    assert (credit.peak_bps, credit.rate_bps) == (1e8, 5e7)
    assert credit.size_bytes == pytest.approx(3e6 - 5e7 / 8 * 0.28)


ROUND_S = 0.11
"""Time between two rounds of real agents, most of which a train takes."""


class Bursting(PlayedNetwork):
    """A network whose first host sends at 80 Mbit/s until it has sent its credit, then at 40."""

    def __init__(self, credit_bytes: float, names: str = "abcdefgh") -> None:
        super().__init__(Oracle(builders.topology([{"name": name, "egress": "80mbit"} for name in names])), seed=1)
        self.left = credit_bytes

    def say(self, requests: Mapping[str, pb.MeasureRequest]) -> Iterator[tuple[str, pb.ProbeReply]]:
        for name, reply in super().say(requests):
            reply.started_s *= ROUND_S
            yield name, reply

    def _answer(self, probe: pb.Probe, pair: Pair, share_bps: float) -> pb.ProbeReply:
        reply = super()._answer(probe, pair, share_bps)
        if pair[0] == 0 and reply.HasField("bulk"):
            self._burst(reply.bulk.flows[0], probe.bulk.bin_s)
            reply.bulk.goodput_bps = 8 * reply.bulk.flows[0].bytes / reply.seconds
            reply.bytes_sent = reply.bulk.flows[0].bytes
        if pair[0] == 0 and reply.HasField("gated_train"):
            if self.left < 0:
                train = reply.gated_train
                train.rate_bps, train.low_bps, train.high_bps = (
                    each / 2 for each in (train.rate_bps, train.low_bps, train.high_bps)
                )
            self.left -= reply.bytes_sent
        return reply

    def _burst(self, flow: pb.FlowResult, bin_s: float) -> None:
        """Let a flow use up the credit: twice r until then."""
        peak_bytes = flow.bytes / flow.seconds * bin_s
        del flow.bin_bytes[:]
        for _ in range(round(flow.seconds / bin_s)):
            flow.bin_bytes.append(int(peak_bytes if self.left > 0 else peak_bytes / 2))
            self.left -= peak_bytes / 2
        flow.bytes = sum(flow.bin_bytes)


def test_a_path_that_was_sent_before_the_credit_ran_out_is_measured_again() -> None:
    # Two seconds of bulk TCP are 9.6 MB ahead, so that the credit lasts for the first path only.
    network = Bursting(12e6, "abc")
    with network.held():
        measurement = measure(network.inventory, method=bulk(seconds=2.0), seed=1)
    rates_bps = 8 * measurement.history.beta_Bps[0]
    assert rates_bps[0, 1:] == pytest.approx(40e6 * GOODPUT_PER_WIRE, rel=0.1)
    assert np.nanmin(rates_bps[1:]) == pytest.approx(80e6 * GOODPUT_PER_WIRE, rel=0.1)
    host = model(measurement.history).hosts[0]
    assert host.egress_bps == pytest.approx(40e6 * GOODPUT_PER_WIRE, rel=0.1)
    assert host.peak_bps == pytest.approx(80e6 * GOODPUT_PER_WIRE, rel=0.1)
    assert host.burst_bytes == pytest.approx(12e6, rel=0.3)


def test_a_credit_that_runs_out_during_a_snapshot_is_named_and_not_averaged() -> None:
    network = Bursting(4e6)
    with network.held():
        measurement = measure(network.inventory, seed=1)
    rates_bps = 8 * measurement.history.beta_Bps[0]
    assert measurement.answered == measurement.paths
    assert np.nanmax(rates_bps[0]) == pytest.approx(40e6, rel=0.05)
    assert np.nanmin(rates_bps[1:]) == pytest.approx(80e6, rel=0.05)
    believed = model(measurement.history).hosts
    assert believed[0].egress_bps == pytest.approx(40e6, rel=0.05)
    assert believed[0].peak_bps == pytest.approx(80e6, rel=0.05)
    # It began to run out during the fourth train.
    assert 1e6 < (believed[0].burst_bytes or 0) < 6e6
    assert all(host.burst_bytes is None or host.burst_bytes < 1e6 for host in believed[1:])


def spent_after(snapshots: int, names: str, count: int) -> Measurement:
    """Measure a network whose first host uses up its credit between two snapshots."""
    every = Bursting(1e12, names)
    with every.held():
        measure(every.inventory, seed=1, count=snapshots)
    share = 1e12 - every.left
    # It is used up before the first train of the next snapshot.
    network = Bursting(share - 1.0, names)
    with network.held():
        return measure(network.inventory, seed=1, count=count)


@pytest.mark.parametrize(("names", "snapshots"), [("abcdefgh", 1), ("abcdefgh", 2), ("abc", 1), ("abc", 2), ("ab", 6)])
def test_a_credit_that_runs_out_between_snapshots_is_named_and_not_averaged(names: str, snapshots: int) -> None:
    measurement = spent_after(snapshots, names, count=snapshots + 2)
    rates_bps = 8 * measurement.history.beta_Bps
    assert np.nanmax(rates_bps[:, 0]) == pytest.approx(40e6 * GOODPUT_PER_WIRE, rel=0.05)
    assert np.nanmin(rates_bps[:, 1:]) == pytest.approx(80e6 * GOODPUT_PER_WIRE, rel=0.05)
    for number in range(snapshots + 2):
        assert measurement.history.proof is not None
        assert 8 * np.nanmax(measurement.history.proof.peak_Bps[number, 0]) == pytest.approx(76e6, rel=0.05)
    hosts = model(measurement.history).hosts
    assert hosts[0].egress_bps == pytest.approx(40e6 * GOODPUT_PER_WIRE, rel=0.05)
    assert hosts[0].peak_bps == pytest.approx(80e6 * GOODPUT_PER_WIRE, rel=0.05)
    assert 8 * (hosts[0].burst_bytes or 0) > 0.25 * 40e6
    assert all(host.burst_bytes is None for host in hosts[1:])


def sendings(start_s: float, rate_bps: float, size_bytes: float = 1e6) -> Sendings:
    """Return three probes of one host to three targets, one behind the other."""
    probes, each_s = Sendings(), 8 * size_bytes / rate_bps
    for number in range(3):
        probes.take(Sending((0, number + 1), rate_bps, size_bytes, start_s + (number + 1) * each_s))
    return probes


def test_a_fall_after_a_pause_is_no_credit_because_the_bucket_was_full_again() -> None:
    spent = SpentCredits()
    assert spent.take(sendings(0.0, 8e7)) == {}
    # 0.3 s at 80 Mbit/s are 1.5 MB ahead of 40.
    assert spent.take(sendings(0.3, 4e7))[0].size_bytes == pytest.approx(1.5e6)
    spent = SpentCredits()
    spent.take(sendings(0.0, 8e7))
    assert spent.take(sendings(10.0, 4e7)) == {}


def test_a_host_of_which_one_path_stays_fast_has_no_credit() -> None:
    spent = SpentCredits()
    spent.take(sendings(0.0, 8e7))
    probes = sendings(0.3, 4e7)
    probes.take(Sending((0, 3), 8e7, 1e6, 1.1))
    assert spent.take(probes) == {}


def test_a_host_whose_last_receivers_are_slow_has_no_credit() -> None:
    slow = {name: {"ingress": "40mbit"} for name in "fgh"}
    hosts = [{"name": name, "egress": "80mbit", **slow.get(name, {})} for name in "abcdefgh"]
    network = PlayedNetwork(Oracle(builders.topology(hosts)), seed=1)
    with network.held():
        measurement = measure(network.inventory, seed=1)
    proof = measurement.history.proof
    assert proof is not None
    assert not (proof.bucket_bytes > 0).any()


def test_pairs_that_only_cross_links_show_no_credit() -> None:
    plan = replace(plan_paths(["a", "b", "c"]), crossing=frozenset({(0, 1)}))
    limits = CostLimits()
    state = State(plan, Results(inventory("abc"), "train", 1), Spending(plan, limits, plan.most(limits)))
    for pair in ((0, 1), (0, 2)):
        note_sending(state, pair, Reading(goodput_bps=1e8), 10**6, 1.0)
    assert [[probe.pair for probe in probes] for _, probes in state.sendings.by_source()] == [[(0, 2)]]
