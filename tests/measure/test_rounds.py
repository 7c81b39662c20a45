"""Each ordered pair is probed once, and no host sends or receives two probes in one round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.agents.schedule import requests
from gavotte.measure import plan_paths
from gavotte.measure.plan.rounds import directed_rounds


@given(size=st.integers(0, 40), seed=st.integers(0, 5))
def test_every_ordered_pair_once_and_hosts_disjoint(size: int, seed: int) -> None:
    rounds = directed_rounds(size, seed=seed)
    pairs = [pair for pairs in rounds for pair in pairs]
    assert sorted(pairs) == [(i, j) for i in range(size) for j in range(size) if i != j]
    for pairs in rounds:
        ends = [end for pair in pairs for end in pair]
        assert len(set(ends)) == 2 * len(pairs)
    if size >= 2:
        assert len(rounds) == (size - 1 + size % 2) * 2


def test_another_seed_is_another_order() -> None:
    assert directed_rounds(10, seed=1) == directed_rounds(10, seed=1)
    assert directed_rounds(10, seed=1) != directed_rounds(10, seed=2)


def test_a_plan_tells_each_agent_both_its_parts() -> None:
    todo = plan_paths("abcd", "choreo", count=2, seed=3)
    assert todo.paths == 12
    once = plan_paths("abcd", "choreo", seed=3).cost()
    cost = todo.cost(price_per_gb=2.0)
    # Two of the first four may be measured twice, to find whether links are shared.
    assert (cost.bytes, cost.max_bytes) == (26 * 2_944_000, 26 * 2_944_000)
    assert once.seconds < cost.seconds < 2 * once.seconds
    assert cost.money == pytest.approx(26 * 0.002944 * 2)
    parts = requests(todo.schedule(todo.first), "run")
    sent = {(name, probe.peer, probe.round) for name, part in parts.items() for probe in part.probes}
    received = {(expect.peer, name, expect.round) for name, part in parts.items() for expect in part.receives}
    assert sent == received
    assert len(sent) == 12
