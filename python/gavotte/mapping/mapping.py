"""Map an App's tasks to a Network's hosts, one task a host, as in the RPCA paper, section II-C.

A mapping's time is that of all its transfers when they begin together and share links as the Network says. Each
transfer first waits for as long as its connection needs to start, as in `simulate`. Unlike `place`, which looks at one
link at a time, a mapping has one task a host and counts latencies.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.app import App, Constraints
from gavotte.formats.history import Floats
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.tables import matrix
from gavotte.terms.loss import with_loss
from gavotte.terms.ramp import starts_s
from gavotte.terms.usage import starts_slowly

Ints = npt.NDArray[np.int64]

METHODS = ("greedy", "ring", "exchange")
"""`greedy` is the paper's (Hoefler and Snir, ICS '11), `ring` its baseline, `exchange` improves both."""

MOST_EXCHANGES = 1000

MOST_HOSTS = 4096
"""Most hosts that a mapping can choose from. Their table of pairs takes up to 1.6 GB."""


@dataclass(frozen=True)
class _Problem:
    """E messages between T tasks that are to be mapped to N hosts.

    Attributes:
        ranks: one rank on each host.
        tasks: T.
        source: (E,) index of each message's sending task.
        target: (E,) index of each message's receiving task.
        bytes: (E,) size of each message.
        per_byte_s: (N, N) seconds a byte of a message alone on its path, row = source.
        starts: the Network on which connections need time to start; None = no start counts.
    """

    ranks: _core.Ranks
    tasks: int
    source: Ints
    target: Ints
    bytes: Floats
    per_byte_s: Floats
    starts: Network | None

    def at(self, hosts: Ints) -> dict[str, list[Any]]:
        """Return the messages as arguments of `Ranks.messages_s`, for tasks on these hosts: (T,) host indices."""
        source, target = hosts[self.source], hosts[self.target]
        ends = {"source": source.tolist(), "target": target.tolist(), "size_bytes": self.bytes.tolist()}
        if self.starts is not None:
            ends["start_s"] = _starts_s(self.starts, source, target, self.bytes)
        return ends


def map_tasks(network: Network, app: App, method: str = "exchange", *, seed: int = 0) -> Placement:
    """Give each task a host of its own, by one of three methods.

    - `ring` puts task i on host i.
    - `greedy` puts the task with most bytes on the host with most bandwidth. Then it repeats one step: it takes the
      task with the heaviest transfer to a placed task and puts it on the free host with the best bandwidth to that
      task's host. If no unplaced task exchanges bytes with a placed one, it repeats the first step with the remaining
      tasks.
    - `exchange` improves the mappings of both. It finds the link that is full for longest, and swaps tasks whose
      messages cross that link with other tasks, or moves them to free hosts. It continues while that shortens the time
      for which the link is full. Of all these mappings it returns the one that takes least time.

    Args:
        network: rates and latencies of the pairs.
        app: the application's tasks and transfers; phases count as one.
        method: see `METHODS`.
        seed: repeated in the Placement; nothing is drawn.

    Returns:
        `completion_s` is the time of all messages, `bottleneck` the link that holds the last one back, `bound_s` 0:
        nothing is proven.

    Raises:
        GavotteError: for an unknown method, too many tasks, constraints, a task that does not fit its host, a pair of
            unknown rate, or more than `MOST_HOSTS` hosts that differ.
    """
    if method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
    if len(app.task) > len(network.hosts):
        raise GavotteError(
            f"{len(app.task)} tasks need as many hosts, but the network has {len(network.hosts)}",
            hint="add hosts, or use `gavotte place`, which may put several tasks on one",
        )
    if app.constraints != Constraints():
        raise GavotteError(
            f"{app.name} has constraints, which a mapping does not keep",
            hint="use `gavotte place`, or leave [constraints] out",
        )
    started = time.perf_counter()
    network = _alike_once(network, len(app.task))
    problem = _problem(network, app)
    made = {"ring": np.arange(problem.tasks, dtype=np.int64)}
    if method != "ring":
        made["greedy"] = _greedy(problem)
    tried = [made[method]] if method in made else [*made.values(), *(_exchanged(problem, at) for at in made.values())]
    priced = [(problem.ranks.messages_s(**problem.at(hosts)), hosts) for hosts in tried]
    (seconds, bottleneck), hosts = min(priced, key=lambda each: each[0][0])
    for task, host in zip(app.task, (network.hosts[int(at)] for at in hosts), strict=True):
        lacking = any(host.resources.get(name, 0) < count for name, count in task.resources.items())
        if task.cpus > host.cpus * host.core_speed or 0 < host.memory_bytes < task.memory_bytes or lacking:
            raise GavotteError(
                f"task {task.name} needs more cores, memory or resources than {host.name} has",
                hint="use `gavotte place`, which finds a host that has them",
            )
    return Placement(
        apps=[app.name],
        method=method,
        assignment={task.name: network.names[int(host)] for task, host in zip(app.task, hosts, strict=True)},
        completion_s=seconds,
        bound_s=0.0,
        optimal=False,
        bottleneck=bottleneck,
        elapsed_s=time.perf_counter() - started,
        seed=seed,
    )


def times_s(
    app: App, snapshots: Iterable[_core.Ranks], network: Network | None = None, hosts: Sequence[str] = ()
) -> Floats:
    """Return the time of a mapping's transfers in each of n snapshots.

    Args:
        app: the application with the transfers.
        snapshots: for each snapshot, the tasks as ranks on their hosts; see `gavotte.collective.ranks_over`.
        network: the Network by which connections need time to start; None = no start counts.
        hosts: the host of each task; only used with a Network.

    Returns:
        (n,) seconds.
    """
    source, target, sizes = _messages(app)
    start_s: list[float] = []
    if network is not None and (slow := _slow(network, app)) is not None:
        at = np.array([slow.names.index(host) for host in hosts], dtype=np.int64)
        start_s = _starts_s(slow, at[source], at[target], sizes)
    ends: dict[str, list[Any]] = {"source": source.tolist(), "target": target.tolist(), "size_bytes": sizes.tolist()}
    return np.array([on.messages_s(**ends, start_s=start_s)[0] for on in snapshots])


def keys(placement: Placement, hosts: Sequence[str]) -> list[int]:
    """Return the new rank of each running process, one on each host: the key of `MPI_Comm_split`.

    The process on the host of task t becomes rank t. No process moves to another host. Processes on hosts without a
    task come last.

    Args:
        placement: from `map_tasks`.
        hosts: the host of each process, by its present rank.

    Raises:
        GavotteError: when no process runs on a host of the Placement, or two do.
    """
    task_on = {host: task for task, host in enumerate(placement.assignment.values())}
    missing = sorted(task_on.keys() - set(hosts))
    if missing:
        raise GavotteError(f"no process runs on {missing[0]}", hint="name the host of each process")
    if len(set(hosts)) < len(hosts):
        raise GavotteError("two processes run on one host", hint="name each host once")
    spare = iter(range(len(task_on), len(hosts)))
    return [task_on[host] if host in task_on else next(spare) for host in hosts]


def _messages(app: App) -> tuple[Ints, Ints, Floats]:
    at = {task.name: place for place, task in enumerate(app.task)}
    rows = [(at[t.source], at[t.target], t.bytes) for t in app.transfer if t.source != t.target and t.bytes > 0]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2].astype(np.float64)


def _problem(network: Network, app: App) -> _Problem:
    try:
        ranks = _core.Ranks(_core.Network(network.cautious()), list(range(len(network.hosts))))
    except ValueError as error:
        raise GavotteError(str(error)) from None
    starts = _slow(network, app)
    return _Problem(ranks, len(app.task), *_messages(app), ranks.alpha_beta()[1], starts)


def _slow(network: Network, app: App) -> Network | None:
    """Return the Network for `_starts_s` if the starts of connections count, as they do for `simulate`."""
    network = with_loss(network)
    return network if starts_slowly(network, [app]) else None


def _starts_s(network: Network, source: Ints, target: Ints, size_bytes: Floats) -> list[float]:
    """Return the seconds that each message's connection needs to start, without the latency of its path."""
    latency_s = np.nan_to_num(matrix(network.latency_s)[source, target])
    return list(np.maximum(starts_s(network, size_bytes, (source, target)) - latency_s, 0.0))


