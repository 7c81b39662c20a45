"""One TCP connection behind a policer."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests import builders

from gavotte.formats.app import App
from gavotte.place import evaluate
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.loss import with_loss
from gavotte.terms.policer import policed_bps
from gavotte.terms.ramp import ramp_s, starts_s

RECORDED = [
    # Depth in KiB, wire rate in Mbit/s, and goodput of one CUBIC connection at a round trip of 0.2 ms (Linux 6.18).
    (128, 40, 8.0),
    (128, 60, 8.6),
    (256, 40, 11.9),
    (256, 60, 12.3),
    (512, 40, 20.4),
    (512, 60, 20.9),
    (1024, 60, 40.6),
]


@pytest.mark.parametrize(("depth_kib", "rate_mbps", "got_mbps"), RECORDED)
def test_nearby_a_bucket_passes_for_each_timeout(depth_kib: int, rate_mbps: float, got_mbps: float) -> None:
    rate_bps, bucket_bytes = rate_mbps * 1e6 * GOODPUT_PER_WIRE, depth_kib * 1024 * GOODPUT_PER_WIRE
    assert policed_bps(rate_bps, bucket_bytes, 0.0002, 1448) == pytest.approx(got_mbps * 1e6, rel=0.1)


def test_a_policer_limits_no_more_than_its_rate_where_losses_are_repaired() -> None:
    # A recorded connection reached 0.90 of the rate at 0.5 ms, and all of it at 2 ms.
    assert policed_bps(38e6, 62_000, 0.0005, 1448) == math.inf
    assert policed_bps(38e6, math.nan, 0.0002, 1448) == math.inf
    # A bucket that outlasts a timeout never runs empty.
    assert policed_bps(38e6, 2_000_000, 0.0002, 1448) == math.inf


def test_policed_pairs_have_rates_of_one_connection_and_of_several() -> None:
    policed = [[None, True, False], [None, None, None], [None, None, None]]
    hosts: list[dict[str, Any]] = [{"name": "a", "burst_bytes": 250_000.0}, {"name": "b"}, {"name": "c"}]
    network = builders.network(hosts, 38e6, 0.0001, policed=policed)
    used = with_loss(network)
    one_bps = float(policed_bps(38e6, 250_000, 0.0002, 1448))
    assert used.rate_bps[0][1] == pytest.approx(one_bps)
    assert used.several_bps[0][1] == 38e6
    assert used.rate_bps[0][2] == used.rate_bps[1][0] == 38e6
    # Its policer is part of the rate, and does not count again.
    assert with_loss(used).rate_bps == used.rate_bps
    app: App = builders.app("app", ("x", "y", 10_000_000))
    placed = {"x": "a", "y": "b"}
    assert evaluate(network, [app], placed).completion_s == pytest.approx(8e7 / one_bps)
    assert evaluate(network, [app], {"x": "a", "y": "c"}).completion_s == pytest.approx(8e7 / 38e6)
    # Behind an unknown bucket, and far away, one connection has the measured rate.
    unknown = builders.network(3, 38e6, 0.0001, policed=policed)
    assert with_loss(unknown) is unknown


def test_a_bucket_takes_the_bursts_of_slow_start_as_a_queue_does() -> None:
    policed = [[None, True], [None, None]]
    hosts: list[dict[str, Any]] = [{"name": "a", "burst_bytes": 30_000.0}, {"name": "b"}]
    network = builders.network(hosts, 38e6, 0.02, policed=policed)
    start_s = starts_s(network, 16e6)
    assert start_s[0, 1] == pytest.approx(float(ramp_s(16e6, 38e6, 0.04, 1448, queue_s=8 * 30_000 / 38e6)))
    assert start_s[1, 0] == pytest.approx(float(ramp_s(16e6, 38e6, 0.04, 1448)))
    assert start_s[0, 1] > start_s[1, 0]
