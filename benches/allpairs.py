"""Measures all pairs of hosts whose rates are unknown to the tool: error, time, bytes, growth with hosts.

    make bench-allpairs [ARGS="--hosts 10 32 --repeats 3 --seed 1 --skip-iperf3"]

Rates are drawn per host from 50 to 300 Mbit/s. The same run also measures Choreo's trains as published, and serial
iperf3 on a sample of the paths (all of them would take 10 s each). The physical limit is the time of the trains' own
bytes if every host sends all the time.

Growth of time is also measured at rates that this machine can carry for all hosts together: its cores route 80,000
packets a second. 64 hosts of 50 to 300 Mbit/s need ten times that, so their time grows with the bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess

import numpy as np
from benches.machine import machine
from benches.topologies import racks

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import Topology
from gavotte.measure import Measurement, measure, plan_paths
from gavotte.terms.goodput import GOODPUT_PER_WIRE

PAPER_10_S = 180.0
GROWTH_MBPS = (2, 12)
"""With 64 hosts at once: 450 Mbit/s, 37,000 packets a second."""
IPERF3_S = 10


def row(label: str, topology: Topology, result: Measurement) -> str:
    """One line of the table."""
    truth = np.array([(host.egress or np.nan) * GOODPUT_PER_WIRE for host in topology.host])
    error = np.abs(8 * result.history.beta_Bps[0] / truth[:, None] - 1)
    error = error[np.isfinite(error)]
    proof = result.history.proof
    wrong = "-"
    if proof is not None:
        confident = proof.verdict[0] == 1
        off = np.abs(8 * result.history.beta_Bps[0] / truth[:, None] - 1) > 0.03
        wrong = str(int((confident & off).sum()))
    # Return the physical limit: each host sends its share of the bytes at its own rate, and the slowest host decides.
    per_host = result.bytes_sent / len(truth)
    limit_s = 8 * per_host / truth.min()
    return (
        f"{label:<22} {result.answered:>6}/{result.paths:<6} {100 * np.median(error):>8.3f}% {100 * error.max():>8.2f}% "
        f"{wrong:>6} {result.seconds:>8.2f} {result.bytes_sent / 1e6:>8.0f} {result.again:>6} {limit_s:>9.2f}"
    )


def iperf3(cloud: lab.Session, topology: Topology, pairs: list[tuple[str, str]], seconds: int) -> list[float]:
    """Return the relative errors of iperf3 on some paths, one after the other."""
    egress = {host.name: (host.egress or np.nan) * GOODPUT_PER_WIRE for host in topology.host}
    errors = []
    for source, target in pairs:
        server = cloud.exec(target, ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        try:
            for _ in range(50):
                client = ["iperf3", "-c", target, "-t", str(seconds), "-C", "cubic", "-J"]
                ran = cloud.run(source, client, capture_output=True, text=True, timeout=seconds + 20)
                document = json.loads(ran.stdout)
                if "error" not in document:
                    rate_bps = document["end"]["sum_received"]["bits_per_second"]
                    errors.append(abs(rate_bps / egress[source] - 1))
                    break
        finally:
            server.kill()
            server.wait()
    return errors


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=[10, 32, 64])
    parser.add_argument("--repeats", type=int, default=5, help="snapshots of the smallest cloud; 1 of the others")
    parser.add_argument("--iperf3-paths", type=int, default=3)
    parser.add_argument("--skip-iperf3", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(
        f"machine: {machine()}\nseed: {arguments.seed}; egress 50 to 300 Mbit/s at random, 32 kB buckets, one probe a path\n"
    )
    print(
        f"{'':<22} {'answered':>13} {'median':>9} {'max':>9} {'wrong':>6} {'wall s':>8} {'MB':>8} {'again':>6} {'limit s':>9}"
    )
    times: dict[int, list[float]] = {}
    for size in arguments.hosts:
        rng = random.Random(arguments.seed * 1000 + size)
        topology = racks([f"{rng.randint(50, 300)}mbit" for _ in range(size)], hosts_per_rack=8)
        with lab.session(topology, source="bench-allpairs") as cloud:
            inventory = read_inventory(cloud.hosts_file)
            for repeat in range(arguments.repeats if size == arguments.hosts[0] else 1):
                measurement = measure(inventory, method="train", seed=arguments.seed + repeat)
                times.setdefault(size, []).append(measurement.seconds)
                print(row(f"{size} hosts, train", topology, measurement), flush=True)
                if size == arguments.hosts[0]:
                    measurement = measure(inventory, method="choreo", seed=arguments.seed + repeat)
                    print(row(f"{size} hosts, choreo", topology, measurement), flush=True)
            if size == arguments.hosts[0] and not arguments.skip_iperf3:
                names = inventory.names
                everything = [(s, t) for s in names for t in names if s != t]
                pairs = random.Random(arguments.seed).sample(everything, arguments.iperf3_paths)
                errors = iperf3(cloud, topology, pairs, IPERF3_S)
                print(
                    f"{size} hosts, iperf3 {IPERF3_S} s   {len(errors)} of {len(everything)} paths tried: median error "
                    f"{100 * statistics.median(errors):.2f} %, max {100 * max(errors):.2f} %; all of them one by one: "
                    f"{len(everything) * IPERF3_S} s"
                )
    smallest = arguments.hosts[0]
    best = statistics.median(times[smallest])
    grown_times = {}
    for size in arguments.hosts:
        rng = random.Random(arguments.seed * 2000 + size)
        topology = racks([f"{rng.randint(*GROWTH_MBPS)}mbit" for _ in range(size)], hosts_per_rack=8)
        with lab.session(topology, source="bench-allpairs") as cloud:
            measurement = measure(read_inventory(cloud.hosts_file), method="train", seed=arguments.seed)
            grown_times[size] = measurement.seconds
            print(row(f"{size} hosts, {GROWTH_MBPS[0]}-{GROWTH_MBPS[1]} Mbit/s", topology, measurement), flush=True)
    print(
        f"\n{smallest} hosts: median {best:.2f} s of {len(times[smallest])} (goal 3 s; Choreo's paper: under {PAPER_10_S:.0f} s)"
    )
    for size in arguments.hosts[1:]:
        grown = times[size][0] / best
        slow = grown_times[size] / grown_times[smallest]
        print(
            f"{size} hosts: {times[size][0]:.1f} s = {grown:.1f} times; at {GROWTH_MBPS[0]} to {GROWTH_MBPS[1]} Mbit/s "
            f"{grown_times[size]:.1f} s = {slow:.1f} times; hosts {size / smallest:.1f} times, "
            f"paths {size * (size - 1) / smallest / (smallest - 1):.1f} times"
        )
    size = 196
    todo = plan_paths([str(i) for i in range(size)])
    # At 1 Gbit/s a train ends after 30 ms of proven saturation; 5 ms go to handshake and pings.
    per_round_s = 0.03 + 0.005
    print(
        f"196 hosts at 1 Gbit/s, calculated: {len(todo.first)} rounds x {1e3 * per_round_s:.0f} ms = "
        f"{len(todo.first) * per_round_s:.1f} s (RPCA's paper: about a minute for a matrix; physical limit of "
        f"{len(todo.first)} rounds x 30 ms: {len(todo.first) * 0.03:.1f} s)"
    )


if __name__ == "__main__":
    main()
