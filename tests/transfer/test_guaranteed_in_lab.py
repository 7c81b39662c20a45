"""Transfers next to bandwidth guarantees, whose limits follow demand: nothing is probed, paced or called a bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MBIT
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.guarantee import FORMAT, Guarantee
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import write_network
from gavotte.guarantee import apply, clear
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import Broadcast, guaranteed_hosts

pytestmark = pytest.mark.lab

RATE = 60 * MBIT
NOTE = "bandwidth guarantees limit what a, b may send"
MATRIX = "source,target,bytes\na,b,1500000\na,c,500000\nb,c,500000\nc,a,500000\n"


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    hosts = [{"name": name, "egress": "60mbit", "ingress": "60mbit"} for name in "abc"]
    with lab.session(builders.topology(hosts), source="tests") as session:
        yield session


@pytest.fixture
def inventory(cloud: lab.Session) -> Iterator[Inventory]:
    """All hosts may receive 20 Mbit/s at least, and a and b send as much."""
    hosts = read_inventory(cloud.hosts_file)
    entries = [{"host": host, "ingress": "20mbit"} | ({"egress": "20mbit"} if host in "ab" else {}) for host in "abc"]
    apply(Guarantee.model_validate({"format": FORMAT, "guarantee": entries}), hosts)
    yield hosts
    clear(hosts)


def test_a_shuffle_is_not_paced_to_limits_that_grow(cloud: lab.Session, inventory: Inventory, tmp_path: Path) -> None:
    matrix, network = tmp_path / "bytes.csv", tmp_path / "n.network.json"
    matrix.write_text(MATRIX)
    write_network(network, builders.network("abc", egress_bps=RATE * GOODPUT_PER_WIRE))
    assert guaranteed_hosts(inventory, ["c", "b"]) == ["b"]
    line: list[str | Path] = ["shuffle", matrix, "--hosts", cloud.hosts_file, "--json"]
    done = gavotte(*line)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert NOTE in done.stderr
    assert "lower bound" not in done.stderr
    assert {key: report[key] for key in ("mode", "bound_s", "estimate_s", "bottleneck", "ratio")} == {
        "mode": "standard",
        "bound_s": None,
        "estimate_s": None,
        "bottleneck": None,
        "ratio": None,
    }
    assert [flow["bytes"] for flow in report["flows"]] == [1_500_000, 500_000, 500_000, 500_000]
    done = gavotte(*line, "--network", network)
    report = json.loads(done.stdout)
    assert (report["mode"], report["bottleneck"]) == ("paced", "egress of a")
    assert report["bound_s"] == pytest.approx(16e6 / (RATE * GOODPUT_PER_WIRE))
    assert NOTE not in done.stderr
    clear(inventory)
    done = gavotte(*line[:-1])
    assert NOTE not in done.stderr
    assert "times the estimate of" in done.stderr
    assert "lower bound" not in done.stderr


def test_a_broadcast_probes_no_limit_that_grows(cloud: lab.Session, inventory: Inventory, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 4000)
    line: list[str | Path] = [
        "broadcast",
        file,
        "--from",
        "a",
        "-o",
        tmp_path / "copy-{host}",
        "--hosts",
        cloud.hosts_file,
    ]
    done = gavotte(*line)
    assert done.returncode == 0, done.stderr
    assert NOTE in done.stderr
    assert "no prediction without a Network" in done.stderr
    assert "lower bound" not in done.stderr
    assert all((tmp_path / f"copy-{host}").read_bytes() == file.read_bytes() for host in "bc")
    del inventory


def test_a_program_probes_when_guarantees_have_ended(inventory: Inventory, tmp_path: Path) -> None:
    sending = Broadcast(inventory, "a", folder=str(tmp_path))
    result = sending.send(b"content" * 9999)
    assert sending.network is None
    assert (result.lost, result.plan.predicted_s, result.plan.estimate_s) == ({}, None, None)
    assert any(NOTE in line for line in result.warnings)
    clear(inventory)
    later = sending.send(b"content" * 9999)
    assert sending.network is not None
    assert later.plan.estimate_s is not None
    assert not any(NOTE in line for line in later.warnings)
