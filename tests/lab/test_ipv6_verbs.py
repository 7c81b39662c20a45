"""Hosts that have IPv6 addresses alone: each verb that moves bytes works between them, on real packets."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import app, topology
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.guarantee import apply, clear
from gavotte.measure import measure
from gavotte.model import model
from gavotte.place import place
from gavotte.run import run
from gavotte.transfer.broadcasting import broadcast

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

CAPS_MBIT = {"a": 80, "b": 160, "c": 120}
GOODPUT_PER_WIRE = (1500 - 72) / 1514


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts at one switch. They have no IPv4 address."""
    hosts = [{"name": name, "egress": f"{cap}mbit"} for name, cap in CAPS_MBIT.items()]
    with lab.session(topology(hosts, addresses="ipv6")) as session:
        yield session


@pytest.fixture(scope="module")
def inventory(cloud: lab.Session) -> Inventory:
    result = read_inventory(cloud.hosts_file)
    assert {ipaddress.ip_address(host.address).version for host in result.host} == {6}
    return result


def test_measure_model_place_and_run(inventory: Inventory) -> None:
    believed = model(measure(inventory).history)
    for source, row in zip(CAPS_MBIT, believed.rate_bps, strict=True):
        for rate_bps in filter(None, row):
            assert rate_bps == pytest.approx(CAPS_MBIT[source] * 1e6 * GOODPUT_PER_WIRE, rel=0.05)
    work = app("sort", ("map", "reduce", 500_000), constraints={"apart": [["map", "reduce"]]})
    placed = place(believed, [work])
    assert placed.assignment["map"] == "b"
    assert run(placed, [work], inventory).completion_s > 0


def test_broadcast(inventory: Inventory, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 2000)
    done = broadcast(str(file), inventory, "a", str(tmp_path / "copy-{host}"))
    assert not done.lost
    for name in "bc":
        assert (tmp_path / f"copy-{name}").read_bytes() == file.read_bytes()


def test_shuffle(cloud: lab.Session, tmp_path: Path) -> None:
    matrix = tmp_path / "bytes.csv"
    matrix.write_text("source,target,bytes\na,b,100000\nb,c,100000\n")
    moved = gavotte("shuffle", matrix, "--hosts", cloud.hosts_file, env=cloud.environment())
    assert moved.returncode == 0, moved.stderr


def test_guarantee(inventory: Inventory) -> None:
    entries = [{"host": "a", "egress": "20mbit"}, {"host": "b", "ingress": "20mbit"}]
    wanted = Guarantee.model_validate({"format": "gavotte/guarantee/1", "guarantee": entries})
    try:
        apply(wanted, inventory)
    finally:
        assert clear(inventory)
