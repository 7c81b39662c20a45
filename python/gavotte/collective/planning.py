"""Plan a collective operation: find trees or rings for a Network's hosts, and predict their time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import get_args

from gavotte import _core
from gavotte.collective.library import library_seconds
from gavotte.collective.ranks import MOST_RANKS, check_few, ranks_on
from gavotte.errors import GavotteError
from gavotte.formats.collective import FORMAT, LIBRARY, Collective, Operation, Stage
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.record import Record
from gavotte.terms.algorithms import LEAST_SET_BYTES

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

FLAT = "flat"
"""The root sends each block itself and whole, to all at once, as MPI libraries do."""

TREES = ("binomial", "fnf", "ecef", "look-ahead", "chain", "search")
"""Algorithms that make one tree, from MPICH's tree by rank to the search."""

RINGS = ("rank-ring", "ring")
"""For allgather and allreduce alone: the libraries' ring by rank, and one found by search."""

ALGORITHMS = ("auto", FLAT, *TREES, *RINGS)
"""`auto` takes the first that is within `WORTH_IT` of the best."""

WORTH_IT = 0.03
"""A cleverer tree must promise to save more of the time: calibrations repeat to 3-5 %."""

SURE = 0.07
"""A tree must be predicted to save more of the MPI library's time, since predictions may be off by as much."""

SEGMENT_BYTES = 16384
"""Least size of a segment: below it the cost of a message, not of its bytes, decides."""

MOST_SEGMENTS = 1024

MOST_RING_SEGMENTS = 64

STEPS = 100_000
"""Moves of the search: 0.3 s at 196 hosts; ten times as many save 1 % more."""

_STAGES: dict[Operation, tuple[Operation, ...]] = {
    "broadcast": ("broadcast",),
    "reduce": ("reduce",),
    "scatter": ("scatter",),
    "gather": ("gather",),
    "allgather": ("gather", "broadcast"),
    "allreduce": ("reduce", "broadcast"),
}


@dataclass(frozen=True)
class TreeSearch:
    """Effort and seed of the search for a tree or a ring, and what the MPI library takes.

    Attributes:
        steps: number of moves to try.
        seed: of every random choice.
        library: Records of `python -m gavotte.mpi.timing`. `auto` leaves the operation to the MPI library if no tree is
            predicted to be `SURE` faster than the library was.
        mpi: the MPI library, `openmpi` or `mpich`. Its time is predicted, by the algorithm that it would choose, for
            operations that `library` has not timed. None = unknown.
    """

    steps: int = STEPS
    seed: int = 0
    library: Sequence[Record] = ()
    mpi: str | None = None


