"""Routers between many hosts, counted by few pairs: on random trees, they are those of all pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.pivots import count_by_pivots
from gavotte.agents.routers import count_routers
from gavotte.agents.schedule import Answer, Schedule
from gavotte.formats.history import Ints
from gavotte.terms import Pair


class Cloud:
    """Hosts that answer small packets.

    Attributes:
        lengths: true path lengths.
        silent: hosts that never answer.
        deaf: pairs that pass TCP only.
        lossy: chance that a pair does not answer once.
        turns: number of schedules.
        asked: pairs that were probed.
    """

    def __init__(self, lengths: Ints, *, silent: set[int] | None = None, deaf: set[Pair] | None = None) -> None:
        self.lengths = lengths
        self.names = [f"h{number}" for number in range(len(lengths))]
        self.silent = silent or set()
        self.deaf = deaf or set()
        self.lossy = 0.0
        self.turns = 0
        self.asked: list[Pair] = []
        self.rtt_s = np.where(lengths > 6, 0.04, 0.0001)
        self._chance = random.Random(1)

    def send(self, schedule: Schedule, _round_s: float) -> Iterator[Answer]:
        self.turns += 1
        for number, steps in enumerate(schedule):
            sources = [step.source for step in steps]
            assert len(sources) == len(set(sources))
            for step in steps:
                i, j = int(step.source[1:]), int(step.target[1:])
                self.asked.append((i, j))
                reply = pb.ProbeReply(hops=int(self.lengths[i, j]), rtt_s=float(self.rtt_s[i, j]))
                failure = pb.FAILURE_UNSPECIFIED
                if self.silent & {i, j} or self._chance.random() < self.lossy:
                    reply = pb.ProbeReply()
                elif (i, j) in self.deaf:
                    reply, failure = pb.ProbeReply(), pb.FAILURE_NO_UDP
                yield Answer(number, step.source, step.target, reply, "", failure)


def tree(sizes: list[list[list[int]]]) -> Ints:
    """Path lengths of pods of racks of machines with these numbers of hosts."""
    places = [
        (pod, rack, machine)
        for pod, racks in enumerate(sizes)
        for rack, machines in enumerate(racks)
        for machine, count in enumerate(machines)
        for _ in range(count)
    ]

    def length(one: tuple[int, int, int], two: tuple[int, int, int]) -> int:
        return 6 if one[0] != two[0] else 4 if one[1] != two[1] else 2 if one[2] != two[2] else 1

    matrix = np.array([[length(one, two) for two in places] for one in places], dtype=np.int64)
    np.fill_diagonal(matrix, 0)
    return matrix


@given(
    st.lists(
        st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5), min_size=1, max_size=4), min_size=1, max_size=3
    ),
    st.integers(0, 9),
)
def test_few_pairs_show_all_lengths_of_a_tree(sizes: list[list[list[int]]], seed: int) -> None:
    lengths = tree(sizes)
    cloud = Cloud(lengths)
    counted = count_by_pivots(cloud.send, cloud.names, cloud.names, seed=seed)
    assert np.array_equal(counted.lengths.matrix(), lengths)
    assert len(cloud.asked) <= len(lengths) * (len(lengths) - 1) // 2
    assert not counted.cut
    assert not counted.blocked


def test_a_thousand_hosts_take_six_of_a_hundred_pairs_and_few_turns() -> None:
    rng = random.Random(3)
    sizes = [[[1] * rng.randint(16, 48) for _ in range(8)] for _ in range(4)]
    cloud = Cloud(tree(sizes))
    count = len(cloud.names)
    counted = count_by_pivots(cloud.send, cloud.names, cloud.names, seed=1)
    assert np.array_equal(counted.lengths.matrix(), cloud.lengths)
    assert len(cloud.asked) < 0.08 * count * (count - 1) / 2
    assert cloud.turns <= 8


def test_hidden_routers_look_as_they_do_between_all_pairs() -> None:
    lengths = np.ones((30, 30), dtype=np.int64)
    np.fill_diagonal(lengths, 0)
    cloud = Cloud(lengths)
    assert np.array_equal(count_by_pivots(cloud.send, cloud.names, cloud.names).lengths.matrix(), lengths)
    assert len(cloud.asked) < 30 * 12


def test_a_silent_host_stays_unknown_and_costs_no_other() -> None:
    lengths = tree([[[1] * 8, [1] * 8, [1] * 8]])
    cloud = Cloud(lengths, silent={5})
    counted = count_by_pivots(cloud.send, cloud.names, cloud.names, seed=2)
    assert not counted.lengths.matrix()[5].any()
    others = [host for host in range(24) if host != 5]
    assert np.array_equal(counted.lengths.matrix()[np.ix_(others, others)], lengths[np.ix_(others, others)])


def test_hosts_that_are_not_used_stay_unknown() -> None:
    cloud = Cloud(tree([[[1] * 6, [1] * 6]]))
    counted = count_by_pivots(cloud.send, cloud.names[1:], cloud.names)
    assert not counted.lengths.matrix()[0].any()
    assert all(0 not in pair for pair in cloud.asked)


def test_lost_packets_are_sent_again() -> None:
    cloud = Cloud(tree([[[1] * 10, [1] * 10, [1] * 10]]))
    cloud.lossy = 0.02
    assert np.array_equal(count_by_pivots(cloud.send, cloud.names, cloud.names).lengths.matrix(), cloud.lengths)


@pytest.mark.parametrize("deaf", [{(3, 7), (7, 3)}, {(i, j) for i in range(4) for j in range(4, 24)}])
def test_behind_firewalls_all_pairs_are_probed(deaf: set[Pair]) -> None:
    lengths = tree([[[1] * 8, [1] * 8, [1] * 8]])
    few, all_pairs = Cloud(lengths, deaf=deaf), Cloud(lengths, deaf=deaf)
    counted = count_by_pivots(few.send, few.names, few.names, seed=4)
    expected = count_routers(all_pairs.send, all_pairs.names, all_pairs.names, seed=4)
    if counted.blocked:
        assert counted.blocked == expected.blocked
        assert np.array_equal(counted.lengths.matrix(), expected.lengths.matrix())
    else:
        assert deaf == {(3, 7), (7, 3)}


def test_far_pairs_are_known_although_they_were_not_probed() -> None:
    lengths = tree([[[1] * 10], [[1] * 10]])
    lengths[lengths == 6] = 8
    cloud = Cloud(lengths)
    counted = count_by_pivots(cloud.send, cloud.names, cloud.names)
    far = {frozenset(pair) for pair, trip_s in counted.round_trips_s.items() if trip_s > 0.02}
    assert far == {frozenset((i, j)) for i in range(10) for j in range(10, 20)}


def test_no_hosts_and_one_host() -> None:
    cloud = Cloud(tree([[[1]]]))
    assert not count_by_pivots(cloud.send, cloud.names, cloud.names).lengths.matrix().any()
    assert not count_by_pivots(cloud.send, [], cloud.names).lengths.matrix().any()
    assert cloud.asked == []
