"""ElasticSwitch's experiments on real packets: E1, E2, E3 and E8 at a tenth of the paper's rates.

Two hosts, or one and a crowd, send over one link of 100 Mbit/s. In ECN mode the link's switch marks by a phantom queue, as
a real one does by RED. Each case goes unprotected, with static reservations, under plain Seawall, and under our guarantees in
both modes. Rates are wire rates; TCP is CUBIC, set on every socket.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from benches.machine import machine

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
"""Left out of every mean: TCP and the guarantees find each other."""

SEAWALL = {
    "guarantees": 0.0,
    "hold_per_loss": 0.0,
    "hold_per_mark": 0.0,
    "rate_caution": 0.0,
    "pooled_loss": 0.0,
}
PROTECTIONS = ("none", "static", "seawall", "loss", "ecn")


@dataclass(frozen=True)
class Flow:
    """What one host sends another: over `flows` connections of TCP, or UDP at `bps`."""

    source: str
    target: str
    flows: int = 1
    bps: float | None = None


@dataclass(frozen=True)
class Seen:
    """What arrived in a run, bit/s on the wire, a mean and a list of windows for each target."""

    windows: Mapping[str, list[float]]
    cpu_s: float
    control_bytes: int
    seconds: float

    def mean(self, target: str) -> float:
        """After warming up."""
        return mean(self.windows[target]) if self.windows[target] else 0.0


def _ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.readline()


class Stand:
    """A lab of senders and receivers on either side of one link."""

    def __init__(self, session: lab.Session, senders: Sequence[str], receivers: Sequence[str]) -> None:
        self.session = session
        self.senders, self.receivers = senders, receivers
        self.inventory: Inventory = read_inventory(session.hosts_file)
        self.address = {host.name: host.address for host in self.inventory.host}
        self._port = 5000

    @contextmanager
    def protected(self, protection: str, hoses: Mapping[str, float]) -> Iterator[None]:
        """Has the hosts keep `hoses` (bit/s, both ways) in one of the five manners."""
        with ExitStack() as ends:
            if protection == "ecn":
                threshold = 60_000 + 3_000 * len(self.senders)
                words = ["mark", "--device", "up", "--rate", f"{0.95 * LINK_BPS:.0f}", "--threshold", str(threshold)]
                marker = self.session.exec(
                    "left", [str(agent_binary()), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                ends.callback(marker.communicate, "")
                _ready(marker)
            if protection != "none":
                kept = [
                    {"host": host, ("egress" if host in self.senders else "ingress"): rate(bps)}
                    for host, bps in hoses.items()
                ]
                mode = "ecn" if protection == "ecn" else "loss"
                wanted = Guarantee.model_validate({"format": "gavotte/guarantee/1", "mode": mode, "guarantee": kept})
                constants = SEAWALL if protection == "seawall" else {}
                ends.callback(clear, self.inventory)
                apply(wanted, self.inventory, fixed=protection == "static", constants=constants)
            yield

    def run(self, flows: Sequence[Flow], seconds: float, *, guarded: bool) -> Seen:
        """Sends everything at once and counts what arrives."""
        self._port += 1
        python = [sys.executable, "-I", "-S", str(TRAFFIC)]
        port = str(self._port)
        sinks = {
            host: self.session.exec(
                host, [*python, "sink", port, str(seconds + 1), str(BIN_S)], stdout=subprocess.PIPE, text=True
            )
            for host in self.receivers
        }
        for sink in sinks.values():
            _ready(sink)
        before = status(self.inventory) if guarded else None
        begin = time.monotonic()
        senders = []
        for flow in flows:
            kind = "tcp" if flow.bps is None else "udp"
            load = str(flow.flows if flow.bps is None else flow.bps)
            words = [kind, self.address[flow.target], port, str(seconds), load]
            senders.append(self.session.exec(flow.source, [*python, *words]))
        for sender in senders:
            sender.wait()
        after = status(self.inventory) if guarded else None
        elapsed = time.monotonic() - begin
        found = {host: json.loads(sink.communicate()[0]) for host, sink in sinks.items()}
        kinds = {flow.target: "tcp" if flow.bps is None else "udp" for flow in flows}
        first, last = int(WARM_S / BIN_S), int((seconds - 0.5) / BIN_S)
        windows = {}
        for host, told in found.items():
            bins = [sum(each) for each in zip(*told["bins"].values(), strict=True)]
            scale = 8 * WIRE[kinds.get(host, "tcp")] / BIN_S
            windows[host] = [scale * count for count in bins[first:last]]
        cpu_s = control = 0.0
        if before and after:
            cpu_s = sum(host.cpu_s for host in after.hosts) - sum(host.cpu_s for host in before.hosts)
            control = sum(h.control_bytes for h in after.hosts) - sum(h.control_bytes for h in before.hosts)
        return Seen(windows, cpu_s, int(control), elapsed)


@contextmanager
def stand(senders: Sequence[str], receivers: Sequence[str] = ("z", "t")) -> Iterator[Stand]:
    """Stands the lab up; its link is `left`'s port `up`."""
    hosts = [{"name": name, "switch": "left"} for name in senders]
    hosts += [{"name": name, "switch": "right"} for name in receivers]
    topology = Topology.model_validate(
        {
            "format": "gavotte/topology/1",
            "switch": [
                {"name": "core"},
                {"name": "left", "parent": "core", "up": rate(LINK_BPS)},
                {"name": "right", "parent": "core"},
            ],
            "host": hosts,
        }
    )
    with lab.session(topology, source="bench") as session:
        yield Stand(session, senders, receivers)


