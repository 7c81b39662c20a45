"""Real packets on a path whose MTU shrinks while a verb runs: results stay right, and nothing ends early.

The verbs share a lab. Each test shrinks the path a little more.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests import builders
from tests.guarantee.stand import address, heard, traffic
from tests.measure.narrowing import WIDE_BYTES, WIRE_BPS, cloud, narrow, narrowing
from tests.running import running
from tests.shell import GAVOTTE, gavotte

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.agents.binary import agent_binary
from gavotte.campaign import plan, run
from gavotte.formats.campaign import read_campaign
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copies, MemoryQueue
from gavotte.formats.record import read_samples
from gavotte.formats.topology import Topology
from gavotte.hosts import Bearer, keys
from gavotte.measure import measure
from gavotte.measure.sharing import measure_sharing
from gavotte.model import model
from gavotte.terms.goodput import goodput_per_wire
from gavotte.transfer import Controller

pytestmark = [pytest.mark.lab, pytest.mark.rare]

BYTES = 4_000_000
"""Two thirds of a second at 50 Mbit/s. The path shrinks when a third is sent."""

STEP_BYTES = 30


@dataclass
class Shrinking:
    """A lab whose path from x to y and z shrinks in each test.

    Attributes:
        session: the lab.
        icmp: whether routers report packets that are too long.
        mtu_bytes: the path's present MTU.
    """

    session: lab.Session
    icmp: bool
    mtu_bytes: int = field(default=WIDE_BYTES)

    @contextmanager
    def after(self, sent_bytes: int) -> Iterator[None]:
        """Shrink the path when x has sent this many bytes."""
        self.mtu_bytes -= STEP_BYTES
        with narrowing(self.session, sent_bytes, self.mtu_bytes) as narrowed:
            yield
        assert narrowed.is_set()


@pytest.fixture(scope="module", params=[True, False], ids=["icmp", "silent"])
def path(request: pytest.FixtureRequest) -> Iterator[Shrinking]:
    """The lab, with and without routers' reports."""
    with lab.session(cloud(icmp=request.param), source="tests") as session:
        yield Shrinking(session, request.param)


def ended_with(stack: ExitStack, process: subprocess.Popen[Any]) -> None:
    """End a process when the block ends."""
    stack.enter_context(process)
    stack.callback(process.kill)


