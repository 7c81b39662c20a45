"""Rounds in which no host takes part twice."""

from __future__ import annotations

import random

from gavotte.terms import Pair


def disjoint_rounds(size: int, *, seed: int) -> list[list[Pair]]:
    """Split all unordered pairs of hosts into rounds in which no host appears twice.

    The circle method gives a 1-factorisation of the complete graph: N - 1 rounds of N/2 pairs (N rounds for an odd N).
    Hosts and rounds are shuffled, so that each epoch has another order and no pair is always probed with the same
    others.

    Args:
        size: number of hosts N.
        seed: seed of the order.

    Returns:
        rounds of (i, j) with i != j, each unordered pair exactly once; which end comes first is random.
    """
    if size < 2:
        return []
    rng = random.Random(seed)
    order: list[int | None] = list(range(size))
    rng.shuffle(order)
    if size % 2:
        order.append(None)
    half = len(order) // 2
    rounds = []
    for _ in range(len(order) - 1):
        pairs = []
        for a, b in zip(order[:half], reversed(order[half:]), strict=True):
            if a is not None and b is not None:
                pairs.append((a, b) if rng.random() < 0.5 else (b, a))
        rounds.append(pairs)
        order = [order[0], order[-1], *order[1:-1]]
    rng.shuffle(rounds)
    return rounds
