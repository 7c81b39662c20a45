"""Hosts that reach each other at link-local addresses alone: a zone is the interface of the host that connects."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import topology
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import Host, Inventory, read_inventory, write_inventory
from gavotte.guarantee import apply, clear
from gavotte.hosts import check
from gavotte.measure import measure
from gavotte.transfer.broadcasting import broadcast

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

RATE_BPS = 40e6
SHAPE = """
tc qdisc add dev eth0 root handle 1: htb default 1 &&
tc class add dev eth0 parent 1: classid 1:1 htb rate 40mbit ceil 40mbit burst 20k cburst 20k &&
tc qdisc add dev eth0 parent 1:1 bfifo limit 250000
"""
GOODPUT_PER_WIRE = (1500 - 72) / 1514


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts of one machine, whose bridge carries packets between link-local addresses."""
    machine = [{"name": "m", "switch": "core"}]
    hosts = [{"name": name, "machine": "m"} for name in "abc"]
    with lab.session(topology(hosts, machine=machine, addresses="dual")) as session:
        yield session


def link_local(cloud: lab.Session, host: str) -> str:
    lines = cloud.run(host, ["cat", "/proc/net/if_inet6"], capture_output=True, text=True).stdout.splitlines()
    own = next(line.split()[0] for line in lines if line.startswith("fe80") and line.endswith("eth0"))
    return str(ipaddress.IPv6Address(int(own, 16)))


@pytest.fixture(scope="module")
def inventory(cloud: lab.Session) -> Inventory:
    known = read_inventory(cloud.hosts_file)
    hosts = [at(host, f"{link_local(cloud, host.name)}%eth0") for host in known.host]
    return known.model_copy(update={"host": hosts})


def at(host: Host, address: str) -> Host:
    return Host.model_validate(host.model_dump(exclude_unset=True) | {"address": address})


def test_both_protocols_reach_each_host(inventory: Inventory) -> None:
    state = check(inventory)
    assert len(state.paths) == 6
    assert {(path.tcp, path.udp) for path in state.paths} == {("ok", "ok")}


@pytest.mark.parametrize(
    ("method", "tolerance"),
    # Choreo's estimator counts the bucket and every pause of a busy machine: it read a seventh of the rate there.
    [("train", 0.08), ("choreo", 0.95), ("bulk", 0.08)],
)
def test_measure(cloud: lab.Session, inventory: Inventory, method: str, tolerance: float) -> None:
    for name in "abc":
        shaped = cloud.run(name, ["sh", "-c", SHAPE], capture_output=True, text=True)
        assert shaped.returncode == 0, shaped.stderr
    try:
        result = measure(inventory, method=method)
    finally:
        for name in "abc":
            cloud.run(name, ["tc", "qdisc", "del", "dev", "eth0", "root"])
    assert result.answered == 6, result.failures
    assert result.history.over_ipv6().all()
    for path in result.newest.values():
        assert path.reading.goodput_bps == pytest.approx(RATE_BPS * GOODPUT_PER_WIRE, rel=tolerance)


def test_broadcast_and_shuffle(cloud: lab.Session, inventory: Inventory, tmp_path: Path) -> None:
    file, hosts, matrix = tmp_path / "file", tmp_path / "link.hosts.toml", tmp_path / "bytes.csv"
    file.write_bytes(bytes(range(256)) * 2000)
    done = broadcast(str(file), inventory, "a", str(tmp_path / "copy-{host}"))
    assert not done.lost
    for name in "bc":
        assert (tmp_path / f"copy-{name}").read_bytes() == file.read_bytes()
    write_inventory(hosts, inventory)
    matrix.write_text("source,target,bytes\na,b,100000\nb,c,100000\n")
    moved = gavotte("shuffle", matrix, "--hosts", hosts, "--mode", "standard", env=cloud.environment())
    assert moved.returncode == 0, moved.stderr


def test_guarantee(inventory: Inventory) -> None:
    entries = [{"host": "a", "egress": "20mbit"}, {"host": "b", "ingress": "20mbit"}]
    wanted = Guarantee.model_validate({"format": "gavotte/guarantee/1", "guarantee": entries})
    try:
        apply(wanted, inventory)
    finally:
        assert clear(inventory)


def test_a_host_without_that_interface_says_so(inventory: Inventory) -> None:
    away = inventory.host[2].address.replace("%eth0", "%eth7")
    hosts = [*inventory.host[:2], at(inventory.host[2], away)]
    result = measure(inventory.model_copy(update={"host": hosts}), method="choreo")
    assert result.answered == 4
    assert {(each.source, each.target) for each in result.failures} == {("a", "c"), ("b", "c")}
