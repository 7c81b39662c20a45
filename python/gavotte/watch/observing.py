"""Detect changes from the times of an application's own operations, without sending any probe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ValidationError

from gavotte.errors import FormatError
from gavotte.formats.files.reading import parse_json, validate
from gavotte.formats.record import Record
from gavotte.watch.detect import Change, Edge, EdgeCusum, exceeds, whole_s

LEARN = 8
"""Number of operations used to learn each edge's usual time. The Network cannot predict contention between edges
of one tree."""

METRIC = "transfer_s"

MOST_OPEN = 64
"""Most operations with missing edges that are kept. Those of a killed program are never completed."""


class _Labels(BaseModel):
    """Labels of a Record that say which operation and edge it is about."""

    run: str
    operation: int
    edges: int
    tree: str
    source: str
    target: str


@dataclass(frozen=True)
class Operation:
    """The edge times of one operation along a tree.

    Attributes:
        tree: label of the tree and message size; equal for operations that share both.
        seconds: seconds of each timed edge between two hosts; the mean, if several ranks share the hosts.
    """

    tree: str
    seconds: Mapping[Edge, float]


class Tail:
    """Reader of operations from a growing file of Records: one Record an edge, in any order."""

    def __init__(self, path: str | Path, complain: Callable[[str], None]) -> None:
        """Start at the file's beginning; the file need not exist yet.

        Args:
            path: `*.jsonl`.
            complain: called with a message for each line that is not a valid Record; the line is skipped.
        """
        self._path = Path(path)
        self._complain = complain
        self._at = 0
        self._line = 0
        self._open: dict[tuple[str, int], list[tuple[Edge, float]]] = {}

    def read(self) -> list[Operation]:
        """Return the operations whose last edge has been written since the last call.

        Raises:
            FormatError: when the file exists and cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                if self._path.stat().st_size < self._at:  # the file was replaced
                    self._at, self._line, self._open = 0, 0, {}
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FormatError(str(self._path), "", f"cannot be read: {error.strerror}", "use a *.jsonl file") from None
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        operations = []
        for line in whole.decode(errors="replace").splitlines():
            self._line += 1
            if line.strip() and (done := self._take(line)) is not None:
                operations.append(done)
        return operations

    def _take(self, line: str) -> Operation | None:
        at = f"{self._path}:{self._line}"
        try:
            record = validate(Record, parse_json(line, at), at)
        except FormatError as error:
            self._complain(str(error))
            return None
        if record.metric != METRIC:
            return None
        try:
            edge = _Labels.model_validate(record.labels)
        except ValidationError as error:
            self._complain(f"{at}: `labels` {error.errors()[0]['msg'].lower()}: they are of no operation's edge")
            return None
        number = (edge.run, edge.operation)
        # Count lines, not pairs of hosts: ranks that share a host write one line each.
        lines = self._open.setdefault(number, [])
        lines.append(((edge.source, edge.target), record.value))
        if len(lines) >= edge.edges:
            return _operation(edge.tree, self._open.pop(number))
        while len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]
        return None


def _operation(tree: str, lines: Sequence[tuple[Edge, float]]) -> Operation:
    """Return an operation from its edges' lines, with the mean time of ranks that share the same two hosts."""
    took: dict[Edge, list[float]] = {}
    for edge, seconds in lines:
        if 0 < seconds < math.inf:
            took.setdefault(edge, []).append(seconds)
    return Operation(tree, {edge: sum(each) / len(each) for edge, each in took.items()})


class TreeWatch:
    """CUSUM of the edges of one tree. Their usual times are learnt from the tree's first `LEARN` operations."""

    def __init__(self, width: float) -> None:
        """Start without any usual time.

        Args:
            width: least width of the band. The spread of the first operations counts if it is wider.
        """
        self._width = width
        self._first: list[Mapping[Edge, float]] = []
        self._cusum: EdgeCusum | None = None
        self._edges: list[Edge] = []
        self._expected: dict[Edge, float] = {}

    def take(self, operation: Operation) -> list[Change]:
        """Add one operation's times, and return the edges that seem to have changed; none during the learning phase."""
        if self._cusum is None:
            self._first.append(operation.seconds)
            if len(self._first) >= LEARN:
                self._learn()
            return []
        return self._cusum.observe(np.array([operation.seconds.get(edge, np.nan) for edge in self._edges]))

    def exceeding(self, operation: Operation, threshold: float) -> list[Change]:
        """Return the edges whose times are off by a threshold, if the operation's whole time is.

        See the RPCA paper's Algorithm 1, lines 4 to 9.

        Args:
            operation: the operation. Edges that were not timed count as expected. Its whole time is that of the
                slowest path down the tree.
            threshold: share of the expected time, as for `exceeds`.

        Returns:
            The edges that are off by the threshold themselves, at least one. No edges if the whole time is not off, or
            while the usual times are being learnt.
        """
        if self._cusum is None:
            return []
        took = {edge: operation.seconds.get(edge, expected_s) for edge, expected_s in self._expected.items()}
        if not exceeds(whole_s(took), whole_s(self._expected), threshold):
            return []
        return [
            Change(*edge, "slower" if took[edge] > expected_s else "faster", took[edge] / expected_s, 1)
            for edge, expected_s in self._expected.items()
            if exceeds(took[edge], expected_s, threshold)
        ]

    def rebase(self, edge: Edge, factor: float) -> None:
        """Multiply the expected time of an edge by a factor."""
        if self._cusum is not None and edge in self._expected:
            self._expected[edge] *= factor
            self._cusum.expect(*edge, self._expected[edge])

    def _learn(self) -> None:
        seen: dict[Edge, list[float]] = {}
        for seconds in self._first:
            for edge, took_s in seconds.items():
                seen.setdefault(edge, []).append(took_s)
        usual = {edge: float(np.median(times)) for edge, times in seen.items() if 2 * len(times) >= LEARN}
        self._first = []
        if not usual:
            return
        off = np.concatenate([np.abs(np.log(np.array(seen[edge]) / took_s)) for edge, took_s in usual.items()])
        self._edges, self._expected = list(usual), usual
        # 1.4826 converts a normal distribution's median absolute deviation into its standard deviation.
        width = max(self._width, 1.4826 * float(np.median(off)))
        self._cusum = EdgeCusum(self._edges, np.array(list(usual.values())), width)
