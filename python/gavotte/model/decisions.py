"""Small broadcast trees and task mappings, and the time that they take in a snapshot.

They serve to choose between estimators and to estimate the gain of tuning. The trees that applications run come from
`gavotte collective`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.formats.history import Floats

Indices = npt.NDArray[np.int64]

TASK_DEGREE = 8
TASK_BYTES = (5e6, 10e6)
"""Range of bytes of each edge, as in the RPCA paper, section V-A.

Graphs are sparse enough that mappings differ.
"""


@dataclass(frozen=True)
class BroadcastTree:
    """A broadcast tree: the sender of each host, and the order of the transfers.

    Attributes:
        parent: (N,) the host that sends to each host; the root's is itself.
        order: hosts in the order in which their transfers begin, the root first.
    """

    parent: Indices
    order: Indices


def earliest_first(times: Floats, root: int) -> BroadcastTree:
    """Return the broadcast tree that the earliest-completion-first heuristic builds.

    Args:
        times: (N, N) transfer times, NaN = not usable.
        root: the host that has the message.

    Raises:
        ValueError: when a host cannot be reached.
    """
    parent, order = _core.ecef_tree(np.ascontiguousarray(times), root)
    return BroadcastTree(parent.astype(np.int64), order.astype(np.int64))


def binomial(size: int, root: int) -> BroadcastTree:
    """Return the binomial tree by rank, as in MPICH's broadcast: each host sends to its farthest rank first."""
    parent, order = np.full(size, root), [root]

    def feed(rank: int, mask: int) -> Iterator[tuple[int, int, int]]:
        while mask:
            if rank + mask < size:
                yield rank, rank + mask, mask >> 1
            mask >>= 1

    top = 1 << max(0, (size - 1).bit_length() - 1)
    queue = [feed(0, top)] if size > 1 else []
    while queue:  # one transfer of each sender a round
        later = []
        for sender in queue:
            for rank, child, mask in sender:
                parent[(child + root) % size] = (rank + root) % size
                order.append((child + root) % size)
                later += [sender, feed(child, mask)]
                break
        queue = later
    return BroadcastTree(parent, np.array(order))


def broadcast_s(tree: BroadcastTree, times: Floats) -> Floats:
    """Return the time until the last host has the message, if each host sends to one child after the other.

    Args:
        tree: the broadcast tree.
        times: (..., N, N) transfer times.

    Returns:
        (...) seconds.
    """
    ready = np.zeros((times.shape[-1], *times.shape[:-2]))
    for host in tree.order[1:].tolist():
        sender = int(tree.parent[host])
        ready[host] = ready[sender] = ready[sender] + times[..., sender, host]
    return np.asarray(ready.max(axis=0))


@dataclass(frozen=True)
class TaskGraph:
    """As many tasks as hosts, and their transfers: transfer k sends bytes[k] from source[k] to target[k]."""

    source: Indices
    target: Indices
    bytes: Floats

    @cached_property
    def partners(self) -> dict[int, list[tuple[float, int]]]:
        """Bytes of each transfer of a task, sent or received, with the other task; without tasks that have none."""
        near: dict[int, list[tuple[float, int]]] = {}
        for source, target, size in zip(self.source.tolist(), self.target.tolist(), self.bytes.tolist(), strict=True):
            near.setdefault(source, []).append((size, target))
            near.setdefault(target, []).append((size, source))
        return near


def random_tasks(size: int, seed: int) -> TaskGraph:
    """Return a random task graph in which each task sends to `TASK_DEGREE` others."""
    rng = np.random.default_rng(seed)
    degree = min(TASK_DEGREE, size - 1)
    source = np.repeat(np.arange(size), degree)
    target = np.concatenate([(i + 1 + rng.permutation(size - 1)[:degree]) % size for i in range(size)])
    return TaskGraph(source, target, rng.uniform(*TASK_BYTES, len(source)))


def mapped(tasks: TaskGraph, times: Floats) -> Indices:
    """Return the host of each task by the greedy heuristic of Hoefler and Snir (2011, section 4.2).

    1. The heaviest task goes to the host of most bandwidth.
    2. Then the heaviest edge from a placed task to an unplaced one is chosen. The unplaced task goes to the free host
       nearest to the placed one. This step repeats until no such edge is left.

    Args:
        tasks: a graph of as many tasks as hosts.
        times: (N, N) time of a unit between hosts.
    """
    size = times.shape[0]
    both = np.where(np.isnan(times), np.inf, times)
    both = both + both.T
    np.fill_diagonal(both, np.inf)
    near = tasks.partners
    weight_of = np.bincount(tasks.source, tasks.bytes, size) + np.bincount(tasks.target, tasks.bytes, size)
    bandwidth = (1 / both).sum(axis=1)
    place = np.full(size, -1)
    free = np.ones(size, dtype=bool)
    while (place < 0).any():
        start = int(np.where(place < 0, weight_of, -1.0).argmax())
        heap: list[tuple[float, int, int]] = []

        def put(task: int, host: int) -> None:
            place[task], free[host] = host, False
            for weight, other in near.get(task, ()):
                if place[other] < 0:
                    heapq.heappush(heap, (-weight, other, task))  # noqa: B023 - called in this round only

        put(start, int(np.where(free, bandwidth, -1.0).argmax()))
        while heap:
            _, task, neighbour = heapq.heappop(heap)
            if place[task] < 0:
                put(task, int(np.where(free, both[place[neighbour]], np.inf).argmin()))
    return place


def mapping_s(tasks: TaskGraph, place: Indices, times: Floats) -> Floats:
    """Return the sending time of the busiest host, if each host sends its task's transfers one after the other.

    Args:
        tasks: the transfers between tasks.
        place: (N,) host of each task.
        times: (..., N, N) time of one byte.

    Returns:
        (...) seconds.
    """
    took = times[..., place[tasks.source], place[tasks.target]] * tasks.bytes
    load = np.zeros((times.shape[-1], *times.shape[:-2]))
    np.add.at(load, tasks.source, np.moveaxis(took, -1, 0))
    return np.asarray(load.max(axis=0))