def test_a_live_profile_counts_each_byte_once(path: Shrinking, tmp_path: Path) -> None:
    # Where no router reports the MTU, an application's connection ends here, and its bytes are sent again in vain.
    narrow(path.session, WIDE_BYTES)
    path.mtu_bytes, seconds = WIDE_BYTES, 6.0
    line = [GAVOTTE, "profile", "live", "--hosts", path.session.hosts_file, "--for", seconds, "--json"]
    with ExitStack() as stack:
        profiling = subprocess.Popen(
            [*map(str, line)], text=True, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        ended_with(stack, profiling)
        assert profiling.stderr is not None
        assert "waiting at 3 hosts' connections" in profiling.stderr.readline()
        sink = traffic(path.session, "y", "sink", 5001, 4.0, 0.5, stdout=subprocess.PIPE, text=True)
        ended_with(stack, sink)
        heard(sink)
        with path.after(BYTES // 3):
            sender = traffic(path.session, "x", "tcp", address(path.session, "y"), 5001, 2.0, 1)
            ended_with(stack, sender)
            arrived = sum(sum(bins) for bins in json.loads(sink.communicate(timeout=60)[0])["bins"].values())
        counted = json.loads(profiling.communicate(timeout=60)[0])
    assert arrived > BYTES // 10
    assert max(each["bytes"] for each in counted["pairs"]) == pytest.approx(arrived, rel=0.01)


@pytest.mark.rare
def test_experiments_find_the_same_caps(path: Shrinking) -> None:
    if path.icmp:
        pytest.skip("it takes half a minute, and is harder where no router reports the MTU")
    inventory = read_inventory(path.session.hosts_file)
    history = measure(inventory, seed=1).history
    with enrolled(inventory, Budget(max_bytes=0, max_seconds=120)) as fleet, path.after(100_000):
        result = measure_sharing(fleet, history, seed=1)
    assert result.experiments == len(result.evidence) > 0
    for host in model(replace(history, evidence=result.evidence)).hosts:
        if host.egress_bps is not None:
            assert host.egress_bps == pytest.approx(WIRE_BPS * goodput_per_wire(WIDE_BYTES), rel=0.08)


def test_a_controller_ends_all_transfers(path: Shrinking, tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(os.urandom(BYTES))
    rate_bps = WIRE_BPS * goodput_per_wire(WIDE_BYTES)
    truth = builders.network([{"name": name, "egress_bps": rate_bps} for name in "xyz"])
    controller = Controller(read_inventory(path.session.hosts_file), truth, MemoryQueue(), "fair")
    with running(controller), path.after(BYTES // 3):
        moved = controller.submit([HostBytes("x", "y", BYTES), HostBytes("z", "x", BYTES)])
        copies = Copies(str(content), "x", str(tmp_path / "copy-{host}"))
        copied = controller.submit([HostBytes("x", "y", 0), HostBytes("x", "z", 0)], copies=copies)
        for each in (moved, copied):
            done = controller.wait(each.id, 60.0)
            assert (done.state, done.error) == ("done", "")
    for host in "yz":
        assert (tmp_path / f"copy-{host}").read_bytes() == content.read_bytes()


def test_a_guarantee_is_kept(path: Shrinking, tmp_path: Path) -> None:
    if not path.icmp:
        pytest.skip("an application's own connections stall where no router reports the MTU")
    wanted_bps, warm_s, seconds = 30e6, 3.0, 7.0
    shares = {"x": ("egress", 42e6), "y": ("ingress", wanted_bps), "z": ("ingress", 12e6)}
    tables = [{"host": host, way: f"{bps:.0f}bit"} for host, (way, bps) in shares.items()]
    (tmp_path / "g.guarantee.toml").write_text(tomli_w.dumps({"format": "gavotte/guarantee/1", "guarantee": tables}))
    hosts = ("--hosts", path.session.hosts_file)
    applied = gavotte("guarantee", "apply", tmp_path / "g.guarantee.toml", *hosts)
    assert applied.returncode == 0, applied.stderr
    with ExitStack() as stack:
        stack.callback(gavotte, "guarantee", "clear", *hosts)
        sinks = []
        for host in "yz":
            sinks.append(traffic(path.session, host, "sink", 5002, seconds, 0.5, stdout=subprocess.PIPE, text=True))
            ended_with(stack, sinks[-1])
            heard(sinks[-1])
        # 2.5 s at 50 Mbit/s.
        with path.after(15_000_000):
            for host, flows in (("y", 1), ("z", 8)):
                sender = traffic(path.session, "x", "tcp", address(path.session, host), 5002, seconds, flows)
                ended_with(stack, sender)
            bins = [json.loads(each.communicate(timeout=60)[0])["bins"] for each in sinks]
    late = next(iter(bins[0].values()))[int((warm_s + 1) / 0.5) :]
    got_bps = 8 * sum(late) / (0.5 * len(late)) / goodput_per_wire(path.mtu_bytes)
    assert got_bps > 0.95 * wanted_bps


def test_a_campaign_takes_its_sample(path: Shrinking, tmp_path: Path) -> None:
    narrow_bytes = path.mtu_bytes - STEP_BYTES

    @contextmanager
    def session(topology: Topology) -> Iterator[lab.Session]:
        # A campaign builds a lab itself; this one is as good as new.
        with narrowing(path.session, 1_000_000, narrow_bytes) as narrowed:
            yield path.session
        assert narrowed.is_set()

    hosts = [{"name": host, "switch": "core", "egress": f"{WIRE_BPS:.0f}bit", "cpus": 2} for host in "xyz"]
    topology = {"format": "gavotte/topology/1", "switch": [{"name": "core"}], "host": hosts}
    (tmp_path / "c.topology.toml").write_text(tomli_w.dumps(topology))
    (tmp_path / "c.campaign.toml").write_text(
        'format = "gavotte/campaign/1"\nname = "narrow"\nseed = 1\nrepetitions = 1\nseconds = 1.0\n'
        '[driver]\nkind = "lab"\ntopology = "c.topology.toml"\n'
        '[[scenario]]\nname = "pair"\nkind = "pair"\nsource = ["x"]\ntarget = ["y"]\nconnections = [1]\n'
    )
    done = run(plan(read_campaign(tmp_path / "c.campaign.toml")), tmp_path / "c.jsonl", session)
    path.mtu_bytes = narrow_bytes
    assert not done.failed, done.failed
    (sample,) = read_samples(tmp_path / "c.jsonl")
    assert sample.value == pytest.approx(WIRE_BPS * goodput_per_wire(WIDE_BYTES), rel=0.08)


def test_connections_by_tls_continue(path: Shrinking, tmp_path: Path) -> None:
    places = {host: address(path.session, host) for host in "xyz"}
    keys(tmp_path / "keys", [Bearer(host, (place,)) for host, place in places.items()])
    with ExitStack() as stack:
        for host in "xz":
            own = tmp_path / "keys" / "hosts" / host
            line = [agent_binary(), "serve", "--die-with-parent", "--bind", places[host], "--data-port", "7500"]
            line += ["--tls", f"{places[host]}:7600", "--ca", f"{own}/ca.pem"]
            line += ["--cert", f"{own}/host.pem", "--key", f"{own}/host.key"]
            # Long logs, which one reply carries.
            environment = path.session.environment() | {"GAVOTTE_LOG": "debug"}
            ended_with(stack, path.session.exec(host, line, env=environment, stderr=subprocess.DEVNULL))
        hosts = [{"name": host, "address": places[host], "agent": f"tls://{places[host]}:7600"} for host in "xz"]
        inventory = {"format": "gavotte/hosts/1", "keys": str(tmp_path / "keys"), "host": hosts}
        listed = tmp_path / "tls.hosts.toml"
        listed.write_text(tomli_w.dumps(inventory))
        (tmp_path / "bytes.csv").write_text(f"source,target,bytes\nx,z,{4 * BYTES}\nz,x,{BYTES}\n")
        line = [str(GAVOTTE), "shuffle", f"{tmp_path}/bytes.csv", "--hosts", str(listed), "--max-seconds", "20"]
        with path.after(BYTES // 3):
            # The controller is on y: its connections to x cross the path.
            done = path.session.run("y", line, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        line = [str(GAVOTTE), "hosts", "logs", "x", "--hosts", str(listed)]
        logs = path.session.run("y", line, capture_output=True, text=True)
        assert logs.returncode == 0, logs.stderr
        assert len(logs.stdout) > path.mtu_bytes
