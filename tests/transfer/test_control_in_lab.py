"""The controller of transfers on real connections: order, cancellation, and a queue that outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.builders import MBIT
from tests.running import running
from tests.shell import GAVOTTE, gavotte, until

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import write_network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copies, MemoryQueue
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import Client, Controller, serving
from gavotte.transfer.admission import ON_HOST

RATE = 40 * MBIT
CLOUD = builders.topology([{"name": name, "egress": "40mbit"} for name in "abc"])
TRUTH = builders.network([{"name": name, "egress_bps": RATE * GOODPUT_PER_WIRE} for name in "abc"])


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts that send 40 Mbit/s each."""
    with lab.session(CLOUD, source="tests") as session:
        yield session


def served(cloud: lab.Session, folder: Path) -> list[str | Path]:
    """The line that starts a controller, with its queue, socket and Network in a folder."""
    network = folder / "n.network.json"
    write_network(network, TRUTH)
    line: list[str | Path] = [GAVOTTE, "transfers", "serve", "--hosts", cloud.hosts_file, "--network", network]
    return [*line, "--socket", folder / "t.sock", "--store", folder / "queue.sqlite3"]


def listed(socket: Path) -> list[dict[str, Any]]:
    with Client(socket) as client:
        return client.list()[1]


def there(socket: Path) -> bool:
    with suppress(GavotteError):
        listed(socket)
        return True
    return False


@pytest.mark.lab
def test_first_come_first_served(cloud: lab.Session) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "fifo")
    flows = [HostBytes("a", "b", 4_000_000), HostBytes("a", "c", 2_000_000)]
    with running(controller):
        first = controller.submit(flows, name="first")
        second = controller.submit(flows, name="second")
        done = controller.wait(first.id, 60.0)
        assert (done.state, done.error, done.moved) == ("done", "", (4_000_000, 2_000_000))
        # The second may only have moved the bytes that the kernel held before it had to wait.
        assert controller.get(second.id).moved_bytes < 2_000_000
        assert controller.wait(second.id, 60.0).state == "done"
    one, two = controller.list()
    assert (one.finished_s or 0) < (two.finished_s or 0)


@pytest.mark.lab
def test_a_promised_deadline_is_kept_next_to_a_transfer_that_came_first(cloud: lab.Session) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "fifo")
    with running(controller):
        first = controller.submit([HostBytes("a", "b", 24_000_000)], name="first")
        due = controller.submit([HostBytes("a", "b", 6_000_000)], name="due", deadline_s=4.5)
        assert due.guaranteed
        with pytest.raises(GavotteError, match="the deadline cannot be promised"):
            controller.submit([HostBytes("a", "c", 12_000_000)], deadline_s=4.5)
        assert controller.wait(due.id, 60.0).state == "done"
        # By arrival it would end after the first.
        assert controller.get(first.id).state == "running"
        assert controller.wait(first.id, 60.0).state == "done"


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


@pytest.mark.lab
def test_many_of_a_low_class_keep_a_higher_one_waiting_nowhere(cloud: lab.Session) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "priority")
    with running(controller):
        # On a busy machine, the first of them must not end meanwhile.
        low = [controller.submit([HostBytes("a", "b", 500_000_000)], priority_class=1) for _ in range(ON_HOST + 4)]
        # Within a class the first has the whole link, so that the others need not have moved a byte.
        until(lambda: any(controller.get(each.id).moved_bytes > 0 for each in low))
        until(lambda: [controller.get(each.id).state for each in low].count("running") == ON_HOST)
        # Neither between other hosts, nor on a host where as many run as may.
        for source, target in ("ca", "ab"):
            high = controller.submit([HostBytes(source, target, 100_000)], priority_class=0)
            assert controller.wait(high.id, 60.0).state == "done"
            assert not any(controller.get(each.id).over for each in low)
        for each in low:
            controller.cancel(each.id)
    assert {controller.get(each.id).state for each in low} == {"cancelled"}


@pytest.mark.lab
def test_a_suspended_transfer_goes_on_with_what_is_left(cloud: lab.Session, tmp_path: Path) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "priority")
    (tmp_path / "object").write_bytes(os.urandom(4_000_000))
    copies = Copies(str(tmp_path / "object"), "a", str(tmp_path / "copy-{host}"), "chain")
    with running(controller):
        shuffle = controller.submit([HostBytes("b", "c", 6_000_000)], priority_class=2)
        broadcast = controller.submit([HostBytes("a", "c", 0)], copies=copies, priority_class=2)
        both = (shuffle.id, broadcast.id)
        until(lambda: all(controller.get(number).moved_bytes > 500_000 for number in both))
        # As many others as run on host c, which moves no byte for them.
        others = [controller.submit([HostBytes("c", "c", 3_000_000_000)], priority_class=1) for _ in range(ON_HOST)]
        until(lambda: all(controller.get(number).state == "queued" for number in both))
        kept = [controller.get(number).moved_bytes for number in both]
        for each in others:
            controller.cancel(each.id)
        done = [controller.wait(number, 60.0) for number in both]
    assert [(each.state, each.error) for each in done] == [("done", "")] * 2
    assert min(kept) > 500_000
    assert [each.moved_bytes for each in done] == [6_000_000, 4_000_000]
    assert (tmp_path / "copy-c").read_bytes() == (tmp_path / "object").read_bytes()