def _alike_once(network: Network, tasks: int) -> Network:
    """Return a Network of at most `MOST_HOSTS` hosts, without those that cannot change the mapping.

    If there are no matrices, hosts with the same caps and groups and with similar latencies are interchangeable, but
    for those of exceptions. Of each such kind the first T hosts stay, for T tasks.

    Raises:
        GavotteError: when more than `MOST_HOSTS` are left.
    """
    if len(network.hosts) <= MOST_HOSTS:
        return network
    kept = list(range(len(network.hosts)))
    if not network.rate_bps and not network.latency_s:
        around: dict[str, list[int]] = {}
        for number, group in enumerate(network.groups):
            for member in group.members:
                around.setdefault(member, []).append(number)
        on = Counter(host.machine for host in network.hosts)
        excepted = {name for each in network.exceptions for name in (each.source, each.target)}
        taken: Counter[object] = Counter()
        kept = []
        for place, host in enumerate(network.hosts):
            shared = host.machine if on[host.machine] > 1 else None
            room = (host.cpus * host.core_speed, host.memory_bytes, *sorted(host.resources.items()))
            caps = host.egress_bps, host.ingress_bps, _octave(host.latency_s)
            kind = (*caps, *room, shared, host.name * (host.name in excepted), *around.get(host.name, ()))
            taken[kind] += 1
            if taken[kind] <= tasks:
                kept.append(place)
    if len(kept) > MOST_HOSTS:
        raise GavotteError(
            f"{len(kept)} hosts that differ are more than the {MOST_HOSTS} that a mapping can choose from",
            hint="leave hosts out of the Network, or use `gavotte place`, which takes more",
        )
    return network.of_hosts(kept)


