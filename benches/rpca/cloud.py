"""The labs of the real runs: hosts in four racks, and in each rack a neighbour that loads its uplink."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gavotte import lab
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import FORMAT as NETWORK
from gavotte.formats.network import Host, Network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

RACKS = 4
STRANGERS = tuple(f"s{rack}" for rack in range(RACKS))


@dataclass(frozen=True)
class Size:
    """Number of hosts, and the range of their rates in Mbit/s."""

    per_rack: int = 3
    egress_mbps: tuple[int, int] = (30, 120)
    uplink_mbps: tuple[int, int] = (120, 240)
    stranger_mbps: int = 200

    @property
    def hosts(self) -> tuple[str, ...]:
        """The tenant's hosts, numbered across racks."""
        return tuple(f"h{i}" for i in range(RACKS * self.per_rack))


LAB = Size()
HOSTS = LAB.hosts


def drawn(seed: int, size: Size = LAB) -> tuple[list[int], list[int], list[int]]:
    """Rack of each host (hosts are numbered across racks), egress of each, uplink of each rack, in Mbit/s."""
    generator = np.random.default_rng(seed)
    rack = [int(r) for r in generator.permutation(np.repeat(np.arange(RACKS), size.per_rack))]
    egress = [int(rate) for rate in generator.integers(*size.egress_mbps, len(size.hosts))]
    return rack, egress, [int(rate) for rate in generator.integers(*size.uplink_mbps, RACKS)]


def topology(seed: int, size: Size = LAB) -> Topology:
    """The cloud of a seed."""
    rack, egress, uplink = drawn(seed, size)
    switches = [{"name": "core"}]
    switches += [{"name": f"tor{r}", "parent": "core", "up": f"{uplink[r]}mbit"} for r in range(RACKS)]
    hosts = [
        {"name": name, "switch": f"tor{rack[i]}", "egress": f"{egress[i]}mbit", "cpus": 4.0}
        for i, name in enumerate(size.hosts)
    ]
    hosts += [
        {"name": name, "switch": f"tor{r}", "egress": f"{size.stranger_mbps}mbit"} for r, name in enumerate(STRANGERS)
    ]
    return Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts})


def truth(seed: int) -> Network:
    """Return the rate of each pair when no other host sends."""
    rack, egress, uplink = drawn(seed)
    size = len(HOSTS)
    rates = np.array([[egress[i]] * size for i in range(size)], dtype=np.float64)
    for i in range(size):
        for j in range(size):
            if rack[i] != rack[j]:
                rates[i, j] = min(egress[i], uplink[rack[i]], uplink[rack[j]])
    rates *= 1e6 * GOODPUT_PER_WIRE
    return Network(
        format=NETWORK,
        hosts=[Host(name=name) for name in HOSTS],
        rate_bps=[[float(rates[i, j]) if i != j else None for j in range(size)] for i in range(size)],
        latency_s=[[2e-4 if i != j else None for j in range(size)] for i in range(size)],
    )


def tenants(session: lab.Session, size: Size = LAB) -> Inventory:
    """Return the lab's inventory without the neighbours."""
    inventory = read_inventory(session.hosts_file)
    return inventory.model_copy(update={"host": [host for host in inventory.host if host.name in size.hosts]})


@contextmanager
def strangers(session: lab.Session, size_bytes: int, wait_s: float, seed: int) -> Iterator[None]:
    """Have each neighbour send messages to others while the block runs."""
    program = Path(__file__).with_name("traffic.py")
    words = [str(size_bytes), str(wait_s)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number, name in enumerate(STRANGERS):
            others = [other for other in STRANGERS if other != name]
            line = [sys.executable, str(program), str(seed + number), *words, *others]
            started.append(session.exec(name, line))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
