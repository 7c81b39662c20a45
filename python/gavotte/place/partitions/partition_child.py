"""Cuts one graph by one partitioner, in its own process, so that a crash loses only this partition.

Run it as a script, by path, with a partitioner, a seed, a limit in seconds of its processor time, and two files: one of
NumPy arrays (where rows start, neighbours, bytes of edges, sizes of nodes, room of blocks), and one for the blocks.
"""

from __future__ import annotations

import ctypes
import math
import resource
import signal
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PR_SET_PDEATHSIG = 1
"""Option of prctl(2): the signal when the parent ends."""

MOST_WEIGHT = 1 << 12
MOST_SUM = 1 << 30
"""Largest weight of an edge, and largest sum of weights: KaHIP and METIS count in 32 bits."""

IMBALANCE = 0.01
"""Allowed weight of blocks above the mean, as far as there is room. With more, many blocks overbook their hosts."""

MANY_BLOCKS = 2_000
"""Beyond, Mt-KaHyPar's preset for many blocks takes a small part of the time of its default."""

_Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """A graph in compressed rows with whole weights, and what each block may hold."""

    first: _Whole
    others: _Whole
    weights: _Whole
    sizes: _Whole
    room: _Whole


def whole(
    first: npt.NDArray[np.uint32],
    others: npt.NDArray[np.uint32],
    size_bytes: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.float64],
    room: npt.NDArray[np.float64],
) -> Graph:
    """Return the graph with whole weights: sizes are rounded up and room down, so that what fits still fits."""
    step = float(np.gcd.reduce(np.concatenate([sizes, room]).astype(np.int64))) or 1.0
    step = max(step, math.ceil(float(sizes.sum()) / MOST_SUM))
    scale = MOST_WEIGHT / max(float(size_bytes.max(initial=1.0)), 1.0)
    scale = min(scale, MOST_SUM / max(float(size_bytes.sum()), 1.0))
    return Graph(
        first=first.astype(np.int64),
        others=others.astype(np.int64),
        weights=np.maximum(size_bytes * scale, 1).astype(np.int64),
        sizes=np.ceil(sizes / step).astype(np.int64),
        room=np.minimum(np.floor(room / step), MOST_SUM).astype(np.int64),
    )


def mtkahypar(graph: Graph, seed: int) -> list[int]:
    """Mt-KaHyPar (Gottesbueren et al. 2021): least total cut, with its own largest weight for each block."""
    import mtkahypar as partitioner

    begin = partitioner.initialize(1)
    presets = partitioner.PresetType
    many = len(graph.room) > MANY_BLOCKS
    context = begin.context_from_preset(presets.LARGE_K if many else presets.DEFAULT)
    context.set_partitioning_parameters(len(graph.room), IMBALANCE, partitioner.Objective.CUT)
    context.set_individual_target_block_weights(graph.room.tolist())
    context.logging = False
    partitioner.set_seed(seed)
    sources = np.repeat(np.arange(len(graph.sizes)), np.diff(graph.first))
    once = sources < graph.others
    edges = list(zip(sources[once].tolist(), graph.others[once].tolist(), strict=True))
    weights = graph.weights[once].tolist()
    built = begin.create_graph(context, len(graph.sizes), len(edges), edges, graph.sizes.tolist(), weights)
    done = built.partition(context)
    return [int(done.block_id(node)) for node in range(len(graph.sizes))]


def kahip(graph: Graph, seed: int) -> list[int]:
    """KaHIP's kaffpa (Sanders and Schulz 2013), its fast preset: least total cut, one largest weight for all blocks."""
    import kahip as partitioner

    _, blocks = partitioner.kaffpa(
        graph.sizes.tolist(),
        graph.first.tolist(),
        graph.weights.tolist(),
        graph.others.tolist(),
        len(graph.room),
        _imbalance(graph),
        True,
        seed,
        partitioner.FAST,
    )
    return list(map(int, blocks))


def metis(graph: Graph, seed: int) -> list[int]:
    """METIS (Karypis and Kumar 1998) by recursive bisection: its k-way method overbooks blocks as small as these."""
    import pymetis as partitioner

    room = graph.room.astype(np.float64)
    cut = partitioner.part_graph(
        len(graph.room),
        xadj=graph.first.tolist(),
        adjncy=graph.others.tolist(),
        vweights=graph.sizes.tolist(),
        eweights=graph.weights.tolist(),
        tpwgts=(room / room.sum()).tolist(),
        recursive=True,
        options=partitioner.Options(ufactor=max(int(1000 * _imbalance(graph)), 1), seed=seed),
    )
    return list(map(int, cut[1]))


def _imbalance(graph: Graph) -> float:
    return min(IMBALANCE, max(float(graph.room.sum()) / max(float(graph.sizes.sum()), 1.0) - 1, 0.0))


if __name__ == "__main__":
    name, seed_text, limit_text, source, target = sys.argv[1:]
    # If the search is killed, no other process ends this one.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(float(limit_text)) + 1,) * 2)
    with np.load(source) as rows:
        cut = whole(*(rows[column] for column in rows))
    blocks_of = {"mtkahypar": mtkahypar, "kahip": kahip, "metis": metis}[name](cut, int(seed_text))
    with open(target, "wb") as file:  # noqa: PTH123 -- NumPy would add a suffix to a path
        np.save(file, np.array(blocks_of, dtype=np.uint32))
