"""Which transfers run at the same time: those that the policy serves first, host by host."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.builders import MBIT
from tests.examples import examples

from gavotte.transfer.admission import AT_ONCE, ON_HOST, admitted, crowded
from gavotte.transfer.orders import POLICIES, Coflow, serving_order

NETWORK = builders.network("abcd", rate_bps=8 * MBIT)


def coflow(arrival_s: float, size_bytes: float, **rest: float) -> Coflow:
    return Coflow(arrival_s, [("a", "b", size_bytes)], **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fair", [0, 1, 2, 3]),
        ("weighted", [3, 0, 1, 2]),
        ("fifo", [0, 1, 2, 3]),
        ("fifo+", [0, 1, 2, 3]),
        ("priority", [2, 0, 1, 3]),
        ("scf", [1, 3, 0, 2]),
        ("sebf", [1, 3, 0, 2]),
        ("bssi", [3, 1, 0, 2]),
        ("d-clas", [1, 2, 3, 0]),
        ("edf", [2, 3, 0, 1]),
    ],
)
def test_each_policy_has_its_order(policy: str, order: list[int]) -> None:
    coflows = [
        coflow(0.0, 3e6, class_=1, sent_bytes=20e6),
        coflow(1.0, 1e6, class_=1),
        coflow(2.0, 4e6, class_=0, due_s=5.0),
        coflow(3.0, 2e6, class_=1, weight=8.0, due_s=9.0),
    ]
    assert serving_order(NETWORK, policy, coflows) == order


def test_every_policy_is_covered() -> None:
    mark = next(mark for mark in test_each_policy_has_its_order.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {policy for policy, _ in mark.args[1]} == set(POLICIES)


def test_a_transfer_of_unknown_size_goes_first_only_where_sizes_decide() -> None:
    sized, unknown = coflow(0.0, 1e6), coflow(1.0, 0.0, class_=1)
    assert serving_order(NETWORK, "sebf", [sized, unknown]) == [1, 0]
    assert serving_order(NETWORK, "priority", [sized, unknown]) == [0, 1]


def test_hosts_without_a_queue_wait_for_no_other_hosts() -> None:
    hosts = dict.fromkeys(range(20), "ab") | {20: "cd"}
    assert crowded(hosts)
    assert admitted(range(21), hosts) == {*range(ON_HOST), 20}


def test_the_last_to_arrive_runs_if_the_policy_serves_it_first() -> None:
    hosts = dict.fromkeys(range(21), "ab")
    assert admitted([20, *range(20)], hosts) == {*range(ON_HOST - 1), 20}


def test_few_transfers_need_no_order() -> None:
    assert not crowded(dict.fromkeys(range(ON_HOST), "ab"))
    assert crowded({number: (f"h{number}",) for number in range(AT_ONCE + 1)})
    assert len(admitted(range(AT_ONCE + 1), {number: (f"h{number}",) for number in range(AT_ONCE + 1)})) == AT_ONCE


@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1), min_size=1, max_size=120), st.randoms())
@examples(60)
def test_who_waits_has_a_host_that_earlier_ones_fill(drawn: list[frozenset[str]], random: object) -> None:
    hosts = dict(enumerate(drawn))
    order = list(hosts)
    random.shuffle(order)  # type: ignore[attr-defined]
    running = admitted(order, hosts)
    taken: Counter[str] = Counter()
    for number in order:
        full = any(taken[host] == ON_HOST for host in hosts[number])
        assert (number in running) != full
        if number in running:
            taken.update(hosts[number])
    assert max(taken.values()) <= ON_HOST
