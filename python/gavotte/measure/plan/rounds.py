"""Select pairs to probe at the same time: disjoint pairs, never two on one known shared link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gavotte.terms import Pair
from gavotte.terms.rounds import disjoint_rounds

Links = Mapping[Pair, frozenset[str]]
"""Pair of hosts (source, target) to the shared links that its traffic crosses. A pair without an entry crosses none."""


def directed_rounds(size: int, *, seed: int) -> list[list[Pair]]:
    """Return rounds of directed probes that cover every ordered pair of hosts once.

    The two directions of a pair never share a round: replies to a sender would wait in the queue that the other fills.
    Trains in both directions read 5 Mbit/s on a path of 190.

    Args:
        size: number of hosts N.
        seed: seed of the order.

    Returns:
        2N - 2 rounds (2N for an odd N) of (source, target).
    """
    return [half for pairs in disjoint_rounds(size, seed=seed) for half in (pairs, [(b, a) for a, b in pairs])]


def apart(rounds: Iterable[Sequence[Pair]], links: Links) -> list[list[Pair]]:
    """Split each round until no two of its pairs cross one shared link.

    First fit: a round with k pairs on one link becomes k rounds, and pairs that cross none stay in the first.

    Args:
        rounds: rounds of (source, target).
        links: links that each pair crosses.
    """
    parted: list[list[Pair]] = []
    for pairs in rounds:
        slots: list[tuple[list[Pair], set[str]]] = []
        for pair in pairs:
            crossed = links.get(pair, frozenset())
            slot = next((slot for slot in slots if not slot[1] & crossed), None)
            if slot is None:
                slot = ([], set())
                slots.append(slot)
            slot[0].append(pair)
            slot[1].update(crossed)
        parted.extend(slot[0] for slot in slots)
    return parted


def packed(pairs: Iterable[Pair], links: Links) -> list[list[Pair]]:
    """Pack some pairs into few rounds of disjoint hosts and links, by first fit in the given order.

    Args:
        pairs: (source, target), each once.
        links: links that each pair crosses.
    """
    rounds: list[tuple[list[Pair], set[int], set[str]]] = []
    for pair in pairs:
        crossed = links.get(pair, frozenset())
        for placed, hosts, busy in rounds:
            if pair[0] not in hosts and pair[1] not in hosts and not busy & crossed:
                placed.append(pair)
                hosts.update(pair)
                busy.update(crossed)
                break
        else:
            rounds.append(([pair], set(pair), set(crossed)))
    return [placed for placed, _, _ in rounds]
