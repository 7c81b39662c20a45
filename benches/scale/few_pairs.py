"""Measures many hosts by few pairs (`measure --scale structure`), and compares the result with the truth.

    make bench-scale [ARGS="--labs 16 32 48 96 --played 128 512 --clouds 5 --all-pairs 48 --seed 0"]

Hosts are in unequal racks, whose uplinks are oversubscribed 2 to 6 times. `played` clouds answer with max-min fair shares
(`tests/measure/played_network.py`) to the real controller; `lab` ones send real packets, 300 Mbit/s together at most.

- *pairs* are those measured, as a share of all.
- *misplaced* counts hosts whose rack has other hosts than the true one.
- *off* is the share of all pairs that are off by more than 5 %, next to what the measurement said it is at most.
- *worst link* is the largest error of a rack's uplink or downlink that limits its hosts.

Two more tables show how few pairs find the racks of up to 4,096 hosts by pivots: probed pairs as a share of all, calls to
each agent, rounds of small packets, and hosts whose rack came out wrong. The first counts routers. The second has round
trips of 30, 55 and 85 us, to which hosts add up to 1 us each and a ping up to 40 us in the mean.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.recorded import command_line, write_figure
from tests import builders
from tests.agents.test_tiers import Cloud
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork

from gavotte import lab
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.pivots import count_by_pivots
from gavotte.agents.schedule import Answer, Schedule
from gavotte.agents.tiers import find_tiers
from gavotte.formats.history import Floats
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.measure import Measurement, MeasureQuestion, carry_out, plan_measurement
from gavotte.measure.plan.path_plan import Scale
from gavotte.model import check_held_out, find_constant, model
from gavotte.tables import matrix
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.hierarchy import RACK_HOPS

RACK_HOSTS = (8, 24)
MOST_RACKS = 6
OVERSUBSCRIBED = (2, 3, 4, 6)
LAB_MBPS = 300
"""Highest rate at which half of a lab's hosts may send at once."""

SHOWS = 1.15
"""A link shows if its hosts could fill it this many times."""

PLAYED_MBPS = (100, 200, 300, 400)
PIVOT_HOSTS = (128, 1024, 4096)
PIVOT_RACK_HOSTS = (16, 48)
PIVOT_COLUMNS = ["hosts, racks by", "pairs", "calls", "rounds", "wrong"]
TRIP_CLOUDS, JITTERS_US = 5, (10, 40)

COLUMNS = [
    "cloud",
    "hosts",
    "racks",
    "pairs",
    "seconds",
    "GB",
    "misplaced",
    "median error",
    "99 %",
    "off",
    "said",
    "worst link",
]


@dataclass(frozen=True)
class Outcome:
    """One measurement compared with its cloud."""

    cells: list[str]
    held: bool

    def line(self) -> str:
        """Return the row of the table."""
        return " ".join(f"{cell:>12}" for cell in self.cells) + ("" if self.held else "  STATEMENT FALSE")


