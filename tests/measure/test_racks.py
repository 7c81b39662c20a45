"""Oversubscribed racks, on a simulated network: each path's own rate, each shared link's, and the cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches.racks import judge, random_racks, shared_links, simulated, unlimited
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.formats.inventory import write_inventory
from gavotte.formats.topology import Topology
from gavotte.measure import (
    CostLimits,
    Measurement,
    MeasureQuestion,
    bulk,
    carry_out,
    measure,
    plan_measurement,
    plan_paths,
)
from gavotte.measure.adapt import underway
from gavotte.measure.adapt.events import Steps
from gavotte.measure.adapt.state import State
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE


def racks(up: str | None = "100mbit", *, hosts: int = 12, count: int = 3, egress: str = "60mbit") -> Topology:
    """Racks of equal hosts in turn behind one uplink each."""
    return builders.topology(
        [{"name": f"vm{i}", "switch": f"rack{i % count}", "egress": egress} for i in range(hosts)],
        switches=[
            "core",
            *({"name": f"rack{i}", "parent": "core", **({"up": up} if up else {})} for i in range(count)),
        ],
    )


def machines(memory: str | None, *, up: str = "150mbit") -> Topology:
    """Two racks of two machines that hold two hosts each."""
    return builders.topology(
        [{"name": f"vm{i}", "machine": f"m{i // 2}", "egress": "100mbit"} for i in range(8)],
        switches=["core", *({"name": f"rack{i}", "parent": "core", "up": up} for i in range(2))],
        machine=[
            {"name": f"m{i}", "switch": f"rack{i % 2}", **({"machine_rate": memory} if memory else {})}
            for i in range(4)
        ],
    )


def truth_bps(topology: Topology) -> np.ndarray:
    oracle = Oracle(topology)
    size = range(len(oracle.names))
    return np.array([[oracle.rates([(i, j)])[0] if i != j else np.nan for j in size] for i in size]) * GOODPUT_PER_WIRE


def worst_error(topology: Topology, result: Measurement) -> float:
    return float(np.nanmax(np.abs(8 * result.history.beta_Bps[-1] / truth_bps(topology) - 1)))


@pytest.mark.parametrize("seed", range(4))
def test_each_path_and_each_shared_link_is_told(seed: int) -> None:
    topology, over = random_racks(seed)
    result, plain = (simulated(each, seed, "train") for each in (topology, unlimited(topology)))
    outcome = judge("simulated", seed, topology, over, result, plain)
    assert (outcome.answered, outcome.recognised, outcome.wrong) == (outcome.paths, outcome.links, 0)
    assert outcome.links == len(shared_links(topology)) > 0
    assert outcome.worst_error < 0.02
    assert outcome.worst_link_error < 0.03
    assert outcome.times_bytes < 2.5
    assert not result.doubtful
    assert not result.stopped


def test_the_network_has_the_racks_caps_and_the_hosts_own() -> None:
    topology = racks()
    network = model(simulated(topology, 1, "train").history, method="median")
    assert network.sharing == "groups"
    for group in network.groups:
        assert group.up_bps == pytest.approx(100e6 * GOODPUT_PER_WIRE, rel=0.03)
        assert group.down_bps == pytest.approx(100e6 * GOODPUT_PER_WIRE, rel=0.03)
    # There are no experiments on hosts: each host's best rate counts as its cap.
    for host in network.hosts:
        assert host.egress_bps == pytest.approx(60e6 * GOODPUT_PER_WIRE, rel=0.01)
        assert host.egress_low_bps is not None


def test_what_is_not_shared_costs_next_to_nothing() -> None:
    simulation = simulated(racks(None), 1, "train")
    assert simulation.shared == {}
    assert simulation.history.evidence == ()
    assert simulation.again <= 2 * 6
    assert worst_error(racks(None), simulation) < 0.01


def test_bulk_is_not_wrong_without_a_word() -> None:
    topology = racks("80mbit")
    simulation = simulated(topology, 1, "bulk")
    assert simulation.shared
    # A rate within the tolerance of 8 % is not doubted, and TCP is off by 2 % in any case.
    assert worst_error(topology, simulation) < 0.12


def test_racks_that_hide_are_measured_one_by_one() -> None:
    topology = racks("60mbit", hosts=8, count=2)
    oracle = Oracle(topology)
    oracle.hops[:] = 0
    network = PlayedNetwork(oracle, seed=1)
    with network.held():
        measurement = measure(network.inventory, seed=1)
    assert measurement.answered == measurement.paths
    assert worst_error(topology, measurement) < 0.02


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("hosts", "count", "up"), [(6, 2, "200mbit"), (8, 2, "150mbit"), (12, 3, "200mbit")])
def test_racks_that_no_network_tells_are_within_what_was_said(hosts: int, count: int, up: str, seed: int) -> None:
    # Limited to the cost of such hosts without racks, 17 of 20 measurements left paths without a rate.
    topology = racks(up, hosts=hosts, count=count, egress="100mbit")
    network = PlayedNetwork(Oracle(topology), seed=seed, late=seed % 2 == 1)
    with network.held():
        measurement = carry_out(plan_measurement(MeasureQuestion(network.inventory, seed=seed, assumed_bps=95e6)))
    assert measurement.answered == measurement.paths
    assert all(measurement.shared.values())
    assert len(measurement.shared) == (2 if count == 2 else 6)
    assert not measurement.stopped
    assert measurement.bytes_sent <= plan_paths(network.oracle.names, seed=seed, assumed_bps=95e6).cost().max_bytes
    assert worst_error(topology, measurement) < 0.02


@pytest.mark.parametrize("stalled", [(13,), (13, 14), (13, 22, 31)])
def test_lost_time_slices_do_not_take_rounds_apart(stalled: tuple[int, ...]) -> None:
    topology = racks(None, hosts=8, count=1)
    plain, network = PlayedNetwork(Oracle(topology), seed=1), PlayedNetwork(Oracle(topology), seed=1, stalled=stalled)
    for each in (plain, network):
        with each.held():
            measurement = measure(each.inventory, seed=1)
    assert measurement.shared == {}
    assert worst_error(topology, measurement) < 0.02
    # Each is measured again, alone. One of them doubled all rounds after it.
    assert len(network.rounds) == len(plain.rounds) + len(stalled)


def test_paths_of_unlike_rates_are_not_all_measured_twice() -> None:
    rng = np.random.default_rng(1)
    topology = racks(None, egress="1gbit")
    pair_bps = {(i, j): 1e6 * float(rng.integers(40, 160)) for i in range(12) for j in range(12) if i != j}
    network = PlayedNetwork(Oracle(topology, pair_bps=pair_bps), seed=1)
    with network.held():
        measurement = measure(network.inventory, seed=1)
    assert measurement.shared == {}
    assert measurement.again < 0.6 * measurement.paths


def test_a_later_snapshot_knows_the_links() -> None:
    topology = racks()
    network = PlayedNetwork(Oracle(topology), seed=1)
    with network.held():
        measurement = measure(network.inventory, seed=1, count=2)
    assert worst_error(topology, measurement) < 0.02
    assert len(measurement.history.evidence) == len(simulated(topology, 1, "train").history.evidence)


def test_it_stops_where_it_would_cost_a_quarter_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # Pairs within racks come first, and do not show the cost of the others.
    within = {(i, j): 60e6 for i in range(12) for j in range(12) if i % 3 == j % 3}
    network = PlayedNetwork(Oracle(racks(None, egress="20gbit"), pair_bps=within), seed=1)
    with network.held():
        measurement = measure(network.inventory, seed=1)
    cost = plan_paths(network.inventory.names).cost()
    assert "more bytes" in measurement.stopped
    assert 0 < measurement.answered < measurement.paths
    assert 1.25 * cost.bytes < measurement.bytes_sent < 2 * cost.bytes
    # Each look at the clock takes ten seconds.
    monkeypatch.setattr("gavotte.measure.carry.agents.time.monotonic", iter(range(0, 10**9, 10)).__next__)
    with PlayedNetwork(Oracle(racks(None)), seed=1).held():
        assert "more time" in measure(network.inventory, seed=1, limits=CostLimits(seconds=60)).stopped


def test_fast_hosts_are_measured_without_a_budget() -> None:
    network = PlayedNetwork(Oracle(racks(None, hosts=4, count=2, egress="5gbit")), seed=1)
    with network.held():
        measurement = measure(network.inventory, seed=1)
    cost = plan_paths(network.inventory.names).cost()
    assert (measurement.answered, measurement.stopped) == (measurement.paths, "")
    assert 2 * cost.bytes < measurement.bytes_sent < cost.max_bytes


@pytest.mark.parametrize("method", ["train", "bulk"])
@pytest.mark.parametrize("memory", [None, "10gbit"])
def test_what_hosts_of_one_machine_take_keeps_no_path_from_being_measured(method: str, memory: str | None) -> None:
    # 64 MB a train, 1.2 GB and more a second of TCP: 20 to 44 of 56 paths were answered.
    network = PlayedNetwork(Oracle(machines(memory)), seed=1)
    with network.held():
        measurement = measure(network.inventory, method=method, seed=1)
    assert (measurement.answered, measurement.stopped) == (measurement.paths, "")
    assert measurement.bytes_sent == pytest.approx(network.sent, rel=0.01)
    # A budget of bytes is kept for every kind of path.
    budget = CostLimits(bytes=plan_paths(network.inventory.names, method).cost().bytes)
    with network.held():
        assert "more bytes" in measure(network.inventory, method=method, seed=1, limits=budget).stopped


@pytest.mark.parametrize(("lacking", "status"), [(0, 0), (1, 1)])
def test_a_stop_after_all_have_answered_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: int, status: int
) -> None:
    def stop(state: State) -> Steps[None]:
        yield from ()
        state.stopped = "more bytes were needed than estimated"
        for key in list(state.results.paths)[:lacking]:
            del state.results.paths[key]

    monkeypatch.setattr(underway, "confirm", stop)
    network, hosts = PlayedNetwork(Oracle(racks(None)), seed=1), tmp_path / "h.hosts.toml"
    write_inventory(hosts, network.inventory)
    with network.held():
        run = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "-o", str(tmp_path / "c.npz")])
    assert run.exit_code == status
    assert "more bytes were needed than estimated" in f"{run.stderr}{run.exception}"
    if status:
        assert "--budget" in str(getattr(run.exception, "hint", ""))


def test_a_byte_budget_that_leaves_doubts_says_so() -> None:
    topology = racks("60mbit")
    network = PlayedNetwork(Oracle(topology), seed=1)
    limits = CostLimits(bytes=plan_paths(network.inventory.names).cost().bytes)
    with network.held():
        measurement = measure(network.inventory, seed=1, limits=limits)
    names = {name: i for i, name in enumerate(network.inventory.names)}
    error = np.abs(8 * measurement.history.beta_Bps[0] / truth_bps(topology) - 1)
    doubtful = {(names[a], names[b]) for a, b in measurement.doubtful} | {
        (names[f.source], names[f.target]) for f in measurement.failures
    }
    assert {(int(i), int(j)) for i, j in np.argwhere(error > 0.02)} <= doubtful


def test_a_few_unknown_pairs_are_filled_by_hosts_and_groups_and_marked() -> None:
    topology = racks("40mbit")
    history = simulated(topology, 1, "train").history
    beta = history.beta_Bps.copy()
    # Two out of one rack, one within it.
    lost = [(0, 1), (3, 2), (0, 3)]
    for pair in lost:
        beta[0][pair] = np.nan
    network = model(replace(history, beta_Bps=beta))
    truth = truth_bps(topology)
    for i, j in lost:
        assert network.rate_bps[i][j] == pytest.approx(truth[i, j], rel=0.05)
        assert network.doubt[i][j] == "guessed"
    assert sum(word == "guessed" for row in network.doubt for word in row) == 3


@pytest.mark.parametrize("seed", range(8))
def test_trains_that_cannot_connect_beside_others_hide_no_link(seed: int) -> None:
    # Two hosts of 150 Mbit/s in each of two racks: in labs, every second measurement found no link.
    topology = racks("60mbit", hosts=4, count=2, egress="150mbit")
    network = PlayedNetwork(Oracle(topology), seed=seed, late=True)
    with network.held():
        measurement = measure(network.inventory, seed=seed)
    assert sorted(measurement.shared) == ["out of rack-0, into rack-1", "out of rack-1, into rack-0"]
    assert measurement.untested == []
    assert worst_error(topology, measurement) < 0.02
    assert model(measurement.history).sharing == "groups"


@pytest.mark.parametrize("up", [None, "60mbit"])
def test_where_trains_did_not_go_together_longer_ones_do(up: str | None) -> None:
    topology = racks(up, hosts=4, count=2, egress="60mbit")
    network = PlayedNetwork(
        Oracle(topology), seed=1, late=True, slow={(0, 1): 0.2, (0, 3): 0.2, (1, 0): 0.2, (1, 2): 0.2}
    )
    with network.held():
        measurement = measure(network.inventory, seed=1)
    assert len(measurement.shared) == (2 if up else 0)
    assert measurement.untested == []
    verdicts = {record.verdict for record in measurement.history.evidence}
    assert verdicts == {"shared" if up else "independent"}


def test_many_links_are_tested_again_in_a_round_or_two() -> None:
    # One by one, in a tree of racks with ten hosts, they took 3.5 s while all paths took 2.5.
    plain = PlayedNetwork(Oracle(racks(None, count=4)), seed=1, late=True)
    slow = {(i, j): 0.2 * (i + 1) for i in range(12) for j in range(12)}
    late = PlayedNetwork(Oracle(racks(None, count=4)), seed=1, late=True, slow=slow)
    for network in (plain, late):
        with network.held():
            measurement = measure(network.inventory, seed=1)
        assert (measurement.shared, measurement.untested) == ({}, [])
    assert len({record.subject for record in measurement.history.evidence}) > 3
    assert len(late.rounds) <= len(plain.rounds) + 3


def test_what_stays_untested_is_said_and_marked() -> None:
    topology = racks("60mbit", hosts=4, count=2, egress="60mbit")
    network = PlayedNetwork(
        Oracle(topology), seed=1, late=True, slow={(0, 1): 0.2, (0, 3): 0.2, (1, 0): 0.2, (1, 2): 0.2}
    )
    # The budget has no bytes left for more experiments.
    limits = CostLimits(bytes=plan_paths(network.inventory.names).cost().bytes)
    with network.held():
        measurement = measure(network.inventory, seed=1, limits=limits)
    assert measurement.untested
    assert {record.subject for record in measurement.history.evidence} == set(measurement.untested)
    assert {record.verdict for record in measurement.history.evidence} == {"unknown"}
    believed = model(measurement.history)
    assert "is not known, and it is taken to be free" in believed.notes[-1]
    assert {v.link for v in believed.verdicts if "did not send" in v.evidence} == set(measurement.untested)


@pytest.mark.parametrize("hosts", [4, 12])
def test_links_that_are_not_shared_are_tested_at_no_cost(hosts: int) -> None:
    network = PlayedNetwork(Oracle(racks(None, hosts=hosts, count=2)), seed=1)
    with network.held():
        measurement = measure(network.inventory, seed=1)
    assert (measurement.again, measurement.untested, measurement.history.evidence) == (0, [], ())
    crossing = [{(i % 2, j % 2) for i, j in pairs} for pairs in network.rounds if len(pairs) == hosts // 2]
    # All of one rack to all of the other, and back.
    assert {(0, 1)} in crossing
    assert {(1, 0)} in crossing


@pytest.mark.parametrize("up", [None, "100mbit"])
def test_a_dry_run_that_knows_the_network_is_near_the_run(up: str | None) -> None:
    topology = racks(up)
    network = PlayedNetwork(Oracle(topology), seed=1)
    known = model(simulated(topology, 1, "train").history)
    with network.held():
        measurement = measure(network.inventory, seed=2, known=known)
    cost = plan_paths(network.inventory.names, seed=2, known=known).cost()
    assert measurement.bytes_sent == pytest.approx(cost.bytes, rel=0.2)
    assert worst_error(topology, measurement) < 0.02


@pytest.mark.parametrize("where", ["up of rack", "vm5"])
def test_where_others_fill_links_what_tcp_gets_is_told(where: str) -> None:
    topology = racks()
    oracle = Oracle(topology)
    full = {name for name in oracle.links if name.endswith("vm5") or (where != "vm5" and "rack" in name)}
    network = PlayedNetwork(oracle, seed=3, busy=full)
    with network.held():
        question = MeasureQuestion(network.inventory, seed=3, scale="pairs")
        measurement = carry_out(plan_measurement(question))
    index = network.index
    assert measurement.answered == measurement.paths
    pairs = [(a, b) for a in index for b in index if a != b]
    assert set(measurement.busy) == {(a, b) for a, b in pairs if full.intersection(oracle.path(index[a], index[b]))}
    assert {measurement.newest[index[a], index[b]].reading.verdict for a, b in measurement.busy} == {"unproven"}
    assert not measurement.stopped


@pytest.mark.parametrize(("up", "filled"), [("1gbit", True), ("1gbit", False), ("100mbit", False)])
def test_bulk_where_others_fill_links_blames_none(up: str, filled: bool) -> None:
    topology = racks(up)
    oracle = Oracle(topology)
    full = {name for name in oracle.links if "rack" in name} if filled else set()
    network = PlayedNetwork(oracle, seed=3, busy=full)
    with network.held():
        measurement = measure(network.inventory, method=bulk(seconds=0.5), seed=3)
    assert measurement.answered == measurement.paths
    assert bool(measurement.busy) == filled
    assert bool(measurement.shared) == (up == "100mbit")
    assert not measurement.stopped