@pytest.mark.lab
def test_a_controller_that_is_interrupted_ends_at_once_and_the_next_goes_on(cloud: lab.Session, tmp_path: Path) -> None:
    socket = tmp_path / "t.sock"
    first = subprocess.Popen(served(cloud, tmp_path), stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: there(socket))
        with Client(socket) as client:
            client.submit([HostBytes("a", "b", 15_000_000)])
        until(lambda: listed(socket)[0]["moved_bytes"] > 1_000_000)
        # A command that waits for a transfer keeps no controller alive, and ends with the reason.
        waiting = subprocess.Popen(
            [GAVOTTE, "transfers", "wait", "1", "--socket", socket], stderr=subprocess.PIPE, text=True
        )
        until(lambda: Path(f"/proc/{waiting.pid}").exists())
        first.send_signal(signal.SIGINT)
        assert "stopped" in first.communicate(timeout=15)[1]
        assert "no controller of transfers listens" in waiting.communicate(timeout=30)[1]
    finally:
        first.kill()
        first.wait()
    second = subprocess.Popen(served(cloud, tmp_path), stderr=subprocess.DEVNULL)
    try:
        until(lambda: there(socket))
        assert listed(socket)[0]["moved_bytes"] > 1_000_000
        with Client(socket) as client:
            assert client.wait(1, 60.0)["state"] == "done"
    finally:
        second.send_signal(signal.SIGTERM)
        second.wait(30)


@pytest.mark.lab
def test_a_broadcast_waits_for_a_shuffle_that_came_first(cloud: lab.Session, tmp_path: Path) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "fifo")
    content = os.urandom(3_000_000)
    (tmp_path / "object").write_bytes(content)
    copies = Copies(str(tmp_path / "object"), "a", str(tmp_path / "copy-{host}"), "chain")
    with running(controller):
        first = controller.submit([HostBytes("a", "b", 16_000_000)], name="first")
        until(lambda: controller.get(first.id).moved_bytes > 0)
        second = controller.submit([HostBytes("a", "b", 0), HostBytes("a", "c", 0)], copies=copies)
        # Alone, or at the same time as the first, it would have ended long before.
        assert controller.wait(first.id, 60.0).state == "done"
        assert not controller.get(second.id).over
        done = controller.wait(second.id, 60.0)
    assert (done.state, done.error, done.moved, done.bytes) == ("done", "", (3_000_000, 3_000_000), 6_000_000)
    assert {(tmp_path / f"copy-{host}").read_bytes() == content for host in "bc"} == {True}


@pytest.mark.lab
@pytest.mark.parametrize("mechanism", ["tree", "mesh", "packing"])
def test_broadcasts_of_one_queue_share_and_can_be_cancelled(cloud: lab.Session, tmp_path: Path, mechanism: str) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue(), "fair")
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(os.urandom(1_500_000))
    large.write_bytes(os.urandom(200_000_000))
    flows = [HostBytes("a", "b", 0), HostBytes("a", "c", 0)]
    with running(controller):
        asked = [Copies(str(path), "a", f"{path}-{{host}}", mechanism) for path in (large, small)]
        one, two = [controller.submit(flows, copies=copies) for copies in asked]
        assert controller.wait(two.id, 60.0).state == "done"
        assert not controller.get(one.id).over
        assert controller.cancel(one.id).state == "cancelled"
    assert (tmp_path / "small-c").read_bytes() == small.read_bytes()
    assert not (tmp_path / "large-b").exists()


@pytest.mark.lab
def test_a_broadcast_that_fails_says_who_has_it_not(cloud: lab.Session, tmp_path: Path) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), TRUTH, MemoryQueue())
    (tmp_path / "object").write_bytes(b"1" * 100_000)
    (tmp_path / "copy-b").mkdir()
    copies = Copies(str(tmp_path / "object"), "a", str(tmp_path / "copy-{host}"))
    nothing = Copies(str(tmp_path / "nothing"), "a", str(tmp_path / "copy-{host}"))
    flows = [HostBytes("a", "b", 0), HostBytes("a", "c", 0)]
    with running(controller):
        done = controller.wait(controller.submit(flows, copies=copies).id, 60.0)
        assert done.state == "failed"
        assert "1 of 2 receivers did not get the file: b: " in done.error
        assert (tmp_path / "copy-c").read_bytes() == b"1" * 100_000
        gone = controller.wait(controller.submit(flows, copies=nothing).id, 60.0)
        assert gone.state == "failed"
        assert "nothing" in gone.error


