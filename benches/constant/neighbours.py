"""The lab of the real transfers: twelve machines in four racks, each shared by a host of ours and a neighbour that bursts."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gavotte import lab
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import FORMAT as NETWORK
from gavotte.formats.network import Host, Network
from gavotte.formats.rates import GOODPUT_PER_WIRE
from gavotte.formats.topology import FORMAT, Topology

RACKS, PER_RACK = 4, 3
HOSTS = tuple(f"h{i}" for i in range(RACKS * PER_RACK))
NEIGHBOURS = tuple(f"s{i}" for i in range(RACKS * PER_RACK))
NIC_MBPS = (25, 125)
"""Each way, shared with the neighbour; together 0.75 Gbit/s in the mean, what two cores carry."""
UPLINK_MBPS = (100, 200)
BURST_S = 0.5
"""Mean length of a burst: a few messages'."""
FLOWS = 10.0
"""Connections of a burst: slow-downs x (1 + Exp(10)), those with which robust estimators gain (five times the usual)."""


def drawn(seed: int) -> tuple[list[int], list[int], list[int]]:
    """Rack of each machine (numbered across racks), its NIC, and the uplink of each rack, in Mbit/s."""
    generator = np.random.default_rng(seed)
    rack = [int(r) for r in generator.permutation(np.repeat(np.arange(RACKS), PER_RACK))]
    low, high = (math.log(rate) for rate in NIC_MBPS)
    nic = [round(math.exp(value)) for value in generator.uniform(low, high, len(HOSTS))]
    return rack, nic, [int(rate) for rate in generator.integers(*UPLINK_MBPS, RACKS)]


def topology(seed: int) -> Topology:
    """The cloud of a seed."""
    rack, nic, uplink = drawn(seed)
    switches = [{"name": "core"}]
    switches += [{"name": f"tor{r}", "parent": "core", "up": f"{uplink[r]}mbit"} for r in range(RACKS)]
    machines = [
        {"name": f"pm{i}", "switch": f"tor{rack[i]}", "rate": f"{nic[i]}mbit", "machine_rate": "1gbit"}
        for i in range(len(HOSTS))
    ]
    hosts = [{"name": name, "machine": f"pm{i}", "cpus": 4.0} for i, name in enumerate(HOSTS)]
    hosts += [{"name": name, "machine": f"pm{i}"} for i, name in enumerate(NEIGHBOURS)]
    return Topology.model_validate({"format": FORMAT, "switch": switches, "machine": machines, "host": hosts})


def truth(seed: int) -> Network:
    """What each pair carries when nobody else sends."""
    rack, nic, uplink = drawn(seed)
    size = len(HOSTS)

    def rate_bps(i: int, j: int) -> float:
        links = [nic[i], nic[j]] + [uplink[rack[i]], uplink[rack[j]]] * (rack[i] != rack[j])
        return 1e6 * GOODPUT_PER_WIRE * min(links)

    return Network(
        format=NETWORK,
        hosts=[Host(name=name) for name in HOSTS],
        rate_bps=[[rate_bps(i, j) if i != j else None for j in range(size)] for i in range(size)],
        latency_s=[[2e-4 if i != j else None for j in range(size)] for i in range(size)],
    )


def tenants(session: lab.Session) -> Inventory:
    """The lab's inventory without the neighbours."""
    inventory = read_inventory(session.hosts_file)
    return inventory.model_copy(update={"host": [host for host in inventory.host if host.name in HOSTS]})


def wait_s(norm: float, probe_s: float) -> float:
    """Mean silence of a neighbour at which about such a share of probes meets a burst at one of its two ends."""
    return 2 * (BURST_S + probe_s) / -math.log(1 - norm) - BURST_S


@contextmanager
def bursting(session: lab.Session, silence_s: float, seed: int) -> Iterator[None]:
    """Neighbours burst while the block runs."""
    program = Path(__file__).with_name("bursts.py")
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number, name in enumerate(NEIGHBOURS):
            others = [other for other in NEIGHBOURS if other != name]
            words = [str(1000 * seed + number), str(silence_s), str(BURST_S), str(FLOWS), *others]
            started.append(session.exec(name, [sys.executable, str(program), *words]))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
