from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profile.frames import A, B, C, packed

from gavotte.profile.capture.packets import Segment
from gavotte.profile.capture.tally import JUMP_BYTES, Tally

PAIR = (packed(A), packed(B))


def segment(seq: int | None, count: int, *, syn: bool = False, port: int = 5000, vantage: int = 0) -> Segment:
    number = None if seq is None else seq & 0xFFFFFFFF
    return Segment(*PAIR, port, 6000, number, syn, count, vantage)


def tally(*segments: Segment) -> Tally:
    counted = Tally(None)
    for each in segments:
        counted.add(each)
    return counted


def total(*segments: Segment) -> int:
    return tally(*segments).pair_bytes.get(PAIR, 0)


def test_bytes_in_order_add_up() -> None:
    assert total(segment(0, 0, syn=True), segment(0, 100), segment(100, 50), segment(150, 0)) == 150


def test_a_retransmission_counts_once() -> None:
    counted = tally(segment(0, 100), segment(100, 100), segment(0, 100), segment(50, 100), segment(150, 100))
    assert counted.pair_bytes[PAIR] == 250
    assert (counted.duplicate_packets, counted.duplicate_bytes) == (2, 250)


def test_the_same_packet_seen_twice_counts_once() -> None:
    seen = [segment(n * 100, 100, vantage=way) for n in range(10) for way in (0, 1)]
    counted = tally(*seen)
    assert counted.pair_bytes[PAIR] == 1000
    assert counted.duplicate_packets == 10


def test_sequence_numbers_wrap() -> None:
    start = (1 << 32) - 150
    assert total(*(segment(start + n * 100, 100) for n in range(5)), segment(start + 100, 100)) == 500


def test_a_packet_the_capture_missed_is_counted_by_the_next_ones_number() -> None:
    counted = tally(segment(0, 100), segment(300, 100), segment(100, 200))
    assert counted.pair_bytes[PAIR] == 400
    assert counted.unseen_bytes == 200


def test_a_bare_reset_or_acknowledgement_moves_nothing() -> None:
    assert total(segment(0, 100), segment(5000, 0), segment(100, 100)) == 200


def test_a_reused_port_is_a_new_connection() -> None:
    first = [segment(0, 0, syn=True), segment(0, 100)]
    assert total(*first, segment(40, 0, syn=True), segment(40, 100)) == 200
    assert total(*first, segment(100 + JUMP_BYTES + 1, 100)) == 200
    assert total(*first, segment(100 - JUMP_BYTES - 1, 100)) == 200


def test_a_repeated_syn_is_the_same_connection() -> None:
    assert total(segment(9, 0, syn=True), segment(9, 100), segment(9, 0, syn=True), segment(9, 100)) == 100


def test_udp_counts_where_it_was_first_seen() -> None:
    both = [segment(None, 100, vantage=v) for v in (3, 5, 3, 5)]
    counted = tally(*both, segment(None, 7, port=5001, vantage=5))
    assert counted.pair_bytes[PAIR] == 207
    assert (counted.duplicate_packets, counted.duplicate_bytes) == (2, 200)


def test_unknown_addresses_are_counted_apart() -> None:
    counted = Tally({packed(A), packed(C)})
    counted.add(segment(0, 100))
    assert counted.pair_bytes == {}
    assert (counted.foreign_packets, counted.foreign_bytes) == (1, 100)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavotte.profile.capture.tally.FLOWS_KEPT", 10)
    busy = [segment(0, 10, port=1)]
    for port in range(100, 200):
        busy += [segment(0, 10, port=port), segment(None, 10, port=port), segment(0, 10, port=1)]
    counted = tally(*busy)
    assert counted.pair_bytes[PAIR] == 10 + 100 * 20, "the busy connection was never forgotten"
    assert len(counted._connections) == len(counted._vantages) == 10


@given(
    start=st.integers(0, (1 << 32) - 1),
    sizes=st.lists(st.integers(1, 65000), min_size=1, max_size=30),
    seed=st.randoms(use_true_random=False),
)
def test_bytes_are_conserved_whatever_is_repeated_reordered_or_missed(start: Any, sizes: Any, seed: Any) -> None:
    """The first and the furthest segment are seen; all else may be lost, late or doubled."""
    at, whole = start, []
    for size in sizes:
        whole.append(segment(at, size))
        at += size
    middle = [s for s in whole[1:-1] for _ in range(seed.randint(0, 3))]
    seed.shuffle(middle)
    assert total(whole[0], *middle, whole[-1], *middle) == sum(sizes)
