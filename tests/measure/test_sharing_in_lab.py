"""Real packets: a rack's uplink is distinguished from its hosts' caps, by hop counts and experiments alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.formats.history import read_history, write_history
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import read_network
from gavotte.formats.topology import Topology
from gavotte.measure import measure
from gavotte.measure.carry.paths import trace_paths
from gavotte.measure.sharing import learn_sharing, measure_sharing
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.hierarchy import hierarchy_of

pytestmark = pytest.mark.lab

UPLINK_BPS = 80e6


def two_racks() -> Topology:
    """Three hosts of 60 Mbit/s in each of two racks, 80 Mbit/s between them."""
    hosts = [{"name": f"vm{i}", "switch": f"tor{i // 3}", "egress": "60mbit"} for i in range(6)]
    return builders.topology(hosts, switches=["core", *({"name": f"tor{i}", "up": "80mbit"} for i in range(2))])


def test_an_uplink_is_found_and_nothing_is_invented(tmp_path: Path) -> None:
    with lab.session(two_racks(), source="tests") as session:
        inventory = read_inventory(session.hosts_file)
        history = measure(inventory, method="choreo").history
        with enrolled(inventory, Budget(max_bytes=0, max_seconds=120)) as fleet:
            result = measure_sharing(fleet, history, seed=1)
    assert result.experiments == len(result.evidence) > 6
    assert result.bytes_sent > 0
    write_history(tmp_path / "h.npz", replace(history, evidence=result.evidence))
    network = model(read_history(tmp_path / "h.npz"))
    assert {group.name: sorted(group.members) for group in network.groups} == {
        "rack-0": ["vm0", "vm1", "vm2"],
        "rack-1": ["vm3", "vm4", "vm5"],
    }
    # Limits that a busy machine hides are unknown; every claim is true.
    for group in network.groups:
        for claimed in (group.up_bps, group.down_bps):
            assert claimed is None or claimed == pytest.approx(UPLINK_BPS * GOODPUT_PER_WIRE, rel=0.15)
    for host in network.hosts:
        assert host.egress_bps is None or host.egress_bps == pytest.approx(60e6 * GOODPUT_PER_WIRE, rel=0.15)
        assert host.ingress_bps is None


def test_a_pilot_predicts_what_unknown_racks_cost(tmp_path: Path) -> None:
    # Without it, the estimate was 40 MB for racks that took 82.
    with lab.session(two_racks(), source="tests") as session:
        words = ("measure", "--hosts", session.hosts_file, "--json")
        estimate = json.loads(gavotte(*words, "--dry-run", "--pilot", cwd=tmp_path).stdout)
        did = json.loads(gavotte(*words, cwd=tmp_path).stdout)
    assert did["answered"] == did["paths"] == 30
    assert {each["link"] for each in estimate["pilot"]["shared"]} == {each["link"] for each in did["shared"]}
    assert estimate["pilot"]["bytes_sent"] < 0.5 * did["bytes_sent"]
    assert estimate["bytes"] == pytest.approx(did["bytes_sent"], rel=0.25)


@pytest.mark.rare
def test_with_a_network_of_slow_racks_no_path_is_in_doubt() -> None:
    hosts = [{"name": f"vm{i}", "switch": f"tor{i % 2}", "egress": "54mbit"} for i in range(6)]
    slow = builders.topology(hosts, switches=["core", *({"name": f"tor{i}", "up": "24mbit"} for i in range(2))])
    with lab.session(slow, source="tests") as session:
        inventory = read_inventory(session.hosts_file)
        known = model(measure(inventory, seed=1).history)
        assert all(group.up_bps == pytest.approx(24e6 * GOODPUT_PER_WIRE, rel=0.15) for group in known.groups)
        measured = measure(inventory, seed=2, known=known)
    assert (measured.answered, measured.stopped, measured.doubtful) == (30, "", [])


@pytest.mark.rare
def test_the_caps_of_slow_hosts_are_not_the_burst_of_their_shapers() -> None:
    hosts = [{"name": f"vm{i}", "switch": "core", "egress": "20mbit", "burst": "128kb"} for i in range(3)]
    with lab.session(builders.topology(hosts, switches=["core"]), source="tests") as session:
        inventory = read_inventory(session.hosts_file)
        history, _ = learn_sharing(inventory, measure(inventory).history, seed=1)
    for host in model(history).hosts:
        # With the burst it was 15 % more.
        assert host.egress_bps == pytest.approx(20e6 * GOODPUT_PER_WIRE, rel=0.03)


def test_routers_on_the_way_are_traced_without_rights(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    with enrolled(inventory, Budget(max_bytes=1 << 20, max_seconds=60)) as fleet:
        routes = trace_paths(fleet, inventory.names, seed=3)
    assert not routes.failures
    assert np.maximum(routes.hops, routes.hops.T).tolist() == [[0, 1, 3], [1, 0, 3], [3, 3, 0]]
    routers = [[address for address in routes.addresses[i, j] if address] for i in range(3) for j in range(3)]
    assert sorted(len(each) for each in routers) == [0, 0, 0, 0, 0, 0, 0, 2, 2]
    assert hierarchy_of(inventory.names, routes.hops).machine == (0, 0, 1)


def test_measure_and_model_fill_the_network(small_cloud: lab.Session, tmp_path: Path) -> None:
    history, network = tmp_path / "h.npz", tmp_path / "n.network.json"
    measured = gavotte("measure", "--hosts", small_cloud.hosts_file, "--sharing", "-o", history, "--json")
    assert measured.returncode == 0, measured.stderr
    shared = json.loads(measured.stdout)["sharing"]
    assert shared["experiments"] == len(shared["evidence"]) > 0
    learnt = gavotte("model", history, "-o", network, "--json")
    assert learnt.returncode == 0, learnt.stderr
    learned = read_network(network)
    assert learned.hosts[0].machine == learned.hosts[1].machine != learned.hosts[2].machine
    assert {verdict.link for verdict in learned.verdicts} >= {"out of a", "out of b"}
    again = gavotte(
        "measure", "sharing", history, "--hosts", small_cloud.hosts_file, "--trace", "-o", tmp_path / "2.npz"
    )
    assert again.returncode == 0, again.stderr
    traced = read_history(tmp_path / "2.npz")
    assert traced.hop_addresses is not None
    assert len(traced.evidence) > 0
    assert "out of c, into machine-0" in again.stdout


def test_experiments_over_budget_or_of_strangers_are_refused(small_cloud: lab.Session, tmp_path: Path) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    history = tmp_path / "h.npz"
    write_history(history, measure(inventory).history)
    for arguments, message in (
        (["--budget", "1kB"], "more than the budget of 1.00 kB"),
        (["--dry-run", "--budget", "1s"], "more than the budget of 1 s"),
    ):
        refused = gavotte("measure", "sharing", history, "--hosts", small_cloud.hosts_file, *arguments)
        assert refused.returncode == 1
        assert message in refused.stderr
    write_history(history, replace(read_history(history), hosts=("a", "b", "z")))
    refused = gavotte("measure", "sharing", history, "--hosts", small_cloud.hosts_file)
    assert refused.returncode == 1
    assert "`z` is in the History but not in the inventory" in refused.stderr


@pytest.mark.parametrize("seed", [4, 8])
def test_the_uplink_of_two_small_racks_is_told_or_named_as_unknown(seed: int) -> None:
    # One pair fills it. Pairs of a round once went one after the other, or opposite ways, and showed nothing.
    hosts = [{"name": f"vm{i}", "switch": f"tor{i % 2}", "egress": "150mbit"} for i in range(4)]
    topology = builders.topology(
        hosts, switches=["core", *({"name": f"tor{i}", "parent": "core", "up": "60mbit"} for i in range(2))]
    )
    with lab.session(topology, source="tests") as session:
        measured = measure(read_inventory(session.hosts_file), seed=seed)
    # On a busy machine trains may not run together, and links stay unknown.
    assert {*measured.shared, *measured.untested} == {"out of rack-0, into rack-1", "out of rack-1, into rack-0"}
    for sum_bps in measured.shared.values():
        assert sum_bps == pytest.approx(60e6 * GOODPUT_PER_WIRE, rel=0.15)
