"""Choose the fastest of an MPI library's own algorithms for each operation and size.

1. Each algorithm is predicted for each size, and so is the library's own choice.
2. The library's own choice stays unless another algorithm saves `LEAST_SAVING` of its time, and is not slower where
   hosts are busy, so that each message costs more. It also stays for fewer than `LEAST_SET_BYTES`.
3. `reduce` and `allreduce` keep it in any case unless sums may be added in another order.
4. `gather` and `scatter` keep it always: Open MPI looks up their rules by arguments that MPI ignores at some ranks, so
   ranks could take different algorithms, and wait for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.terms.algorithms import (
    ALGORITHMS,
    ALL_BLOCKS,
    LEAST_SET_BYTES,
    REORDERING,
    Algorithm,
    Library,
    Setting,
    algorithm_name,
)

LEAST_SAVING = 0.1
"""Share of the default's predicted time that another algorithm must save."""

BUSY_OVERHEAD_S = 200e-6
"""Time of a message at each end on a busy host. Ranks of a lab waited for processors. A scatter and a ring
of 8 kB were predicted to save a third, and took three times as long as the default."""

NO_SLOWER = 0.001
"""Share by which one algorithm for all sizes may be slower at a size, since equal times differ by rounding."""

SEGMENTS_BYTES = (16_384, 65_536, 262_144)
"""Sizes of pieces that are tried. Below the first, the cost of a message decides, not that of its bytes."""

MOST_SEGMENTS = 64
"""More pieces are not tried: each is a message of the replay."""

LEAST_BYTES = 1024
"""Smallest size that is tried. Smaller messages take as long."""

Seconds = Callable[[str, int, int, Setting | None], float]
"""Predicts an operation by MPI's name, bytes (of the vector or of one block), root and setting, in seconds."""


@dataclass(frozen=True)
class TuningQuestion:
    """Which operations of which library to tune.

    Attributes:
        library: the MPI library.
        members: number of ranks of the communicator.
        sizes_bytes: by operation: sizes as for the MPI call, the vector or one rank's block.
        roots: root ranks that the program uses. Times are the mean over them.
        reorder_sums: whether sums may be added in another order.
    """

    library: Library
    members: int
    sizes_bytes: Mapping[str, Sequence[int]]
    roots: Sequence[int] = (0,)
    reorder_sums: bool = False


@dataclass(frozen=True)
class TunedSize:
    """What was chosen for one operation and size.

    Attributes:
        operation: as MPI calls it.
        size_bytes: bytes of the vector, or of one rank's block.
        default: the number of the algorithm that the library takes itself.
        default_s: its predicted time.
        algorithm: the number of the chosen algorithm; 0 = the library's own choice.
        segment_bytes: bytes of its pieces; 0 = whole messages.
        predicted_s: predicted time of the chosen algorithm.
    """

    operation: str
    size_bytes: int
    default: int
    default_s: float
    algorithm: int
    segment_bytes: int
    predicted_s: float

    @property
    def reorders(self) -> bool:
        """Whether sums are added in another order than by the library's own choice."""
        return self.operation in REORDERING and self.algorithm > 0


@dataclass(frozen=True)
class Tuning:
    """The algorithms that were chosen.

    Attributes:
        question: what was asked.
        choices: one for each operation and size, in their order.
    """

    question: TuningQuestion
    choices: Sequence[TunedSize] = field(default_factory=tuple)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The choices as settings of the library. Operations that keep the default have none."""
        return tuple(_settings(self.question, self.choices))

    @property
    def reorders(self) -> bool:
        """Whether sums are added in another order at some size."""
        return any(each.operation in REORDERING for each in self.settings)

    def name(self, number: int, operation: str) -> str:
        """Return the library's name of an algorithm."""
        return algorithm_name(self.question.library, operation, number)

    @property
    def document(self) -> dict[str, Any]:
        """The choices as a dictionary that can be written as JSON."""
        return {
            "library": self.question.library,
            "ranks": self.question.members,
            "reorders_sums": self.reorders,
            "choices": [
                {
                    "operation": each.operation,
                    "bytes": each.size_bytes,
                    "default": self.name(each.default, each.operation),
                    "default_s": each.default_s,
                    "algorithm": self.name(each.algorithm, each.operation),
                    "segment_bytes": each.segment_bytes,
                    "predicted_s": each.predicted_s,
                }
                for each in self.choices
            ],
            "settings": [each._asdict() for each in self.settings],
        }


