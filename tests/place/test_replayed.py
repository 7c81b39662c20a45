"""The lab cloud for replays of real matrices has the rates of its network, all scaled alike."""

from __future__ import annotations

import pytest
from benches.place.replayed import Replayed, cloud_of, row
from tests import builders

from gavotte.terms.goodput import GOODPUT_PER_WIRE

EGRESS = (4e9, 3e9, 1e9)
RATES = [[None, 2e9, 1e9], [3e9, None, 0.5e9], [1e9, 1e9, None]]


def test_cloud_has_the_rates_of_the_network() -> None:
    hosts = [{"name": f"vm{m}", "egress_bps": rate, "ingress_bps": rate} for m, rate in enumerate(EGRESS)]
    network = builders.network(hosts, RATES, cpus=5.0)
    cloud, factor = cloud_of(network, 80e6)
    egress = [host.egress or 0.0 for host in cloud.topology.host]
    assert sum(egress) == pytest.approx(80e6, rel=1e-6)
    for wire_bps, goodput_bps in zip(egress, EGRESS, strict=True):
        assert wire_bps * GOODPUT_PER_WIRE == pytest.approx(goodput_bps * factor, rel=1e-6)
    # Only pairs slower than both caps have a shaper of their own.
    assert set(cloud.pair_bps) == {(0, 1), (1, 2)}
    assert cloud.pair_bps[1, 2] * GOODPUT_PER_WIRE == pytest.approx(0.5e9 * factor)


def test_gains_are_paired() -> None:
    times = {"auto": [1.0, 2.0], "round-robin": [2.0, 8.0], "greedy": [2.0, 2.0]}
    one = Replayed("bt", dict.fromkeys(times, 1.0), dict.fromkeys(times, 1.0), times, 0.5)
    assert one.gains("round-robin") == pytest.approx([0.5, 0.75])
    assert "62.5 ± 12.5 %" in row(one)
    assert "25.0 ± 25.0 %" in row(one)
