"""Measures the lab's element: its error of delay, jitter, loss and rate, and how many packets it carries.

    make bench-impair [ARGS="--seed 1 --packets 2000"]

One-way delays are read from the kernel's time stamp of each arrival, on the clock by which the sender stamped the
packet. They contain the path without the element, which the first line shows. Packets per second on one core are
packets over the processor time of the element's process. That time includes the receiving side's kernel work, which the
process does as it sends.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benches.machine import machine, processor_times

from gavotte import lab
from gavotte.formats.parts.durations import parse_duration
from gavotte.formats.parts.rate_fields import parse_rate
from gavotte.formats.parts.rates import format_rate
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

DELAYS = ("0.2ms", "2ms", "10ms", "40ms", "150ms")
JITTERS = ("1ms", "5ms")
LOSSES = (0.0001, 0.001, 0.01, 0.1)
RATES = ("10mbit", "100mbit", "1gbit")
FRAME_HEADER_BYTES = 42
"""Ethernet, IPv4 and UDP."""

SEND = """
import socket, sys, time
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer, count, payload_bytes, gap_s = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
for _ in range(3):  # so that no packet waits for ARP
    here.sendto(b"warm", peer)
    time.sleep(0.3)
rest = bytes(payload_bytes - 8)
due = time.perf_counter()
for _ in range(count):
    here.sendto(time.time_ns().to_bytes(8, "little") + rest, peer)
    due += gap_s
    if gap_s:
        time.sleep(max(0, due - time.perf_counter()))
time.sleep(1)
for _ in range(40):
    here.sendto(b"end", peer)
    time.sleep(0.02)
"""

RECEIVE = """
import array, json, socket, sys
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
here.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
here.bind(("", int(sys.argv[1])))
print("ready", flush=True)
rows = []
while True:
    data, extra, _, _ = here.recvmsg(8, 64)
    if data == b"end":
        break
    if data == b"warm":
        continue
    seconds, nanos = array.array("q", extra[0][2])
    rows.append((int.from_bytes(data, "little"), seconds * 10**9 + nanos))
print(json.dumps(rows))
"""

FLOOD = """
import socket, sys, time
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer, gap_s, seconds = (sys.argv[1], 9), float(sys.argv[2]), float(sys.argv[3])
data, begin, sent = bytes(1200), time.perf_counter(), 0
while (now := time.perf_counter() - begin) < seconds:
    # A processor that wakes for each packet sends too few.
    while sent * gap_s < now:
        try:
            here.sendto(data, peer)
        except OSError:  # nothing listens there
            continue
        sent += 1
    time.sleep(0.001)
"""
FLOOD_FRAME_BYTES = 1200 + 42
BUCKET_S = 0.2
"""Depth of a policer's bucket: a sender or an element that waits for a processor for less loses no tokens."""

PORTS = itertools.count(7000)
"""A port for each series, so that no series receives what the one before has sent."""


def two(**keys: Any) -> Topology:
    """Return two hosts at one switch, the first with the given keys."""
    hosts = [{"name": "a", "switch": "s", **keys}, {"name": "b", "switch": "s"}]
    return Topology.model_validate({"format": FORMAT, "switch": [{"name": "s"}], "host": hosts})


