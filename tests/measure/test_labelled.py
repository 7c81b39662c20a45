"""Racks in the words of a provider, where routers show none, and where they show others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.measure.test_sparse_played import off, racks

from gavotte.formats.inventory import Host
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.measure.plan.labelled import rack_labels, with_labels
from gavotte.model import check_held_out, model

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
        compared = with_labels(hidden, NAMES, LABELS)
        assert np.array_equal(compared.lengths, lengths(2, 4))
        assert compared.by_labels
        assert compared.note == "the network hides its routers, so racks are those of the hosts' labels (k)"
    # One rack distinguishes nothing.
    compared = with_labels(lengths(1, 1), NAMES, dict.fromkeys(NAMES, "k=1"))
    assert np.array_equal(compared.lengths, lengths(1, 1))
    assert (compared.by_labels, compared.note) == (False, "")


def test_counted_routers_outweigh_labels_and_both_are_reported() -> None:
    agreeing = lengths(2, 4)
    assert with_labels(agreeing, NAMES, LABELS).note == ""
    compared = with_labels(agreeing, NAMES, LABELS | {"b": "k=2"})
    assert np.array_equal(compared.lengths, agreeing)
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
