"""Seeded applications and networks like Choreo's: ten hosts of four cores, tasks of half a core to four.

Families of applications: `sparse` (random pairs, log-normal bytes of sigma 1.6), `mixed` (two or three applications: a
shuffle, a ring and a star), `shuffle` (all-to-all from mappers to reducers, with skew). Networks are `hose` (egress and
ingress 300 to 1100 Mbit/s) or `pipe` (each ordered pair its own 300 to 1100 Mbit/s). Both have up to two pairs of hosts
on one machine at 4 Gbit/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gavotte.formats.app import FORMAT as APP_FORMAT
from gavotte.formats.app import App, Task, Transfer
from gavotte.formats.network import FORMAT as NETWORK_FORMAT
from gavotte.formats.network import Host, Network

HOSTS = 10
CORES = 4.0
FILLED = 0.9
"""Largest share of all cores that tasks need together."""

FAMILIES = ("sparse", "mixed", "shuffle")
SHARINGS = ("hose", "pipe")
TASKS = (8, 12, 16, 20)
COLOCATED_BPS = 4e9

Edges = list[tuple[int, int, int]]
"""Source task, target task, bytes."""


@dataclass(frozen=True)
class Case:
    """One application on one network."""

    name: str
    family: str
    network: Network
    app: App


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield `count` instances; families, sharing models and sizes take turns."""
    for index in range(count):
        family = FAMILIES[index % 3]
        sharing = SHARINGS[index // 3 % 2]
        tasks = TASKS[index // 6 % 4]
        rng = np.random.default_rng([seed, index])
        name = f"{family}-{sharing}-{tasks}-{index}"
        yield Case(name, family, network(HOSTS, CORES, sharing, rng), application(family, tasks, HOSTS * CORES, rng))


def power_law(tasks: int, rng: np.random.Generator) -> Edges:
    """Each task exchanges with three earlier ones, drawn by their number of partners (Barabasi and Albert)."""
    ends, edges = [0, 1, 1, 2, 2, 0], Edges()
    for task in range(3, tasks):
        for other in {ends[int(at)] for at in rng.integers(0, len(ends), 3)}:
            ends += [task, other]
            pair = (task, other) if rng.random() < 0.5 else (other, task)
            edges.append((*pair, _size(rng, 1.0)))
    return edges


def stencil(tasks: int, rng: np.random.Generator) -> Edges:
    """A grid, as square as possible, where each task sends its four neighbours about as much."""
    width = math.isqrt(tasks)
    near = [(t, t + 1) for t in range(tasks - 1) if (t + 1) % width] + [(t, t + width) for t in range(tasks - width)]
    return [(a, b, _size(rng, 0.3)) for one, other in near for a, b in ((one, other), (other, one))]


def cluster(
    family: str, tasks: int, hosts: int, cores: float, rng: np.random.Generator, *, full: bool
) -> tuple[Network, App]:
    """Return tasks of one core in a graph of a family, on hosts with caps; `full`: with a rate for each pair."""
    edges = {"power-law": power_law, "stencil": stencil}[family](tasks, rng)
    net = network(hosts, cores, "hose", rng)
    if full:
        rates = rng.uniform(100e6, 1100e6, (hosts, hosts)).round(-5).tolist()
        known = [[None if m == n else rate for n, rate in enumerate(row)] for m, row in enumerate(rates)]
        net = net.model_copy(update={"rate_bps": known})
    return net, _app(family, [1.0] * tasks, edges)


def network(hosts: int, cores: float, sharing: str, rng: np.random.Generator) -> Network:
    """Hosts of one size, rates of 300 to 1100 Mbit/s, 0 to 2 pairs on one machine."""
    machines = [f"pm{m}" for m in range(hosts)]
    pairs = int(rng.integers(0, 3))
    chosen = [int(host) for host in rng.permutation(hosts)[: 2 * pairs]]
    for one, other in zip(chosen[::2], chosen[1::2], strict=True):
        machines[other] = machines[one]
    hose = sharing == "hose"
    rate = rng.uniform(300e6, 1100e6, (hosts, hosts)).round(-5)
    caps = rng.uniform(300e6, 1100e6, hosts).round(-5)

    def pair(m: int, n: int) -> float | None:
        if m == n:
            return None
        if machines[m] == machines[n]:
            return COLOCATED_BPS
        return None if hose else float(rate[m, n])

    return Network(
        format=NETWORK_FORMAT,
        hosts=[
            Host(
                name=f"vm{m}",
                cpus=cores,
                machine=machines[m],
                egress_bps=float(caps[m]) if hose else None,
                ingress_bps=float(caps[m]) if hose else None,
            )
            for m in range(hosts)
        ],
        rate_bps=[[pair(m, n) for n in range(hosts)] for m in range(hosts)],
        latency_s=[[None] * hosts for _ in range(hosts)],
        sharing="hose" if hose else "pipe",
    )


def application(family: str, tasks: int, cores: float, rng: np.random.Generator) -> App:
    """Return an application of a family whose tasks fill at most `FILLED` of `cores`."""
    edges = {"sparse": _sparse, "mixed": _mixed, "shuffle": _shuffle}[family](tasks, rng)
    return _app(family, sizes(tasks, cores, rng), edges)


def sizes(tasks: int, cores: float, rng: np.random.Generator) -> list[float]:
    """Half a core to four in steps of half; while the sum is too large, halve one of the larger ones."""
    halves = rng.integers(1, 9, tasks)
    while halves.sum() > FILLED * cores * 2:
        large = np.flatnonzero(halves > 1)
        halves[rng.choice(large)] //= 2
    return [float(half) / 2 for half in halves]


def _sparse(tasks: int, rng: np.random.Generator) -> Edges:
    """Three transfers a task, between random pairs."""
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, tasks, (3 * tasks, 2)) if a != b}
    return [(a, b, _size(rng, 1.6)) for a, b in sorted(pairs)]


