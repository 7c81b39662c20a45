"""Read the trees and rings of a `*.tree.json`, with the standard library alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Tree:
    """One operation along one tree, or an allgather or allreduce round one ring; ranks count from 0.

    Attributes:
        operation: broadcast, reduce, scatter or gather along a tree; allgather or allreduce round a ring.
        parent: parent of each rank; the root is its own parent.
        order: ranks, parents first, siblings in the order in which their parent sends to them.
        segment_bytes: size of the pieces of a message, or of each rank's block in it; 0 = not divided.
        ring: number of members of a ring, which are the first ranks of `order`. Each other rank hangs from its parent
            among them. 0 = a tree.
        library: whether to call the MPI library's own operation instead, which is not slower.
    """

    operation: str
    parent: tuple[int, ...]
    order: tuple[int, ...]
    segment_bytes: int = 0
    ring: int = 0
    library: bool = False

    @property
    def root(self) -> int:
        """Rank at the top of the tree, which is its own parent."""
        return self.order[0]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each rank, in the order in which the rank sends to them."""
        below: list[list[int]] = [[] for _ in self.parent]
        for rank in self.order[1:]:
            below[self.parent[rank]].append(rank)
        return tuple(map(tuple, below))

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """For each member of a ring, in order: the member, then the ranks that hang from it. Empty for a tree."""
        hanging = self.order[self.ring :]
        return tuple(
            (member, *(rank for rank in hanging if self.parent[rank] == member)) for member in self.order[: self.ring]
        )

    @property
    def flat(self) -> bool:
        """Whether the root is the parent of every rank. False for a ring."""
        return not self.ring and all(parent == self.root for parent in self.parent)

    def below(self, rank: int) -> list[int]:
        """Return a rank and all its descendants: the rank, then its first child with all below it, then its second."""
        ranks, stack = [], [rank]
        while stack:
            ranks.append(stack.pop())
            stack.extend(reversed(self.children[ranks[-1]]))
        return ranks

    def pieces(self, size_bytes: int) -> list[tuple[int, int]]:
        """Return the start and end of each segment of a message or block, in bytes."""
        step = self.segment_bytes or size_bytes
        return [(start, min(start + step, size_bytes)) for start in range(0, size_bytes, step or 1)]


def read_trees(path: str | Path) -> tuple[Tree, ...]:
    """Read the trees or the ring of a `*.tree.json`, which `gavotte collective` writes.

    Returns:
        One tree or ring. For an allgather or allreduce along trees, two: first the gather or reduction, then the
        broadcast.

    Raises:
        ValueError: when the file is no valid `*.tree.json`. The message names the file.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        trees = tuple(
            Tree(
                str(stage["operation"]),
                tuple(map(int, stage["parent"])),
                tuple(map(int, stage["order"])),
                _segment_bytes(str(stage["operation"]), int(stage["bytes"]), int(stage["segments"]), ring),
                ring,
                content.get("algorithm") == "library",
            )
            for stage in content["stages"]
            for ring in [int(stage.get("ring", 0))]
        )
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{path} is not a *.tree.json ({error}); create one with `gavotte collective`") from None
    if len({tree.root for tree in trees if tree.order}) > 1:
        raise ValueError(f"{path}: its trees have two roots; create it again with `gavotte collective`")
    for tree in trees:
        seen = set(tree.order[:1])
        if not seen <= set(range(len(tree.parent))):
            raise ValueError(f"{path}: its order is invalid; create it again with `gavotte collective`")
        for rank in tree.order[1:]:
            if rank in seen or not 0 <= rank < len(tree.parent) or tree.parent[rank] not in seen:
                raise ValueError(f"{path}: its order is invalid; create it again with `gavotte collective`")
            seen.add(rank)
        if len(seen) != len(tree.parent):
            raise ValueError(f"{path}: its order leaves ranks out; create it again with `gavotte collective`")
        if not 0 <= tree.ring <= len(seen) or (tree.ring and len(seen) != sum(map(len, tree.groups))):
            raise ValueError(f"{path}: its ring is invalid; create it again with `gavotte collective`")
    return trees


def _segment_bytes(operation: str, size_bytes: int, segments: int, ring: int) -> int:
    if segments < 1 or size_bytes < 0 or ring < 0:
        raise ValueError(f"{segments} segments of {size_bytes} bytes")
    if segments == 1:
        return 0
    whole = -(-size_bytes // ring) if ring and operation == "allreduce" else size_bytes
    return -(-whole // segments)