def size_ladder(operation: str, members: int, most_bytes: int) -> list[int]:
    """Return the sizes at which an operation is predicted: powers of 2, the blocks of all ranks up to `most_bytes`.

    Args:
        operation: as MPI calls it.
        members: number of ranks.
        most_bytes: largest size of all blocks together.
    """
    if operation == "barrier":
        return [0]
    share = members if operation in ALL_BLOCKS else 1
    sizes = [LEAST_BYTES << step for step in range(64) if LEAST_BYTES << step <= most_bytes]
    return [size // share for size in sizes if size // share > 0]


def choose(question: TuningQuestion, seconds: Seconds, busy_seconds: Seconds | None = None) -> Tuning:
    """Choose the algorithms of a library.

    Args:
        question: the library, the operations and sizes.
        seconds: predicts an operation.
        busy_seconds: predicts it on busy hosts, as by `BUSY_OVERHEAD_S`; None = hosts are never busy.

    Raises:
        GavotteError: for an operation that the library has no setting for, or fewer than two ranks.
    """
    known = ALGORITHMS[question.library]
    if question.members < 2:
        raise GavotteError("a single rank needs no settings", hint="name at least two ranks")
    for operation in question.sizes_bytes:
        if operation not in known:
            raise GavotteError(
                f"settings of {question.library} do not cover {operation}", hint=f"use one of {', '.join(known)}"
            )
    choose_one = _by_size if question.library == "openmpi" else _for_all_sizes
    choices = [
        choice
        for operation, sizes in question.sizes_bytes.items()
        for choice in choose_one(question, seconds, busy_seconds or seconds, operation, sorted(set(sizes)))
    ]
    return Tuning(question, tuple(choices))


def _by_size(
    question: TuningQuestion, seconds: Seconds, busy_seconds: Seconds, operation: str, sizes: Sequence[int]
) -> list[TunedSize]:
    """Return the fastest algorithm for each size."""
    choices = []
    for size in sizes:
        default = _default(question, seconds, operation, size)
        best, best_s = None, default.default_s
        if _in_a_burst(question, operation, size):
            choices.append(default)
            continue
        for setting in _candidates(question, operation, size, default.default):
            taken_s = _mean_s(question, seconds, operation, size, setting)
            if taken_s < best_s and _never_slower(question, busy_seconds, size, setting):
                best, best_s = setting, taken_s
        if best is not None and best_s <= (1 - LEAST_SAVING) * default.default_s:
            default = replace(default, algorithm=best.algorithm, segment_bytes=best.segment_bytes, predicted_s=best_s)
        choices.append(default)
    return choices


def _for_all_sizes(
    question: TuningQuestion, seconds: Seconds, busy_seconds: Seconds, operation: str, sizes: Sequence[int]
) -> list[TunedSize]:
    """Return one algorithm for all sizes, since MPICH's variables know none.

    It must be slower than the default at no size, and save `LEAST_SAVING` at one of `LEAST_SET_BYTES` or more.
    """
    defaults = [_default(question, seconds, operation, size) for size in sizes]
    best, best_s = defaults, sum(each.default_s for each in defaults)
    for setting in _candidates(question, operation, 0, 0):
        choices = [
            replace(
                each,
                algorithm=setting.algorithm,
                predicted_s=_mean_s(question, seconds, operation, each.size_bytes, setting),
            )
            for each in defaults
        ]
        shares = [each.predicted_s / each.default_s if each.default_s > 0 else 1.0 for each in choices]
        total_s = sum(each.predicted_s for each in choices)
        saving = [
            share
            for each, share in zip(choices, shares, strict=True)
            if not _in_a_burst(question, operation, each.size_bytes)
        ]
        faster = max(shares) <= 1 + NO_SLOWER and min(saving, default=1.0) <= 1 - LEAST_SAVING and total_s < best_s
        if faster and all(_never_slower(question, busy_seconds, size, setting) for size in sizes):
            best, best_s = choices, total_s
    return best


def _in_a_burst(question: TuningQuestion, operation: str, size: int) -> bool:
    """Return whether an operation moves fewer than `LEAST_SET_BYTES`. A barrier moves none, and its messages decide."""
    moved_bytes = size * (question.members if operation in ALL_BLOCKS else 1)
    return moved_bytes < LEAST_SET_BYTES and operation != "barrier"


def _never_slower(question: TuningQuestion, busy_seconds: Seconds, size: int, setting: Setting) -> bool:
    """Return whether an algorithm is not slower than the default on busy hosts."""
    own_s, taken_s = (_mean_s(question, busy_seconds, setting.operation, size, each) for each in (None, setting))
    return taken_s <= (1 + NO_SLOWER) * own_s


def _default(question: TuningQuestion, seconds: Seconds, operation: str, size: int) -> TunedSize:
    """Return the library's own choice."""
    number = _core.default_algorithm(question.library, operation, question.members, size)
    default_s = _mean_s(question, seconds, operation, size, None)
    return TunedSize(operation, size, number, default_s, 0, 0, default_s)


def _candidates(question: TuningQuestion, operation: str, size: int, default: int) -> Iterator[Setting]:
    """Yield the settings that may be chosen, the default among them only in pieces."""
    if operation in REORDERING and not question.reorder_sums:
        return
    for algorithm in ALGORITHMS[question.library][operation]:
        if not _fits(algorithm, question.members):
            continue
        for segment in (0, *SEGMENTS_BYTES) if algorithm.segmented else (0,):
            whole = size // 2 if algorithm.halves else size
            cut = 0 < segment < whole <= segment * MOST_SEGMENTS
            if cut or (segment == 0 and algorithm.number != default):
                yield Setting(operation, _members(question), 0, algorithm.number, segment)


def _fits(algorithm: Algorithm, members: int) -> bool:
    """Return whether the library carries an algorithm out with this number of ranks, and not another one."""
    power, even = members & (members - 1) == 0, members % 2 == 0
    return algorithm.offered and (power or not algorithm.powers_only) and (even or not algorithm.even_only)


def _members(question: TuningQuestion) -> int:
    """Return the size of communicators that a setting is for; 0 = all, since MPICH's variables know none."""
    return question.members if question.library == "openmpi" else 0


def _mean_s(question: TuningQuestion, seconds: Seconds, operation: str, size: int, setting: Setting | None) -> float:
    roots = question.roots if operation in ("bcast", "reduce") else question.roots[:1]
    return fmean(seconds(operation, size, root, setting) for root in roots)


def _settings(question: TuningQuestion, choices: Sequence[TunedSize]) -> Iterator[Setting]:
    """Yield settings whose bounds are half-way, as a factor, between two sizes that were predicted.

    Sizes below the first, and those above twice the last, keep the library's own choice.
    """
    members = _members(question)
    for operation in dict.fromkeys(each.operation for each in choices):
        own = [each for each in choices if each.operation == operation]
        if all(each.algorithm == 0 for each in own):
            continue
        if question.library == "mpich":
            yield Setting(operation, members, 0, own[0].algorithm)
            continue
        share = question.members if operation in ALL_BLOCKS else 1
        rules = [(0, 0, 0)]
        before = None
        for each in own:
            size = each.size_bytes * share
            bound = size if before is None else math.isqrt(before * size) + 1
            rules.append((bound, each.algorithm, each.segment_bytes))
            before = size
        if before:
            rules.append((2 * before + 1, 0, 0))
        last = None
        for bound, *rule in {rule[0]: rule for rule in rules}.values():
            if rule != last:
                yield Setting(operation, members, bound, *rule)
            last = rule
