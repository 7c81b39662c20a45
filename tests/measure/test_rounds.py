"""Each ordered pair is probed once, and no host sends or receives two probes in one round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.measure import METHODS, plan
from gavotte.measure.rounds import directed_rounds


@given(size=st.integers(0, 40), seed=st.integers(0, 5), duplex=st.booleans())
def test_every_ordered_pair_once_and_hosts_disjoint(size: int, seed: int, duplex: bool) -> None:
    rounds = directed_rounds(size, seed=seed, duplex=duplex)
    pairs = [pair for pairs in rounds for pair in pairs]
    assert sorted(pairs) == [(i, j) for i in range(size) for j in range(size) if i != j]
    for pairs in rounds:
        ends = [end for pair in pairs for end in pair]
        assert len({s for s, _ in pairs}) == len(pairs)
        assert len({t for _, t in pairs}) == len(pairs)
        assert len(set(ends)) == (len(pairs) if duplex else 2 * len(pairs))
    if size >= 2:
        assert len(rounds) == (size - 1 + size % 2) * (1 if duplex else 2)


def test_another_seed_is_another_order() -> None:
    assert directed_rounds(10, seed=1, duplex=True) == directed_rounds(10, seed=1, duplex=True)
    assert directed_rounds(10, seed=1, duplex=True) != directed_rounds(10, seed=2, duplex=True)


def test_a_plan_tells_each_agent_both_its_parts() -> None:
    todo = plan(("a", "b", "c", "d"), METHODS["choreo"], seed=3)
    assert todo.paths == 12
    cost = todo.cost(snapshots=2, price_per_gb=2.0)
    assert (cost.bytes, cost.max_bytes, cost.seconds) == (24 * 2_944_000, 24 * 2_944_000, 2 * todo.cost().seconds)
    assert cost.money == pytest.approx(24 * 0.002944 * 2)
    parts = todo.requests("run")
    sent = {(name, probe.peer, probe.round) for name, part in parts.items() for probe in part.probes}
    received = {(expect.peer, name, expect.round) for name, part in parts.items() for expect in part.receives}
    assert sent == received
    assert len(sent) == 12