def packets(
    session: lab.Session, count: int, *, payload_bytes: int = 64, gap_s: float = 0.0
) -> list[tuple[float, float]]:
    """Send datagrams from a to b; return the times at which each that arrived was sent and received."""
    port = str(next(PORTS))
    receiver = session.exec("b", [sys.executable, "-c", RECEIVE, port], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    receiver.stdout.readline()
    numbers = [str(number) for number in (count, payload_bytes, gap_s)]
    session.run("a", [sys.executable, "-c", SEND, "b", port, *numbers], timeout=120)
    rows = json.loads(receiver.stdout.readline())
    receiver.wait()
    receiver.stdout.close()
    return [(sent / 1e9, received / 1e9) for sent, received in rows]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of all values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def one_way_s(session: lab.Session, count: int) -> list[float]:
    """Return the one-way delays of datagrams that are 2 ms apart."""
    return [received - sent for sent, received in packets(session, count, gap_s=0.002)]


def delays(count: int, seed: int) -> None:
    """Print the error of each delay."""
    print("\ndelay     median error ms  p99 error ms  largest ms  packets")
    for delay in ("none", *DELAYS):
        wanted_s = 0.0 if delay == "none" else parse_duration(delay)
        with lab.session(two(latency=delay) if wanted_s else two(), agents=False, seed=seed) as session:
            errors_ms = [1e3 * (seconds - wanted_s) for seconds in one_way_s(session, count)]
        median_ms, high_ms = statistics.median(errors_ms), quantile(errors_ms, 0.99)
        print(f"{delay:8} {median_ms:16.3f} {high_ms:13.3f} {max(errors_ms):11.3f} {len(errors_ms):8}")


def jitters(count: int, seed: int) -> None:
    """Print the distribution of delays for each jitter, at 10 ms of latency."""
    print("\njitter       least ms  median ms  largest ms  out of order  packets      (10 ms of latency)")
    for jitter in JITTERS:
        with lab.session(two(latency="10ms", jitter=jitter), agents=False, seed=seed) as session:
            rows = packets(session, count, gap_s=0.002)
        delays_ms = [1e3 * (received - sent) for sent, received in rows]
        late = sum(after[0] < before[0] for before, after in itertools.pairwise(rows))
        print(
            f"{jitter:8} {min(delays_ms):12.3f} {statistics.median(delays_ms):10.3f} {max(delays_ms):11.3f} "
            f"{late:13} {len(rows):8}"
        )


def losses(count: int, seed: int) -> None:
    """Print each share of lost packets, with the interval that contains 95 % of such counts."""
    from scipy.stats import binom

    print("\nloss      share lost   95 % of such counts   packets")
    for loss in LOSSES:
        with lab.session(two(loss=loss), agents=False, seed=seed) as session:
            lost = count - len(packets(session, count, gap_s=0.0001))
        low, high = binom.interval(0.95, count, loss)
        verdict = "" if low <= lost <= high else "  outside"
        print(f"{loss:<8} {lost / count:11.5f}   {low / count:.5f} to {high / count:.5f}   {count:9}{verdict}")


def goodput_bps(session: lab.Session, seconds: float) -> float:
    """Return the rate of one TCP connection from a to b, as iperf3 counts it, without its first second."""
    server = session.exec("b", ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    words = ["iperf3", "-c", "b", "-t", str(seconds), "-O", "1", "-J"]
    report = session.run("a", words, capture_output=True, text=True, timeout=60).stdout
    server.wait(20)
    return float(json.loads(report)["end"]["sum_received"]["bits_per_second"])


def flooded_bps(session: lab.Session, offered_bps: float) -> tuple[float, float]:
    """Send datagrams from a to b; return what a sent and what reached b's interface from the fifth to the tenth second.

    By then, the bucket is empty. Interfaces count, so that no packet is lost that arrived.
    """
    gap_s = 8 * FLOOD_FRAME_BYTES / offered_bps
    sender = session.exec("a", [sys.executable, "-c", FLOOD, "b", str(gap_s), "12"])
    seen = []
    for wait_s in (5.0, 5.0):
        time.sleep(wait_s)
        seen.append((time.monotonic(), interface_packets(session, "a", sent=True), interface_packets(session, "b")))
    sender.wait(30)
    (begin_s, *before), (end_s, *after) = seen
    sent, received = (
        8 * FLOOD_FRAME_BYTES * (late - early) / (end_s - begin_s) for early, late in zip(before, after, strict=True)
    )
    return sent, received


def rates(seed: int) -> None:
    """Print how far rates are from the Topology's, for policers and for shaped links with the element in between."""
    print("\nrate      link                        wire rate   error")
    for rate in RATES:
        wire_bps = parse_rate(rate)
        for latency in ("0.2ms", "10ms"):
            with lab.session(two(egress=rate, latency=latency), agents=False, seed=seed) as session:
                got_bps = goodput_bps(session, 5) / GOODPUT_PER_WIRE
            print(
                f"{rate:9} HTB, then {latency:<8} (TCP) {format_rate(got_bps):>17} {100 * (got_bps / wire_bps - 1):6.2f} %"
            )
        if wire_bps > 200e6:
            continue
        depths = {"policer": BUCKET_S * wire_bps / 8, "element's queue": wire_bps / 8}
        for name, depth in depths.items():
            keys = {"burst": f"{depth:.0f}", "policer": name == "policer"}
            with lab.session(two(egress=rate, **keys), agents=False, seed=seed) as session:
                offered_bps, got_bps = flooded_bps(session, 1.5 * wire_bps)
            # Below the rate nothing is dropped, and the rate that arrives is the sender's.
            error = f"{100 * (got_bps / wire_bps - 1):6.2f} %" if offered_bps > 1.1 * wire_bps else "sender too slow"
            print(f"{rate:9} {name:<17} (UDP) {format_rate(got_bps):>17} {error} of {format_rate(offered_bps)} sent")


def element_of(session: lab.Session) -> int:
    """Return the process number of a lab's element."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            line = (path.parent / "cmdline").read_bytes().split(b"\0")
            if line[1:2] == [b"impair"] and str(session.folder).encode() in path.read_bytes():
                return int(path.parent.name)
        except OSError:
            continue
    raise SystemExit("no element runs")


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interface_packets(session: lab.Session, host: str, *, sent: bool = False) -> int:
    """Return how many packets a host's interface has received or sent, super-packets as one."""
    text = session.run(host, ["cat", "/proc/net/dev"], capture_output=True, text=True).stdout
    return int(next(line for line in text.splitlines() if "eth0" in line).split(":")[1].split()[9 if sent else 1])


def capacity(seed: int) -> None:
    """Print how many packets the element carries, and at what cost."""
    print("\npackets                     goodput    packets/s  element's share of a core  packets/s on one core  idle")
    for name, keys in (
        ("1,514 B, latency and loss", {"latency": "0.2ms", "loss": 1e-9}),
        ("up to 16 kB, latency", {"latency": "0.2ms"}),
    ):
        with ThreadPoolExecutor() as pool, lab.session(two(**keys), agents=False, seed=seed) as session:
            pid = element_of(session)
            transfer = pool.submit(goodput_bps, session, 6)
            time.sleep(2.5)
            begun, used_s, seen, ticks = (
                time.monotonic(),
                processor_s(pid),
                interface_packets(session, "b"),
                processor_times(),
            )
            time.sleep(3)
            took_s = time.monotonic() - begun
            used_s, count = processor_s(pid) - used_s, interface_packets(session, "b") - seen
            all_ticks, idle_ticks = (after - before for before, after in zip(ticks, processor_times(), strict=True))
            got_bps = transfer.result()
        print(
            f"{name:25} {format_rate(got_bps):>10} {count / took_s:12.0f} {used_s / took_s:26.2f} "
            f"{count / used_s:22.0f} {100 * idle_ticks / all_ticks:4.0f} %"
        )


def main() -> None:
    """Print a table for each property."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=2000, help="datagrams for each delay and jitter")
    parser.add_argument("--lost", type=int, default=40_000, help="datagrams for each loss")
    parser.add_argument("--seed", type=int, default=1)
    tables = ("delays", "jitters", "losses", "rates", "capacity")
    parser.add_argument("--only", choices=tables, nargs="+", default=tables)
    arguments = parser.parse_args()
    print(f"machine: {machine()}\nseed: {arguments.seed}")
    if "delays" in arguments.only:
        delays(arguments.packets, arguments.seed)
    if "jitters" in arguments.only:
        jitters(arguments.packets, arguments.seed)
    if "losses" in arguments.only:
        losses(arguments.lost, arguments.seed)
    if "rates" in arguments.only:
        rates(arguments.seed)
    if "capacity" in arguments.only:
        capacity(arguments.seed)


if __name__ == "__main__":
    main()
