"""Compute an operation's time in each snapshot of a History (the RPCA paper, section V-D3)."""

from __future__ import annotations

import numpy as np

from gavotte import _core
from gavotte.collective.ranks import ranks_over
from gavotte.errors import GavotteError
from gavotte.formats.collective import LIBRARY, Collective, Stage
from gavotte.formats.history import Floats, History
from gavotte.formats.network import Network


def replay(history: History, collective: Collective, network: Network | None = None) -> Floats:
    """Return the time that an operation takes in each snapshot of a History, with its trees and rings unchanged.

    An application that runs the operation k times in a snapshot takes k times as long. Add up several operations.

    Args:
        history: n snapshots with all hosts of the operation; a gap is filled with the pair's median.
        collective: from `plan`, or read from a file.
        network: shows which links pairs share; its rates of pairs are not used. Without it, pairs share only hosts,
            each as fast as its best pair.

    Returns:
        (n,) seconds.

    Raises:
        GavotteError: when the History or the Network lacks a host, a pair was never measured, or the operation is left
            to the MPI library.
    """
    if collective.algorithm == LIBRARY:
        raise GavotteError(
            "the MPI library's own operation cannot be replayed",
            hint="choose a tree with --algorithm, or leave out --library",
        )
    snapshots = ranks_over(history, collective.hosts, network)
    return np.array([sum(_stage_s(ranks, stage) for stage in collective.stages) for ranks in snapshots])


def _stage_s(ranks: _core.Ranks, stage: Stage) -> float:
    if stage.ring:
        return ranks.ring_s(
            parent=stage.parent,
            order=stage.order,
            members=stage.ring,
            size_bytes=float(stage.bytes),
            segments=stage.segments,
            reduce=stage.operation == "allreduce",
        )
    return ranks.tree_s(
        parent=stage.parent,
        order=stage.order,
        size_bytes=float(stage.bytes),
        segments=stage.segments,
        scatter=stage.operation in ("scatter", "gather"),
        back=stage.operation in ("reduce", "gather"),
    )
