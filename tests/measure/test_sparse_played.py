"""Measurements by few pairs, on simulated clouds: what they predict, and what their check says."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.shell import gavotte

from gavotte.cli.networks import measured_history
from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History, read_history, write_history
from gavotte.formats.topology import Topology
from gavotte.measure import Measurement, MeasureQuestion, carry_out, plan_measurement
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.plan.cost import CostLimits, Most
from gavotte.measure.plan.path_plan import MOST_PAIRED, Scale, plan_paths
from gavotte.model import check_held_out, find_constant, model
from gavotte.model.held_out import most_share
from gavotte.tables import matrix
from gavotte.terms.goodput import GOODPUT_PER_WIRE


def racks(count: int, hosts: int, over: float, seed: int = 0) -> Topology:
    """Racks of unequal hosts behind uplinks that carry this share of what their hosts send."""
    rng = random.Random(seed)
    switches: list[dict[str, object]] = [{"name": "core"}]
    vms: list[dict[str, object]] = []
    for rack in range(count):
        rates = [rng.choice([100, 200, 300, 400]) for _ in range(hosts)]
        switches.append({"name": f"tor{rack}", "parent": "core", "up": f"{sum(rates) / over:.0f}mbit"})
        vms += [{"name": f"h{len(vms) + k}", "switch": f"tor{rack}", "egress": f"{r}mbit"} for k, r in enumerate(rates)]
    return builders.topology(vms, switches=switches)


def measured(network: PlayedNetwork, scale: Scale, seed: int = 1, missing: tuple[str, ...] = ()) -> Measurement:
    with network.held(missing):
        return carry_out(plan_measurement(MeasureQuestion(network.inventory, seed=seed, scale=scale)))


def truth(oracle: Oracle) -> Floats:
    size = range(len(oracle.names))
    return np.array([[oracle.rates([(i, j)])[0] if i != j else np.nan for j in size] for i in size]) * GOODPUT_PER_WIRE


def off(history: History, oracle: Oracle) -> Floats:
    """Relative error of each pair of the Network."""
    network = model(history, constant=find_constant(history, method="last"))
    pairs = ~np.eye(len(history.hosts), dtype=bool)
    return np.asarray(np.abs(matrix(network.rate_bps) / truth(oracle) - 1)[pairs])


@pytest.mark.parametrize(("count", "hosts", "over"), [(4, 12, 3.0), (3, 16, 1.0), (6, 10, 6.0), (1, 40, 1.0)])
def test_few_pairs_show_the_rates_of_all(count: int, hosts: int, over: float) -> None:
    topology = racks(count, hosts, over)
    network = PlayedNetwork(Oracle(topology), seed=1)
    result = measured(network, "structure")
    size = count * hosts
    assert result.answered == result.paths < 0.75 * size * (size - 1)
    # Only a few pairs that cross links are measured again alone, not all that lost there.
    assert result.again <= 3 * count
    assert off(result.history, network.oracle).max() < 0.05
    check = check_held_out(result.history)
    assert check is not None
    assert check.off == 0
    assert check.pairs == 2 * size
    learned = model(result.history)
    if count > 1 and over > 1.2:
        limits = {switch.name: (switch.up or 0.0) * GOODPUT_PER_WIRE for switch in topology.switch}
        first = {host.name: str(host.switch) for host in topology.host}
        assert len(learned.groups) == count
        for group in learned.groups:
            assert {first[member] for member in group.members} == {first[group.members[0]]}
            assert group.up_bps == pytest.approx(limits[first[group.members[0]]], rel=0.03)
            assert group.down_bps == pytest.approx(limits[first[group.members[0]]], rel=0.03)


def test_verbs_that_measure_many_hosts_do_so_by_few_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    network = PlayedNetwork(Oracle(racks(3, 10, 3.0)), seed=1)
    with network.held():
        history = measured_history(network.inventory, seed=1)
    assert history.held_out is not None
    assert "0 of 60 held-out pairs were" in capsys.readouterr().err
    assert off(history, network.oracle).max() < 0.05
    assert len(model(history).groups) == 3


def test_further_pairs_are_measured_where_the_check_finds_limits_of_single_pairs() -> None:
    slow = {(i, j): 50e6 for i in range(36) for j in range(36) if i != j and (i + j) % 3 == 0}
    result = measured(PlayedNetwork(Oracle(racks(3, 12, 1.0), pair_bps=slow), seed=1), "structure")
    tree = measured(PlayedNetwork(Oracle(racks(3, 12, 1.0)), seed=1), "structure")
    # Twice log2(36) = 11 pairs out of each host, of which some are known.
    assert 36 * 4 < result.answered - tree.answered <= 36 * 11
    assert result.answered == result.paths
    assert any("further pairs were added" in warning for warning in result.warnings)
    assert not any("further pairs" in warning for warning in tree.warnings)
    check = check_held_out(result.history)
    assert check is not None
    # Nothing shows which of the pairs that were not measured are slow.
    assert check.off > 0.15 * check.pairs
    assert check.most_share > 0.2
    assert check.worst_error < -0.3
    assert f"{check.off} of {check.pairs} held-out pairs were; {check.worst[0]} to {check.worst[1]}" in check.sentence
    again = measured(PlayedNetwork(Oracle(racks(3, 12, 1.0), pair_bps=slow), seed=1), "structure")
    assert again.answered == result.answered


def test_a_budget_leaves_further_pairs_out() -> None:
    plan = plan_paths([f"h{i}" for i in range(36)], pairs="structure")
    budget = Spending(plan, CostLimits(seconds=10.0), Most(1e9, 10.0))
    assert budget.extend(60, done=100, spent_s=6.0)
    assert not budget.extend(80, done=100, spent_s=6.0)
    estimate = Spending(plan, CostLimits(), Most(1e9, 10.0))
    assert estimate.extend(80, done=100, spent_s=6.0)
    # The estimate has grown, and what was left of it is still there.
    assert not estimate.exceeded(10.0 + 0.8 * 6.0, waited_s=0.0)
    assert "more time was needed" in estimate.exceeded(100.0, waited_s=0.0)


def test_missing_hosts_cost_no_others() -> None:
    network = PlayedNetwork(Oracle(racks(4, 12, 3.0)), seed=1)
    result = measured(network, "structure", missing=("h0", "h13", "h14"))
    assert sorted(result.missing) == ["h0", "h13", "h14"]
    check = check_held_out(result.history.without(result.missing))
    assert check is not None
    assert check.off == 0


def test_the_scale_auto_measures_all_pairs_of_few_hosts() -> None:
    few, many = ([f"h{i}" for i in range(size)] for size in (MOST_PAIRED, MOST_PAIRED + 1))
    assert plan_paths(few, pairs="auto").only is None
    assert plan_paths(many, pairs="auto").held_out
    assert plan_paths(many).only is None
    with pytest.raises(GavotteError, match="unknown scale `all`"):
        plan_paths(many, pairs="all")  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "hosts", "over"), [(2, 8, 3.0), (4, 4, 2.5), (2, 12, 5.0)])
def test_the_scale_auto_settles_for_few_pairs_once_racks_turn_out_to_limit(count: int, hosts: int, over: float) -> None:
    network = PlayedNetwork(Oracle(racks(count, hosts, over)), seed=1)
    result = measured(network, "auto")
    size = count * hosts
    assert result.answered == result.paths < 0.8 * size * (size - 1)
    assert off(result.history, network.oracle).max() < 0.05
    check = check_held_out(result.history)
    assert check is not None
    assert check.off == 0
    assert len(model(result.history).groups) == count


def test_the_scale_auto_measures_all_pairs_where_no_rack_limits_or_few_hosts_are() -> None:
    for count, hosts, over in ((2, 8, 0.5), (2, 4, 3.0)):
        result = measured(PlayedNetwork(Oracle(racks(count, hosts, over)), seed=1), "auto")
        size = count * hosts
        assert result.answered == result.paths == size * (size - 1)
        assert result.history.held_out is None


def test_the_scale_auto_returns_to_all_pairs_that_have_limits_of_their_own() -> None:
    slow = {(i, j): 50e6 for i in range(16) for j in range(16) if i != j and (i + j) % 3 == 0}
    result = measured(PlayedNetwork(Oracle(racks(2, 8, 3.0), pair_bps=slow), seed=1), "auto")
    assert result.answered == result.paths == 16 * 15
    assert result.history.held_out is None


def test_experiments_on_sharing_have_all_pairs_to_compare() -> None:
    names = [f"h{i}" for i in range(MOST_PAIRED + 1)]
    assert MeasureQuestion(builders.inventory(names), scale="auto", sharing=True).paths.only is None


def test_a_file_keeps_which_pairs_were_held_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    history = measured(PlayedNetwork(Oracle(racks(3, 10, 2.0)), seed=1), "structure").history
    path = tmp_path_factory.mktemp("held") / "h.npz"
    write_history(path, history)
    again = read_history(path)
    assert history.held_out is not None
    assert again.held_out is not None
    assert np.array_equal(again.held_out, history.held_out)
    assert check_held_out(again) == check_held_out(history)
    with pytest.raises(GavotteError, match="were never measured"):
        find_constant(replace(history, held_out=None))


@pytest.mark.parametrize(
    ("hits", "trials", "share"), [(0, 192, 0.01560), (0, 2048, 0.00146), (3, 100, 0.07754), (5, 5, 1.0)]
)
def test_the_largest_share_is_that_of_a_poisson_distribution(hits: int, trials: int, share: float) -> None:
    assert most_share(hits, trials) == pytest.approx(share, abs=2e-5)


def test_options_that_exclude_each_other() -> None:
    for words, message in (
        (("--scale", "structure", "--sharing"), "--sharing needs the rate of every pair; leave out --scale"),
        (("--scale", "all"), "unknown scale `all`; use one of auto, pairs, structure"),
        (("--scale", "structure", "--pairs", "sparse"), "the scale `structure` chooses pairs itself; name no pairs"),
    ):
        done = gavotte("measure", "--hosts", "10.0.0.1,10.0.0.2", *words)
        assert done.returncode == 1
        assert done.stderr.splitlines() == [f"error: {message}"]
