"""The front door: a Network and an App in, a Placement of one task a host out (the RPCA paper, section II-C).

A mapping's time is that of its busiest host: all it sends one after the other, or all it receives, each message by the
alpha-beta model. Unlike `place`, which counts what links carry, it keeps one task a host and counts latencies.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.app import App, Constraints
from gavotte.formats.history import Floats
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement

Ints = npt.NDArray[np.int64]

METHODS = ("greedy", "ring", "exchange")
"""`greedy` is the paper's (Hoefler and Snir, ICS '11), `ring` its baseline, `exchange` goes on from the better one."""

MOST_EXCHANGES = 1000


@dataclass(frozen=True)
class _Problem:
    """T tasks and N hosts; E messages.

    Attributes:
        source: (E,) tasks.
        target: (E,) tasks.
        bytes: (E,) of each message.
        alpha_s: (N, N) seconds, row = source.
        per_byte_s: (N, N) seconds a byte.
    """

    tasks: int
    source: Ints
    target: Ints
    bytes: Floats
    alpha_s: Floats
    per_byte_s: Floats


def map_tasks(network: Network, app: App, method: str = "exchange", *, seed: int = 0) -> Placement:
    """Gives each task a host of its own.

    `ring` puts task i on host i. `greedy` puts the task with most bytes on the host with most bandwidth, then again and
    again the task with the heaviest transfer to a placed one on the free host with the best bandwidth to that one's; it
    starts anew where tasks do not talk to each other. `exchange` starts from the better of the two and swaps
    tasks of the busiest host with others (or moves them to free hosts) while that makes the busiest host less busy.

    Args:
        network: what is believed of the pairs.
        app: its transfers; phases count as one.
        method: see `METHODS`.
        seed: repeated in the Placement; nothing is drawn.

    Returns:
        `completion_s` is the busiest host's time, `bound_s` 0: nothing is proven.

    Raises:
        GavotteError: for an unknown method, too many tasks, constraints, a task that does not fit its host, or a pair
            of unknown rate.
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
    problem = _problem(network, app)
    made = {"ring": np.arange(problem.tasks, dtype=np.int64)}
    if method != "ring":
        made["greedy"] = _greedy(problem)
    if method == "exchange":
        made["exchange"] = _exchanged(problem, min(made.values(), key=lambda hosts: _busy(problem, hosts).max()))
    hosts = made[method]
    for task, host in zip(app.task, (network.hosts[int(at)] for at in hosts), strict=True):
        if task.cpus > host.cpus or 0 < host.memory_bytes < task.memory_bytes:
            raise GavotteError(
                f"task {task.name} needs more cores or memory than {host.name} has",
                hint="use `gavotte place`, which finds a host that has them",
            )
    busy_s = _busy(problem, hosts)
    worst = int(busy_s.argmax())
    place, way = worst % len(network.hosts), "out of" if worst < len(network.hosts) else "into"
    return Placement(
        apps=[app.name],
        method=method,
        assignment={task.name: network.names[int(host)] for task, host in zip(app.task, hosts, strict=True)},
        completion_s=float(busy_s[worst]),
        bound_s=0.0,
        optimal=False,
        bottleneck=f"{way} {network.names[place]}",
        elapsed_s=time.perf_counter() - started,
        seed=seed,
    )


def busiest_s(app: App, hosts: Sequence[int], alpha_s: Floats, per_byte_s: Floats) -> Floats:
    """What a mapping takes on each of n networks.

    Args:
        app: its transfers.
        hosts: the host of each task.
        alpha_s: (n, N, N) seconds, row = source.
        per_byte_s: (n, N, N) seconds a byte.

    Returns:
        (n,) seconds.
    """
    at = np.asarray(hosts, dtype=np.int64)
    times = []
    for alpha, per_byte in zip(alpha_s, per_byte_s, strict=True):
        source, target, sizes = _messages(app)
        times.append(float(_busy(_Problem(len(app.task), source, target, sizes, alpha, per_byte), at).max()))
    return np.array(times)


def keys(placement: Placement, hosts: Sequence[str]) -> list[int]:
    """The new rank of each process that runs already, one on each host: the key of `MPI_Comm_split`.

    The process on the host of task t becomes rank t; nobody moves. Processes on hosts without a task come last.

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
    alpha_s, per_byte_s = _core.Network(network).alpha_beta(list(range(len(network.hosts))))
    return _Problem(len(app.task), *_messages(app), alpha_s, per_byte_s)


def _busy(problem: _Problem, hosts: Ints) -> Floats:
    """(2N,) how long each host sends, then how long each receives."""
    source, target = hosts[problem.source], hosts[problem.target]
    seconds = problem.alpha_s[source, target] + problem.bytes * problem.per_byte_s[source, target]
    size = len(problem.alpha_s)
    return np.concatenate(
        [np.bincount(source, seconds, minlength=size), np.bincount(target, seconds, minlength=size)]
    ).astype(np.float64)


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
    found = _core.exchanged(
        problem.alpha_s,
        problem.per_byte_s,
        source=problem.source.tolist(),
        target=problem.target.tolist(),
        size_bytes=problem.bytes.tolist(),
        hosts=start.tolist(),
        most=MOST_EXCHANGES,
    )
    return np.array(found, dtype=np.int64)
