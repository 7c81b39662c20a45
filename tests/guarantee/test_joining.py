"""When a bench counts a competitor as gone."""

from __future__ import annotations

from benches.guarantee.lab import last_arrival


def test_a_competitor_is_gone_once_its_last_bytes_have_arrived() -> None:
    assert last_arrival([50e6, 50e6, 50e6, 14e6, 0.0, 0.0], 2) == 4
    assert last_arrival([50e6, 50e6, 0.0, 1e3, 0.0, 0.0], 2) == 2
    assert last_arrival([], 2) == 2