def rate(bps: float) -> str:
    """As files have it."""
    return f"{bps:.0f}bit"


def spread(values: Sequence[float], unit: float = 1e6) -> str:
    """Mean and standard deviation."""
    return f"{mean(values) / unit:6.1f} +- {stdev(values) / unit if len(values) > 1 else 0:4.1f}"


def verdict(*, met: bool) -> str:
    """A miss is printed as one."""
    return "ok" if met else "MISS"


def e1(runs: int, seconds: float, sizes: Sequence[int], protections: Sequence[str]) -> None:
    """Many to one: X alone to Z, a crowd to T, 45 Mbit/s each; X >= 98 %, nine of ten windows >= 95 %, link >= 90 %."""
    print("\nE1 many to one, 45 + 45 of 100 Mbit/s")
    print(f"{'senders':>7} {'protection':<10} {'X Mbit/s':>15} {'Y Mbit/s':>15} {'windows':>8} {'link':>6}  verdict")
    for size in sizes:
        crowd = [f"y{number}" for number in range(size)]
        with stand(["x", *crowd]) as place:
            for protection in protections:
                hoses = dict.fromkeys([*place.senders, *place.receivers], 45e6)
                flows = [Flow("x", "z"), *(Flow(host, "t") for host in crowd)]
                with place.protected(protection, hoses):
                    seen = [place.run(flows, seconds, guarded=protection != "none") for _ in range(runs)]
                x, y = [[one.mean(target) for one in seen] for target in "zt"]
                windows = [bps >= 0.95 * 45e6 for one in seen for bps in one.windows["z"]]
                link = mean(x) + mean(y)
                met = mean(x) >= 0.98 * 45e6 and mean(windows) >= 0.9 and link >= 0.9 * LINK_BPS
                print(
                    f"{size:>7} {protection:<10} {spread(x):>15} {spread(y):>15} {100 * mean(windows):6.1f} % "
                    f"{100 * link / LINK_BPS:4.0f} %  {verdict(met=met)}",
                    flush=True,
                )
                if protection in ("loss", "ecn"):
                    cost(seen, size + 1)


def cost(seen: Sequence[Seen], pairs: int) -> None:
    """E8: processor time per 100 pairs, and what agents say to each other."""
    cores = mean([one.cpu_s / one.seconds for one in seen])
    control = mean([8 * one.control_bytes / one.seconds for one in seen])
    print(
        f"{'':>7} E8: {100 * cores / pairs * 100:.2f} % of a core per 100 pairs (loops of both ends), "
        f"{100 * control / LINK_BPS:.2f} % of the link for control  "
        f"{verdict(met=cores / pairs * 100 < 0.01 and control / LINK_BPS < 0.001)}"
    )


