"""Real packets: the slow one of several hosts is found, and its direction with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.inventory import read_inventory, write_inventory
from gavotte.formats.topology import Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab

NETWORK = {
    "format": "gavotte/network/1",
    "hosts": [{"name": f"vm{i}"} for i in range(12)],
    "groups": [{"name": f"rack-{rack}", "members": [f"vm{4 * rack + i}" for i in range(4)]} for rack in range(3)],
}


def cloud(**faults: dict[str, str]) -> Topology:
    """Return eight hosts of 60 Mbit/s, of which some have other limits."""
    hosts = [{"name": f"vm{i}", "switch": "core", "egress": "60mbit"} | faults.get(f"vm{i}", {}) for i in range(8)]
    return builders.topology(hosts, switches=["core"])


def test_a_slow_sender_and_a_slow_receiver_are_found(tmp_path: Path) -> None:
    topology = cloud(vm2={"egress": "42mbit"}, vm5={"ingress": "45mbit"})
    with lab.session(topology, source="tests") as session:
        inventory = read_inventory(session.hosts_file)
        gone = inventory.host[7].model_copy(update={"agent": "unix:/nonexistent.sock"})
        hosts = inventory.model_copy(update={"host": [*inventory.host[:7], gone]})
        write_inventory(tmp_path / "my.hosts.toml", hosts)
        did = gavotte("hosts", "slow", "--hosts", tmp_path / "my.hosts.toml", "--seed", "4", "--json", cwd=tmp_path)
        words = ("hosts", "slow", "--hosts", session.hosts_file, "--dry-run", "--assumed-rate", "58mbit", "--json")
        estimate = gavotte(*words, cwd=tmp_path)
    assert did.returncode == 1, did.stderr
    result = json.loads(did.stdout)
    below = {(end["name"], end["direction"]): end for end in result["hosts"] if end["verdict"] == "below"}
    assert set(below) == {("vm2", "sends"), ("vm5", "receives")}
    assert below["vm2", "sends"]["low"] < 0.7 < below["vm2", "sends"]["high"] + 0.03
    assert below["vm2", "sends"]["rate_bps"] == pytest.approx(42e6 * GOODPUT_PER_WIRE, rel=0.05)
    assert below["vm5", "receives"]["rate_bps"] == pytest.approx(45e6 * GOODPUT_PER_WIRE, rel=0.05)
    assert (result["slow"], result["silent"], list(result["missing"])) == (["vm2", "vm5"], ["vm7"], ["vm7"])
    assert result["seed"] == 4
    assert "--network names the racks" in result["not_seen"]
    plan = json.loads(estimate.stdout)
    assert estimate.returncode == 0
    assert plan["hosts"] == 8
    assert 0.2 * plan["bytes"] < result["bytes_sent"] < plan["max_bytes"]


def test_equal_hosts_are_fine(tmp_path: Path) -> None:
    with lab.session(cloud(), source="tests") as session:
        did = gavotte("hosts", "slow", "--hosts", session.hosts_file, cwd=tmp_path)
    assert did.returncode == 0, did.stdout + did.stderr
    assert did.stdout == "finding: no host is 10 % below the median of the others\n\n"
    assert "16 directions without a fault are left out" in did.stderr
    assert "not seen: a single slow pair: " in did.stderr


def test_a_slow_uplink_is_found(tmp_path: Path) -> None:
    hosts = [{"name": f"vm{i}", "switch": f"tor{i // 4}", "egress": "60mbit"} for i in range(12)]
    racks = [{"name": "tor0", "up": "160mbit"}, {"name": "tor1", "up": "100mbit", "down": "160mbit"}]
    topology = builders.topology(hosts, switches=["core", *racks, {"name": "tor2", "up": "160mbit"}])
    (tmp_path / "n.network.json").write_text(json.dumps(NETWORK))
    with lab.session(topology, source="tests") as session:
        words = ("hosts", "slow", "--hosts", session.hosts_file, "--network", "n.network.json", "--json")
        did = gavotte(*words, "--below", "20", cwd=tmp_path)
    result = json.loads(did.stdout)
    assert did.returncode == 1, did.stderr
    assert result["slow_uplinks"] == ["rack-1"]
    assert {(end["name"], end["direction"]) for end in result["uplinks"] if end["verdict"] == "below"} == {
        ("rack-1", "sends")
    }
