"""What an operation would have taken in each snapshot of a History (the RPCA paper, section V-D3)."""

from __future__ import annotations

import numpy as np

from gavotte import _core
from gavotte.collective.costs import history_costs
from gavotte.collective.flat import at_once_s, is_flat
from gavotte.formats.collective import Collective
from gavotte.formats.history import Floats, History


def replay(history: History, collective: Collective) -> Floats:
    """Evaluates an operation over snapshots by the alpha-beta model, with the trees as they are.

    An application that runs it k times in a snapshot takes k times as long; for one of several operations, add up.

    Args:
        history: n snapshots with all hosts of the operation; a gap is filled with the pair's median.
        collective: from `plan`, or read from a file.

    Returns:
        (n,) seconds.

    Raises:
        GavotteError: when the History lacks a host or a pair.
    """
    pairs = history_costs(history, collective.hosts)
    total_s: Floats = np.zeros(history.snapshots)
    for stage in collective.stages:
        if stage.ring:
            total_s = total_s + _core.collective_ring_times(
                pairs.alpha_s,
                pairs.per_byte_s,
                parent=stage.parent,
                order=stage.order,
                members=stage.ring,
                size_bytes=float(stage.bytes),
                segments=stage.segments,
                reduce=stage.operation == "allreduce",
            )
            continue
        if is_flat(stage):
            total_s = total_s + at_once_s(pairs, stage)
            continue
        there = pairs.reversed if stage.operation in ("reduce", "gather") else pairs
        total_s = total_s + _core.collective_times(
            there.alpha_s,
            there.per_byte_s,
            parent=stage.parent,
            order=stage.order,
            size_bytes=float(stage.bytes),
            segments=stage.segments,
            scatter=stage.operation in ("scatter", "gather"),
        )
    return total_s
