"""The lab of the real runs: twelve hosts in four racks, and in each rack a stranger who loads its uplink."""

from __future__ import annotations

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
STRANGERS = tuple(f"s{rack}" for rack in range(RACKS))
EGRESS_MBPS = (30, 120)
UPLINK_MBPS = (120, 240)
STRANGER_MBPS = 200


def drawn(seed: int) -> tuple[list[int], list[int], list[int]]:
    """Rack of each host (hosts are numbered across racks), egress of each, uplink of each rack, in Mbit/s."""
    generator = np.random.default_rng(seed)
    rack = [int(r) for r in generator.permutation(np.repeat(np.arange(RACKS), PER_RACK))]
    egress = [int(rate) for rate in generator.integers(*EGRESS_MBPS, len(HOSTS))]
    return rack, egress, [int(rate) for rate in generator.integers(*UPLINK_MBPS, RACKS)]


def topology(seed: int) -> Topology:
    """The cloud of a seed."""
    rack, egress, uplink = drawn(seed)
    switches = [{"name": "core"}]
    switches += [{"name": f"tor{r}", "parent": "core", "up": f"{uplink[r]}mbit"} for r in range(RACKS)]
    hosts = [
        {"name": name, "switch": f"tor{rack[i]}", "egress": f"{egress[i]}mbit", "cpus": 4.0}
        for i, name in enumerate(HOSTS)
    ]
    hosts += [{"name": name, "switch": f"tor{r}", "egress": f"{STRANGER_MBPS}mbit"} for r, name in enumerate(STRANGERS)]
    return Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts})


def truth(seed: int) -> Network:
    """What each pair carries when nobody else sends."""
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


def tenants(session: lab.Session) -> Inventory:
    """The lab's inventory without the strangers."""
    inventory = read_inventory(session.hosts_file)
    return inventory.model_copy(update={"host": [host for host in inventory.host if host.name in HOSTS]})


@contextmanager
def strangers(session: lab.Session, size_bytes: int, wait_s: float, seed: int) -> Iterator[None]:
    """Each stranger sends messages to others while the block runs."""
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
