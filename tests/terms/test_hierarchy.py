"""Path lengths become a tree, unless they contradict each other."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.test_lengths import damaged
from tests.formats.test_lengths import tree as tree_lengths
from tests.measure.random_clouds import KINDS, random_cloud

from gavotte.formats.history import Ints
from gavotte.terms.hierarchy import Hierarchy, hierarchy_of


def tree(hops: list[list[int]]) -> Hierarchy:
    return hierarchy_of([f"h{i}" for i in range(len(hops))], np.array(hops))


def clusters(result: Hierarchy) -> dict[str, tuple[int, ...]]:
    return {cluster.name: cluster.members for cluster in result.clusters}


TWO_RACKS: Ints = np.array(
    [
        [0, 1, 2, 4, 4],
        [1, 0, 2, 4, 4],
        [2, 2, 0, 4, 4],
        [4, 4, 4, 0, 2],
        [4, 4, 4, 2, 0],
    ]
)


def test_machines_racks_and_what_is_around_them() -> None:
    hierarchy = hierarchy_of("abcde", TWO_RACKS)
    assert hierarchy.machine == (0, 0, 1, 2, 3)
    assert clusters(hierarchy) == {"rack-0": (0, 1, 2), "rack-1": (3, 4), "machine-0": (0, 1)}
    assert [c.parent for c in hierarchy.clusters if c.kind == "machine"] == [0]
    assert not hierarchy.notes


def test_paths_cross_the_links_between_and_none_inside_a_machine() -> None:
    hierarchy = hierarchy_of("abcde", TWO_RACKS)
    assert hierarchy.path(0, 1) == ()
    assert [hierarchy.label(link) for link in hierarchy.path(0, 2)] == ["out of a", "out of machine-0", "into c"]
    # With two racks, one's uplink and the other's downlink have the same paths.
    assert hierarchy.label(hierarchy.path(0, 3)[2]) == "out of rack-0, into rack-1"


def test_one_direction_suffices() -> None:
    assert tree([[0, 0, 2], [1, 0, 2], [2, 2, 0]]).machine == (0, 0, 1)


def test_lengths_that_are_not_transitive_make_no_cluster() -> None:
    hierarchy = tree([[0, 2, 4, 4], [2, 0, 2, 4], [4, 2, 0, 4], [4, 4, 4, 0]])
    assert not hierarchy.clusters
    assert "contradict a rack" in hierarchy.notes[0]


def test_directions_that_disagree_are_left_out() -> None:
    hierarchy = tree([[0, 1, 4], [2, 0, 4], [4, 4, 0]])
    assert hierarchy.machine == (0, 1, 2)
    assert "unlike length" in hierarchy.notes[0]


def test_a_network_that_hides_its_routers_tells_no_machines() -> None:
    hierarchy = tree([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    assert hierarchy.machine == (0, 1, 2)
    assert "hides its routers" in hierarchy.notes[0]
    assert hierarchy.path(0, 1)


def test_no_lengths_no_tree() -> None:
    hierarchy = tree([[0, 0], [0, 0]])
    assert hierarchy.machine == (0, 1)
    assert hierarchy.notes


def test_a_host_at_the_core_stands_by_itself() -> None:
    hierarchy = tree([[0, 1, 3], [1, 0, 3], [3, 3, 0]])
    assert hierarchy.machine == (0, 0, 1)
    assert clusters(hierarchy) == {"machine-0": (0, 1)}


@given(st.sampled_from(KINDS), st.integers(0, 200), st.integers(4, 30))
def test_every_link_of_a_path_separates_its_ends(kind: str, seed: int, hosts: int) -> None:
    oracle = random_cloud(kind, seed, hosts=hosts).oracle()
    hierarchy = hierarchy_of(oracle.names, oracle.hops)
    for source in range(hierarchy.size):
        for target in range(hierarchy.size):
            path = hierarchy.path(source, target) if source != target else ()
            assert bool(path) == (hierarchy.machine[source] != hierarchy.machine[target])
            for link in path:
                assert source in hierarchy.links[link].sources
                assert target in hierarchy.links[link].targets
            assert len(set(path)) == len(path)


@pytest.mark.parametrize("seed", range(20))
def test_racks_are_those_of_the_topology(seed: int) -> None:
    cloud = random_cloud("core", seed, hosts=24)
    oracle = cloud.oracle()
    hierarchy = hierarchy_of(oracle.names, oracle.hops)
    switch = {machine.name: machine.switch for machine in cloud.topology.machine}
    for cluster in hierarchy.clusters:
        if cluster.kind == "rack":
            assert len({switch[str(cloud.topology.host[m].machine)] for m in cluster.members}) == 1


@given(st.integers(2, 24), st.integers(0, 12), st.integers(0, 99))
def test_the_paths_of_many_pairs_are_those_of_each(size: int, count: int, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"h{number}" for number in range(size)]
    hierarchy = hierarchy_of(names, damaged(tree_lengths(rng, size), rng, count))
    machine = hierarchy.machine
    pairs = [(i, j) for i in range(size) for j in range(size) if machine[i] != machine[j]]
    if pairs:
        source, target = np.array(pairs).T
        rows = hierarchy.paths(source, target)
        for pair, row in zip(pairs, rows.tolist(), strict=True):
            links = [link for link in row if link < len(hierarchy.links)]
            assert sorted(links) == sorted(hierarchy.path(*pair))
