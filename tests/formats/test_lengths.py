"""Path lengths as clusters say the same as matrices, and make the same tree."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gavotte.formats.parts.lengths import Ints, Lengths
from gavotte.terms.hierarchy import hierarchy_of


def tree(rng: random.Random, size: int) -> Ints:
    """Path lengths of hosts in random machines, racks and pods."""
    places = [(rng.randrange(2), rng.randrange(3), rng.randrange(4)) for _ in range(size)]
    matrix = np.array(
        [[6 if a[0] != b[0] else 4 if a[1] != b[1] else 2 if a[2] != b[2] else 1 for b in places] for a in places],
        dtype=np.int64,
    )
    np.fill_diagonal(matrix, 0)
    return matrix


def damaged(matrix: Ints, rng: random.Random, count: int) -> Ints:
    """The same with some pairs of another length, or an unknown one."""
    matrix = matrix.copy()
    for _ in range(count if len(matrix) > 1 else 0):
        i, j = rng.sample(range(len(matrix)), 2)
        matrix[i, j] = matrix[j, i] = rng.choice([0, 1, 2, 4, 6])
    return matrix


@given(st.integers(1, 24), st.integers(0, 99))
def test_the_lengths_of_a_tree_are_clusters(size: int, seed: int) -> None:
    matrix = tree(random.Random(seed), size)
    lengths = Lengths.of_matrix(matrix)
    assert np.array_equal(lengths.matrix(), matrix)
    lengths.settle()
    assert lengths.single == {}
    assert np.array_equal(lengths.matrix(), matrix)
    assert np.array_equal(Lengths.of_clusters(size, lengths.clusters).matrix(), matrix)
    assert lengths.kinds == sorted(set(matrix[matrix > 0].tolist()))


@given(st.integers(1, 16), st.integers(0, 30), st.integers(0, 99))
def test_a_matrix_and_its_lengths_make_the_same_tree(size: int, count: int, seed: int) -> None:
    rng = random.Random(seed)
    matrix = damaged(tree(rng, size), rng, count)
    names = [f"h{number}" for number in range(size)]
    assert hierarchy_of(names, Lengths.of_matrix(matrix)) == hierarchy_of(names, matrix)


@given(st.integers(2, 20), st.integers(0, 12), st.integers(0, 99))
def test_clusters_keep_what_contradicts_them(size: int, count: int, seed: int) -> None:
    rng = random.Random(seed)
    matrix = damaged(tree(rng, size), rng, count)
    lengths = Lengths.of_matrix(matrix)
    lengths.settle()
    known = matrix > 0
    assert np.array_equal(lengths.matrix()[known], matrix[known])
    for host in range(size):
        assert np.array_equal(lengths.row(host), lengths.matrix()[host])
        assert [lengths[host, other] for other in range(size)] == lengths.row(host).tolist()


def test_a_clustered_pair_with_a_length_of_its_own_tears_the_cluster() -> None:
    lengths = Lengths(4)
    lengths.join([0, 1, 2], 2)
    lengths.join([0, 1, 2, 3], 4)
    assert [part.torn for part in lengths.components(2)] == [False, False]
    lengths.note((0, 2), 6)
    assert lengths[2, 0] == 6
    assert [(part.hosts, part.torn) for part in lengths.components(2)] == [((0, 1, 2), True), ((3,), False)]
    lengths.note((2, 3), 2)
    # Of the pairs between both clusters, only one is as short.
    assert lengths.components(2)[0].torn


def test_where_a_host_is_may_stay_open() -> None:
    lengths = Lengths(4)
    lengths.join([0, 1, 2, 3], 4)
    lengths.join([0, 1], 2)
    lengths.leave_open(3, 0)
    assert lengths[3, 0] == 0
    assert lengths[0, 2] == 4
    assert not lengths.is_known(3)
    assert lengths.row(2).tolist() == [4, 4, 0, 0]
    lengths.note((3, 1), 4)
    lengths.drop_shown([(3, 1)])
    assert lengths[1, 3] == 4
    assert lengths.is_known(3)
