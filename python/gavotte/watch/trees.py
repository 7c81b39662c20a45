"""The trees along which operations ran, each with what it should take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gavotte.watch.detect import Edge
from gavotte.watch.expecting import Expected, Shift
from gavotte.watch.observing import Operation, TreeWatch

MOST_TREES = 256
"""Trees and sizes that are followed: a program whose messages have ever new sizes must not fill the memory."""

MOST_NAMED = 8
"""Pairs in one line."""


class Trees:
    """All trees and sizes that are followed; of many, that which was used longest ago is forgotten."""

    def __init__(self, expected: Expected, width: float, complain: Callable[[str], None]) -> None:
        self._expected = expected
        self._width = width
        self._complain = complain
        self._trees: dict[str, TreeWatch] = {}
        self._reported: set[Edge] = set()

    def of(self, name: str) -> TreeWatch:
        """What is known of a tree."""
        tree = self._trees.pop(name, None) or TreeWatch(self._width)
        self._trees[name] = tree
        if len(self._trees) > MOST_TREES:
            del self._trees[next(iter(self._trees))]
        return tree

    def known(self, operation: Operation) -> Operation:
        """Those of its edges of which something is expected; the others are complained of, once."""
        known = {edge: took_s for edge, took_s in operation.seconds.items() if edge in self._expected.seconds}
        self._report(operation.seconds.keys() - known.keys() - self._reported)
        return Operation(operation.tree, known)

    def rebase(self, shifts: Sequence[Shift]) -> None:
        """Has every tree expect what shifted, or it would find the same again."""
        for shift in shifts:
            for tree in self._trees.values() if shift.before_s is not None else ():
                tree.rebase((shift.source, shift.target), shift.after_s / (shift.before_s or 1.0))

    def _report(self, new: Collection[Edge]) -> None:
        if new:
            self._reported |= set(new)
            pairs = ", ".join(f"{source} to {target}" for source, target in sorted(new)[:MOST_NAMED])
            more = f" and {len(new) - MOST_NAMED} more" if len(new) > MOST_NAMED else ""
            self._complain(f"ignoring pairs that operations use but the Network does not know: {pairs}{more}")
