"""Estimate the lasting rate and latency of each pair in a History, and return them as a Network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.model.choosing import PURPOSES, Choice, Purpose
    from gavotte.model.compact import Compacted, compact
    from gavotte.model.constant import METHODS, Constant, find_constant, model, transfer_times
    from gavotte.model.few import LearnedFromFew, are_few, learn_from_few
    from gavotte.model.held_out import HeldOutCheck, check_held_out
    from gavotte.model.judging import Findings, judge
    from gavotte.model.stopping import Settled, settled
    from gavotte.model.subset import cost_of_subset, random_rings, usual_degree

__all__ = [
    "METHODS",
    "PURPOSES",
    "Choice",
    "Compacted",
    "Constant",
    "Findings",
    "HeldOutCheck",
    "LearnedFromFew",
    "Purpose",
    "Settled",
    "are_few",
    "check_held_out",
    "compact",
    "cost_of_subset",
    "find_constant",
    "judge",
    "learn_from_few",
    "model",
    "random_rings",
    "settled",
    "transfer_times",
    "usual_degree",
]

load_on_first_use(
    __name__,
    {
        "choosing": ("PURPOSES", "Choice", "Purpose"),
        "compact": ("Compacted", "compact"),
        "constant": ("METHODS", "Constant", "find_constant", "model", "transfer_times"),
        "few": ("LearnedFromFew", "are_few", "learn_from_few"),
        "held_out": ("HeldOutCheck", "check_held_out"),
        "judging": ("Findings", "judge"),
        "stopping": ("Settled", "settled"),
        "subset": ("cost_of_subset", "random_rings", "usual_degree"),
    },
)
