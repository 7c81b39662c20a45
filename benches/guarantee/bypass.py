"""Ways around a guarantee: does a neighbour that sends past its pair, or that changes its host, cost X its guarantee?

    make bench-guarantee ARGS="bypass [--seconds 8 --runs 3]"

X sends by one TCP connection to Z, the neighbour Y by UDP at 110 Mbit/s to T, over a link of 100 Mbit/s. X and Y have
45 Mbit/s each. Then X sends through a VXLAN over the marking link, whose inner packets are not ECN-capable.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import mean

from benches.guarantee.figure import Table
from benches.guarantee.lab import share, spread, verdict
from benches.guarantee.stage import TRAFFIC, WARM_S, Flow, Stand, stand
from benches.machine import machine

HOSE_BPS = 45e6
FLOOD_BPS = 110e6
ROOT_PRIORITY = 0x67760000
"""Priority of the agents' root qdisc, which any program with `CAP_NET_RAW` can set on its socket."""
MET = 0.95

Way = Callable[[Stand, ExitStack], Sequence[str]]
"""Prepares a way around the guarantee, and returns the options of the neighbour's traffic."""


def _in_its_pair(place: Stand, ends: ExitStack) -> Sequence[str]:
    del place, ends
    return ()


def _alias(place: Stand, ends: ExitStack) -> Sequence[str]:
    address = place.address["y"].rsplit(".", 1)[0] + ".200"
    place.session.run("y", ["ip", "address", "add", f"{address}/32", "dev", "eth0"])
    ends.callback(place.session.run, "y", ["ip", "address", "del", f"{address}/32", "dev", "eth0"])
    return "--from", address


def _priority(place: Stand, ends: ExitStack) -> Sequence[str]:
    del place, ends
    return "--priority", str(ROOT_PRIORITY)


def _no_root(place: Stand, ends: ExitStack) -> Sequence[str]:
    del ends
    place.session.run("y", ["tc", "qdisc", "replace", "dev", "eth0", "root", "pfifo"])
    return ()


def _no_classifier(place: Stand, ends: ExitStack) -> Sequence[str]:
    del ends
    place.session.run("y", ["tc", "qdisc", "del", "dev", "eth0", "clsact"])
    return ()


WAYS: dict[str, Way] = {
    "in its pair": _in_its_pair,
    "from an alias address": _alias,
    "with the root's priority": _priority,
    "root qdisc replaced": _no_root,
    "clsact deleted": _no_classifier,
}


def ways(table: Table, seconds: float, runs: int) -> None:
    """Add a row for each way around the guarantee."""
    with stand(["x", "y"]) as place:
        for name, way in WAYS.items():
            with place.protected("ecn", dict.fromkeys("xyzt", HOSE_BPS)), ExitStack() as ends:
                words = way(place, ends)
                windows: list[float] = []
                for _ in range(runs):
                    flows = [Flow("x", "z"), Flow("y", "t", bps=FLOOD_BPS, words=words)]
                    windows += place.run(flows, seconds, guarded=True).windows["z"]
            kept = [bps >= MET * HOSE_BPS for bps in windows]
            table.row(name, spread(windows), share(kept), verdict(met=mean(windows) >= MET * HOSE_BPS))


VXLAN = """
ip link add vx0 type vxlan id 7 dstport 4789 local $1 remote $2 dev eth0
ip address add 10.66.0.$3/24 dev vx0
ip link set vx0 mtu 1400 up
"""


def tunnel(table: Table, seconds: float, runs: int) -> None:
    """Add a row for TCP in a VXLAN, whose receiver drops marked packets that are not ECN-capable inside."""
    with stand(["x", "y"]) as place:
        at = place.address
        for host, other, number in (("x", "z", 1), ("z", "x", 2)):
            place.session.run(host, ["sh", "-ec", VXLAN, "sh", at[host], at[other], str(number)])
        with place.protected("ecn", dict.fromkeys("xyzt", HOSE_BPS)):
            windows: list[float] = []
            for _ in range(runs):
                port = str(place.next_port())
                python = [sys.executable, "-I", "-S", str(TRAFFIC)]
                sink = place.session.exec(
                    "z", [*python, "sink", port, str(seconds + 1)], stdout=subprocess.PIPE, text=True
                )
                assert sink.stdout is not None
                sink.stdout.readline()
                place.session.run("x", [*python, "tcp", "10.66.0.2", port, str(seconds), "1"])
                windows += goodput_bps(sink.communicate()[0], seconds)
        kept = [bps >= MET * HOSE_BPS for bps in windows]
        table.row("TCP in a VXLAN, alone", spread(windows), share(kept), verdict(met=mean(windows) >= MET * HOSE_BPS))


def goodput_bps(printed: str, seconds: float) -> list[float]:
    """Return the payload that a sink counted after warming up, bit/s in each window."""
    known = json.loads(printed)
    bins = [sum(each) for each in zip(*known["bins"].values(), strict=True)]
    first, last = (round(at / known["bin_s"]) for at in (WARM_S, seconds - 0.5))
    return [8 * count / known["bin_s"] for count in bins[first:last]]


def main(words: Sequence[str]) -> None:
    """Run all ways and print what X had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args(words)
    print(f"machine: {machine()}\nruns: {asked.runs} of {asked.seconds:g} s")
    table = Table(
        "elasticswitch-lab-bypass",
        "What a neighbour costs X, which is guaranteed 45 Mbit/s",
        ["the neighbour sends", "X, Mbit/s", "windows with 95 %", "goal"],
        {"kind": "bars", "columns": [1], "unit": "Mbit/s"},
    )
    ways(table, asked.seconds, asked.runs)
    tunnel(table, asked.seconds, asked.runs)
