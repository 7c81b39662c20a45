"""`gavotte watch` over real packets: a shaper that changes midway is found, and a signal ends it cleanly."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests import builders
from tests.shell import GAVOTTE, until

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.errors import BusyError
from gavotte.formats.app import write_app
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import read_network, write_network
from gavotte.formats.placement import read_placement, write_placement
from gavotte.measure import measure
from gavotte.model import model
from gavotte.place import evaluate
from gavotte.watch.probing import Probe


@pytest.mark.lab
def test_a_shaper_that_changes_is_found(small_cloud: lab.Session, tmp_path: Path) -> None:
    source, target, seen = tmp_path / "n.json", tmp_path / "out.json", tmp_path / "seen.json"
    write_network(source, model(measure(read_inventory(small_cloud.hosts_file)).history))
    before = read_network(source)
    copy = f"cp /dev/stdin {seen}"
    pair = builders.app("pair", ("x", "y", 10_000_000), tasks=["x", "y"])
    write_app(tmp_path / "pair.app.toml", pair)
    write_placement(tmp_path / "p.json", evaluate(before, [pair], {"x": "b", "y": "c"}))
    options = ["--hosts", str(small_cloud.hosts_file), "--every", "0", "--json", "-o", str(target), "--command", copy]
    options += ["--app", str(tmp_path / "pair.app.toml"), "--placement", str(tmp_path / "p.json")]
    options += ["--exec", f"cp {{placement}} {tmp_path / 'advised'}"]
    command = [str(GAVOTTE), "watch", str(source), *options]
    device = small_cloud.run("b", ["ip", "-o", "route"], capture_output=True, text=True).stdout.split("dev ")[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        stopped = threading.Timer(100, watching.kill)
        stopped.start()
        try:
            time.sleep(3)
            shaper = ["tc", "qdisc", "replace", "dev", device.split()[0], "root"]
            slow = [*shaper, "tbf", "rate", "40mbit", "burst", "32kb", "latency", "50ms"]
            assert small_cloud.run("b", slow).returncode == 0
            assert watching.stdout is not None
            events = (json.loads(line) for line in watching.stdout)
            moved = next(event for event in events if event["kind"] == "moved")
            until((tmp_path / "advised").exists)
            watching.send_signal(signal.SIGTERM)
            assert watching.wait(30) == 0
        finally:
            stopped.cancel()
            watching.kill()
            # Other tests use this lab as well.
            small_cloud.run("b", ["tc", "qdisc", "del", "dev", device.split()[0], "root"])
    assert "b" in moved["hosts"]
    assert json.loads(seen.read_text())["kind"] == "moved"
    assert read_placement(tmp_path / "advised").assignment["x"] != "b"
    names = [host.name for host in before.hosts]
    b, c = names.index("b"), names.index("c")
    was, now = before.rate_bps[b][c], read_network(target).rate_bps[b][c]
    assert was is not None
    assert now is not None
    assert was > 150e6
    assert now == pytest.approx(40e6, rel=0.15)


@pytest.mark.lab
def test_hosts_that_another_run_holds_are_not_silent(small_cloud: lab.Session) -> None:
    inventory, complaints = read_inventory(small_cloud.hosts_file), list[str]()
    pair = (inventory.names[0], inventory.names[1])
    probe = Probe(str(small_cloud.hosts_file), "train", inventory.names, complaints.append)
    with closing(probe):
        with enrolled(inventory, Budget(1 << 20, 60.0)) as fleet, pytest.raises(BusyError, match=fleet.run_id):
            probe.measure([pair])
        assert set(probe.measure([pair])) == {pair}
    assert complaints == []
