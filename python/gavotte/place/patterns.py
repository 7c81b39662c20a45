"""Apps that consist of one communication pattern, for jobs whose own bytes are not known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.formats.app import FORMAT, App, Constraints, Task, Transfer, read_app

MESSAGE_BYTES = 1_000_000
"""Default size of a message. Only rates count, so it changes the predicted time, but no order."""

MAX_RANKS = 100_000
MAX_ALLTOALL_RANKS = 2048
"""Four million messages, which take some seconds to write down."""

_REMEDY = "use ring, alltoall, tree, halo:4x4x4 or an App (*.app.toml)"


@dataclass(frozen=True)
class Pattern:
    """The messages between numbered ranks.

    Attributes:
        name: as the user writes it.
        dimensions: extent of each dimension of a halo exchange; empty for other patterns.
        app: the App that a file holds; None for a named pattern.
    """

    name: str
    dimensions: tuple[int, ...] = ()
    app: App | None = None

    @property
    def ranks(self) -> int | None:
        """The number of ranks that the pattern itself sets; None = any."""
        if self.app is not None:
            return len(self.app.task)
        return math.prod(self.dimensions) if self.dimensions else None

    def messages(self, ranks: int) -> Iterator[tuple[int, int, int]]:
        """Yield the source, the target and the phase of each message between this many ranks."""
        if self.name == "ring":
            yield from ((rank, (rank + 1) % ranks, 0) for rank in range(ranks) if ranks > 1)
        elif self.name == "alltoall":
            yield from ((source, target, 0) for source, target in permutations(range(ranks), 2))
        elif self.name == "tree":
            yield from _tree(ranks)
        else:
            yield from _halo(self.dimensions)

    def application(self, ranks: int, message_bytes: int = MESSAGE_BYTES) -> App:
        """Return the App of this many ranks, each of which needs one core and nothing else.

        Raises:
            GavotteError: when the pattern has another number of ranks, or cannot have that many.
        """
        if self.ranks not in (None, ranks):
            raise GavotteError(f"`{self.name}` has {self.ranks} ranks, not {ranks}", hint=f"use -n {self.ranks}")
        most = MAX_ALLTOALL_RANKS if self.name == "alltoall" else MAX_RANKS
        if not 1 <= ranks <= most:
            raise GavotteError(f"{ranks} ranks are out of range for `{self.name}`", hint=f"use 1 to {most}")
        if self.app is not None:
            alike = [task.model_copy(update={"cpus": 1.0, "memory_bytes": 0}) for task in self.app.task]
            return self.app.model_copy(update={"task": alike, "constraints": Constraints()})
        return App(
            format=FORMAT,
            name=self.name.partition(":")[0],
            task=[Task(name=str(rank)) for rank in range(ranks)],
            transfer=[
                Transfer(source=str(source), target=str(target), bytes=message_bytes, phase=phase)
                for source, target, phase in self.messages(ranks)
            ],
        )


def read_pattern(text: str) -> Pattern:
    """Read a pattern: `ring`, `alltoall`, `tree`, `halo:AxBxC`, or the path of an App.

    - `ring`: each rank sends to the next, as NCCL's rings do.
    - `alltoall`: each rank sends to each other one.
    - `tree`: a binomial tree, first to rank 0 and then from it, as an allreduce by trees does.
    - `halo:AxBxC`: each rank of a grid sends to its neighbours in each dimension. The last dimension varies fastest,
      as in `MPI_Cart_create`, and the grid's edges have no neighbours.

    Raises:
        GavotteError: for anything else.
    """
    if text in ("ring", "alltoall", "tree"):
        return Pattern(text)
    kind, mark, extents = text.partition(":")
    if kind == "halo":
        sizes = extents.split("x")
        if not mark or not all(size.isdecimal() and 0 < int(size) <= MAX_RANKS for size in sizes):
            raise GavotteError(f"--pattern: cannot read `{text}`", hint="use e.g. halo:4x4x4")
        return Pattern(text, tuple(map(int, sizes)))
    if Path(text).suffix in (".toml", ".json"):
        app = read_app(text)
        return Pattern(app.name, app=app)
    raise GavotteError(f"--pattern: `{text}` is no pattern", hint=_REMEDY)


def _tree(ranks: int) -> Iterator[tuple[int, int, int]]:
    """Yield a binomial tree's messages towards rank 0, and then back."""
    rounds = [
        [(parent, parent + step) for parent in range(step) if parent + step < ranks]
        for step in (1 << level for level in range((ranks - 1).bit_length()))
    ]
    for phase, edges in enumerate(reversed(rounds)):
        yield from ((child, parent, phase) for parent, child in edges)
    for phase, edges in enumerate(rounds, len(rounds)):
        yield from ((parent, child, phase) for parent, child in edges)


def _halo(dimensions: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield the messages of neighbours in a grid, in both directions."""
    strides = [math.prod(dimensions[axis + 1 :]) for axis in range(len(dimensions))]
    for place in product(*map(range, dimensions)):
        rank = sum(at * stride for at, stride in zip(place, strides, strict=True))
        for at, extent, stride in zip(place, dimensions, strides, strict=True):
            if at + 1 < extent:
                yield rank, rank + stride, 0
                yield rank + stride, rank, 0
