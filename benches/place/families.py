"""Seeded graphs of tasks for large placements, as (E, 2) pairs of tasks that exchange bytes.

`geometric`: points in a square exchange with those nearby. `communities`: nine of ten partners are in a task's group of 40.
`small-world`: a ring, of which one link in ten leads anywhere. `stencil`: a grid. `power-law`: few tasks have most partners.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from benches.place.instances import power_law, stencil
from scipy.spatial import cKDTree

from gavotte.formats.app import FORMAT as APP_FORMAT
from gavotte.formats.app import App, Task, Transfer
from gavotte.formats.network import FORMAT as NETWORK_FORMAT
from gavotte.formats.network import Host, Network

_Pairs = npt.NDArray[np.intp]

PARTNERS = 8
"""Mean partners of a task in a geometric graph."""

COMMUNITY = 40
ROOM = 1.2
"""Cores for each task of one core."""


def _geometric(tasks: int, rng: np.random.Generator) -> _Pairs:
    tree = cKDTree(rng.random((tasks, 2)))
    return np.asarray(tree.query_pairs(np.sqrt(PARTNERS / np.pi / tasks), output_type="ndarray"))


def _communities(tasks: int, rng: np.random.Generator) -> _Pairs:
    one = rng.integers(0, tasks, 4 * tasks)
    near = one // COMMUNITY * COMMUNITY + rng.integers(0, COMMUNITY, len(one))
    other = np.where(rng.random(len(one)) < 0.9, np.minimum(near, tasks - 1), rng.integers(0, tasks, len(one)))
    return np.column_stack([one, other])


def _small_world(tasks: int, rng: np.random.Generator) -> _Pairs:
    one = np.repeat(np.arange(tasks), 3)
    near = (one + np.tile([1, 2, 3], tasks)) % tasks
    return np.column_stack([one, np.where(rng.random(len(one)) < 0.1, rng.integers(0, tasks, len(one)), near)])


def _listed(edges: Callable[[int, np.random.Generator], list[tuple[int, int, int]]]) -> Callable[..., _Pairs]:
    return lambda tasks, rng: np.array([(a, b) for a, b, _ in edges(tasks, rng)])


FAMILIES: dict[str, Callable[[int, np.random.Generator], _Pairs]] = {
    "geometric": _geometric,
    "communities": _communities,
    "small-world": _small_world,
    "stencil": _listed(stencil),
    "power-law": _listed(power_law),
}


def scaled(family: str, tasks: int, hosts: int, seed: int) -> tuple[Network, App]:
    """Return tasks of one core in a graph of a family, in random order, on hosts with caps of 300 to 1100 Mbit/s."""
    rng = np.random.default_rng([seed, tasks, hosts])
    pairs = FAMILIES[family](tasks, rng)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    turned = rng.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned][:, ::-1]
    sizes = (5e7 * rng.lognormal(0.0, 1.0, len(pairs))).astype(int) + 1
    pairs = rng.permutation(tasks)[pairs]
    caps = rng.uniform(300e6, 1100e6, hosts).round(-5)
    network = Network(
        format=NETWORK_FORMAT,
        hosts=[
            Host(name=f"vm{m}", cpus=tasks / hosts * ROOM, egress_bps=float(cap), ingress_bps=float(cap))
            for m, cap in enumerate(caps)
        ],
    )
    transfers = zip(pairs.tolist(), sizes.tolist(), strict=True)
    app = App(
        format=APP_FORMAT,
        name=family,
        task=[Task(name=f"t{i}") for i in range(tasks)],
        transfer=[Transfer(source=f"t{a}", target=f"t{b}", bytes=size) for (a, b), size in transfers],
    )
    return network, app


def partners(app: App, count: int) -> list[list[str]]:
    """Return disjoint groups of two to four tasks, each of a task and some that it exchanges bytes with."""
    near: dict[str, list[str]] = {task.name: [] for task in app.task}
    for transfer in app.transfer:
        near[transfer.source].append(transfer.target)
        near[transfer.target].append(transfer.source)
    groups: list[list[str]] = []
    grouped: set[str] = set()
    for name in near:
        group = [name, *[other for other in dict.fromkeys(near[name]) if other not in grouped][:3]]
        if name not in grouped and len(group) > 1 and len(groups) < count:
            groups.append(group)
            grouped.update(group)
    return groups
