"""Bytes of a shuffle at one point of time."""

from __future__ import annotations

import pytest

from gavotte.transfer.odometer import LATE_S, Odometer


def test_reports_of_different_times_count_at_the_same_time() -> None:
    odometer = Odometer(["a", "b"])
    # Both move 100 bytes a second. The last report of `b` is older.
    for step in range(1, 6):
        odometer.report("a", 0.2 * step, [20 * step, 0])
        odometer.report("b", 0.2 * step - 0.15, [0, 20 * step - 15])
    assert odometer.now_s() == pytest.approx(0.85)
    assert odometer.moved_bytes([0, 1], 0.85) == pytest.approx(170)
    assert odometer.moved_bytes([0, 1], 0.65) == pytest.approx(130)


def test_an_agent_that_is_late_delays_nothing_for_long() -> None:
    odometer = Odometer(["a", "b"])
    odometer.report("b", 0.2, [0, 20])
    odometer.report("a", 4.0, [400, 0])
    assert odometer.now_s() == pytest.approx(4.0 - LATE_S)
    assert odometer.moved_bytes([1], odometer.now_s()) == 20


def test_a_flow_that_has_ended_waits_for_no_report() -> None:
    odometer = Odometer(["a", "b"])
    odometer.finish("b", 1, 0.5, 50)
    odometer.report("a", 1.0, [100, 0])
    odometer.report("b", 0.9, [0, 0])
    assert odometer.now_s() == 1.0
    assert odometer.moved_bytes([0, 1], 1.0) == 150
    assert odometer.moved_bytes([1], 0.25) == pytest.approx(25)