def test_broadcasts_that_make_no_sense_are_refused() -> None:
    controller = Controller(builders.inventory("abc"), TRUTH, MemoryQueue())
    to_b = [HostBytes("a", "b", 0)]
    for copies, flows, message in (
        (Copies("/x", "a", "/y-{host}", "cornet"), to_b, "cannot pace a broadcast by `cornet`"),
        (Copies("/x", "a", "/y-{host}", "magic"), to_b, "cannot pace"),
        (Copies("x", "a", "/y-{host}"), to_b, "not an absolute path"),
        (Copies("/x", "a", "y-{host}"), to_b, "not the absolute path of a file"),
        (Copies("/x", "a", "/y"), [], "without flows"),
        (Copies("/x", "b", "/y"), to_b, "one source"),
        (Copies("/x", "a", "/y"), to_b * 2, "named twice"),
    ):
        with pytest.raises(GavotteError, match=message):
            controller.submit(flows, copies=copies)
    assert controller.list() == []


def test_who_cannot_join_is_told_why() -> None:
    controller = Controller(builders.inventory("abcd"), TRUTH, MemoryQueue())
    model = controller.submit([HostBytes("a", "b", 0)], copies=Copies("/x", "a", "/y-{host}")).id
    sort = controller.submit([HostBytes("a", "b", 1)]).id
    for number, host, output, message in (
        (9, "c", "", "there is no transfer 9"),
        (sort, "c", "", "is a shuffle"),
        (model, "q", "", "`q` is not a host of inventory and Network"),
        (model, "d", "", "`d` is not a host of inventory and Network"),
        (model, "a", "", "`a` has the object"),
        (model, "b", "", "`b` is a receiver of transfer 1 already"),
        (model, "c", "here", "not the absolute path of a file"),
    ):
        with pytest.raises(GavotteError, match=message):
            controller.join(number, host, output)
    joined = controller.join(model, "c", "/mine-{host}")
    assert [flow.target for flow in joined.flows] == ["b", "c"]
    assert joined.copies is not None
    assert joined.copies.elsewhere == {"c": "/mine-c"}
    with pytest.raises(GavotteError, match="a receiver of transfer 1 already"):
        controller.join(model, "c")
    controller.cancel(model)
    with pytest.raises(GavotteError, match="transfer 1 is cancelled"):
        controller.join(model, "c")


def test_what_makes_no_sense_is_refused() -> None:
    inventory = builders.inventory("abc")
    controller = Controller(inventory, TRUTH, MemoryQueue())
    for flows, options, message in (
        ([], {}, "without flows"),
        ([HostBytes("a", "q", 1)], {}, "`q` is not a host"),
        ([HostBytes("a", "b", 1 << 61)], {}, "use 0 to 1152921504606846976"),
        ([HostBytes("a", "b", -1)], {}, "-1 bytes from `a` to `b`"),
        ([HostBytes("a", "b", 1)], {"weight": 0.0}, "weight"),
        ([HostBytes("a", "b", 1)], {"priority_class": -1}, "class"),
    ):
        with pytest.raises(GavotteError, match=message):
            controller.submit(flows, **options)
    with pytest.raises(GavotteError, match="no policy `best`"):
        Controller(inventory, TRUTH, MemoryQueue(), "best")
    assert controller.list() == []


