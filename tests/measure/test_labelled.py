"""Racks in the words of a provider, where routers show none, and where they show others."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.measure.test_sparse_played import off, racks

from gavotte.formats.inventory import Host
from gavotte.formats.parts.lengths import Lengths
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.measure.plan.labelled import disagreement, rack_labels, with_labels
from gavotte.model import check_held_out, model
from gavotte.terms import Pair

NAMES = ["a", "b", "c", "d"]
LABELS = {"a": "k=1", "b": "k=1", "c": "k=2", "d": "k=2"}


def lengths(within: int, across: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    matrix = np.full((4, 4), across, dtype=np.int64)
    matrix[:2, :2] = matrix[2:, 2:] = within
    np.fill_diagonal(matrix, 0)
    return matrix


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        ({"topology.k8s.aws/network-node-layer-1": "x", "topology.k8s.aws/network-node-layer-3": "z"}, "layer-3=z"),
        ({"cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-subblock": "s"}, "subblock=s"),
        (
            {
                f"oci.oraclecloud.com/host.{name}": name
                for name in ("id", "network_block_id", "rack_id", "serial_number")
            },
            "host.rack_id=rack_id",
        ),
        ({f"oci.oraclecloud.com/rdma.{name}_block_id": name for name in ("local", "network")}, "local_block_id=local"),
        ({"oci.oraclecloud.com/host.network_block_id": "b"}, "host.network_block_id=b"),
        ({"fabric.topograph.run/tier-0": "t", "fabric.topograph.run/tier-1": "u"}, "tier-0=t"),
        ({"network.topology.nvidia.com/block": "n"}, "block=n"),
        ({"network.topology.nvidia.com/spine": "s", "network.topology.nvidia.com/leaf": "l"}, "leaf=l"),
    ],
)
def test_the_nearest_switch_counts(labels: dict[str, str], label: str) -> None:
    host = Host(name="a", address="10.0.0.1", agent="ssh://a", labels=labels)
    other = Host(name="b", address="10.0.0.2", agent="ssh://b", labels={"topology.kubernetes.io/zone": "1a"})
    racks_of_hosts = rack_labels([host, other])
    assert list(racks_of_hosts) == ["a"]
    assert racks_of_hosts["a"].endswith(label)


def test_labels_count_where_all_paths_are_equally_long() -> None:
    for hidden in (lengths(1, 1), lengths(2, 2), lengths(0, 0)):
        compared = with_labels(Lengths.of_matrix(hidden), NAMES, LABELS)
        assert np.array_equal(compared.lengths.matrix(), lengths(2, 4))
        assert compared.by_labels
        assert compared.note == "the network hides its routers, so racks are those of the hosts' labels (k)"
    # One rack distinguishes nothing.
    compared = with_labels(Lengths.of_matrix(lengths(1, 1)), NAMES, dict.fromkeys(NAMES, "k=1"))
    assert np.array_equal(compared.lengths.matrix(), lengths(1, 1))
    assert (compared.by_labels, compared.note) == (False, "")


def test_counted_routers_outweigh_labels_and_both_are_reported() -> None:
    agreeing = Lengths.of_matrix(lengths(2, 4))
    assert with_labels(agreeing, NAMES, LABELS).note == ""
    compared = with_labels(agreeing, NAMES, LABELS | {"b": "k=2"})
    assert compared.lengths is agreeing
    assert not compared.by_labels
    assert compared.note.startswith(
        "labels and routers disagree on 3 pairs of hosts: a and b are not both in `k=1`, but 1 router "
    )
    assert with_labels(agreeing, NAMES, LABELS | {"c": "k=1"}).note.startswith(
        "labels and routers disagree on 3 pairs of hosts: a and c are both in `k=1`, but 3 routers are between them"
    )


def test_labels_show_the_links_of_racks_behind_hidden_routers() -> None:
    topology = racks(3, 12, 3.0)
    oracle = Oracle(topology)
    oracle.hops[oracle.hops > 0] = 1
    network = PlayedNetwork(oracle, seed=1)
    of = {host.name: str(host.switch) for host in topology.host}
    key = "fabric.topograph.run/tier-0"
    hosts = [host.model_copy(update={"labels": {key: of[host.name]}}) for host in network.inventory.host]
    inventory = network.inventory.model_copy(update={"host": hosts})
    with network.held():
        result = carry_out(plan_measurement(MeasureQuestion(inventory, seed=1, scale="structure")))
    assert "the network hides its routers, so racks are those of the hosts' labels" in " ".join(result.warnings)
    assert off(result.history, oracle).max() < 0.05
    check = check_held_out(result.history)
    assert check is not None
    assert check.off == 0
    groups = model(result.history).groups
    assert len(groups) == 3
    assert all(len({of[member] for member in group.members}) == 1 and group.up_bps for group in groups)


HOSTS = [f"h{number}" for number in range(6)]
TWO_RACKS = {name: f"k={1 + number // 3}" for number, name in enumerate(HOSTS)}
UNKNOWN: dict[Pair, float] = {}


def nearness(within: float, across: float) -> dict[Pair, float]:
    """Return values of two racks of three hosts each."""
    return {(i, j): within if i // 3 == j // 3 else across for i, j in permutations(range(6), 2)}


def test_rates_that_contradict_labels_are_reported() -> None:
    rates = nearness(1e9, 3e8)
    assert disagreement(rates, UNKNOWN, HOSTS, TWO_RACKS) == ""
    swapped = TWO_RACKS | {"h0": "k=2", "h5": "k=1"}
    note = disagreement(rates, UNKNOWN, HOSTS, swapped)
    assert note == (
        "labels and rates disagree on 2 hosts: h0 is in `k=2` by its label, with rates of 30% to hosts there, "
        "and of 100% of what both allow to hosts of `k=1`; the labels are used"
    )
    # Of a single pair, too, and where half the paths are unknown.
    few = {(i, j): bps for (i, j), bps in rates.items() if i % 2 or not j % 2}
    assert "h0 is in `k=2`" in disagreement(few, UNKNOWN, HOSTS, swapped)
    # A host without a label, and racks of one host, contradict nothing.
    assert disagreement(rates, UNKNOWN, HOSTS, {"h0": "k=1", "h3": "k=2"}) == ""
    assert disagreement(UNKNOWN, UNKNOWN, HOSTS, swapped) == ""


def test_hosts_of_unlike_speed_do_not_contradict_labels() -> None:
    # The first rack's hosts are slow, and one of the second's.
    limits = [1e8, 1e8, 1e8, 1e9, 1e9, 2e8]
    rates = {(i, j): min(limits[i], limits[j], bps) for (i, j), bps in nearness(1e10, 5e8).items()}
    assert disagreement(rates, UNKNOWN, HOSTS, TWO_RACKS) == ""
    # Round trips of the second rack's hosts are short in any case.
    own_s = [1e-4, 1e-4, 1e-4, 1e-5, 1e-5, 1e-5]
    trips = {(i, j): own_s[i] + own_s[j] + between_s for (i, j), between_s in nearness(1e-5, 3e-5).items()}
    assert disagreement(UNKNOWN, trips, HOSTS, TWO_RACKS) == ""


def test_round_trips_that_contradict_labels_are_reported() -> None:
    trips = nearness(4e-5, 9e-5)
    assert disagreement(nearness(1e9, 1e9), trips, HOSTS, TWO_RACKS) == ""
    note = disagreement(nearness(1e9, 1e9), trips, HOSTS, TWO_RACKS | {"h0": "k=2"})
    assert note == (
        "labels and round trips disagree on 1 host: h0 is in `k=2` by its label, with round trips of 90 us to hosts "
        "there, and of 40 us to hosts of `k=1`; the labels are used"
    )


@pytest.mark.parametrize("wrong", [False, True])
def test_a_measurement_behind_hidden_routers_reports_wrong_labels(wrong: bool) -> None:
    topology = racks(2, 4, 8.0)
    oracle = Oracle(topology)
    oracle.hops[oracle.hops > 0] = 1
    network = PlayedNetwork(oracle, seed=1)
    of = {host.name: str(host.switch) for host in topology.host}
    if wrong:
        of["h0"] = "tor1"
    hosts = [
        host.model_copy(update={"labels": {"oci.oraclecloud.com/host.rack_id": of[host.name]}})
        for host in network.inventory.host
    ]
    with network.held():
        inventory = network.inventory.model_copy(update={"host": hosts})
        result = carry_out(plan_measurement(MeasureQuestion(inventory, seed=1)))
    reports = [
        warning for warning in result.warnings if warning.startswith("labels and rates disagree on 1 host: h0 is in")
    ]
    assert len(reports) == wrong, result.warnings
    assert wrong or not any("disagree" in warning for warning in result.warnings)
