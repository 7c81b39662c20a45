"""Scatters and gathers along a flat tree: the root sends to all at once, as MPI libraries do.

The alpha-beta model has a host send one message at a time, each at its pair's rate. A host that carries more than one
pair does is faster when it sends to all at once, and no tree can then beat it by much, as every block leaves the root.
"""

from __future__ import annotations

import numpy as np

from gavotte.collective.costs import PairCosts
from gavotte.formats.collective import Operation, Stage
from gavotte.formats.history import Floats

FLAT = "flat"

MESSAGE_S = 20e-6
"""Of the root's processor for each message beyond the first: of many small ones that is what counts."""


def is_flat(stage: Stage) -> bool:
    """Whether the root sends each block itself and whole: then all go at once."""
    return (
        stage.operation in ("scatter", "gather")
        and stage.segments == 1
        and all(parent == stage.root for parent in stage.parent)
    )


def flat_stage(pairs: PairCosts, operation: Operation, size_bytes: int, root: int) -> Stage:
    """A scatter or gather of so many bytes a rank along a flat tree, and how long it takes."""
    ranks = len(pairs.alpha_s)
    order = [root, *(rank for rank in range(ranks) if rank != root)]
    made = Stage(operation=operation, bytes=size_bytes, segments=1, parent=[root] * ranks, order=order, predicted_s=0.0)
    return made.model_copy(update={"predicted_s": float(at_once_s(pairs, made))})


def at_once_s(pairs: PairCosts, stage: Stage) -> Floats:
    """How long a flat scatter or gather takes.

    The root carries in all what it carries on its best pair, at least. Ranks of one host share its way in.

    Args:
        pairs: (..., N, N).
        stage: a flat one.

    Returns:
        (...) seconds.
    """
    there = pairs.reversed if stage.operation == "gather" else pairs
    alpha_s, per_byte_s = there.alpha_s[..., stage.root, :], there.per_byte_s[..., stage.root, :]
    near = there.local
    beside = near.sum(axis=-1)  # with the rank itself
    away = ~near[..., stage.root, :]
    slowest_s = np.where(away, alpha_s + stage.bytes * beside * per_byte_s, 0.0).max(axis=-1)
    best = np.where(away, per_byte_s, np.inf).min(axis=-1)
    together_s = stage.bytes * away.sum(axis=-1) * np.where(np.isfinite(best), best, 0.0)
    later_s = MESSAGE_S * max(0, len(stage.parent) - 2)
    return np.asarray(np.maximum(slowest_s, together_s) + later_s, dtype=np.float64)
