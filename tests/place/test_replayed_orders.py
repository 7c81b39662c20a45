"""The search for an order of ranks by replayed time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count, permutations

from hypothesis import given
from hypothesis import strategies as st

from gavotte.place import Effort, improve_order

HOSTS = "abcd"
SLOTS = dict.fromkeys(HOSTS, 1)


def ring_s(order: Sequence[str]) -> float:
    """Return the seconds of a ring, in which crossing from a or b to c or d costs more."""
    pairs = zip(order, [*order[1:], order[0]], strict=True)
    return sum(1.0 if (m in "ab") == (n in "ab") else 3.0 for m, n in pairs)


def test_the_best_order_of_a_ring_is_found() -> None:
    best = improve_order(["acbd"], SLOTS, ring_s, Effort())
    assert best.seconds == min(map(ring_s, permutations(HOSTS))) == 8.0
    assert best.ended
    assert best.replays >= 2


def test_the_best_of_the_given_orders_is_the_start_and_stays_if_nothing_is_better() -> None:
    best = improve_order(["acbd", "abcd"], SLOTS, ring_s, Effort())
    assert best.hosts == list("abcd")
    equal = improve_order(["dcba"], SLOTS, lambda _: 1.0, Effort())
    assert equal.hosts == list("dcba")


def test_ranks_move_to_hosts_with_room() -> None:
    slots = {"a": 2, "b": 2}
    best = improve_order(["ab"], slots, lambda order: float(len(set(order))), Effort())
    assert len(set(best.hosts)) == 1


def test_the_time_limit_ends_the_search() -> None:
    clock = count(0.0, 0.5)
    effort = Effort(time_limit_s=2.0, clock=lambda: next(clock))
    endless = count(1000.0, -1.0)
    best = improve_order(["abcd"], SLOTS, lambda _: next(endless), effort)
    assert not best.ended
    assert best.replays < 10


@given(st.permutations(HOSTS), st.integers(0, 100), st.integers(0, 2**32))
def test_no_order_is_worse_than_the_start_and_slots_are_kept(start: list[str], seed: int, salt: int) -> None:
    slots = {"a": 1, "b": 2, "c": 1, "d": 2}

    def seconds(order: Sequence[str]) -> float:
        return 1.0 + hash((salt, *order)) % 1000

    first, again = (improve_order([start], slots, seconds, Effort(seed=seed)) for _ in range(2))
    assert first == again
    assert first.seconds <= seconds(start)
    assert all(used <= slots[host] for host, used in Counter(first.hosts).items())