def e2(runs: int, seconds: float, protections: Sequence[str]) -> None:
    """TCP against UDP that is not ECN-capable: TCP >= 98 % of 45 Mbit/s, link >= 90 % when there is that much."""
    print("\nE2 TCP against UDP, 45 + 45 of 100 Mbit/s")
    print(f"{'UDP':>7} {'protection':<10} {'TCP Mbit/s':>15} {'UDP Mbit/s':>15} {'windows':>8} {'link':>6}  verdict")
    with stand(["x", "y0"]) as place:
        for protection in protections:
            for load in (0.0, 20e6, 45e6, 80e6, 120e6):
                flows = [Flow("x", "z"), *([Flow("y0", "t", bps=load)] if load else [])]
                with place.protected(protection, dict.fromkeys(["x", "y0", "z", "t"], 45e6)):
                    seen = [place.run(flows, seconds, guarded=protection != "none") for _ in range(runs)]
                x, y = [[one.mean(target) for one in seen] for target in "zt"]
                windows = [bps >= 0.95 * 45e6 for one in seen for bps in one.windows["z"]]
                link = mean(x) + mean(y)
                met = mean(x) >= 0.98 * 45e6 and link >= 0.9 * LINK_BPS
                print(
                    f"{load / 1e6:>7.0f} {protection:<10} {spread(x):>15} {spread(y):>15} {100 * mean(windows):6.1f} % "
                    f"{100 * link / LINK_BPS:4.0f} %  {verdict(met=met)}",
                    flush=True,
                )


PAPER = {4.5e6: 0.739, 9e6: 0.750, 22.5e6: 0.864}
"""Table 2: totals of the paper, as a share of the link."""


def e3(runs: int, seconds: float, protections: Sequence[str]) -> None:
    """Sharing the rest (Table 2): ratio 1.8 to 2.2, totals above the paper's."""
    print("\nE3 sharing the rest, guarantees 1 : 2")
    print(f"{'Mbit/s':>9} {'protection':<10} {'A Mbit/s':>15} {'B Mbit/s':>15} {'ratio':>6} {'link':>6}  verdict")
    with stand(["x", "y0"]) as place:
        for small, paper in PAPER.items():
            for protection in protections:
                hoses = {"x": small, "z": small, "y0": 2 * small, "t": 2 * small}
                with place.protected(protection, hoses):
                    flows = [Flow("x", "z"), Flow("y0", "t")]
                    seen = [place.run(flows, seconds, guarded=protection != "none") for _ in range(runs)]
                a, b = [[one.mean(target) for one in seen] for target in "zt"]
                ratio = mean([theirs / ours for ours, theirs in zip(a, b, strict=True) if ours])
                link = (mean(a) + mean(b)) / LINK_BPS
                met = 1.8 <= ratio <= 2.2 and link > paper
                print(
                    f"{small / 1e6:4g}/{small / 5e5:<4g} {protection:<10} {spread(a):>15} {spread(b):>15} {ratio:6.2f} "
                    f"{100 * link:4.0f} %  {verdict(met=met)}",
                    flush=True,
                )


def main(words: Sequence[str]) -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(prog="make bench-guarantee", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--only", nargs="+", choices=("e1", "e2", "e3"), default=["e1", "e2", "e3"])
    parser.add_argument("--protections", nargs="+", choices=PROTECTIONS, default=list(PROTECTIONS))
    chosen = parser.parse_args(words)
    if not lab.supported():
        raise SystemExit(f"no lab can stand here: {lab.missing()}")
    print(f"{machine()}; {chosen.runs} runs of {chosen.seconds:g} s; TCP CUBIC, set on each socket; no random choices")
    if "e1" in chosen.only:
        e1(chosen.runs, chosen.seconds, chosen.senders, chosen.protections)
    if "e2" in chosen.only:
        e2(chosen.runs, chosen.seconds, chosen.protections)
    if "e3" in chosen.only:
        e3(chosen.runs, chosen.seconds, chosen.protections)
