"""The lab of the real transfers: 24 hosts of ours, each behind one link with a neighbour that bursts.

Pairs of ours have rates of their own, as in the paper's clouds: shapers of single pairs in front of each host.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from benches.mpi import loss_based
from benches.rpca import traces
from benches.sharing import lab_of
from tests.measure.random_clouds import Cloud

from gavotte import lab
from gavotte.formats.history import Floats
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import Network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

HOSTS = tuple(f"h{i}" for i in range(24))
NEIGHBOURS = tuple(f"s{i}" for i in range(24))
RACKS = 6
NEAR_MBPS, FAR_MBPS = 32.0, 17.0
"""Median rates of pairs within a rack and between racks: with bursts on half of the links, two cores carry them."""
HOST_SPREAD, PAIR_SPREAD = 0.3, 0.5
"""Standard deviation of the logarithm of rates, by sender, by receiver and by pair.

It is three times that of the replays, with which a few dozen hosts leave a tree of one message at a time almost no
choice.
"""
RANGE_MBPS = (5.0, 38.0)
LINK_MBPS = 40
"""Rate each way, shared with the neighbour, connection by connection; no pair fills it alone."""
BURST_S = 0.25
"""Mean length of a burst: some messages' time."""
FLOWS = 16.0
"""Mean number of connections of a burst: robust estimators gain from those with long slow-downs."""


def drawn(seed: int) -> Floats:
    """(N, N) wire rates of pairs, bit/s."""
    generator, size = np.random.default_rng(seed), len(HOSTS)
    rack = generator.integers(0, RACKS, size)
    rate = np.where(rack[:, None] == rack[None, :], NEAR_MBPS, FAR_MBPS)
    unlike = generator.normal(0, HOST_SPREAD, (size, 1)) + generator.normal(0, HOST_SPREAD, (1, size))
    rate = rate * np.exp(unlike + generator.normal(0, PAIR_SPREAD, (size, size)))
    return np.asarray(np.round(1e6 * np.clip(rate, *RANGE_MBPS), -3), dtype=np.float64)


@contextmanager
def cloud(seed: int) -> Iterator[lab.Session]:
    """The cloud of a seed."""
    # Not a machine's NIC: that is shared host by host, and a burst could take at most half of it.
    switches = [{"name": "core"}]
    switches += [{"name": f"tor{i}", "parent": "core", "up": f"{LINK_MBPS}mbit"} for i in range(len(HOSTS))]
    hosts = [{"name": name, "switch": f"tor{i}", "cpus": 4.0} for i, name in enumerate(HOSTS)]
    hosts += [{"name": name, "switch": f"tor{i}"} for i, name in enumerate(NEIGHBOURS)]
    topology = Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts})
    rates = drawn(seed)
    pairs = {(i, j): float(rates[i, j]) for i in range(len(HOSTS)) for j in range(len(HOSTS)) if i != j}
    with lab_of(Cloud("pipe", topology, pairs)) as session:
        loss_based(session, (*HOSTS, *NEIGHBOURS))
        yield session


def truth(seed: int) -> Network:
    """Return the rate of each pair when no other host sends."""
    return traces.network_of(8 / (GOODPUT_PER_WIRE * drawn(seed)))


def tenants(session: lab.Session) -> Inventory:
    """Return the lab's inventory without the neighbours."""
    inventory = read_inventory(session.hosts_file)
    return inventory.model_copy(update={"host": [host for host in inventory.host if host.name in HOSTS]})


def wait_s(norm: float, probe_s: float) -> float:
    """Return the neighbours' mean silence at which about this share of probes is slowed down by 10 %.

    Two links could slow down each probe; one counts, because half of the bursts are too short or have too few
    connections.
    """
    return (BURST_S + probe_s) / -math.log(1 - norm) - BURST_S


@contextmanager
def bursting(session: lab.Session, silence_s: float, seed: int) -> Iterator[None]:
    """Have neighbours burst while the block runs."""
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