def _mixed(tasks: int, rng: np.random.Generator) -> Edges:
    """Two or three applications of different shape, without traffic between them."""
    parts = np.array_split(rng.permutation(tasks), int(rng.integers(2, 4)))
    shapes = (_shuffle, _ring, _star)
    edges: Edges = []
    for part in parts:
        shape = shapes[int(rng.integers(0, 3))]
        scale = float(rng.lognormal(0.0, 0.7))
        edges.extend((int(part[a]), int(part[b]), max(int(size * scale), 1)) for a, b, size in shape(len(part), rng))
    return edges


def _shuffle(tasks: int, rng: np.random.Generator) -> Edges:
    """Every mapper to every reducer; some reducers may get more."""
    mappers = max(tasks // 2, 1)
    skew = rng.lognormal(0.0, rng.uniform(0.0, 0.8), tasks)
    return [(a, b, max(int(_size(rng, 0.3) * skew[b]), 1)) for a in range(mappers) for b in range(mappers, tasks)]


def _ring(tasks: int, rng: np.random.Generator) -> Edges:
    return [(a, (a + 1) % tasks, _size(rng, 0.5)) for a in range(tasks) if tasks > 1]


def _star(tasks: int, rng: np.random.Generator) -> Edges:
    """The first task sends to and hears from all others."""
    return [edge for b in range(1, tasks) for edge in ((0, b, _size(rng, 1.0)), (b, 0, _size(rng, 1.0)))]


def _size(rng: np.random.Generator, sigma: float) -> int:
    """Log-normal bytes around 50 MB."""
    return max(int(5e7 * rng.lognormal(0.0, sigma)), 1)


def _app(name: str, cpus: list[float], edges: Edges) -> App:
    return App(
        format=APP_FORMAT,
        name=name,
        task=[Task(name=f"t{i}", cpus=each) for i, each in enumerate(cpus)],
        transfer=[Transfer(source=f"t{a}", target=f"t{b}", bytes=size) for a, b, size in edges],
    )


def tenants(tasks: int, hosts: int, cores: float, rng: np.random.Generator) -> tuple[Network, App]:
    """Many small applications on many hosts, for the middle and the large size: 86 % of all cores in use."""
    left, edges = tasks, Edges()
    while left > 0:
        size = min(int(rng.integers(10, 60)), left) if tasks > 1000 else min(int(rng.integers(6, 20)), left)
        first = tasks - left
        part = _shuffle(size, rng) if rng.random() < 0.3 and size <= 20 else _sparse(size, rng)
        scale = float(rng.lognormal(0.0, 0.7))
        edges.extend((a + first, b + first, max(int(bytes_ * scale), 1)) for a, b, bytes_ in part)
        left -= size
    halves = rng.integers(1, 9, tasks)
    budget = round(0.86 * hosts * cores * 2)
    while halves.sum() > budget:
        large = np.flatnonzero(halves > 1)
        step = min(int(halves.sum() - budget), len(large))
        halves[rng.choice(large, step, replace=False)] -= 1
    return network(hosts, cores, "hose", rng), _app("tenants", [float(half) / 2 for half in halves], edges)
