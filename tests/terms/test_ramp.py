"""What the start of one TCP connection takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests import builders

from gavotte.formats.app import App
from gavotte.place import Question
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.paths import rates_bps
from gavotte.terms.ramp import QUEUE_S, ramp_s
from gavotte.terms.usage import before_use, depends_on_use, unsure_starts

RECORDED = [
    # Wire rate in Mbit/s, round trip, MB and seconds of one CUBIC connection. The lab had queues of 50 ms, Linux 6.18.
    # Half a round trip, in which the receiver confirms, is subtracted.
    (40, 0.04, 1, 0.345),
    (40, 0.04, 4, 0.972),
    (40, 0.04, 16, 3.479),
    (40, 0.15, 1, 1.004),
    (40, 0.15, 4, 1.772),
    (40, 0.15, 16, 4.288),
    # With the queues of their receivers filled by data on the way back.
    (60, 0.15, 16, 3.981),
    (50, 0.15, 8, 2.657),
]


@pytest.mark.parametrize(("rate_mbps", "round_trip_s", "size_mb", "took_s"), RECORDED)
def test_predictions_agree_with_recorded_connections(
    rate_mbps: float, round_trip_s: float, size_mb: float, took_s: float
) -> None:
    rate_bps = rate_mbps * 1e6 * GOODPUT_PER_WIRE
    predicted_s = 8e6 * size_mb / rate_bps + float(ramp_s(size_mb * 1e6, rate_bps, round_trip_s, 1448))
    assert predicted_s == pytest.approx(took_s, rel=0.06)


def test_a_window_of_ten_packets_is_enough_nearby() -> None:
    # 10 packets last for 2.3 ms at 50 Mbit/s, so only the last byte's way counts.
    assert ramp_s(1e6, 50e6, 0.002, 1448) == pytest.approx(0.001)
    assert ramp_s(1e6, 50e6, 0.0, 1448) == ramp_s(0, 50e6, 0.1, 1448) == 0.0


def test_a_path_without_a_limit_doubles_its_window_to_the_end() -> None:
    # 1,000 packets in windows of 10 to 640: the last begins after six round trips.
    assert ramp_s(1448e3, math.inf, 0.1, 1448) == pytest.approx(0.65)
    assert ramp_s(1448 * 10, math.inf, 0.1, 1448) == pytest.approx(0.05)


def test_a_short_queue_ends_slow_start_early() -> None:
    deep, usual, short = (float(ramp_s(64e6, 50e6, 0.15, 1448, queue_s=queue_s)) for queue_s in (0.2, QUEUE_S, 0.005))
    # Without a loss: seven rounds, less the time of the 1,270 packets in them.
    assert deep == pytest.approx(7 * 0.15 - 1270 * 8 * 1448 / 50e6 + 0.075)
    assert deep < usual < short
    # A longer transfer pays no more once CUBIC has grown to the path's rate.
    once, twice = (float(ramp_s(size, 50e6, 0.15, 1448)) for size in (1e9, 2e9))
    assert once == pytest.approx(twice)


def test_all_pairs_are_computed_at_once() -> None:
    rng = np.random.default_rng(1)
    rates, trips_s = rng.uniform(1e6, 1e10, (30, 30)), rng.uniform(0, 0.3, (30, 30))
    table = ramp_s(5e6, rates, trips_s, 1448)
    assert table.shape == (30, 30)
    assert np.isfinite(table).all()
    assert (table >= trips_s / 2).all()
    assert table[3, 4] == pytest.approx(float(ramp_s(5e6, rates[3, 4], trips_s[3, 4], 1448)))


def stream(size: int) -> App:
    return builders.app("app", ("x", "y", size))


def test_starts_count_where_they_matter() -> None:
    near, far = builders.network(2, 1e9, 1e-4), builders.network(2, 1e9, 0.02)
    assert not depends_on_use(near, [stream(10_000_000)])
    assert before_use(near, [stream(10_000_000)]) is near
    assert depends_on_use(far, [stream(10_000_000)])
    start_s = float(ramp_s(10e6, 1e9, 0.04, 1448))
    assert before_use(far, [stream(10_000_000)]).rate_bps[0][1] == pytest.approx(8e7 / (0.08 + start_s))
    assert not depends_on_use(far, [stream(10**10)])


def test_rates_that_are_unknown_are_those_of_the_caps() -> None:
    network = builders.network(2, None, egress_bps=3e6, ingress_bps=2e6)
    assert rates_bps(network)[0, 1] == 2e6
    known = builders.network(2, [[None, 5e6], [None, None]], egress_bps=3e6)
    assert rates_bps(known)[0, 1] == 5e6
    assert rates_bps(known)[1, 0] == 3e6


def test_connections_whose_queues_decide_are_named() -> None:
    far = builders.network(2, 50e6, 0.075)
    (warning,) = unsure_starts(far, [stream(16_000_000)])
    times_s = [2.56 + float(ramp_s(16e6, 50e6, 0.15, 1448, queue_s=queue_s)) for queue_s in (QUEUE_S, math.inf, 0.01)]
    expected_s, least_s, most_s = times_s
    assert f"16.0 MB from vm0 to vm1 take {expected_s:.3g} s" in warning
    assert f"{least_s:.3g} s with deep queues and {most_s:.3g} s with short ones" in warning
    assert least_s < expected_s < most_s
    assert Question(far, [stream(16_000_000)]).warnings == [warning]
    # Nearby, and for very large transfers, queues matter little.
    assert not unsure_starts(builders.network(2, 50e6, 0.005), [stream(16_000_000)])
    assert not unsure_starts(far, [stream(10**10)])
