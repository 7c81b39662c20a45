"""Few pairs of many hosts: how they are chosen, and what they predict."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from gavotte.measure.plan.sparse import ACROSS, HELD_OUT, WITHIN, mates_of, racks_of, sparse_pairs, sparse_pairs_of
from gavotte.terms.hierarchy import hierarchy_of

RACKS = st.lists(st.integers(1, 30), min_size=1, max_size=6)


def racks(sizes: list[int]) -> list[list[int]]:
    edges = np.cumsum([0, *sizes]).tolist()
    return [list(range(first, last)) for first, last in pairwise(edges)]


@given(RACKS, st.integers(0, 100))
@examples(100)
def test_each_host_sends_and_receives_within_its_rack_and_across(sizes: list[int], seed: int) -> None:
    known = racks(sizes)
    hosts = [host for rack in known for host in rack]
    chosen = sparse_pairs(hosts, known, seed=seed)
    rack_of = {host: number for number, rack in enumerate(known) for host in rack}
    assert not chosen.shown & chosen.held_out
    assert not chosen.crossing & (chosen.shown | chosen.held_out)
    assert all(i != j for i, j in chosen.shown | chosen.crossing | chosen.held_out)
    out, into = (Counter(pair[end] for pair in chosen.shown) for end in (0, 1))
    if len(hosts) > 1:
        assert all(out[host] and into[host] for host in hosts)
    within = Counter(i for i, j in chosen.shown if rack_of[i] == rack_of[j])
    for rack in known:
        if len(rack) >= 4:
            assert all(within[host] >= min(WITHIN - 3, len(rack) - 1) for host in rack)
    if len(known) > 1:
        for rack in known:
            across = {(i, j) for i, j in chosen.crossing | chosen.shown | chosen.held_out if rack_of[i] != rack_of[j]}
            assert {i for i, j in across if i in rack} == set(rack)
            assert {j for i, j in across if j in rack} == set(rack)


@given(RACKS, st.integers(0, 100))
@examples(50)
def test_pairs_grow_with_hosts_and_not_with_pairs(sizes: list[int], seed: int) -> None:
    known = racks(sizes)
    hosts = [host for rack in known for host in rack]
    chosen = sparse_pairs(hosts, known, seed=seed)
    assert len(chosen.shown) <= len(hosts) * (WITHIN + ACROSS)
    # A small rack that receives from a large one receives several times.
    assert len(chosen.crossing) <= ACROSS * 2 * len(hosts)
    assert len(chosen.held_out) <= HELD_OUT * len(hosts)
    assert chosen == sparse_pairs(hosts, known, seed=seed)


def test_racks_and_machines_come_from_path_lengths() -> None:
    names = [f"h{i}" for i in range(12)]
    hops = np.full((12, 12), 4)
    for first in (0, 4, 8):
        hops[first : first + 4, first : first + 4] = 2
    hops[0, 1] = hops[1, 0] = 1
    np.fill_diagonal(hops, 0)
    tree = hierarchy_of(names, hops)
    assert racks_of(tree) == [[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]
    assert mates_of(tree) == {(0, 1), (1, 0)}
    chosen = sparse_pairs_of(tree, range(12), seed=1)
    assert {(0, 1), (1, 0)} <= chosen.shown
    absent = sparse_pairs_of(tree, range(1, 12), seed=1)
    assert not any(0 in pair for pair in absent.shown | absent.held_out)


def test_hosts_without_racks_are_one_pool() -> None:
    chosen = sparse_pairs(range(100), seed=3)
    out = Counter(i for i, _ in chosen.shown)
    assert set(out.values()) == {WITHIN + ACROSS}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_hosts_have_all_pairs(size: int) -> None:
    chosen = sparse_pairs(range(size))
    assert len(chosen.shown) == size * (size - 1)
    assert not chosen.held_out