def plan(
    network: Network,
    operation: Operation,
    *,
    size_bytes: int,
    root: str | None = None,
    algorithm: str = "auto",
    ranks: Sequence[str] | None = None,
    segments: int | None = None,
    search: TreeSearch = TreeSearch(),
) -> Collective:
    """Choose the trees or rings along which to run a collective operation.

    The model:

    - Sending b bytes from i to j takes alpha_ij + b / beta_ij (the RPCA paper, section III).
    - Ranks do what `gavotte.mpi` does: receives are posted ahead, and blocking sends go piece by piece, child by child.
      Along a flat tree all blocks of a scatter start at once.
    - Messages of at most 64 KiB leave at once. Larger ones ask the receiver first. No sender waits for a latency.
    - In a scatter, a link carries one block for each rank below it.
    - Messages that meet on a link of the Network (a host's caps, a group's link) share it max-min fairly.

    It is the model of `JobReplay`, which docs/concepts/collectives.md explains.

    Args:
        network: rates and latencies of the pairs.
        operation: see `OPERATIONS`.
        size_bytes: as for the MPI call: the message, or one rank's block.
        root: host of the root's rank (the first rank on it). None is the first rank, or for allgather and allreduce the
            host that is nearest to all; of more than `MOST_RANKS`, the one with the highest caps.
        algorithm: see `ALGORITHMS`. A ring has no root, and `flat` is for scatters and gathers. With more than
            `MOST_RANKS`, an algorithm makes a tree in each group of hosts and one above them, and there is no ring.
        ranks: the host of each rank; several can share one. None means the Network's hosts in order.
        segments: number of pieces. None is 1 for trees made in one pass, and the search's own choice otherwise.
        search: how hard to search, and the library's times.

    Raises:
        GavotteError: for an unknown name, host or pair.
    """
    if operation not in OPERATIONS:
        raise GavotteError(f"unknown operation `{operation}`", hint=f"use one of {', '.join(OPERATIONS)}")
    if algorithm not in ALGORITHMS:
        raise GavotteError(f"unknown algorithm `{algorithm}`", hint=f"use one of {', '.join(ALGORITHMS)}")
    rings = RINGS if operation in ("allgather", "allreduce") else ()
    if algorithm in RINGS and not rings:
        raise GavotteError(f"a {operation} cannot use a ring", hint=f"use one of {', '.join(TREES)}")
    flat = (FLAT,) if operation in ("scatter", "gather") else ()
    if algorithm == FLAT and not flat:
        raise GavotteError(f"a {operation} cannot use a flat tree", hint=f"use one of {', '.join(TREES)}")
    hosts = list(network.names if ranks is None else ranks)
    root = root and known_as(root, hosts)
    if root is not None and root not in hosts:
        raise GavotteError(f"no rank runs on the root `{root}`", hint=meant(root, hosts))
    if algorithm in RINGS:
        check_few(len(hosts), "rings are made for")
    if search.mpi is not None:
        check_few(len(hosts), "the MPI library's time is predicted for")
    trees: tuple[str, ...] = TREES
    blocks = {"scatter", "gather"} & {*_STAGES[operation]}
    if len(hosts) > MOST_RANKS:
        # A block crosses half of a chain on average, which is never the fastest way and takes long to predict.
        rings, trees = (), tuple(name for name in TREES if not (blocks and name == "chain"))
    on = ranks_on(network, hosts)
    stages_of = _STAGES[operation]
    top = hosts.index(root or hosts[0])
    if len(stages_of) > 1 and root is None:
        top = _widest(network, hosts) if len(hosts) > MOST_RANKS else _nearest(on, size_bytes)
    sizes = dict.fromkeys(stages_of, size_bytes)
    if operation == "allgather":
        sizes["broadcast"] = size_bytes * len(hosts)
    beside = ("binomial", "fnf", *rings[:1], algorithm)
    tried = (*flat, *trees, *rings) if algorithm == "auto" else tuple(dict.fromkeys(beside))
    futures: dict[str, list[Future[Stage]]] = {}
    # The compiled code runs without Python's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in tried:
            if name in RINGS:
                futures[name] = [pool.submit(_ring, on, operation, size_bytes, name, segments, search)]
            else:
                futures[name] = [
                    pool.submit(_stage, on, each, sizes[each], top, name, segments, search) for each in stages_of
                ]
        try:
            stages_by = {name: [stage.result() for stage in stages] for name, stages in futures.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    total_s = {name: sum(stage.predicted_s for stage in stages) for name, stages in stages_by.items()}
    chosen = algorithm
    if algorithm == "auto":
        least_s = min(total_s.values())
        chosen = next(name for name, seconds in total_s.items() if seconds <= (1 + WORTH_IT) * least_s)
    stages = stages_by[chosen]
    library_s = library_seconds(search.library, operation, size_bytes, hosts[top], hosts)
    if library_s is None and search.mpi is not None:
        library_s = _predicted_library_s(on, operation, size_bytes, top, search.mpi)
    if library_s is not None:
        total_s[LIBRARY] = library_s
        moved_bytes = size_bytes * (len(hosts) if operation in ("scatter", "gather", "allgather") else 1)
        short = moved_bytes < LEAST_SET_BYTES
        if algorithm == "auto" and (short or total_s[chosen] >= (1 - SURE) * library_s):
            chosen = LIBRARY
    return Collective(
        format=FORMAT,
        operation=operation,
        hosts=hosts,
        bytes=size_bytes,
        algorithm=chosen,
        stages=stages,
        predicted_s=total_s[chosen],
        baselines_s={name: seconds for name, seconds in total_s.items() if name != chosen},
        seed=search.seed,
    )


def _stage(
    on: _core.Ranks,
    operation: Operation,
    size_bytes: int,
    root: int,
    algorithm: str,
    segments: int | None,
    search: TreeSearch,
) -> Stage:
    most = max(1, min(MOST_SEGMENTS, size_bytes // SEGMENT_BYTES)) if algorithm == "search" else 1
    try:
        parent, order, pieces, seconds = on.tree(
            algorithm=algorithm,
            root=root,
            size_bytes=float(size_bytes),
            segments=1 if algorithm == FLAT else segments or most,
            scatter=operation in ("scatter", "gather"),
            back=operation in ("reduce", "gather"),
            steps=search.steps,
            seed=search.seed,
        )
    except (ValueError, OverflowError) as error:
        raise GavotteError(str(error)) from None
    return Stage(
        operation=operation, bytes=size_bytes, segments=pieces, parent=parent, order=order, predicted_s=seconds
    )


def _ring(
    on: _core.Ranks, operation: Operation, size_bytes: int, algorithm: str, segments: int | None, search: TreeSearch
) -> Stage:
    share_bytes = size_bytes // on.count if operation == "allreduce" else size_bytes
    most = max(1, min(MOST_RING_SEGMENTS, share_bytes // SEGMENT_BYTES))
    try:
        parent, order, members, pieces, seconds = on.ring(
            by_rank=algorithm == "rank-ring",
            size_bytes=float(size_bytes),
            segments=segments or most,
            reduce=operation == "allreduce",
            steps=search.steps,
            seed=search.seed,
        )
    except (ValueError, OverflowError) as error:
        raise GavotteError(str(error)) from None
    if segments is None:
        seconds_by = {pieces: seconds}
        for count in (1 << power for power in range(most.bit_length())):
            if count not in seconds_by:
                seconds_by[count] = on.ring_s(
                    parent=parent,
                    order=order,
                    members=members,
                    size_bytes=float(size_bytes),
                    segments=count,
                    reduce=operation == "allreduce",
                )
        pieces, seconds = min(seconds_by.items(), key=lambda each: each[1])
    return Stage(
        operation=operation,
        bytes=size_bytes,
        segments=pieces,
        parent=parent,
        order=order,
        ring=members,
        predicted_s=seconds,
    )


def _predicted_library_s(on: _core.Ranks, operation: Operation, size_bytes: int, root: int, library: str) -> float:
    try:
        return on.library_s(library=library, operation=operation, root=root, size_bytes=float(size_bytes))
    except ValueError as error:
        raise GavotteError(str(error)) from None


def _nearest(on: _core.Ranks, size_bytes: int) -> int:
    """Return the rank with the least total time to and from all other ranks."""
    alpha_s, per_byte_s = on.alpha_beta()
    seconds = alpha_s + size_bytes * per_byte_s
    return int((seconds.sum(axis=0) + seconds.sum(axis=1)).argmin())


def _widest(network: Network, hosts: Sequence[str]) -> int:
    """Return the first rank whose host has the highest caps."""
    caps_bps = {host.name: min(host.egress_bps or inf, host.ingress_bps or inf) for host in network.hosts}
    return max(range(len(hosts)), key=lambda rank: caps_bps[hosts[rank]])
