"""Keep the usual edge times of each tree along which operations ran."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gavotte.watch.detect import Edge
from gavotte.watch.expecting import Expected, Shift
from gavotte.watch.observing import Operation, TreeWatch

MOST_TREES = 256
"""Most trees and message sizes that are followed. A program with ever new sizes must not fill the memory."""

MOST_NAMED = 8
"""Most pairs that one line of complaint names."""


class Trees:
    """All trees and message sizes that are followed. Beyond `MOST_TREES`, the least recently used one is dropped."""

    def __init__(self, expected: Expected, width: float, complain: Callable[[str], None]) -> None:
        self._expected = expected
        self._width = width
        self._complain = complain
        self._trees: dict[str, TreeWatch] = {}
        self._reported: set[Edge] = set()

    def of(self, name: str) -> TreeWatch:
        """Return the watch of a tree; a new one if the tree is not followed yet."""
        tree = self._trees.pop(name, None) or TreeWatch(self._width)
        self._trees[name] = tree
        if len(self._trees) > MOST_TREES:
            del self._trees[next(iter(self._trees))]
        return tree

    def known(self, operation: Operation) -> Operation:
        """Return the operation with only its edges of known expected time. Report each other edge once."""
        known = {edge: took_s for edge, took_s in operation.seconds.items() if edge in self._expected.seconds}
        self._report(operation.seconds.keys() - known.keys() - self._reported)
        return Operation(operation.tree, known)

    def rebase(self, shifts: Sequence[Shift]) -> None:
        """Scale the usual times of the shifted pairs in every tree, so that no tree reports the same change again."""
        for shift in shifts:
            for tree in self._trees.values() if shift.before_s is not None else ():
                tree.rebase((shift.source, shift.target), shift.after_s / (shift.before_s or 1.0))

    def _report(self, new: Collection[Edge]) -> None:
        if new:
            self._reported |= set(new)
            pairs = ", ".join(f"{source} to {target}" for source, target in sorted(new)[:MOST_NAMED])
            more = f" and {len(new) - MOST_NAMED} more" if len(new) > MOST_NAMED else ""
            self._complain(f"ignoring pairs that operations use but the Network does not know: {pairs}{more}")
