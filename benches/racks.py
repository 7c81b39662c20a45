"""Measures oversubscribed racks: the error of each path's rate alone, and of each shared link's total rate.

    make bench-racks [ARGS="--clouds 40 --seed 0 --labs 4 --method train"]

Random clouds of 8 to 16 hosts in 2 to 4 racks have unequal hosts. Their uplinks (and some downlinks of their own) are
oversubscribed 1 to 8 times. The measurement knows only the hosts. Each cloud is measured twice: as it is, and without
limits above the hosts, to compare the bytes.

`simulated` clouds answer with max-min fair shares (`tests/measure/played_network.py`); `lab` ones send real packets,
300 Mbit/s together at most. A shared link is one that cuts the total rate of its hosts by 15 % or more. It counts as
found if the Network has a cap within 3 % of it.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from benches.machine import machine
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.measure.random_clouds import OBSERVABLE

from gavotte import lab
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.topology import Topology
from gavotte.measure import Measurement, MeasureQuestion, carry_out, plan_measurement
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE

RATE_ERROR, LINK_ERROR, MOST_BYTES = 0.02, 0.03, 1.5


@dataclass(frozen=True)
class Outcome:
    """One cloud, measured with its limits and without."""

    where: str
    seed: int
    hosts: int
    racks: int
    oversubscription: float
    paths: int
    answered: int
    worst_error: float
    links: int
    recognised: int
    worst_link_error: float
    wrong: int
    seconds: float
    megabytes: float
    times_bytes: float

    @property
    def good(self) -> bool:
        """Whether all goals are met."""
        return (
            self.answered == self.paths
            and self.worst_error <= RATE_ERROR
            and self.recognised == self.links
            and self.wrong == 0
            and self.times_bytes <= MOST_BYTES
        )

    def line(self) -> str:
        """Return the row of the table."""
        return (
            f"{self.where:<9} {self.seed:>5} {self.hosts:>5} {self.racks:>5} {self.oversubscription:>6.1f} "
            f"{self.answered:>5}/{self.paths:<5} {100 * self.worst_error:>6.2f}% {self.recognised:>5}/{self.links:<3} "
            f"{100 * self.worst_link_error:>6.2f}% {self.wrong:>5} {self.seconds:>7.1f} {self.megabytes:>7.0f} "
            f"{self.times_bytes:>6.2f}  {'' if self.good else 'MISSED'}"
        )


HEADER = (
    f"{'where':<9} {'seed':>5} {'hosts':>5} {'racks':>5} {'over':>6} {'paths':>11} {'rates':>7} {'links':>9} "
    f"{'error':>7} {'wrong':>5} {'seconds':>7} {'MB':>7} {'times':>6}"
)


def random_racks(seed: int, *, most_mbps: int = 300) -> tuple[Topology, float]:
    """Draw a cloud and the oversubscription of its racks.

    Args:
        seed: of everything.
        most_mbps: highest rate at which half of the hosts may send at once.
    """
    rng = random.Random(f"racks {seed}")
    hosts, racks, over = rng.randint(8, 16), rng.randint(2, 4), rng.choice([1, 1.5, 2, 3, 4, 6, 8])
    base = 2 * most_mbps // hosts
    vms = [
        {"name": f"vm{i}", "switch": f"rack{i % racks}", "egress": f"{rng.choice([base, base, base * 3 // 4])}mbit"}
        for i in range(hosts)
    ]
    switches: list[dict[str, object]] = [{"name": "core"}]
    for rack in range(racks):
        mbps = sum(int(str(vm["egress"]).removesuffix("mbit")) for vm in vms[rack::racks])
        switch: dict[str, object] = {"name": f"rack{rack}", "parent": "core"}
        if over > 1:
            switch["up"] = f"{max(4, round(mbps / over))}mbit"
            if rng.random() < 0.3:
                switch["down"] = f"{max(4, round(mbps / over * rng.uniform(0.7, 1.4)))}mbit"
        switches.append(switch)
    return builders.topology(vms, switches=switches), over


def unlimited(topology: Topology) -> Topology:
    """Return the same hosts without limits above them."""
    return topology.model_copy(
        update={"switch": [s.model_copy(update={"up": None, "down": None}) for s in topology.switch]}
    )


def every_pair(inventory: Inventory, seed: int, method: str) -> Measurement:
    """Measure all pairs, also where few would show the rates of all."""
    return carry_out(plan_measurement(MeasureQuestion(inventory, method=method, seed=seed, scale="pairs")))


def in_lab(topology: Topology, seed: int, method: str) -> Measurement:
    """Real packets."""
    with lab.session(topology, source="bench-racks") as cloud:
        return every_pair(read_inventory(cloud.hosts_file), seed, method)


def simulated(topology: Topology, seed: int, method: str) -> Measurement:
    """No packets."""
    network = PlayedNetwork(Oracle(topology), seed=seed)
    with network.held():
        return every_pair(network.inventory, seed, method)


def shared_links(topology: Topology) -> dict[tuple[frozenset[str], str], float]:
    """Return the limits that a tenant can see: TCP goodput by members of the rack and direction."""
    oracle = Oracle(topology)
    size = len(oracle.names)
    crossing = {(i, j): oracle.path(i, j) for i in range(size) for j in range(size) if i != j}
    users = {name: frozenset(pair for pair, path in crossing.items() if name in path) for name in oracle.links}
    values: dict[tuple[frozenset[str], str], float] = {}
    for switch in topology.switch:
        members = frozenset(host.name for host in topology.host if host.switch == switch.name)
        for way, name in (("up", f"out {switch.name}"), ("down", f"in {switch.name}")):
            mine = users.get(name, frozenset())
            if len({source for source, _ in mine}) < 2 or len({target for _, target in mine}) < 2:
                continue
            # With two racks, one's uplink and the other's downlink are one link from outside.
            alike = {other: oracle.links.pop(other) for other in users if users[other] == mine}
            could_bps = float(oracle.rates(sorted(mine)).sum())
            oracle.links |= alike
            if could_bps >= OBSERVABLE * min(alike.values()):
                values[members, way] = min(alike.values()) * GOODPUT_PER_WIRE
    return values


def judge(where: str, seed: int, topology: Topology, over: float, result: Measurement, plain: Measurement) -> Outcome:
    """Compare the Network with the truth."""
    oracle = Oracle(topology)
    size = len(oracle.names)
    truth = np.array([[oracle.rates([(i, j)])[0] if i != j else np.nan for j in range(size)] for i in range(size)])
    error = np.abs(8 * result.history.beta_Bps[0] / (truth * GOODPUT_PER_WIRE) - 1)
    links = shared_links(topology)
    recognised, wrong, link_errors = 0, 0, [0.0]
    groups = {frozenset(group.members): group for group in model(result.history, method="median").groups}
    for (members, way), limit_bps in links.items():
        group = groups.get(members)
        said_bps = None if group is None else group.up_bps if way == "up" else group.down_bps
        if said_bps is not None:
            off = abs(said_bps / limit_bps - 1)
            link_errors.append(off)
            recognised += off <= LINK_ERROR
            wrong += off > LINK_ERROR
    return Outcome(
        where=where,
        seed=seed,
        hosts=size,
        racks=len(topology.switch) - 1,
        oversubscription=over,
        paths=result.paths,
        answered=result.answered,
        worst_error=float(np.nanmax(error)),
        links=len(links),
        recognised=recognised,
        worst_link_error=max(link_errors),
        wrong=wrong,
        seconds=result.seconds,
        megabytes=result.bytes_sent / 1e6,
        times_bytes=result.bytes_sent / plain.bytes_sent,
    )


def run(where: str, seeds: range, method: str, take: Callable[[Topology, int, str], Measurement]) -> list[Outcome]:
    """Measure clouds, print a line for each and their totals."""
    outcomes = []
    for seed in seeds:
        topology, over = random_racks(seed)
        outcomes.append(
            judge(where, seed, topology, over, take(topology, seed, method), take(unlimited(topology), seed, method))
        )
        print(outcomes[-1].line(), flush=True)
    if outcomes:
        print(
            f"{where}: {sum(o.good for o in outcomes)} of {len(outcomes)} clouds as wanted; "
            f"{sum(o.answered for o in outcomes)} of {sum(o.paths for o in outcomes)} paths answered, "
            f"worst rate {100 * max(o.worst_error for o in outcomes):.2f} % off; "
            f"{sum(o.recognised for o in outcomes)} of {sum(o.links for o in outcomes)} shared links found, "
            f"{sum(o.wrong for o in outcomes)} wrong, worst {100 * max(o.worst_link_error for o in outcomes):.2f} % off; "
            f"{statistics.median(o.times_bytes for o in outcomes):.2f} times the bytes in the median, "
            f"{max(o.times_bytes for o in outcomes):.2f} at most"
        )
    return outcomes


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clouds", type=int, default=40, help="simulated")
    parser.add_argument("--labs", type=int, default=4, help="of them again with real packets")
    parser.add_argument("--seed", type=int, default=0, help="of the first cloud")
    parser.add_argument("--method", default="train")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(f"{machine()}; seed {args.seed}, {args.clouds} simulated clouds, {args.labs} labs")
    print(HEADER, flush=True)
    outcomes = run("simulated", range(args.seed, args.seed + args.clouds), args.method, simulated)
    outcomes += run("lab", range(args.seed, args.seed + args.labs), args.method, in_lab)
    if args.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))


if __name__ == "__main__":
    main()
