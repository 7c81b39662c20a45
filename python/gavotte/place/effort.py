"""Settings of the search for a placement: the method, its time limit, and a callback for progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gavotte import _core
from gavotte.errors import GavotteError

METHODS: tuple[str, ...] = ("auto", "optimal", "ilp", "search", *_core.policies())
"""Names of the methods. The last four are Choreo's greedy and the baselines."""

LIMIT_S = 10.0
"""Default time limit, in seconds. A placement that is proven to be the best ends it before."""

LEAST_LIMIT_S = 0.05
"""Least time limit of several searches, when reading the files has used up the command's."""

Watch = Callable[[float, float, float], object]
"""Called now and then with the best time so far, the bound so far, and the used share of the time limit."""


LATEST = 3.0
"""Multiple of a solver's expected time after which the clock stops it, if work is repeatable."""


class Interrupted(BaseException):
    """A signal ended a search; compiled code keeps the signal's own error. The best result so far is the answer."""


@dataclass(frozen=True)
class Effort:
    """Settings of the search for a placement: method, time limit, seed, threads.

    `greedy` is Choreo's and keeps capacity and pins only. If its answer breaks another rule, that is an error. All
    other methods keep every constraint.

    Attributes:
        method: one of `METHODS`.
        time_limit_s: wall-clock time for all of the work, in seconds.
        seed: seed of every random choice, from 0 to 2^64 - 1.
        threads: maximum number of threads; None = one per processor.
        repeatable: count work instead of time. Then neither the machine nor the number of threads changes the answer,
            but the time that it takes depends on them.
        spent_s: seconds of the time limit that passed before, for example while files were read.
        kept_s: seconds of the time limit to leave for what follows the search.
        start: task key to host: a placement to start from; empty = none.
        explain: if no placement keeps all constraints, look for a small set of them that conflict.
        watch: called with the best time so far, the bound so far, and the used share of the time limit.
        clock: returns seconds, for the Placement's `elapsed_s`.
    """

    method: str = "auto"
    time_limit_s: float = LIMIT_S
    seed: int = 0
    threads: int | None = None
    repeatable: bool = False
    spent_s: float = 0.0
    kept_s: float = 0.0
    start: Mapping[str, str] = field(default_factory=dict)
    explain: bool = True
    watch: Watch | None = None
    clock: Callable[[], float] = time.perf_counter

    @property
    def remaining(self) -> Effort:
        """The same effort with what is left of its time limit, to be divided among several searches."""
        if self.repeatable:
            return self
        left_s = max(self.time_limit_s - self.spent_s - self.kept_s, LEAST_LIMIT_S)
        return replace(self, time_limit_s=left_s, spent_s=0.0, kept_s=0.0)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            GavotteError: naming the value that is out of range, and the remedy.
        """
        if self.method not in METHODS:
            raise GavotteError(f"unknown method `{self.method}`", hint=f"use {', '.join(METHODS)}")
        if not 0 <= self.seed < 2**64:
            raise GavotteError(f"seed {self.seed} is out of range", hint="use 0 to 2^64 - 1")
        if not 0 < self.time_limit_s <= 1e6:
            raise GavotteError(
                f"a time limit of {self.time_limit_s:g} s is out of range", hint="use 0.1 s to a million"
            )
