"""Collective: the trees or the ring of a collective operation, and its number of pieces (`*.tree.json`).

Rank i of the operation is `hosts[i]`. A host may appear several times. All other lists are indexed by rank.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from gavotte.formats.files.reading import Emitted, parse_json, problem, read_noun, write_text
from gavotte.formats.parts.names import MOST_HOSTS, HostName

FORMAT = "gavotte/collective/1"

LIBRARY = "library"
"""Algorithm of an operation that is left to the MPI library."""

Operation = Literal["broadcast", "reduce", "scatter", "gather", "allgather", "allreduce"]

Rank = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, le=1e18)]


class Stage(Emitted):
    """One operation along one tree, or around one ring.

    Attributes:
        operation: reduce and gather go up the tree: a rank receives from its children, last first, and then sends.
            Allgather and allreduce have a ring.
        bytes: what each rank has in the end, or gives: the message of a broadcast or reduction, otherwise one block.
        segments: number of equal pieces. Each is sent on as soon as it has arrived. A ring cuts a block, or a member's
            share of a reduction.
        parent: parent of each rank; the root's is itself.
        order: ranks, parents first, siblings in the order in which their parent sends to them.
        ring: 0 = a tree. Otherwise this many ranks of `order` are members, each of which sends to the next, and the
            last to the first. Each other rank is a child of the member that is its parent.
        predicted_s: how long it takes.
    """

    operation: Operation
    bytes: Annotated[int, Field(ge=0)]
    segments: Annotated[int, Field(ge=1)]
    parent: list[Rank]
    order: list[Rank]
    ring: Annotated[int, Field(ge=0)] = 0
    predicted_s: Seconds

    @property
    def root(self) -> int:
        """Rank at the root of the tree, the first in `order`."""
        return self.order[0]

    @property
    def children(self) -> list[list[int]]:
        """Return the children of each rank, in the order in which it sends to them."""
        below: list[list[int]] = [[] for _ in self.parent]
        for rank in self.order[1:]:
            below[self.parent[rank]].append(rank)
        return below

    @property
    def segment_bytes(self) -> int:
        """Bytes of each segment into which the data is split; 0 = not split."""
        if self.segments == 1:
            return 0
        whole = -(-self.bytes // self.ring) if self.ring and self.operation == "allreduce" else self.bytes
        return -(-whole // self.segments)


class Collective(Emitted):
    """A collective operation and how to run it.

    Attributes:
        operation: the operation. An allgather is a ring, or a gather and a broadcast. An allreduce is a ring, or a
            reduction and a broadcast.
        hosts: host of each rank.
        bytes: as for the MPI call: the message, or one rank's block (scatter, gather, allgather).
        algorithm: how the trees were found. `library` = call the MPI library's own operation, which is not slower than
            the stages.
        stages: operations to run one after the other. If `algorithm` is `library`, the best that was found.
        predicted_s: how long all stages take if messages share the Network's links. If `algorithm` is `library`, the
            library's time, measured or predicted.
        baselines_s: the same for trees of other algorithms.
        seed: seed of the search.
    """

    format: Literal["gavotte/collective/1"]
    operation: Operation
    hosts: Annotated[list[HostName], Field(min_length=1, max_length=MOST_HOSTS)]
    bytes: Annotated[int, Field(ge=0)]
    algorithm: str
    stages: Annotated[list[Stage], Field(min_length=1, max_length=2)]
    predicted_s: Seconds
    baselines_s: dict[str, Seconds] = {}
    seed: int = 0

    @model_validator(mode="after")
    def _trees(self) -> Self:
        for index, stage in enumerate(self.stages):
            where = f"stages[{index}]"
            if len(stage.parent) != len(self.hosts):
                text = f"has {len(stage.parent)} entries for {len(self.hosts)} ranks"
                raise problem(text, "give one a rank", field=f"{where}.parent")
            if sorted(stage.order) != list(range(len(self.hosts))):
                raise problem("does not name each rank once", "name each rank once", field=f"{where}.order")
            seen = {stage.order[0]}
            for rank in stage.order[1:]:
                if stage.parent[rank] not in seen:
                    text = f"puts rank {rank} before its parent, rank {stage.parent[rank]}"
                    raise problem(text, "put parents first", field=f"{where}.order")
                seen.add(rank)
            if (stage.operation in ("allgather", "allreduce")) != (stage.ring > 0):
                text = f"is {stage.ring} for a stage of {stage.operation}"
                raise problem(text, "give an allgather or allreduce a ring, and nothing else", field=f"{where}.ring")
            if stage.ring > len(self.hosts):
                text = f"has {stage.ring} members of {len(self.hosts)} ranks"
                raise problem(text, "name fewer", field=f"{where}.ring")
            members, hanging = stage.order[: stage.ring], stage.order[stage.ring :]
            if any(stage.parent[rank] != before for before, rank in pairwise(members)) or (
                stage.ring and not {stage.parent[rank] for rank in hanging} <= set(members)
            ):
                text = "does not form a ring of the members with the other ranks as their children"
                raise problem(text, "create it again with `gavotte collective`", field=f"{where}.parent")
        first, last = self.stages[0].root, self.stages[-1].root
        if first != last:
            text = f"begins with rank {last}, the stage before with rank {first}"
            raise problem(text, "give both trees one root", field="stages[1].order")
        return self


def read_collective(path: str | Path) -> Collective:
    """Read a `*.tree.json`.

    Raises:
        FormatError: naming file, field and remedy.
    """
    return read_noun(Collective, path, parse_json)


def write_collective(path: str | Path, collective: Collective) -> None:
    """Write a `*.tree.json`, whole or not at all."""
    write_text(path, collective.model_dump_json() + "\n")
