"""The controller of transfers on real connections: order, cancellation, and a queue that outlives it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.builders import MBIT
from tests.shell import GAVOTTE, gavotte, until

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.byte_matrix import HostBytes
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import write_network
from gavotte.formats.transfer import MemoryQueue
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import Client, Controller

RATE = 40 * MBIT
CLOUD = builders.topology([{"name": name, "egress": "40mbit"} for name in "abc"])
TRUTH = builders.network([{"name": name, "egress_bps": RATE * GOODPUT_PER_WIRE} for name in "abc"])


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts that send 40 Mbit/s each."""
    with lab.session(CLOUD, source="tests") as session:
        yield session


@contextmanager
def running(controller: Controller) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=controller.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.lab
def test_first_come_first_served(cloud: lab.Session) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "fifo")
    flows = [HostBytes("a", "b", 4_000_000), HostBytes("a", "c", 2_000_000)]
    with running(controller):
        first = controller.submit(flows, name="first")
        second = controller.submit(flows, name="second")
        done = controller.wait(first.id, 60.0)
        assert (done.state, done.error, done.moved) == ("done", "", (4_000_000, 2_000_000))
        # What the second had in the kernel before it was told to wait is all that it may have moved.
        assert controller.get(second.id).moved_bytes < 2_000_000
        assert controller.wait(second.id, 60.0).state == "done"
    one, two = controller.list()
    assert (one.finished_s or 0) < (two.finished_s or 0)


@pytest.mark.lab
def test_the_high_class_goes_first_and_a_cancelled_one_ends(cloud: lab.Session) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "priority")
    with running(controller):
        low = controller.submit([HostBytes("a", "b", 400_000_000)], priority_class=1)
        high = controller.submit([HostBytes("a", "c", 2_000_000)], priority_class=0)
        assert controller.wait(high.id, 60.0).state == "done"
        assert not controller.get(low.id).over
        assert controller.cancel(low.id).state == "cancelled"
        assert controller.cancel(low.id).state == "cancelled"
        waiting = controller.submit([HostBytes("b", "c", 1)])
        assert controller.wait(waiting.id, 60.0).state == "done"
    with pytest.raises(GavotteError, match="there is no transfer 9"):
        controller.cancel(9)


def test_what_makes_no_sense_is_refused() -> None:
    inventory = builders.inventory("abc")
    controller = Controller(inventory, TRUTH, MemoryQueue())
    for flows, options, told in (
        ([], {}, "without flows"),
        ([HostBytes("a", "q", 1)], {}, "`q` is not a host"),
        ([HostBytes("a", "b", 1)], {"weight": 0.0}, "weight"),
        ([HostBytes("a", "b", 1)], {"priority_class": -1}, "class"),
    ):
        with pytest.raises(GavotteError, match=told):
            controller.submit(flows, **options)
    with pytest.raises(GavotteError, match="no policy `best`"):
        Controller(inventory, TRUTH, MemoryQueue(), "best")
    assert controller.list() == []


@pytest.mark.lab
def test_a_killed_controller_loses_nothing(cloud: lab.Session, tmp_path: Path) -> None:
    network, matrix, socket = tmp_path / "n.network.json", tmp_path / "sort.csv", tmp_path / "t.sock"
    write_network(network, TRUTH)
    matrix.write_text("source,target,bytes\na,b,24000000\nb,c,12000000\n")
    at = ("--socket", socket)
    serve: list[str | Path] = [GAVOTTE, "transfers", "serve", "--hosts", cloud.hosts_file, "--network", network, *at]
    serve += ["--store", tmp_path / "queue.sqlite3", "--policy", "sebf"]

    def listed() -> list[dict[str, Any]]:
        with Client(socket) as client:
            return client.list()[1]

    def there() -> bool:
        with suppress(GavotteError):
            listed()
            return True
        return False

    refused = gavotte("transfers", "list", *at)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no controller of transfers listens at" in refused.stderr
    first = subprocess.Popen(serve, stderr=subprocess.DEVNULL)
    try:
        until(there)
        assert gavotte("transfers", "submit", matrix, *at, "--class", "2").stdout == "1\n"
        assert json.loads(gavotte("transfers", "submit", matrix, *at, "--json").stdout)["id"] == 2
        with Client(socket) as client:
            assert client.cancel(2)["state"] == "cancelled"
        assert gavotte("transfers", "cancel", "2", *at).returncode == 0
        until(lambda: listed()[0]["moved_bytes"] > 4_000_000)
    finally:
        first.kill()
        first.wait()
    second = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
    try:
        until(there)
        waited = gavotte("transfers", "wait", "1", *at, "--timeout", "60", "--json")
        assert waited.returncode == 0, waited.stderr
        entry = json.loads(waited.stdout)
        assert (entry["state"], entry["moved_bytes"], entry["class"]) == ("done", 36_000_000, 2)
        told = json.loads(gavotte("transfers", "list", *at, "--json").stdout)
        assert (told["policy"], [each["state"] for each in told["transfers"]]) == ("sebf", ["done", "cancelled"])
        assert gavotte("transfers", "wait", "2", *at).returncode == 1
        assert gavotte("transfers", "wait", "9", *at).returncode == 1
        # A second controller at one socket is refused, and leaves the first alone.
        assert subprocess.run(serve, capture_output=True, check=False).returncode == 1
    finally:
        second.send_signal(signal.SIGTERM)
        said = second.communicate(timeout=30)[1]
    assert second.returncode == 0, said
    assert "stopped" in said
    assert not socket.exists()
