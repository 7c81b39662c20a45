"""What a method of placement answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Solution:
    """What a method found.

    Attributes:
        hosts: (J,) the host of each task.
        bound_s: proven: no placement is faster. 0 if the method proves nothing of its own.
        stopped: whether the clock ended the work, so that another run may answer differently.
        method: what was really run: `optimal` where an exact model gave the answer.
        interrupted: whether a signal ended it.
        bound_stopped: whether clock or signal cut short the work on the bound, so that another run may prove more.
    """

    hosts: npt.NDArray[np.uint32]
    bound_s: float
    stopped: bool
    method: str
    interrupted: bool = False
    bound_stopped: bool = False
