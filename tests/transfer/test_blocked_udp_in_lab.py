"""Shuffles and transfers between hosts whose firewalls let no UDP in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MBIT
from tests.hosts import firewalls
from tests.hosts.firewalls import NO_UDP_IN, walled
from tests.running import running
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import MemoryQueue
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import Controller

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(firewalls.lacking()), reason=firewalls.lacking()),
]

RATE = 40 * MBIT
TRUTH = builders.network([{"name": name, "egress_bps": RATE * GOODPUT_PER_WIRE} for name in "abc"])


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts that send 40 Mbit/s each and receive no UDP."""
    with (
        lab.session(builders.topology([{"name": name, "egress": "40mbit"} for name in "abc"]), source="tests") as made,
        ExitStack() as walls,
    ):
        for host in "abc":
            walls.enter_context(walled(made, host, NO_UDP_IN))
        yield made


def test_a_shuffle_is_measured_for_and_carried(cloud: lab.Session, tmp_path: Path) -> None:
    history, network, matrix = tmp_path / "h.npz", tmp_path / "n.network.json", tmp_path / "bytes.csv"
    matrix.write_text("source,target,bytes\na,b,2000000\na,c,2000000\nb,c,1000000\n")
    done = gavotte("measure", "--hosts", cloud.hosts_file, "-o", history)
    assert done.returncode == 0, done.stderr
    assert gavotte("model", history, "-o", network).returncode == 0
    done = gavotte("shuffle", matrix, "--hosts", cloud.hosts_file, "--network", network, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [flow["bytes"] for flow in report["flows"]] == [2_000_000, 2_000_000, 1_000_000]
    assert report["bottleneck"] == "egress of a"
    assert report["bound_s"] == pytest.approx(8 * 4e6 / (RATE * GOODPUT_PER_WIRE), rel=0.04)
    assert report["ratio"] > 0.9


def test_transfers_wait_for_each_other(cloud: lab.Session) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "fifo")
    flows = [HostBytes("a", "b", 2_000_000), HostBytes("a", "c", 1_000_000)]
    with running(controller):
        first = controller.submit(flows, name="first")
        second = controller.submit(flows, name="second")
        done = controller.wait(first.id, 60.0)
        assert (done.state, done.error, done.moved) == ("done", "", (2_000_000, 1_000_000))
        assert controller.wait(second.id, 60.0).state == "done"
    one, two = controller.list()
    assert (one.finished_s or 0) < (two.finished_s or 0)
