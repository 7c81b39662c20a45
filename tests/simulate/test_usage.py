"""Rates that depend on the flows: one connection's share of a pair, and credits of hosts by bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests import builders

from gavotte.formats.network import Network
from gavotte.simulate import Flows, rates, simulate

ONE_BPS, SEVERAL_BPS = 5e9, 2.5e10
SIZE = 10**9


def provider() -> Network:
    """Hosts with NICs of 25 Gbit/s, on which each connection gets 5."""
    several = [[None, SEVERAL_BPS], [SEVERAL_BPS, None]]
    return builders.network(
        2,
        ONE_BPS,
        egress_bps=SEVERAL_BPS,
        ingress_bps=SEVERAL_BPS,
        several_bps=several,
        connections=[[None, 8], [8, None]],
    )


def flows(sizes: Sequence[int], targets: Sequence[int]) -> Flows:
    count = len(sizes)
    return Flows(
        np.zeros(count, np.uint32),
        np.array(targets, np.uint32),
        np.array(sizes, np.uint64),
        np.zeros(count, np.float64),
    )


@pytest.mark.parametrize(
    ("sizes", "expected_s"),
    [
        ((SIZE,), 8 * SIZE / ONE_BPS),
        ((SIZE, SIZE), 8 * SIZE / ONE_BPS),
        ((SIZE,) * 10, 80 * SIZE / SEVERAL_BPS),
        ((3 * SIZE, SIZE), 24 * SIZE / ONE_BPS),
    ],
)
def test_each_flow_is_one_connection(sizes: tuple[int, ...], expected_s: float) -> None:
    assert simulate(provider(), flows(sizes, [1] * len(sizes))).makespan_s == pytest.approx(expected_s)


def test_rates_count_connections() -> None:
    assert rates(provider(), flows([1], [1])).tolist() == pytest.approx([ONE_BPS])
    assert rates(provider(), flows([1] * 10, [1] * 10)).tolist() == pytest.approx([SEVERAL_BPS / 10] * 10)


@pytest.mark.parametrize(("sizes", "expected_s"), [((50_000_000,), 2.0), ((100_000_000, 100_000_000), 16.0)])
def test_all_bytes_of_a_host_use_up_its_credit(sizes: tuple[int, ...], expected_s: float) -> None:
    bursty = {"name": "bursty", "egress_bps": 5e7, "peak_bps": 2e8, "burst_bytes": 100_000_000}
    network = builders.network([bursty, "a", "b"], [[None, 5e7, 5e7], [1e9, None, 1e9], [1e9, 1e9, None]])
    targets = [1 + number for number in range(len(sizes))]
    assert simulate(network, flows(sizes, targets)).makespan_s == pytest.approx(expected_s)


def test_bytes_within_a_machine_use_no_credit() -> None:
    bursty = {"name": "bursty", "machine": "pm0", "egress_bps": 5e7, "peak_bps": 2e8, "burst_bytes": 100_000_000}
    near = {"name": "near", "machine": "pm0"}
    network = builders.network([bursty, near, "far"], [[None, 4e9, 5e7], [4e9, None, 1e9], [1e9, 1e9, None]])
    done = simulate(network, flows([10**9, 50_000_000], [1, 2]))
    assert done.finish_s.tolist() == pytest.approx([2.0, 2.0])
