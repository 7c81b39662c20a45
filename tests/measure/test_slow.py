"""The search for slow hosts: detection and false alarms on simulated clouds, and what it does with odd answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from tests.measure.slow_clouds import RATE_BPS, SlowCloud, outcome, random_cloud

from gavotte._core import student_quantile
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Group
from gavotte.measure import CostLimits
from gavotte.measure.plan.pools import pools_of
from gavotte.measure.slow import SlowQuestion, Threshold, find_slow, find_slow_uplinks, most_rounds, plan_slow
from gavotte.measure.slow.classes import classes_of
from gavotte.measure.slow.searching import CONFIRMING_ROUNDS, NEXT_ROUNDS, Round
from gavotte.measure.slow.uplinks import racks_of
from gavotte.terms import Pair

CLOUDS = 200
MOST_MISSED = MOST_FALSE = CLOUDS // 100


def even_cloud(size: int, noise: float = 0.03, seed: int = 1) -> SlowCloud:
    """Return a cloud without a fault."""
    rates = np.full((2, size), RATE_BPS)
    return SlowCloud(rates[0], rates[1], noise, np.random.default_rng(seed))


@pytest.mark.rare
@pytest.mark.slow
def test_a_slow_host_is_found_and_nothing_else_is() -> None:
    draws = np.random.default_rng(35)
    counts = Counter[str]()
    for seed in range(CLOUDS):
        size = int(math.exp(draws.uniform(math.log(8), math.log(1000))))
        cloud = random_cloud(size, draws.uniform(0.02, 0.05), seed, classes=size >= 12 and seed % 2 == 1)
        result = outcome(cloud, seed)
        counts["missed"] += result.missed
        counts["false"] += result.false
        counts["dead"] += result.dead
        assert result.result.rounds <= most_rounds(size) + CONFIRMING_ROUNDS
    assert counts["missed"] <= MOST_MISSED
    assert counts["false"] <= MOST_FALSE
    assert counts["dead"] == CLOUDS


@pytest.mark.slow
def test_clouds_without_a_fault_raise_no_alarm() -> None:
    false = 0
    for seed in range(200):
        result = find_slow(40, even_cloud(40, 0.05, seed).probe, seed=seed)
        false += any(end.verdict == "below" for end in result.judged.ends) or bool(result.pairs)
    assert false <= 2


def test_rounds_grow_with_the_logarithm_of_the_hosts() -> None:
    assert most_rounds(1024) - most_rounds(512) == most_rounds(16) - most_rounds(8) == NEXT_ROUNDS
    assert most_rounds(1024) < 70


def test_the_interval_contains_the_true_share() -> None:
    inside = 0
    for seed in range(50):
        cloud = random_cloud(32, 0.04, seed)
        result = outcome(cloud, seed).result
        for end in result.judged.ends:
            if end.host in cloud.dead:
                continue
            true = (cloud.sends_bps if end.direction == "sends" else cloud.receives_bps)[end.host] / RATE_BPS
            inside += not end.low <= true <= end.high
    # One search in a hundred may have a wrong interval.
    assert inside <= 2


def test_each_host_sends_and_receives_at_most_once_in_a_round() -> None:
    cloud = random_cloud(101, 0.05, 3)
    find_slow(101, cloud.probe, seed=3)
    for pairs in cloud.asked:
        assert all(source != target for source, target in pairs)
        for ends in zip(*pairs, strict=True):
            assert len(set(ends)) == len(ends)


def test_the_seed_decides_everything_random() -> None:
    first, second, third = (even_cloud(20, 0.05, 4) for _ in range(3))
    find_slow(20, first.probe, seed=1)
    find_slow(20, second.probe, seed=1)
    find_slow(20, third.probe, seed=2)
    assert first.asked == second.asked != third.asked


def test_a_slow_pair_blames_no_host() -> None:
    cloud = even_cloud(6, 0.02)
    cloud.pairs[2, 4] = 0.5
    hits = 0
    for seed in range(20):
        result = find_slow(6, cloud.probe, seed=seed)
        assert not result.judged.numbers("below")
        assert {(pair.source, pair.target) for pair in result.pairs} <= {(2, 4)}
        for pair in result.pairs:
            assert pair.low < 0.5 < pair.high < 0.9
        hits += len(result.pairs)
    # 4 rounds of 6 hosts hit 24 of 30 pairs at most.
    assert 5 <= hits < 20


def test_the_chance_to_hit_a_slow_pair_is_that_of_the_pairs_probed() -> None:
    cloud = even_cloud(200, 0.02)
    result = find_slow(200, cloud.probe, seed=1)
    pairs = {pair for round_ in cloud.asked for pair in round_}
    assert result.pair_chance == len(pairs) / (200 * 199) == pytest.approx(result.rounds / 199, rel=0.05)


def test_a_disturbance_that_passes_is_no_fault() -> None:
    cloud = even_cloud(16, 0.02)

    def probe(rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        cloud.sends_bps[5] = RATE_BPS * (0.7 if len(cloud.asked) < 4 else 1.0)
        return cloud.probe(rounds)

    result = find_slow(16, probe, seed=2)
    assert not result.judged.numbers("below")
    assert [(end.host, end.direction) for end in result.passing] == [(5, "sends")]
    assert result.passing[0].share == pytest.approx(0.7, abs=0.05)


def test_a_fast_host_among_slow_ones_is_fine() -> None:
    cloud = even_cloud(12, 0.02)
    cloud.sends_bps[3] *= 4
    cloud.receives_bps[3] *= 4
    assert not find_slow(12, cloud.probe, seed=1).judged.numbers("below")


def test_a_host_that_only_sends_is_named_for_receiving() -> None:
    cloud = even_cloud(10, 0.02)

    def probe(rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        return [{pair: rate for pair, rate in rates.items() if pair[1] != 7} for rates in cloud.probe(rounds)]

    result = find_slow(10, probe, seed=1)
    assert result.judged.numbers("no answer") == [10 + 7]
    assert result.alive == 10


def test_nothing_answers() -> None:
    result = find_slow(5, lambda rounds: [{} for _ in rounds])
    assert (result.hit, result.rounds) == (0, 4)


def test_a_limit_ends_the_search() -> None:
    cloud = random_cloud(64, 0.05, 1)
    result = find_slow(64, cloud.probe, proceed=lambda: False)
    assert result.stopped
    assert result.rounds == 4


ANSWERS = st.one_of(st.none(), st.floats(allow_nan=True), st.floats(1.0, 1e12), st.just(1e9))


@given(size=st.integers(3, 14), seed=st.integers(0, 2**63 - 1), data=st.data())
def test_any_answers_give_sound_verdicts(size: int, seed: int, data: st.DataObject) -> None:
    odd = data.draw(st.dictionaries(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), ANSWERS))

    def probe(rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        answers = list[Mapping[Pair, float]]()
        for pairs in rounds:
            assert all(s != t for s, t in pairs)
            answers.append({pair: rate for pair in pairs if (rate := odd.get(pair, 1e9)) is not None})
        return answers

    result = find_slow(size, probe, seed=seed)
    assert result.rounds <= most_rounds(size) + CONFIRMING_ROUNDS
    assert len(result.judged.ends) == 2 * size
    assert 0 <= result.pair_chance <= 1
    for end in result.judged.ends:
        assert not end.low > end.high
        if end.verdict == "below":
            assert end.high < 0.9
        if end.verdict == "fine":
            assert end.low > 0.9


@pytest.mark.parametrize("freedom", [1, 5, 16, 4999, 5000, 1e8, math.inf])
@pytest.mark.parametrize("chance", [0.01, 0.5, 0.975, 1 - 1e-6])
def test_quantiles_are_those_of_scipy(freedom: float, chance: float) -> None:
    exact = float(special.stdtrit(freedom, chance))
    assert student_quantile(chance, freedom) == pytest.approx(exact, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("chance", "freedom"), [(0, 3), (1, 3), (0.5, 0), (0.5, -1), (0.5, math.nan)])
def test_there_are_no_quantiles_of_other_numbers(chance: float, freedom: float) -> None:
    with pytest.raises(ValueError, match=r"chance between 0 and 1|degrees of freedom above 0"):
        student_quantile(chance, freedom)


def test_classes_are_what_many_hosts_have() -> None:
    levels = np.log(np.array([10.0, 10.1, 9.9, 10.0, 5.0, 5.1, 5.0, 7.0, np.nan]))
    assert [(round(math.exp(each.level), 1), each.hosts) for each in classes_of(levels, 0.1)] == [(10.0, 4), (5.0, 3)]
    spread = np.log(np.geomspace(1, 100, 10))
    assert [each.hosts for each in classes_of(spread, 0.1)] == [10]


def cluster(racks: int, hosts: int) -> tuple[list[Group], list[str]]:
    """Return the groups of a Network, and the names of its hosts."""
    names = [f"vm{rack}-{number}" for rack in range(racks) for number in range(hosts)]
    members = [names[rack * hosts : (rack + 1) * hosts] for rack in range(racks)]
    return [Group(name=f"rack-{rack}", members=own) for rack, own in enumerate(members)], names


@pytest.mark.parametrize("seed", range(8))
def test_a_slow_uplink_is_found(seed: int) -> None:
    groups, names = cluster(7, 6)
    racks = racks_of(groups, names)
    up, down, random = np.full(7, 20e9), np.full(7, 20e9), np.random.default_rng(seed)
    (up if seed % 2 else down)[seed % 7] *= 0.75

    def probe(rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        answers = list[Mapping[Pair, float]]()
        for pairs in rounds:
            leaving, entering = (Counter(end // 6 for end in ends) for ends in zip(*pairs, strict=True))
            shares = {
                (s, t): min(10e9, up[s // 6] / leaving[s // 6], down[t // 6] / entering[t // 6]) for s, t in pairs
            }
            answers.append({pair: rate * math.exp(random.normal(0, 0.03)) for pair, rate in shares.items()})
        return answers

    result = find_slow_uplinks(racks, probe, threshold=Threshold(), seed=seed)
    below = [(end.host, end.direction) for end in result.judged.ends if end.verdict == "below"]
    assert below == [(seed % 7, "sends" if seed % 2 else "receives")]


def test_hosts_are_probed_within_their_racks() -> None:
    groups, names = cluster(2, 6)

    def pools(*others: str) -> list[list[int]]:
        hosts = [*names, *others]
        return pools_of(racks_of(groups, hosts).hosts, range(len(hosts)))

    assert pools() == [list(range(6)), list(range(6, 12))]
    # A host without a rack joins another pool, and several have one of their own.
    assert pools("x")[0] == [*range(6), 12]
    assert pools("x", "y", "z")[2] == [12, 13, 14]
    nested = [*(group.model_copy(update={"parent": "pod"}) for group in groups), Group(name="pod", members=names)]
    assert racks_of(nested, names).names == ["rack-0", "rack-1"]


def test_small_racks_are_left_out_and_named() -> None:
    groups, names = cluster(4, 6)
    racks = racks_of(groups, names, usable=[*range(18), 20])
    assert (racks.names, racks.left_out, racks.pairs) == (["rack-0", "rack-1", "rack-2"], ["rack-3"], 6)


def inventory(size: int) -> Inventory:
    hosts = [{"name": f"vm{i}", "address": f"10.0.0.{i + 1}", "agent": "unix:/a.sock"} for i in range(size)]
    return Inventory.model_validate({"format": "gavotte/hosts/1", "host": hosts})


def test_a_plan_has_a_price_before_the_first_packet() -> None:
    plan = plan_slow(SlowQuestion(inventory(64)))
    assert plan.rounds == (8, most_rounds(64) + CONFIRMING_ROUNDS)
    assert plan.cost.bytes == pytest.approx(8 * 64 * 0.5 * 1e9 / 8)
    assert plan.cost.seconds < 12
    with pytest.raises(GavotteError, match=r"more than the budget of 1\.00 GB"):
        plan_slow(SlowQuestion(inventory(64), limits=CostLimits(bytes=10**9))).check()


def test_a_plan_leaves_room_for_the_next_rounds() -> None:
    plan = plan_slow(SlowQuestion(inventory(8), limits=CostLimits(bytes=5 * 10**9, seconds=60.0)))
    assert plan.within(0, 0.0)
    # Four rounds of eight hosts send 2 GB at 1 Gbit/s.
    assert plan.within(3 * 10**9, 0.0)
    assert not plan.within(31 * 10**8, 0.0)
    assert not plan.within(0, 59.0)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(GavotteError, match="2 hosts do not show which one is slow"):
        plan_slow(SlowQuestion(inventory(2)))
    with pytest.raises(GavotteError, match="cannot look for hosts 0 % below"):
        Threshold(below=0.0)
    with pytest.raises(GavotteError, match="cannot be false with a chance of 0"):
        Threshold(error=0.0)
