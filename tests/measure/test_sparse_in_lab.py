"""`measure --scale structure` with real packets: few pairs of hosts in racks show the rates of all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.network import read_network
from gavotte.tables import matrix
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab

RACKS = (7, 6, 5)
RATES_MBIT = (16, 12, 16)
UP_MBIT = 20

CLOUD = builders.topology(
    [
        {"name": f"r{rack}h{k}", "switch": f"tor{rack}", "egress": f"{RATES_MBIT[k % len(RATES_MBIT)]}mbit"}
        for rack, size in enumerate(RACKS)
        for k in range(size)
    ],
    switches=[
        "core",
        *({"name": f"tor{rack}", "parent": "core", "up": f"{UP_MBIT}mbit"} for rack in range(len(RACKS))),
    ],
)


def test_few_pairs_show_the_rates_of_all(tmp_path: Path) -> None:
    with lab.session(CLOUD, source="few pairs") as session:
        hosts = ("--hosts", session.hosts_file)
        done = gavotte("measure", *hosts, "--scale", "structure", "-o", tmp_path / "h.npz", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    size = sum(RACKS)
    assert document["answered"] == document["paths"] < 0.9 * size * (size - 1)
    check = document["held_out"]
    assert check["pairs"] > size
    assert check["off"] <= 1
    assert check["most_share"] < 0.2
    done = gavotte("model", tmp_path / "h.npz", "-o", tmp_path / "n.network.json")
    assert done.returncode == 0, done.stderr
    network = read_network(tmp_path / "n.network.json")
    assert sorted(len(group.members) for group in network.groups) == sorted(RACKS)
    for group in network.groups:
        assert group.up_bps == pytest.approx(UP_MBIT * 1e6 * GOODPUT_PER_WIRE, rel=0.05)
        assert group.down_bps == pytest.approx(UP_MBIT * 1e6 * GOODPUT_PER_WIRE, rel=0.05)
    egress_bps = np.array([host.egress or 0.0 for host in CLOUD.host]) * GOODPUT_PER_WIRE
    errors = matrix(network.rate_bps) / egress_bps[:, None] - 1
    assert np.nanquantile(np.abs(errors), 0.95) < 0.05
