"""Hosts whose agents all run on one processor, as on virtual machines with one: each verb keeps its accuracy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.builders import topology
from tests.guarantee.stand import address, heard, traffic
from tests.lab.processors import pin
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import write_network
from gavotte.guarantee import apply, clear
from gavotte.measure import measure
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer.broadcasting import broadcast

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

CAPS_MBIT = {"a": 40, "b": 60, "c": 50}
INTO_C_MBIT = 70
WIRE_PER_PAYLOAD = 1514 / 1448


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts with caps, all on the first of this test's processors."""
    hosts = [{"name": name, "egress": f"{cap}mbit"} for name, cap in CAPS_MBIT.items()]
    hosts[2]["ingress"] = f"{INTO_C_MBIT}mbit"
    with lab.session(topology(hosts), source="tests") as session:
        for name in CAPS_MBIT:
            pin(session, name, min(os.sched_getaffinity(0)))
        yield session


@pytest.fixture(scope="module")
def inventory(cloud: lab.Session) -> Inventory:
    return read_inventory(cloud.hosts_file)


@pytest.mark.parametrize("method", ["train", "bulk"])
def test_paths_are_right(inventory: Inventory, method: str) -> None:
    result = measure(inventory, method=method)
    truth_bps = 1e6 * GOODPUT_PER_WIRE * np.array(list(CAPS_MBIT.values()))
    rate_bps = 8 * result.history.beta_Bps[0]
    off = ~np.eye(3, dtype=bool)
    assert (rate_bps / truth_bps[:, None])[off] == pytest.approx(1, rel=0.02)
    assert not result.gaps


def test_transfers_take_as_long_as_their_bound(cloud: lab.Session, tmp_path: Path) -> None:
    inventory = read_inventory(cloud.hosts_file)
    known = model(measure(inventory).history)
    file, matrix = tmp_path / "file", tmp_path / "bytes.csv"
    file.write_bytes(os.urandom(2_000_000))
    done = broadcast(str(file), inventory, "a", str(tmp_path / "copy-{host}"), network=known)
    assert not done.lost
    assert (tmp_path / "copy-c").read_bytes() == file.read_bytes()
    matrix.write_text("source,target,bytes\na,b,2000000\nb,c,2000000\nc,a,2000000\n")
    write_network(tmp_path / "n.network.json", known)
    words = ("--network", tmp_path / "n.network.json", "--hosts", cloud.hosts_file, "--json")
    moved = gavotte("shuffle", matrix, *words, env=cloud.environment())
    assert moved.returncode == 0, moved.stderr
    assert json.loads(moved.stdout)["ratio"] < 1.1


def test_a_guarantee_is_kept_against_a_crowd(cloud: lab.Session, inventory: Inventory) -> None:
    entries = [{"host": "a", "egress": "30mbit"}, {"host": "b", "egress": "30mbit"}, {"host": "c", "ingress": "60mbit"}]
    wanted = Guarantee.model_validate({"format": "gavotte/guarantee/1", "mode": "loss", "guarantee": entries})
    try:
        apply(wanted, inventory)
        with traffic(cloud, "c", "sink", 5002, 6, stdout=subprocess.PIPE, text=True) as sink:
            heard(sink)
            senders = [
                traffic(cloud, host, "tcp", address(cloud, "c"), 5002, 5, n) for host, n in (("a", 1), ("b", 10))
            ]
            for sender in senders:
                sender.wait()
            counted = json.loads(sink.communicate()[0])
    finally:
        assert clear(inventory)
    bins = counted["bins"][address(cloud, "a")][8:22]
    # One connection of eleven would get a tenth of the link.
    assert 8 * WIRE_PER_PAYLOAD * sum(bins) / (len(bins) * counted["bin_s"]) > 0.9 * 30e6
