"""Paths that drop packets above their rate instead of queueing them, measured with real packets."""

from __future__ import annotations

from typing import Any

import pytest

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure import measure
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab


def two(receiver: dict[str, Any] | None = None, **keys: Any) -> Topology:
    """Return two hosts, the first with the given keys, the second with those of the receiver."""
    hosts = [{"name": "a", "switch": "s", **keys}, {"name": "b", "switch": "s", **(receiver or {})}]
    return Topology.model_validate({"format": FORMAT, "switch": [{"name": "s"}], "host": hosts})


@pytest.mark.parametrize(
    ("rate_bps", "burst_bytes", "latency"),
    [(20e6, 64_000, "0s"), (60e6, 262_144, "0s"), (60e6, 262_144, "10ms"), (200e6, 1_000_000, "0s")],
)
def test_a_policer_is_found_with_its_rate_and_its_bucket(rate_bps: float, burst_bytes: int, latency: str) -> None:
    topology = two(egress=f"{rate_bps:.0f}bit", burst=f"{burst_bytes}b", policer=True, latency=latency)
    with lab.session(topology) as session:
        result = measure(read_inventory(session.hosts_file))
    reading = result.newest[0, 1].reading
    assert reading.policed
    assert reading.verdict == "path-limited"
    assert reading.goodput_bps == pytest.approx(GOODPUT_PER_WIRE * rate_bps, rel=0.02)
    assert reading.bucket_bytes == pytest.approx(burst_bytes, rel=0.1)
    assert reading.peak_bps > 2 * reading.goodput_bps


def test_a_policer_before_a_slower_receiver_is_found() -> None:
    # Its bucket lasts for 70 ms at the rate of the receiver.
    topology = two({"ingress": "80mbit"}, egress="50mbit", burst="256kB", policer=True)
    with lab.session(topology) as session:
        result = measure(read_inventory(session.hosts_file))
    assert result.newest[0, 1].reading.policed
    assert result.newest[0, 1].reading.goodput_bps == pytest.approx(GOODPUT_PER_WIRE * 50e6, rel=0.02)
    assert result.history.policed is not None
    assert result.history.policed[0].tolist() == [[0, 1], [0, 0]]
    assert model(result.history).policed == [[None, True], [False, None]]


def test_random_loss_is_no_policer() -> None:
    with lab.session(two(egress="60mbit", loss=0.01)) as session:
        result = measure(read_inventory(session.hosts_file))
    assert not any(path.reading.policed for path in result.newest.values())
