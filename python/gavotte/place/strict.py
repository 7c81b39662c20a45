"""Starts of the search that break no rule, for problems whose rules may be broken at a price.

Where one task gains by breaking a rule, and all by keeping it, single moves seldom lead to a placement that keeps it.
The same problem without prices is therefore searched, too.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import InfeasibleError
from gavotte.place.attempt import LEAST_SEARCH_S, PRICED, Attempt, seconds
from gavotte.place.columns import Instance
from gavotte.place.effort import Interrupted
from gavotte.place.stages import Stage

WORSE = 1.1
"""Share of the best total from which on placements that keep all rules are no longer sought."""

_Hosts = npt.NDArray[np.uint32]


class Strict:
    """The problem without prices, and its best placement so far."""

    def __init__(self, instance: Instance, attempt: Attempt) -> None:
        self._instance, self._attempt = instance, attempt
        self._core: _core.Problem | None = None
        self._best: list[_Hosts] = []
        self._over = not instance.priced

    def starts(self, stage: Stage, best: _Hosts) -> list[_Hosts]:
        """Search in every second stage, as long as the stage; return the placement, or nothing if it cannot help.

        Args:
            stage: of the problem itself.
            best: its best placement so far.
        """
        if self._over or stage.number % 2:
            return []
        attempt = self._attempt
        limit_s = math.inf if attempt.repeatable else max(attempt.left_s / 2, LEAST_SEARCH_S)
        try:
            if self._core is None:
                self._core = self._instance.strict()
            searched = self._core.search(
                stage.seed, int(stage.steps / PRICED), attempt.threads, limit_s, self._best, attempt.tick, paced=False
            )
        except InfeasibleError:
            self._over = True
            return []
        if searched.interrupted:
            raise Interrupted
        self._best = [searched.hosts]
        self._over = seconds(self._instance, searched.hosts) > WORSE * seconds(self._instance, best)
        return self._best
