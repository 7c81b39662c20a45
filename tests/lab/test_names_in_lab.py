"""A lab whose hosts have names as Slurm, Windows domains, Kubernetes and people write them, on real packets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.builders import app, network, topology
from tests.shell import GAVOTTE, gavotte

from gavotte import lab
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.history import read_history
from gavotte.formats.inventory import read_inventory, write_inventory
from gavotte.guarantee import apply, clear
from gavotte.measure import measure
from gavotte.model import model
from gavotte.place import place, select_hosts
from gavotte.run import run
from gavotte.transfer.broadcasting import broadcast

pytestmark = pytest.mark.lab

CAPS_MBIT = {"Node01": 80, "x_1": 160, "web1.example.com": 120}
GOODPUT_PER_WIRE = 1448 / 1514


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    hosts = [{"name": name, "switch": "rackA", "egress": f"{cap}mbit"} for name, cap in CAPS_MBIT.items()]
    with lab.session(topology(hosts, switches=["Core_1", "rackA"])) as session:
        yield session


def test_measure_model_place_and_run(cloud: lab.Session) -> None:
    inventory = read_inventory(cloud.hosts_file)
    believed = model(measure(inventory).history)
    assert believed.names == list(CAPS_MBIT)
    for source, row in zip(CAPS_MBIT, believed.rate_bps, strict=True):
        for rate_bps in filter(None, row):
            assert rate_bps == pytest.approx(CAPS_MBIT[source] * 1e6 * GOODPUT_PER_WIRE, rel=0.05)
    work = app("sort", ("map", "reduce", 500_000), constraints={"pin": {"map": "node01"}})
    allowed = select_hosts(believed, [work], only=[("reduce", ["WEB1.example.com"])])
    placed = place(believed, [work], allowed=allowed)
    assert placed.assignment == {"map": "Node01", "reduce": "web1.example.com"}
    other_case = placed.model_copy(update={"assignment": {"map": "NODE01", "reduce": "Web1.Example.com"}})
    assert run(other_case, [work], inventory).completion_s > 0


def test_broadcast_finds_hosts_in_any_case(cloud: lab.Session, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 2000)
    inventory = read_inventory(cloud.hosts_file)
    believed = network([name.upper() for name in CAPS_MBIT], 1e8)
    copies = str(tmp_path / "copy-{host}")
    done = broadcast(str(file), inventory, "NODE01", copies, targets=["X_1", "web1.EXAMPLE.com"], network=believed)
    assert not done.lost
    for name in ("x_1", "web1.example.com"):
        assert (tmp_path / f"copy-{name}").read_bytes() == file.read_bytes()


def test_guarantees_apply_in_any_case(cloud: lab.Session) -> None:
    inventory = read_inventory(cloud.hosts_file)
    entries = [{"host": "node01", "egress": "20mbit"}, {"host": "X_1", "ingress": "20mbit"}]
    wanted = Guarantee.model_validate({"format": "gavotte/guarantee/1", "guarantee": entries})
    try:
        apply(wanted, inventory)
    finally:
        assert clear(inventory)


def test_hosts_know_their_own_and_each_others_names(cloud: lab.Session) -> None:
    named = cloud.run("web1.example.com", ["hostname"], capture_output=True, text=True)
    assert named.stdout == "web1.example.com\n"
    result = cloud.run("x_1", ["getent", "hosts", "node01"], capture_output=True, text=True)
    address = next(host.address for host in read_inventory(cloud.hosts_file).host if host.name == "Node01")
    assert result.stdout.split()[0] == address
    assert cloud.run("NODE01", ["hostname"], capture_output=True, text=True).stdout == "Node01\n"


def test_the_commands_find_hosts_in_any_case(cloud: lab.Session, tmp_path: Path) -> None:
    logs = gavotte("hosts", "logs", "--hosts", cloud.hosts_file, "node01", env=cloud.environment())
    assert logs.returncode == 0, logs.stderr
    matrix = tmp_path / "bytes.csv"
    matrix.write_text("source,target,bytes\nnode01,X_1,100000\n")
    moved = gavotte("shuffle", matrix, "--hosts", cloud.hosts_file, env=cloud.environment())
    assert moved.returncode == 0, moved.stderr


def test_dns_names_as_addresses_are_looked_up_and_reported(cloud: lab.Session, tmp_path: Path) -> None:
    read = read_inventory(cloud.hosts_file)
    address = {host.name: host.address for host in read.host}
    named = [host.model_copy(update={"address": host.name}) for host in read.host]
    file = tmp_path / "named.hosts.toml"
    write_inventory(file, read.model_copy(update={"host": named}))
    check = [str(GAVOTTE), "hosts", "check", "--hosts", str(file), "--json"]
    done = cloud.run("x_1", check, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {host["name"]: host["address"] for host in document["hosts"]} == address
    assert all(host["address_name"] == host["name"] for host in document["hosts"])
    assert len(document["paths"]) == 6
    assert all((path["tcp"], path["udp"]) == ("ok", "ok") for path in document["paths"])
    assert f"web1.example.com is {address['web1.example.com']}" in done.stderr

    # A host whose name does not resolve costs its own paths alone.
    named[0] = named[0].model_copy(update={"address": "nowhere.invalid"})
    write_inventory(file, read.model_copy(update={"host": named}))
    history = str(tmp_path / "h.npz")
    line = [str(GAVOTTE), "measure", "--hosts", str(file), "-o", history, "--json"]
    done = cloud.run("x_1", line, capture_output=True, text=True, timeout=100)
    assert np.isfinite(read_history(history).beta_Bps).sum() == 2
    reason = json.loads(done.stdout)["missing"]["Node01"]
    assert reason.startswith("its address `nowhere.invalid` does not resolve here (")
