"""The stages of the work on a placement: searches of growing length, with proofs between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from gavotte.place.attempt import Attempt
from gavotte.place.columns import Instance

SOLVER_SHARE = 0.9
"""Deterministic seconds of CP-SAT, with relaxations, that stand for a second of the time limit."""

BUILD_S_PER_LITERAL = 2e-5
START_S = 0.4
"""Seconds to build an exact model, for each literal, and seconds to start its solver."""

HARD_LITERALS = 20_000
"""Above this, proofs seldom succeed, and most of the time goes to the search."""

MIX = 0x9E3779B97F4A7C15
"""Multiplier of a stage's number, which is added to the seed."""

PROOF_SHARE = 0.5
HARD_PROOF_SHARE = 0.15
"""Share of a stage for a proof by the exact model, on small and on hard models."""

STAGE_S = 0.15
STAGE_GROWTH = 2
"""Seconds that the first stage's search stands for, and the factor from each stage to the next. A stage is as long as
all before it, so little is lost when the limit ends it."""

PROOF_S = 1.0
"""Least deterministic seconds of the first proof. Most small problems are proven in less."""


@dataclass(frozen=True)
class Stage:
    """One stage of the work on a placement. Stages do not depend on the limit, which only ends the last one.

    So a longer limit continues where a shorter one ends, and its answer is at least as good.

    Attributes:
        number: counts from 0.
        seed: of the stage's random choices.
        steps: of its search.
        search_s: seconds that these steps stand for.
        solver_s: deterministic seconds of its proof; 0 = no proof in this stage.
    """

    number: int
    seed: int
    steps: int
    search_s: float
    solver_s: float


def literals(instance: Instance) -> int:
    """Return the approximate number of literals in the exact model."""
    units, edges = instance.core.unit_counts()
    return units * len(instance.hosts) + edges * instance.network.deciding_count()


def stages(instance: Instance, attempt: Attempt, size: int) -> Iterator[Stage]:
    """Yield stages of growing length, without end or, if work is counted, as many as the limit allows.

    `size` is that of the exact model in literals; 0 = no proofs.
    """
    per_s = attempt.steps(instance) / attempt.limit_s
    share = PROOF_SHARE if size <= HARD_LITERALS else HARD_PROOF_SHARE
    worthwhile_s = (START_S + BUILD_S_PER_LITERAL * size) / 2
    left_s = attempt.limit_s if attempt.repeatable else math.inf
    for number in itertools.count():
        search_s = STAGE_S * STAGE_GROWTH**number
        solver_s = search_s * share / (1 - share) if size else 0.0
        solver_s = max(solver_s, PROOF_S) if size and number == 0 and size <= HARD_LITERALS else solver_s
        solver_s = solver_s if solver_s >= worthwhile_s else 0.0
        left_s -= solver_s + search_s
        if number > 0 and left_s < 0:
            return  # part of a stage would be another search, perhaps with a better answer than the whole stage
        yield Stage(
            number,
            (attempt.seed + number * MIX) % 2**64,
            int(search_s * per_s),
            search_s,
            solver_s * SOLVER_SHARE,
        )
