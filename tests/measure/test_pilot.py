"""A few probes predict the cost of a whole measurement, for hosts that no Network covers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches.racks import random_racks
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.measure.test_racks import machines, racks
from typer.testing import CliRunner, Result

from gavotte.cli.verbs import app
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import write_inventory
from gavotte.formats.network import write_network
from gavotte.formats.parts.lengths import Lengths
from gavotte.formats.topology import Topology
from gavotte.measure import (
    CostLimits,
    MeasureQuestion,
    Method,
    Pilot,
    bulk,
    carry_out,
    choreo,
    measure,
    plan_measurement,
    plan_paths,
    predict_cost,
    take_pilot,
)
from gavotte.measure.plan.path_plan import Scale
from gavotte.terms.goodput import GOODPUT_PER_WIRE

CLOUDS: dict[str, Callable[[], Topology]] = {
    "flat": lambda: racks(None),
    "racks": racks,
    "two racks": lambda: racks("200mbit", hosts=8, count=2, egress="100mbit"),
    "machines": lambda: machines("10gbit"),
    **{f"random {seed}": lambda seed=seed: random_racks(seed)[0] for seed in range(4)},  # type: ignore[misc]
}


def pilot(network: PlayedNetwork, **options: int | None) -> Pilot:
    with network.held():
        return take_pilot(network.inventory, seed=1, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "method", ["train", "bulk", "choreo", choreo(bursts=3)], ids=["train", "bulk", "choreo", "brief choreo"]
)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_run_sends_what_was_predicted(cloud: str, method: str | Method) -> None:
    oracle = Oracle(CLOUDS[cloud]())
    outcome = pilot(PlayedNetwork(oracle, seed=1))
    played = PlayedNetwork(oracle, seed=2)
    # Few pairs by another method than trains may turn out to mispredict the others, which no pilot can foresee.
    scale: Scale = "auto" if method == "train" else "pairs"
    cost = predict_cost(plan_paths(played.inventory.names, method, seed=1, pairs=scale), outcome)
    with played.held():
        question = MeasureQuestion(played.inventory, method=method, seed=1, scale=scale)
        measurement = carry_out(plan_measurement(question))
    assert measurement.answered == measurement.paths
    assert cost.bytes == pytest.approx(measurement.bytes_sent, rel=0.2)
    assert cost.bytes <= cost.max_bytes
    assert 0 < cost.seconds <= cost.max_seconds


def test_it_tells_what_hosts_send_and_which_links_are_full() -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    outcome = pilot(network)
    for host in outcome.network.hosts:
        assert host.egress_bps == pytest.approx(60e6 * GOODPUT_PER_WIRE, rel=0.02)
    assert sorted(outcome.shared) == sorted(f"{way} rack-{i}" for way in ("out of", "into") for i in range(3))
    for bps in outcome.shared.values():
        assert bps == pytest.approx(100e6 * GOODPUT_PER_WIRE, rel=0.05)
    assert outcome.bytes_sent == network.sent - 66 * 128
    assert network.sent < 0.2 * predict_cost(plan_paths(network.inventory.names), outcome).bytes
    assert (outcome.missing, outcome.untested) == ({}, [])


def test_a_racks_link_explains_what_its_machines_lose() -> None:
    outcome = pilot(PlayedNetwork(Oracle(machines("10gbit")), seed=1))
    assert sorted(outcome.shared) == ["out of rack-0, into rack-1", "out of rack-1, into rack-0"]
    alone = pilot(PlayedNetwork(Oracle(machines("10gbit", up="500mbit")), seed=1))
    assert alone.shared == {}


def test_later_snapshots_know_which_links_are_full() -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    outcome = pilot(network)
    plan = plan_paths(network.inventory.names, seed=1, pairs="auto")
    one, three = (predict_cost(replace(plan, count=count), outcome) for count in (1, 3))
    assert one.bytes < three.bytes < 3 * one.bytes
    with network.held():
        measurement = measure(network.inventory, seed=1, count=3)
    assert three.bytes == pytest.approx(measurement.bytes_sent, rel=0.2)
    assert predict_cost(replace(plan, count=3, every_s=100.0), outcome).seconds > 200
    priced = predict_cost(plan, outcome, CostLimits(price_per_gb=2.0))
    assert priced.money == pytest.approx(2e-9 * priced.bytes)


def test_far_hosts_take_longer_but_no_fewer_bytes() -> None:
    costs = []
    for one_way_s in (1e-4, 0.075):
        known = builders.network("abc", latency_s=one_way_s, egress_bps=50e6, ingress_bps=60e6)
        pilot = Pilot(builders.inventory("abc"), known, Lengths.of_matrix(np.full((3, 3), 2)))
        costs.append(predict_cost(plan_paths(known.names), pilot))
    near, far = costs
    assert far.bytes == near.bytes > 0
    assert far.seconds > near.seconds + 1


def test_a_pilot_keeps_to_the_budget() -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    usual = pilot(network).bytes_sent
    network = PlayedNetwork(Oracle(racks()), seed=1)
    outcome = pilot(network, most_bytes=usual // 2)
    assert outcome.bytes_sent <= usual // 2
    assert outcome.shared == {}
    assert len(outcome.untested) == 6


def test_hosts_that_are_not_there_are_not_counted(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks(None, hosts=4, count=2)), seed=1)
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, network.inventory)
    with network.held(missing=["vm3"]):
        ran = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "--dry-run", "--pilot", "--json"])
    assert ran.exit_code == 0, ran.output
    assert "warning: vm3: no agent" in ran.stderr
    assert json.loads(ran.stdout)["paths"] == 6
    assert json.loads(ran.stdout)["pilot"]["missing"] == {"vm3": "no agent"}


def test_without_agents_or_answers_it_says_why() -> None:
    network = PlayedNetwork(Oracle(racks(None, hosts=3, count=1)), seed=1)
    network.busy = {link for i in range(3) for j in range(3) if i != j for link in network.oracle.path(i, j)}
    with pytest.raises(AgentError, match="no path answered the pilot"):
        pilot(network)
    with pytest.raises(GavotteError, match="a single host"):
        take_pilot(network.inventory.model_copy(update={"host": network.inventory.host[:1]}))


def test_the_command_says_what_it_sent_and_what_is_to_come(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, network.inventory)
    words = ["measure", "--hosts", str(hosts), "--dry-run", "--pilot", "--json"]
    with network.held():
        ran = CliRunner().invoke(app, words)
        shared = CliRunner().invoke(app, [*words, "--sharing"])
        some = CliRunner().invoke(app, [*words, "--pairs", "2"])
        small = CliRunner().invoke(app, [*words, "--budget", "30MB"])
    assert ran.exit_code == shared.exit_code == some.exit_code == 0, ran.output
    assert "pilot: " in ran.stderr
    assert "hosts send 57." in ran.stderr
    assert "; 6 shared links filled, for example " in ran.stderr
    assert "--assumed-rate" not in ran.stderr
    document = json.loads(ran.stdout)
    assert len(document["pilot"]["egress_bps"]) == 12
    assert {each["link"] for each in document["pilot"]["shared"]} >= {"out of rack-0", "into rack-2"}
    assert json.loads(shared.stdout)["bytes"] > 2 * document["bytes"]
    assert json.loads(some.stdout)["bytes"] < 0.6 * document["bytes"]
    assert isinstance(small.exception, GavotteError)
    assert "more than the budget of 30.0 MB" in str(small.exception)


def commanded(tmp_path: Path, network: PlayedNetwork, *words: str, missing: Sequence[str] = ()) -> Result:
    """Run `gavotte measure` on a simulated network."""
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, network.inventory)
    with network.held(missing=missing):
        return CliRunner().invoke(app, ["measure", "--hosts", str(hosts), *words])


def test_a_pilot_is_refused_for_hosts_that_a_network_has(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    write_network(tmp_path / "n.network.json", pilot(network).network)
    known = ["--network", str(tmp_path / "n.network.json")]
    ran = commanded(tmp_path, network, "--pilot", *known)
    assert isinstance(ran.exception, GavotteError)
    assert "--pilot predicts the cost of hosts" in str(ran.exception)
    assert "pilot" not in commanded(tmp_path, network, "--dry-run", *known).stderr


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_an_estimate_that_may_be_far_off_takes_a_pilot_and_says_first_what_that_costs(
    tmp_path: Path, more: list[str]
) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    ran = commanded(tmp_path, network, "--json", *more)
    assert ran.exit_code == 0, ran.output
    announced, took, planned = ran.stderr.splitlines()[:3]
    assert announced.startswith(
        "taking a pilot first because no rate of a path is known (--no-pilot refuses it): about "
    )
    assert took.startswith("pilot: ")
    assert planned.startswith("132 paths in ")
    assert "where paths are slow" not in planned
    refused = commanded(tmp_path, network, "--json", "--no-pilot", *more)
    assert "pilot first" not in refused.stderr
    assert "(each path assumed to carry 1.00 Gbit/s)" in refused.stderr
    assert ("off by more than a factor of two" in refused.stderr) == bool(more)


def test_the_estimate_before_a_run_is_within_a_factor_of_two(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    done = json.loads(commanded(tmp_path, network, "--json", "--scale", "pairs").stdout)
    assert done["answered"] == done["paths"] == 132
    # Without a pilot it was a third.
    assert done["estimate"]["bytes"] == pytest.approx(done["bytes_sent"], rel=0.25)
    assert done["bytes_sent"] < done["estimate"]["max_bytes"] <= 2.1 * done["estimate"]["bytes"]
    assert network.sent == pytest.approx(done["bytes_sent"] + done["pilot"]["bytes_sent"], rel=0.01)


@pytest.mark.parametrize("hosts", [2, 3, 5])
def test_few_hosts_get_a_pilot_without_tests_of_links(tmp_path: Path, hosts: int) -> None:
    """Without it, the estimate of paths of 57 Mbit/s assumed 1 Gbit/s, and was more than twice as high."""
    network = PlayedNetwork(Oracle(racks(None, hosts=hosts, count=1)), seed=1)
    ran = commanded(tmp_path, network, "--json")
    announced, took = ran.stderr.splitlines()[:2]
    assert announced.startswith("taking a pilot first because no rate of a path is known (--no-pilot refuses it): ")
    assert took.endswith("links were not tested")
    done = json.loads(ran.stdout)
    assert done["bytes_sent"] / 2 < done["estimate"]["bytes"] < 2 * done["bytes_sent"]
    blind = json.loads(commanded(tmp_path, network, "--json", "--no-pilot").stdout)
    assert blind["estimate"]["bytes"] > 2 * blind["bytes_sent"]
    for words in (["--dry-run"], ["--pilot"], ["--sharing"]):
        assert "links were not tested" not in commanded(tmp_path, network, *words).stderr


def test_a_rate_that_the_user_knows_needs_no_pilot_but_racks_do(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    words = ["--dry-run", "--assumed-rate", "57mbit"]
    assert "pilot" not in commanded(tmp_path, network, *words).stderr
    shared = commanded(tmp_path, network, *words, "--sharing")
    assert "because it is unknown which hosts share a rack" in shared.stderr


def test_without_agents_the_estimate_says_what_it_lacks(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, network.inventory)
    ran = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "--dry-run"])
    assert ran.exit_code == 0, ran.output
    assert "warning: no pilot: none of 12 agents can be used" in ran.stderr
    assert "the estimate may be off by more than a factor of two: no rate of a path is known" in ran.stderr


def test_a_run_without_agents_fails_once(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, network.inventory)
    ran = CliRunner().invoke(app, ["measure", "--hosts", str(hosts)])
    assert isinstance(ran.exception, GavotteError)
    assert str(ran.exception).startswith("none of 12 agents can be used")
    assert len(ran.stderr.splitlines()) == 1


def test_a_missing_host_is_measured_all_the_same_if_it_is_back(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    ran = commanded(tmp_path, network, "--json", "--scale", "pairs", missing=["vm3"])
    assert ran.exit_code == 0, ran.output
    done = json.loads(ran.stdout)
    assert done["pilot"]["missing"] == done["missing"] == {"vm3": "no agent"}
    assert len(done["hosts"]) == 12
    assert done["answered"] == 110


def test_a_budget_is_compared_with_what_the_pilot_predicts(tmp_path: Path) -> None:
    network = PlayedNetwork(Oracle(racks()), seed=1)
    usual = json.loads(commanded(tmp_path, network, "--dry-run", "--json").stdout)
    formula = plan_paths(network.inventory.names).cost().bytes
    enough = int(1.5 * usual["bytes"])
    assert enough < formula
    allowed = commanded(tmp_path, network, "--json", "--budget", f"{enough / 1e6:.0f}MB")
    assert allowed.exit_code == 0, allowed.output
    done = json.loads(allowed.stdout)
    assert done["bytes_sent"] + done["pilot"]["bytes_sent"] <= enough
    small = commanded(tmp_path, network, "--budget", f"{usual['bytes'] / 2e6:.0f}MB")
    assert isinstance(small.exception, GavotteError)
    assert "more than the budget of" in str(small.exception)
    assert CostLimits(bytes=10, seconds=3.0, money=1.0, price_per_gb=1e9).less(4, 1.0) == CostLimits(
        bytes=6, seconds=2.0, money=0.0, price_per_gb=1e9
    )


def test_iperf3_takes_longer_to_begin() -> None:
    outcome = pilot(PlayedNetwork(Oracle(racks(None, hosts=4, count=2)), seed=1))
    own, other = (
        predict_cost(plan_paths(outcome.inventory.names, bulk(seconds=0.5, engine=engine)), outcome)
        for engine in ("gavotte", "iperf3")
    )
    assert own.bytes == other.bytes
    assert own.seconds < other.seconds