def _octave(seconds: float | None) -> int | None:
    """Return a number that times within a factor of two have in common."""
    return math.frexp(seconds)[1] if seconds else None


def _greedy(problem: _Problem) -> Ints:
    volume = np.zeros((problem.tasks, problem.tasks))
    np.add.at(volume, (problem.source, problem.target), problem.bytes)
    volume += volume.T
    with np.errstate(divide="ignore"):
        rate = np.where(problem.per_byte_s > 0, 1 / problem.per_byte_s, 0.0)
    both = rate + rate.T
    hosts = np.full(problem.tasks, -1, dtype=np.int64)
    free = np.ones(len(both), dtype=bool)
    # The heaviest transfer of each unplaced task to a placed one.
    pull, partner = np.zeros(problem.tasks), np.full(problem.tasks, -1, dtype=np.int64)
    for _ in range(problem.tasks):
        left = hosts < 0
        heaviest = int(np.where(left, pull, -1.0).argmax())
        if pull[heaviest] > 0:
            host = int(np.where(free, both[hosts[partner[heaviest]]], -1.0).argmax())
        else:
            heaviest = int(np.where(left, volume.sum(axis=1), -1.0).argmax())
            host = int(np.where(free, both.sum(axis=1), -1.0).argmax())
        hosts[heaviest], free[host] = host, False
        closer = volume[heaviest] > pull
        pull[closer], partner[closer] = volume[heaviest][closer], heaviest
    return hosts


def _exchanged(problem: _Problem, start: Ints) -> Ints:
    hosts = problem.ranks.exchanged(
        source=problem.source.tolist(),
        target=problem.target.tolist(),
        size_bytes=problem.bytes.tolist(),
        hosts=start.tolist(),
        most=MOST_EXCHANGES,
    )
    return np.array(hosts, dtype=np.int64)
