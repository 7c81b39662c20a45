"""Experiments are few, load one link each, never meet, and their sums are judged with care."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tests.measure.oracle import Oracle
from tests.measure.random_clouds import KINDS, random_cloud
from tests.measure.test_racks import racks

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.adapt.overlap import MIN_OVERLAP_S, PACKET_BITS, Series, Together, judge, together
from gavotte.measure.carry.fleet_carrier import _of_transfers
from gavotte.measure.plan.cost import Most
from gavotte.measure.plan.trials import Trial, UsablePairs, Way, choose, plan_trials, rounds_of
from gavotte.measure.sharing.experiments import ATTEMPTS, run_experiments, typical_rate
from gavotte.terms import Pair
from gavotte.terms.hierarchy import hierarchy_of


def planned(kind: str, seed: int, hosts: int) -> tuple[Oracle, list[Trial]]:
    oracle = random_cloud(kind, seed, hosts=hosts).oracle()
    history = oracle.history()
    tree = hierarchy_of(history.hosts, history.hops)
    return oracle, plan_trials(tree, typical_rate(history), hosts=range(tree.size), seed=seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_each_link_has_one_experiment_whose_pairs_all_cross_it(kind: str, seed: int) -> None:
    oracle, trials = planned(kind, seed, 12)
    tree = hierarchy_of(oracle.names, oracle.hops)
    assert len({trial.link for trial in trials}) == len(trials)
    assert {trial.link for trial in trials} == {
        link
        for link, it in enumerate(tree.links)
        if len({pair for s in it.sources for t in it.targets if link in tree.path(*(pair := (s, t)))}) > 1
    }
    for trial in trials:
        assert len(set(trial.pairs)) == len(trial.pairs) > 1
        assert all(trial.link in tree.path(*pair) for pair in trial.pairs)


def test_the_number_of_experiments_grows_with_hosts_not_with_pairs() -> None:
    few, many = (len(planned("tor", 0, hosts)[1]) for hosts in (16, 64))
    assert many < 5 * few
    assert many < 4 * 64


def test_uplinks_are_loaded_by_every_host_behind_them() -> None:
    oracle, trials = planned("tor", 1, 16)
    tree = hierarchy_of(oracle.names, oracle.hops)
    for trial in trials:
        if len(tree.links[trial.link].sources) > 1 and len(tree.links[trial.link].targets) > 1:
            assert {source for source, _ in trial.pairs} == tree.links[trial.link].sources or len(
                {target for _, target in trial.pairs}
            ) == len(trial.pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_experiments_of_one_round_share_no_link(kind: str) -> None:
    oracle, trials = planned(kind, 3, 20)
    tree = hierarchy_of(oracle.names, oracle.hops)
    rounds = rounds_of(tree, trials)
    assert sorted((t.link, t.pairs) for members in rounds for t in members) == sorted((t.link, t.pairs) for t in trials)
    assert len(rounds) < len(trials)
    for members in rounds:
        # Answers travel the way back.
        crossed = [{link for s, t in trial.pairs for link in (*tree.path(s, t), *tree.path(t, s))} for trial in members]
        assert len(set().union(*crossed)) == sum(len(links) for links in crossed)


def test_the_same_seed_gives_the_same_experiments() -> None:
    assert planned("core", 5, 12)[1] == planned("core", 5, 12)[1]


@pytest.mark.parametrize("up", [None, "100mbit"])
def test_the_noise_of_rates_decides_nothing(up: str | None) -> None:
    # A thousandth more or less arranged 6 hosts' experiments such that the estimate of 20 s was 25.
    history = Oracle(racks(up)).history()
    tree = hierarchy_of(history.hosts, history.hops)
    rate = typical_rate(history)
    shaken = rate * (1 + 1e-3 * np.random.default_rng(2).standard_normal(rate.shape))
    one, other = (plan_trials(tree, each, hosts=range(tree.size), seed=1) for each in (rate, shaken))
    assert one == other


def test_pairs_never_measured_and_hosts_not_there_are_not_used() -> None:
    oracle = random_cloud("hose", 0, hosts=8).oracle()
    history = oracle.history()
    rate = typical_rate(history)
    rate[0, :] = np.nan
    tree = hierarchy_of(history.hosts, history.hops)
    trials = plan_trials(tree, rate, hosts=range(1, tree.size - 1), seed=0)
    assert trials
    used = {host for trial in trials for pair in trial.pairs for host in pair}
    assert used.isdisjoint({0, tree.size - 1})


class Faulty(Oracle):
    """Pairs from one host never answer."""

    def carry(self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way) -> dict[Pair, Series]:
        result = super().carry(groups, expect_bps, way)
        return {pair: series for pair, series in result.items() if pair[0] != 0}


def test_pairs_that_do_not_answer_leave_the_rest_alone() -> None:
    cloud = random_cloud("hose", 2, hosts=8)
    oracle = Faulty(cloud.topology)
    history = oracle.history()
    tree = hierarchy_of(history.hosts, history.hops)
    result = run_experiments(oracle, tree, typical_rate(history), hosts=range(tree.size), seed=0)
    assert result.evidence
    assert all(oracle.names[0] != source for record in result.evidence for source, _ in record.pairs)


def test_losses_are_confirmed_and_the_rest_is_not_repeated() -> None:
    cloud = random_cloud("hose", 1, hosts=8)
    oracle = cloud.oracle()
    history = oracle.history()
    tree = hierarchy_of(history.hosts, history.hops)
    seen: list[tuple[int, int]] = []
    result = run_experiments(
        oracle,
        tree,
        typical_rate(history),
        hosts=range(tree.size),
        seed=0,
        progress=lambda done, known: seen.append((done, known)),
    )
    by_subject: dict[str, list[str]] = {}
    for record in result.evidence:
        by_subject.setdefault(record.subject, []).append(record.verdict)
    assert "shared" in {verdict for verdicts in by_subject.values() for verdict in verdicts}
    for verdicts in by_subject.values():
        # Without losses, one more try at most: with all sources, when the first try could not use them.
        settled = (set(verdicts) == {"independent"} and len(verdicts) <= 2) or verdicts.count("shared") > 1
        assert settled or "unknown" in verdicts
        assert len(verdicts) <= ATTEMPTS
    assert seen[-1] == (len(result.evidence), len(result.evidence))


@pytest.mark.parametrize("most", [Most(bytes=5e7, seconds=math.inf), Most(bytes=math.inf, seconds=0.0)])
def test_experiments_end_where_they_would_cost_more_than_was_said(most: Most) -> None:
    oracle = random_cloud("hose", 1, hosts=8).oracle()
    history = oracle.history()
    tree, rate = hierarchy_of(history.hosts, history.hops), typical_rate(history)
    result = run_experiments(oracle, tree, rate, hosts=range(tree.size), seed=0, most=most)
    assert result.stopped.startswith("more time" if most.seconds == 0 else "more bytes")
    whole = random_cloud("hose", 1, hosts=8).oracle()
    assert not run_experiments(whole, tree, rate, hosts=range(tree.size), seed=0).stopped
    # The current round is the last one.
    assert oracle.asked < whole.asked
    assert oracle.bytes_sent < min(most.bytes + whole.bytes_sent / 4, whole.bytes_sent)


def steady(start_s: float, bps: float, seconds: float) -> Series:
    return Series(start_s, 0.01, np.full(round(seconds / 0.01), bps * 0.01))


def test_only_the_time_that_all_send_counts() -> None:
    sums = together([steady(0.0, 100e6, 0.4), steady(0.1, 50e6, 0.4)])
    assert sums.rate_bps == pytest.approx((100e6, 50e6))
    assert sums.overlap_s == pytest.approx(0.29)
    assert sums.low_bps == pytest.approx(150e6)


def test_a_short_overlap_says_nothing() -> None:
    sums = together([steady(0.0, 100e6, 0.2), steady(0.16, 100e6, 0.2)])
    assert sums.overlap_s < MIN_OVERLAP_S
    verdict, reason = judge([100e6, 100e6], sums)
    assert verdict == "unknown"
    assert "overlap" in reason


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.5, "shared"), (0.9, "unknown"), (0.97, "independent"), (1.1, "independent")]
)
def test_the_sum_is_judged_not_the_drop_of_one(share: float, verdict: str) -> None:
    uneven = Together(0.3, (share * 150e6, share * 50e6), 0.0, 1e9, (math.nan, math.nan), (True, True))
    assert judge([150e6, 50e6], uneven)[0] == verdict


@pytest.mark.parametrize(
    ("steady", "filled", "verdict"),
    [
        ((math.nan, math.nan), (False, True), "unknown"),
        ((math.nan, math.nan), (True, False), "shared"),
        ((100e6, 100e6), (True, True), "independent"),
        ((100e6, math.nan), (True, True), "unknown"),
        ((60e6, 100e6), (True, True), "shared"),
    ],
)
def test_a_busy_host_is_no_shared_link(steady: tuple[float, float], filled: tuple[bool, bool], verdict: str) -> None:
    assert judge([100e6, 100e6], Together(0.3, (60e6, 99e6), 0.0, 1e9, steady, filled))[0] == verdict


@pytest.mark.parametrize(("spread", "verdict"), [(0.005, "shared"), (0.05, "unknown")])
def test_a_full_link_gives_an_even_sum(spread: float, verdict: str) -> None:
    # The first continued alone and was steady then: only the rate while all sent decides.
    result = Together(0.3, (40e6, 60e6), 100e6 * (1 - spread), 100e6 * (1 + spread), (100e6, math.nan), (True, True))
    assert judge([100e6, 100e6], result)[0] == verdict


def shaped(cap_bps: float, bucket_bytes: float, seconds: float, *, shares: Sequence[float]) -> list[Series]:
    """Bytes of flows through one token bucket: its depth at once, then its rate."""
    bits = np.full(round(seconds / 0.01), cap_bps * 0.01)
    bits[0] += 8 * bucket_bytes
    return [Series(0.0, 0.01, share * bits) for share in shares]


@pytest.mark.parametrize("bucket_bytes", [32e3, 256e3])
@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.6, 0.3, 0.1)])
def test_a_bucket_that_empties_is_no_rate(bucket_bytes: float, shares: tuple[float, ...]) -> None:
    sums = together(shaped(20e6, bucket_bytes, 0.4, shares=shares))
    assert sums.sum_bps == pytest.approx(20e6, rel=1e-6)
    assert sums.rate_bps == pytest.approx([20e6 * share for share in shares], rel=1e-6)


@pytest.mark.parametrize("stall", [(0.02, 0.22), (0.08, 0.12), (0.15, 0.35)])
def test_a_lost_segment_only_delays_what_came_after_it(stall: tuple[float, float]) -> None:
    (series,) = shaped(20e6, 32e3, 0.6, shares=(1.0,))
    first, last = (round(time_s / 0.01) for time_s in stall)
    held = series.bits[first:last].sum()
    series.bits[first:last] = 0.0
    series.bits[last] += held
    assert together([series]).sum_bps == pytest.approx(20e6, rel=1e-6)


def transfers(series: Series, *, flows: int = 4, queued: int = 8) -> list[pb.TransferDone]:
    """The same by several connections: one counts late, since its first byte waited, another ends late."""
    even = [int(bits / 8 / flows) for bits in series.bits]
    finish_s = 0.1 + len(even) * 0.01
    dones = [pb.TransferDone(start_s=0.1, finish_s=finish_s, bin_bytes=even) for _ in range(flows)]
    del dones[0].bin_bytes[:queued]
    dones[0].bin_bytes[0] += sum(even[:queued])
    dones[1].finish_s += 0.05
    dones[1].bin_bytes[:] = [*even[:-1], 0, 0, 0, 0, 0, even[-1]]
    return dones


def test_transfers_of_a_capped_host_tell_the_cap() -> None:
    one, other = (_of_transfers(transfers(each)) for each in shaped(20e6, 32e3, 0.8, shares=(0.7, 0.3)))
    assert one.start_s == 0.1
    assert together([one, other]).sum_bps == pytest.approx(20e6, rel=2e-3)
    alone = _of_transfers(transfers(shaped(20e6, 32e3, 0.4, shares=(1.0,))[0]))
    assert together([alone]).sum_bps == pytest.approx(20e6, rel=2e-3)


def test_pairs_that_do_not_fit_a_known_link_come_last() -> None:
    # Racks of four hosts: two in the first pod, two in the second.
    rack = np.arange(16) // 4
    hops = np.where(rack[:, None] == rack, 2, np.where(rack[:, None] // 2 == rack // 2, 4, 6))
    np.fill_diagonal(hops, 0)
    tree = hierarchy_of([f"h{number}" for number in range(16)], hops)
    links = {tree.label(link): link for link in range(len(tree.links))}
    rate = np.full((16, 16), 1e8)
    # The other pod's hosts are faster. Where no link is known, pairs are spread over both pods.
    rate[8:] = 2e8
    into = links["into rack-0"]
    free = choose(UsablePairs(tree, rate, range(16)), into, seed=1)
    assert free is not None
    assert sum(source >= 8 for source, _ in free.pairs) == 2
    pod = next(link for label, link in links.items() if "into pod-0" in label)
    limited = choose(UsablePairs(tree, rate, range(16), {pod: 2.5e8}), into, seed=1)
    assert limited is not None
    assert [source >= 8 for source, _ in limited.pairs] == [True, False, False, False]


def test_whole_packets_do_not_make_a_slow_link_uneven() -> None:
    """Paths of 6 Mbit/s share a link of 10 Mbit/s, which carries a packet of one of them each 1.2 ms."""
    rng = np.random.default_rng(0)
    packet_s, bin_s, bins = PACKET_BITS / 10e6, 0.01, 20
    turns = rng.choice(4, size=int(bins * bin_s / packet_s), p=[0.5, 0.3, 0.15, 0.05])
    arrivals = packet_s * np.arange(len(turns))
    counts = [np.histogram(arrivals[turns == path], bins, (0, bins * bin_s))[0] for path in range(4)]
    outcome = together([Series(0.0, bin_s, PACKET_BITS * count, filled=False) for count in counts])
    assert outcome.sum_bps == pytest.approx(10e6, rel=0.05)
    assert outcome.even
    assert judge([6e6] * 4, outcome)[0] == "shared"
    # At the same spread, a fast link is not full all the time.
    fast = [Series(0.0, bin_s, 100 * PACKET_BITS * count, filled=False) for count in counts]
    assert not together(fast).even