def cloud(hosts: int, seed: int, rates_mbps: Sequence[int]) -> Topology:
    """Draw a cloud of unequal racks whose hosts have one of these rates."""
    rng = random.Random(f"scale {hosts} {seed}")
    sizes: list[int] = []
    while sum(sizes) < hosts:
        least, most = RACK_HOSTS
        size = rng.randint(max(2, min(least, hosts // 3)), min(most, max(4, hosts // 2)))
        sizes.append(min(size, hosts - sum(sizes)))
    vms: list[dict[str, object]] = []
    switches: list[dict[str, object]] = [{"name": "core"}]
    for rack, size in enumerate(sizes):
        rates = [rng.choice(rates_mbps) for _ in range(size)]
        up = max(max(rates_mbps), round(sum(rates) / rng.choice(OVERSUBSCRIBED)))
        switches.append({"name": f"rack{rack}", "parent": "core", "up": f"{up}mbit"})
        vms += [
            {"name": f"vm{len(vms) + k}", "switch": f"rack{rack}", "egress": f"{rate}mbit"}
            for k, rate in enumerate(rates)
        ]
    return builders.topology(vms, switches=switches)


def played(topology: Topology, seed: int, scale: Scale) -> Measurement:
    """No packets."""
    network = PlayedNetwork(Oracle(topology), seed=seed)
    with network.held():
        question = MeasureQuestion(network.inventory, seed=seed, scale=scale)
        return carry_out(plan_measurement(question))


def in_lab(topology: Topology, seed: int, scale: Scale) -> Measurement:
    """Real packets."""
    with lab.session(topology, source="bench-scale") as session:
        question = MeasureQuestion(read_inventory(session.hosts_file), seed=seed, scale=scale)
        return carry_out(plan_measurement(question))


def truth_of(oracle: Oracle) -> Floats:
    """Return the (N, N) TCP goodput of each pair alone."""
    size = len(oracle.names)
    rates = np.full((size, size), np.nan)
    for i in range(size):
        for j in range(size):
            if i != j:
                rates[i, j] = min(oracle.links[link] for link in oracle.path(i, j) if link in oracle.links)
    return rates * GOODPUT_PER_WIRE


def judge(kind: str, topology: Topology, result: Measurement) -> Outcome:
    """Compare a measurement with its cloud."""
    oracle = Oracle(topology)
    network = model(result.history, constant=find_constant(result.history, method="last", fill=True))
    truth = truth_of(oracle)
    error = np.abs(matrix(network.rate_bps) / truth - 1)[~np.eye(len(truth), dtype=bool)]
    off = float((error > 0.05).mean())
    check = check_held_out(result.history)
    most_share = 1.0 if check is None else check.most_share
    racks = {
        switch.name: frozenset(h.name for h in topology.host if h.switch == switch.name) for switch in topology.switch
    }
    inner = {member: frozenset(group.members) for group in network.groups for member in group.members}
    misplaced = sum(inner.get(host.name) != racks[str(host.switch)] for host in topology.host)
    pairs = int(np.isfinite(result.history.beta_Bps[-1]).sum())
    cells = [
        kind,
        str(len(truth)),
        str(len(topology.switch) - 1),
        f"{100 * pairs / (len(truth) * (len(truth) - 1)):.0f} %",
        f"{result.seconds:.1f}",
        f"{result.bytes_sent / 1e9:.2f}",
        str(misplaced),
        f"{100 * float(np.nanmedian(error)):.2f} %",
        f"{100 * float(np.nanquantile(error, 0.99)):.2f} %",
        f"{100 * off:.2f} %",
        "" if check is None else f"{100 * most_share:.2f} %",
        f"{100 * worst_link(topology, network):.1f} %",
    ]
    return Outcome(cells, off <= most_share)


def worst_link(topology: Topology, network: Network) -> float:
    """Return the largest relative error of the racks' limits that show; one that was not found is off by its whole."""
    groups = {frozenset(group.members): group for group in network.groups}
    racks = [switch for switch in topology.switch if switch.up is not None]
    offered = {rack.name: sum(h.egress or 0.0 for h in topology.host if h.switch == rack.name) for rack in racks}
    carried = {rack.name: min(offered[rack.name], rack.up or 0.0) for rack in racks}
    worst = 0.0
    for rack in racks:
        up = rack.up or 0.0
        group = groups.get(frozenset(host.name for host in topology.host if host.switch == rack.name))
        others = sum(carried.values()) - carried[rack.name]
        for demand, rate_bps in (
            (min(offered[rack.name], others), group.up_bps if group else None),
            (others, group.down_bps if group else None),
        ):
            if demand > SHOWS * up:
                worst = max(worst, abs((rate_bps or 0.0) / (up * GOODPUT_PER_WIRE) - 1))
    return worst


def by_pivots(hosts: int, seed: int) -> list[str]:
    """Find the racks of a cloud by pivots that answer at once; print and return the row."""
    rng = random.Random(f"pivots {hosts} {seed}")
    racks: list[int] = []
    while len(racks) < hosts:
        racks += [len(racks)] * min(rng.randint(*PIVOT_RACK_HOSTS), hosts - len(racks))
    of = np.array(racks)
    lengths = np.where(of[:, None] == of[None, :], RACK_HOPS, RACK_HOPS + 2)
    np.fill_diagonal(lengths, 0)
    names = [str(number) for number in range(hosts)]
    calls = rounds = pairs = 0

    def send(schedule: Schedule, _round_s: float) -> Iterator[Answer]:
        nonlocal calls, rounds, pairs
        calls, rounds, pairs = calls + 1, rounds + len(schedule), pairs + sum(map(len, schedule))
        for number, steps in enumerate(schedule):
            for step in steps:
                reply = pb.ProbeReply(hops=int(lengths[int(step.source), int(step.target)]))
                yield Answer(number, step.source, step.target, reply)

    counted = count_by_pivots(send, names, names, seed=seed).lengths.matrix()
    wrong = int((counted != lengths).any(axis=1).sum())
    share = f"{100 * pairs / (hosts * (hosts - 1) / 2):.1f} %"
    cells = [f"{hosts:,}, routers", share, str(calls), str(rounds), f"{100 * wrong / hosts:.2f} %"]
    print(_pivot_line(cells), flush=True)
    return cells


def _pivot_line(cells: Sequence[str]) -> str:
    return f"{cells[0]:>32}" + "".join(f"{cell:>9}" for cell in cells[1:])


def by_round_trips(hosts: int, jitter_us: int, seed: int) -> list[str]:
    """Find the racks of clouds by round trips; print and return the row of all of them."""
    pairs = calls = rounds = wrong = 0
    for number in range(TRIP_CLOUDS):
        cloud = Cloud(hosts, seed + number, jitter_s=jitter_us * 1e-6)
        tiers = find_tiers(cloud.send, cloud.names, cloud.names, seed=seed + number)
        wrong += cloud.misplaced(tiers)
        pairs, calls, rounds = pairs + len(cloud.asked), calls + cloud.calls, rounds + cloud.rounds
    share = f"{100 * pairs / TRIP_CLOUDS / (hosts * (hosts - 1) / 2):.1f} %"
    mean = [f"{each / TRIP_CLOUDS:.0f}" for each in (calls, rounds)]
    cells = [
        f"{hosts:,}, round trips, jitter {jitter_us} us",
        share,
        *mean,
        f"{100 * wrong / hosts / TRIP_CLOUDS:.2f} %",
    ]
    print(_pivot_line(cells), flush=True)
    return cells


def run(
    kind: str, take: Callable[[Topology, int, Scale], Measurement], size: int, seed: int, scale: Scale
) -> list[str]:
    """Measure one cloud and print its row."""
    rates = PLAYED_MBPS
    if kind == "lab":
        base = 2 * LAB_MBPS // size
        rates = (base * 3 // 4, base, base, base)
    topology = cloud(size, seed, rates)
    begin_s = time.monotonic()
    outcome = judge(f"{kind} {seed}{', all pairs' if scale == 'pairs' else ''}", topology, take(topology, seed, scale))
    print(f"{outcome.line()}  ({time.monotonic() - begin_s:.1f} s in all)", flush=True)
    return outcome.cells


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--labs", type=int, nargs="*", default=[16, 32, 48, 96], help="numbers of hosts with real packets"
    )
    parser.add_argument(
        "--played", type=int, nargs="*", default=[128, 512], help="numbers of hosts of simulated clouds"
    )
    parser.add_argument("--clouds", type=int, default=5, help="simulated clouds of each size")
    parser.add_argument(
        "--all-pairs", type=int, default=48, help="labs of at most this size are also measured by all pairs"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    args = parser.parse_args(arguments)
    about = machine()
    print(f"{about}; seed {args.seed}")
    print(_pivot_line(PIVOT_COLUMNS))
    by_pivot = [by_pivots(size, args.seed) for size in PIVOT_HOSTS]
    by_pivot += [by_round_trips(size, jitter_us, args.seed) for size in PIVOT_HOSTS for jitter_us in JITTERS_US]
    print(" ".join(f"{column:>12}" for column in COLUMNS), flush=True)
    rows = []
    for size in args.played:
        rows += [run("played", played, size, args.seed + number, "structure") for number in range(args.clouds)]
    for size in args.labs:
        rows.append(run("lab", in_lab, size, args.seed, "structure"))
        if size <= args.all_pairs:
            rows.append(run("lab", in_lab, size, args.seed, "pairs"))
    if args.record is not None:
        write_figure(
            args.record / "many-hosts-racks.json",
            title="Racks of many hosts: pairs that are probed",
            command=command_line("scale", args.record),
            seed=str(args.seed),
            samples=f"one cloud by routers, the mean of {TRIP_CLOUDS} clouds by round trips",
            about=about,
            columns=PIVOT_COLUMNS,
            rows=by_pivot,
            plot={"kind": "bars", "columns": [3], "unit": "rounds of small packets"},
        )
        write_figure(
            args.record / "many-hosts-measured.json",
            title="Many hosts measured by few pairs: seconds",
            command=command_line("scale", args.record),
            seed=str(args.seed),
            samples="one measurement each",
            about=about,
            columns=COLUMNS,
            rows=rows,
            plot={"kind": "bars", "columns": [4], "unit": "seconds"},
        )
