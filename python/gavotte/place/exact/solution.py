"""The result of a placement method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PROVEN = 1e-6
"""Largest relative gap at which a time counts as optimal. The exact model rounds times down by less."""


@dataclass(frozen=True)
class Solution:
    """A placement that a method found, with its proven bound.

    Attributes:
        hosts: (J,) the host of each task.
        bound_s: proven lower bound on the completion time, in seconds; 0 if the method proves nothing of its own.
        stopped: whether the clock ended the work, so that another run may answer differently.
        method: the method that ran; `optimal` if an exact model gave the answer.
        interrupted: whether a signal ended the work.
        bound_stopped: whether the clock or a signal ended the work on the bound, so that another run may prove more.
    """

    hosts: npt.NDArray[np.uint32]
    bound_s: float
    stopped: bool
    method: str
    interrupted: bool = False
    bound_stopped: bool = False