def test_flows_with_the_same_ends_become_one(tmp_path: Path) -> None:
    controller = Controller(builders.inventory("abc"), TRUTH, MemoryQueue())
    flows = [HostBytes("abc"[number % 3], "abc"[number // 3 % 3], 1) for number in range(100_000)]
    with serving(controller, tmp_path / "t.sock"), Client(tmp_path / "t.sock") as client:
        entry = client.submit(flows)
    assert entry["bytes"] == 100_000
    assert len(controller.get(1).flows) == 9


def test_who_waits_is_told_that_the_controller_has_stopped(tmp_path: Path) -> None:
    controller = Controller(builders.inventory("abc"), TRUTH, MemoryQueue())
    stop = threading.Event()
    with serving(controller, tmp_path / "t.sock"), Client(tmp_path / "t.sock") as client:
        number = client.submit([HostBytes("a", "b", 1)])["id"]
        stop.set()
        controller.run(stop)
        with pytest.raises(GavotteError, match="no controller of transfers listens"):
            client.wait(number, 60.0)


@pytest.mark.lab
def test_a_killed_controller_loses_nothing(cloud: lab.Session, tmp_path: Path) -> None:
    matrix, socket = tmp_path / "sort.csv", tmp_path / "t.sock"
    matrix.write_text("source,target,bytes\na,b,24000000\nb,c,12000000\n")
    at = ("--socket", socket)
    serve = [*served(cloud, tmp_path), "--policy", "sebf"]

    refused = gavotte("transfers", "list", *at)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no controller of transfers listens at" in refused.stderr
    first = subprocess.Popen(serve, stderr=subprocess.DEVNULL)
    try:
        until(lambda: there(socket))
        assert gavotte("transfers", "submit", matrix, *at, "--class", "2").stdout == "1\n"
        assert json.loads(gavotte("transfers", "submit", matrix, *at, "--json").stdout)["id"] == 2
        with Client(socket) as client:
            assert client.cancel(2)["state"] == "cancelled"
        assert gavotte("transfers", "cancel", "2", *at).returncode == 0
        until(lambda: listed(socket)[0]["moved_bytes"] > 4_000_000)
    finally:
        first.kill()
        first.wait()
    second = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: there(socket))
        waited = gavotte("transfers", "wait", "1", *at, "--timeout", "60", "--json")
        assert waited.returncode == 0, waited.stderr
        entry = json.loads(waited.stdout)
        assert (entry["state"], entry["moved_bytes"], entry["class"]) == ("done", 36_000_000, 2)
        report = json.loads(gavotte("transfers", "list", *at, "--json").stdout)
        assert (report["policy"], [each["state"] for each in report["transfers"]]) == ("sebf", ["done", "cancelled"])
        assert gavotte("transfers", "wait", "2", *at).returncode == 1
        assert gavotte("transfers", "wait", "9", *at).returncode == 1
        (tmp_path / "model").write_bytes(b"weights" * 1000)
        copies: list[str | Path] = ["-o", tmp_path / "model-{host}", "--mechanism", "chain"]
        number = gavotte("transfers", "submit", tmp_path / "model", "--from", "a", "--to", "b,c", *copies, *at)
        assert number.stdout == "3\n", number.stderr
        report = json.loads(gavotte("transfers", "wait", "3", *at, "--timeout", "60", "--json").stdout)
        assert (report["kind"], report["state"], report["bytes"], report["moved_bytes"]) == (
            "broadcast",
            "done",
            14000,
            14000,
        )
        assert (tmp_path / "model-c").read_bytes() == b"weights" * 1000
        assert gavotte("transfers", "submit", matrix, "--to", "b", *at).returncode == 2
        assert gavotte("transfers", "submit", matrix, "--from", "a", *at).returncode == 2
        # A second controller at one socket is refused, and does not disturb the first.
        assert subprocess.run(serve, capture_output=True, check=False).returncode == 1
    finally:
        second.send_signal(signal.SIGTERM)
        output = second.communicate(timeout=30)[1]
    assert second.returncode == 0, output
    assert "stopped" in output
    assert not socket.exists()


@pytest.mark.lab
@pytest.mark.parametrize("mechanism", ["chain", "mesh"])
def test_a_broadcast_goes_on_when_its_killed_controller_is_started_again(
    cloud: lab.Session, tmp_path: Path, mechanism: str
) -> None:
    size_bytes, socket = 10_000_000, tmp_path / "t.sock"
    model = tmp_path / "model"
    model.write_bytes(os.urandom(size_bytes))

    def sent_bytes() -> int:
        counter = cloud.run("a", ["cat", "/sys/class/net/eth0/statistics/tx_bytes"], capture_output=True, text=True)
        return int(counter.stdout)

    first = subprocess.Popen(served(cloud, tmp_path), stderr=subprocess.DEVNULL)
    try:
        until(lambda: there(socket))
        with Client(socket) as client:
            copies = Copies(str(model), "a", str(tmp_path / "copy-{host}"), mechanism)
            client.submit_broadcast(copies, ["b", "c"])
        until(lambda: listed(socket)[0]["moved_bytes"] > size_bytes)
    finally:
        first.kill()
        first.wait()
    assert not (tmp_path / "copy-b").exists()
    before = sent_bytes()
    second = subprocess.Popen(served(cloud, tmp_path), stderr=subprocess.DEVNULL)
    try:
        until(lambda: there(socket))
        with Client(socket) as client:
            entry = client.wait(1, 60.0)
        assert (entry["state"], entry["error"], entry["moved_bytes"]) == ("done", "", 2 * size_bytes)
    finally:
        second.send_signal(signal.SIGTERM)
        second.wait(30)
    # More than half was present: the source has not sent it again.
    assert sent_bytes() - before < 0.8 * size_bytes
    assert {(tmp_path / f"copy-{host}").read_bytes() == model.read_bytes() for host in "bc"} == {True}
