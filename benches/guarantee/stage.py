"""A lab for experiments with guarantees: senders and receivers on either side of one link, and the arrived bytes.

Rates are wire rates; TCP is CUBIC, set on every socket.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from gavotte import lab
from gavotte.agents.binary import agent_binary
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.topology import Topology
from gavotte.guarantee import apply, clear, status

TRAFFIC = Path(__file__).parents[2] / "tests" / "guarantee" / "traffic.py"
LINK_BPS = 100e6
WIRE = {"tcp": 1514 / 1448, "udp": 1442 / 1400}
BIN_S = 0.2
WARM_S = 2.0
"""Time left out of every mean, until TCP and the guarantees are stable."""
START_S = 0.05
"""Usual time to start a sender."""
LEAD_S = 0.3
"""Time from the last sender's start until all of them send."""

SEAWALL = {
    "guarantees": 0.0,
    "hold_per_loss": 0.0,
    "hold_per_mark": 0.0,
    "rate_caution": 0.0,
    "pooled_loss": 0.0,
    "steady": 0.0,
    "calm_s": 1e9,
}
OURS = ("loss", "ecn", "auto")
PROTECTIONS = ("none", "static", "seawall", *OURS)


@dataclass(frozen=True)
class Flow:
    """Traffic from one host to another: over `flows` connections of TCP, or UDP at `bps` with more `words`.

    It starts `start_s` after the run, and lasts `seconds`; None = until the run ends.
    """

    source: str
    target: str
    flows: int = 1
    bps: float | None = None
    start_s: float = 0.0
    seconds: float | None = None
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Seen:
    """Rates that arrived in a run, bit/s on the wire, as a list of windows for each target.

    `costs` has, for each host, its agent's processor time in seconds, and the bytes that it sent to other agents.
    """

    windows: Mapping[str, list[float]]
    costs: Mapping[str, tuple[float, int]]
    seconds: float

    def mean(self, target: str) -> float:
        """After warming up."""
        return mean(self.windows[target]) if self.windows[target] else 0.0

    def cost(self, hosts: Sequence[str] | None = None) -> tuple[float, int]:
        """Rate of some hosts together, or of all."""
        own = [cost for host, cost in self.costs.items() if hosts is None or host in hosts]
        return sum(cpu_s for cpu_s, _ in own), sum(message for _, message in own)


def _ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.readline()


def _tell(process: subprocess.Popen[str], moment: float) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{moment}\n")
    process.stdin.flush()


