"""Real packets on paths of any MTU: measured with packets that fit, and converted by their own headers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import Topology
from gavotte.measure import Measurement, measure
from gavotte.model import model
from gavotte.simulate import Flows, rates
from gavotte.terms.goodput import goodput_per_wire, topology_goodput, udp_payload_bytes, wire_bytes

pytestmark = pytest.mark.lab

WIRE_BPS = 50e6


def cloud(mtu_bytes: int, *, near: dict[str, Any] | None = None, core: dict[str, Any] | None = None) -> Topology:
    """Return x behind a switch of its own and y at the core, both with 50 Mbit/s and interfaces of one MTU.

    Args:
        mtu_bytes: of the hosts.
        near: more keys of x's switch, whose `mtu` is that of its link to the core.
        core: more keys of the core.
    """
    hosts = [
        {"name": name, "switch": switch, "egress": "50mbit", "cpus": 2, "mtu": mtu_bytes}
        for name, switch in (("x", "near"), ("y", "core"))
    ]
    return builders.topology(hosts, switches=[{"name": "core"} | (core or {}), {"name": "near"} | (near or {})])


def measured(topology: Topology, method: str = "train") -> Measurement:
    with lab.session(topology, source="tests") as session:
        result = measure(read_inventory(session.hosts_file), method=method)
    assert result.answered == 2, result.failures
    return result


@pytest.mark.parametrize("mtu_bytes", [1280, 1400, 9000, 9216])
def test_trains_are_of_packets_that_fit(mtu_bytes: int) -> None:
    result = measured(cloud(mtu_bytes))
    assert result.history.mtu().tolist() == [[0, mtu_bytes], [mtu_bytes, 0]]
    for pair in ((0, 1), (1, 0)):
        path = result.newest[pair]
        assert (path.payload_bytes, path.wire_bytes) == (udp_payload_bytes(mtu_bytes), wire_bytes(mtu_bytes))
        assert path.reading.goodput_bps == pytest.approx(WIRE_BPS * goodput_per_wire(mtu_bytes), rel=0.03)
    assert model(result.history).pair_mtu_bytes(0, 1) == mtu_bytes


@pytest.mark.parametrize("mtu_bytes", [1280, 1400, 9000])
def test_tcp_gets_what_trains_say_and_predictions_expect(mtu_bytes: int) -> None:
    topology = cloud(mtu_bytes)
    result = measured(topology, "bulk")
    flow = Flows(np.array([0]), np.array([1]), np.array([1]), np.zeros(1))
    expected_bps = rates(topology, flow, payload_share=topology_goodput(topology))[0]
    assert expected_bps == pytest.approx(WIRE_BPS * goodput_per_wire(mtu_bytes))
    assert result.history.mtu().tolist() == [[0, mtu_bytes], [mtu_bytes, 0]]
    for pair in ((0, 1), (1, 0)):
        rate_bps = result.newest[pair].reading.goodput_bps
        assert rate_bps == pytest.approx(expected_bps, rel=0.08)


@pytest.mark.parametrize("icmp", [True, False])
@pytest.mark.parametrize("mtu_bytes", [1500, 9000])
def test_a_narrow_link_is_found_with_and_without_icmp(mtu_bytes: int, icmp: bool) -> None:
    topology = cloud(mtu_bytes, near={"mtu": 1400, "icmp": icmp}, core={"icmp": icmp})
    result = measured(topology)
    assert topology_goodput(topology) == goodput_per_wire(1400)
    assert result.history.mtu().tolist() == [[0, 1400], [1400, 0]]
    for pair in ((0, 1), (1, 0)):
        rate_bps = result.newest[pair].reading.goodput_bps
        assert rate_bps == pytest.approx(WIRE_BPS * goodput_per_wire(1400), rel=0.03)


def test_the_shape_that_choreo_published_is_lowered_and_said(tmp_path: Path) -> None:
    with lab.session(cloud(1400), source="tests") as session:
        hosts = ["--hosts", str(session.hosts_file)]
        done = gavotte("measure", *hosts, "--method", "choreo", "-o", str(tmp_path / "h.npz"), "--json")
    assert done.returncode == 0, done.stderr
    assert "1372 bytes instead of 1472" in done.stderr
    document = json.loads(done.stdout)
    assert document["answered"] == 2
    assert document["mtu_bytes"] == [[None, 1400], [1400, None]]
    assert document["packets"][0] == {
        "source": "x", "target": "y", "payload_bytes": 1372, "wire_bytes": 1414, "mtu_bytes": 1400,
    }  # fmt: skip