class Stand:
    """A lab of senders and receivers on either side of one link."""

    def __init__(self, session: lab.Session, senders: Sequence[str], receivers: Sequence[str], *, edge: bool) -> None:
        self.session, self.edge = session, edge
        self.senders, self.receivers = senders, receivers
        self.inventory: Inventory = read_inventory(session.hosts_file)
        self.address = {host.name: host.address for host in self.inventory.host}
        self._port = 5000

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Make the switch before the full link mark packets, by a phantom queue of 2 packets and more per sender."""
        threshold = 20_000 + 3_000 * len(self.senders)
        switch, device = "left", "up"
        if self.edge:
            switch = "right"
            words = ["ip", "-o", "route", "get", self.address[self.receivers[0]]]
            route = self.session.run(switch, words, capture_output=True, text=True).stdout.split()
            device = route[route.index("dev") + 1]
        words = ["mark", "--device", device, "--rate", f"{0.95 * LINK_BPS:.0f}", "--threshold", str(threshold)]
        marker = self.session.exec(
            switch, [str(agent_binary()), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        _ready(marker)
        try:
            yield
        finally:
            marker.communicate("")

    @contextmanager
    def protected(self, protection: str, hoses: Mapping[str, float]) -> Iterator[None]:
        """Make the hosts keep `hoses` (bit/s, both ways) in one of the `PROTECTIONS`."""
        with ExitStack() as ends:
            if protection == "ecn":
                ends.enter_context(self.marked())
            if protection != "none":
                kept = [
                    {"host": host, ("egress" if host in self.senders else "ingress"): rate(bps)}
                    for host, bps in hoses.items()
                ]
                mode = protection if protection in OURS else "loss"
                wanted = Guarantee.model_validate({"format": "gavotte/guarantee/1", "mode": mode, "guarantee": kept})
                constants = SEAWALL if protection == "seawall" else {}
                ends.callback(clear, self.inventory)
                apply(wanted, self.inventory, fixed=protection == "static", constants=constants)
            yield

    def next_port(self) -> int:
        """Return an unused port."""
        self._port += 1
        return self._port

    def run(self, flows: Sequence[Flow], seconds: float, *, guarded: bool, warm_s: float = WARM_S) -> Seen:
        """Send everything at once and count the arrivals after warming up."""
        python = [sys.executable, "-I", "-S", str(TRAFFIC)]
        port = str(self.next_port())
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        senders = []
        for flow in flows:
            kind = "tcp" if flow.bps is None else "udp"
            load = str(flow.flows if flow.bps is None else flow.bps)
            lasting_s = seconds - flow.start_s if flow.seconds is None else flow.seconds
            words = [kind, self.address[flow.target], port, str(lasting_s), load, "-", *flow.words]
            senders.append(self.session.exec(flow.source, [*python, *words], **pipes))
        sinks = {
            host: self.session.exec(host, [*python, "sink", port, "-", str(BIN_S)], **pipes) for host in self.receivers
        }
        for process in [*senders, *sinks.values()]:
            _ready(process)
        before = status(self.inventory) if guarded else None
        # All begin at once, however long it took to start them.
        at = time.monotonic() + LEAD_S
        for sink in sinks.values():
            _tell(sink, at + seconds + 1.0)
        for sender, flow in zip(senders, flows, strict=True):
            _tell(sender, at + flow.start_s)
        for sender in senders:
            sender.wait()
        after = status(self.inventory) if guarded else None
        elapsed = time.monotonic() - at
        values = {host: json.loads(sink.communicate()[0]) for host, sink in sinks.items()}
        kinds = {flow.target: "tcp" if flow.bps is None else "udp" for flow in flows}
        windows = {}
        for host, known in values.items():
            bins = [sum(each) for each in zip(*known["bins"].values(), strict=True)]
            scale = 8 * WIRE[kinds.get(host, "tcp")] / BIN_S
            first, last = (math.ceil((at + offset - known["begin"]) / BIN_S) for offset in (warm_s, seconds - 0.5))
            windows[host] = [scale * count for count in bins[first:last]]
        costs = {}
        if before and after:
            for was, now in zip(before.hosts, after.hosts, strict=True):
                costs[now.host] = now.cpu_s - was.cpu_s, now.control_bytes - was.control_bytes
        return Seen(windows, costs, elapsed)


@contextmanager
def stand(senders: Sequence[str], receivers: Sequence[str] = ("z", "t"), *, edge: bool = False) -> Iterator[Stand]:
    """Start a lab; `edge`: all receivers are on one machine, whose link is the full one, not that of the senders."""
    hosts = [{"name": name, "switch": "left"} for name in senders]
    hosts += [{"name": name, "machine": "pm"} if edge else {"name": name, "switch": "right"} for name in receivers]
    left = {"name": "left", "parent": "core"} | ({} if edge else {"up": rate(LINK_BPS)})
    topology = Topology.model_validate(
        {
            "format": "gavotte/topology/1",
            "switch": [{"name": "core"}, left, {"name": "right", "parent": "core"}],
            "machine": [{"name": "pm", "switch": "right", "rate": rate(LINK_BPS)}] if edge else [],
            "host": hosts,
        }
    )
    with lab.session(topology, source="bench") as session:
        yield Stand(session, senders, receivers, edge=edge)


def rate(bps: float) -> str:
    """Return rates as files have them."""
    return f"{bps:.0f}bit"
