"""Distinguish a lasting change of the constant from a spike, by expected and observed times. No input or output."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats

Edge = tuple[str, str]

DRIFT = 1.25
"""Band widths that a residual must exceed to add to its edge's sum."""

LIMIT = 10.4
"""Sum of excess, in band widths, at which an edge counts as changed: just below 6 x (`CLIP` - `DRIFT`)."""

CLIP = 3.0
"""Most band widths that one residual counts for. No single spike raises an alarm: six in a row are needed."""

MIN_WIDTH = 0.01
"""Least width of the band. With a narrower one, rounding would count as a change."""

LOAD_EDGES = 4
"""Smallest number of edges whose median residual counts as load. With fewer, the median is the change itself."""

MEMORY = 32
"""Residuals kept of each edge, to compute the factor by which its time changed."""


def exceeds(observed_s: float, expected_s: float, threshold: float = 1.0) -> bool:
    """Return whether an observed time is off its expected time by at least a threshold.

    This is the RPCA paper's test, Algorithm 1 line 6: |t - t'| / t' >= threshold.

    Args:
        observed_s: seconds t that an operation took.
        expected_s: seconds t' that the constant predicts.
        threshold: share of the expected time; 1 = 100 %, as in the paper's section V-C.

    Raises:
        GavotteError: for an expected time that is not above zero.
    """
    if not expected_s > 0:
        raise GavotteError(f"cannot compare with an expected time of {expected_s} s", hint="use a time above 0")
    return abs(observed_s - expected_s) / expected_s >= threshold


@dataclass(frozen=True)
class Change:
    """An edge whose recent times differ from its constant, its usual transfer time.

    Attributes:
        source: sender.
        target: receiver.
        direction: whether its transfers take more time than expected or less.
        factor: observed over expected time, after removing the load of each operation.
        operations: number of operations since it seems to have changed.
    """

    source: str
    target: str
    direction: Literal["slower", "faster"]
    factor: float
    operations: int


class EdgeCusum:
    """Page's cumulative sums (1954), two for each edge of a tree, over the transfer times that every operation yields.

    1. The residual of an edge is log(observed / expected).
    2. The median residual of all edges is subtracted: a load on the whole operation is not a change of a link.
    3. The result is divided by the band's width and clipped.
    4. Its excess over `drift` is added to the edge's sum, which does not fall below 0.

    A spike is paid off within two operations. A change that lasts adds up.
    """

    def __init__(
        self,
        edges: Sequence[Edge],
        expected_s: Floats,
        width: float,
        *,
        drift: float = DRIFT,
        limit: float = LIMIT,
    ) -> None:
        """Start with the expected times and no excess.

        Args:
            edges: (source, target) of each of E edges.
            expected_s: (E,) seconds of each edge's transfer.
            width: width of the band, a standard deviation of logarithms, as `gavotte model` reports it.
            drift: excess in band widths that does not count.
            limit: sum in band widths that raises an alarm.

        Raises:
            GavotteError: when an edge has no expected time.
        """
        self._edges = list(edges)
        self._at = {edge: number for number, edge in enumerate(self._edges)}
        if expected_s.shape != (len(self._edges),) or not (np.isfinite(expected_s) & (expected_s > 0)).all():
            raise GavotteError(
                f"{len(self._edges)} edges do not all have an expected time", hint="calibrate those pairs first"
            )
        self._expected_s = expected_s.astype(np.float64)
        self._width = max(width, MIN_WIDTH)
        self._drift, self._limit = drift, limit
        # Rows: slower, faster.
        self._sums = np.zeros((2, len(self._edges)))
        self._runs = np.zeros((2, len(self._edges)), dtype=np.int64)
        self._residuals: list[deque[float]] = [deque(maxlen=MEMORY) for _ in self._edges]

    def observe(self, times_s: Floats) -> list[Change]:
        """Add the times of one operation to the sums, and return the edges that are beyond the limit.

        Args:
            times_s: (E,) seconds that each edge's transfer took, NaN = not known this time.

        Returns:
            The edges that are beyond the limit now, worst first. An edge is returned again until `expect` resets it.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = np.log(times_s / self._expected_s)
        seen = np.isfinite(residual)
        if not seen.any():
            return []
        if seen.sum() >= LOAD_EDGES:
            residual = residual - np.median(residual[seen])
        steps = np.clip(residual / self._width, -CLIP, CLIP)
        for row, step in enumerate((steps, -steps)):
            grown = np.maximum(0.0, self._sums[row] + step - self._drift)
            self._sums[row] = np.where(seen, grown, self._sums[row])
            self._runs[row] = np.where(seen, np.where(grown > 0, self._runs[row] + 1, 0), self._runs[row])
        for number in np.flatnonzero(seen):
            self._residuals[number].append(float(residual[number]))
        alarms = [(row, number) for row, number in np.argwhere(self._sums > self._limit).tolist()]
        return [self._change(row, number) for row, number in sorted(alarms, key=lambda at: -self._sums[at[0], at[1]])]

    def expect(self, source: str, target: str, expected_s: float) -> None:
        """Restart an edge with a new expected time and no excess.

        Raises:
            GavotteError: for an edge that is not watched, or a time that is not above zero.
        """
        if (source, target) not in self._at or not expected_s > 0:
            raise GavotteError(
                f"{source} to {target} is not watched, or {expected_s} s no time",
                hint="use a watched edge and a time above 0",
            )
        number = self._at[source, target]
        self._expected_s[number] = expected_s
        self._sums[:, number], self._runs[:, number] = 0.0, 0
        self._residuals[number].clear()

    def _change(self, row: int, number: int) -> Change:
        run = int(self._runs[row, number])
        recent = list(self._residuals[number])[-run:]
        source, target = self._edges[number]
        return Change(
            source=source,
            target=target,
            direction="slower" if row == 0 else "faster",
            factor=float(np.exp(np.median(recent))),
            operations=run,
        )


class OnEdge(Protocol):
    """Anything about one edge, such as a `Change`: it has a source and a target."""

    @property
    def source(self) -> str:
        """Sending host of the edge."""

    @property
    def target(self) -> str:
        """Receiving host of the edge."""


def movers(changes: Collection[OnEdge], edges: Collection[Edge]) -> list[str]:
    """Return the hosts all of whose edges have changed, at least two: the host moved, rather than one link.

    Args:
        changes: changes from `EdgeCusum.observe`, or pairs with another time after calibration.
        edges: all edges that are watched, or all pairs that were calibrated.

    Returns:
        Names, sorted. Changes of edges without any of these hosts are changes of single links.
    """
    all_of = Counter(host for edge in edges for host in edge)
    changed = Counter(host for change in changes for host in (change.source, change.target))
    return sorted(host for host, count in changed.items() if count == all_of[host] >= 2)


def whole_s(seconds: Mapping[Edge, float]) -> float:
    """Return the seconds down the slowest path of a tree, from the edges' times, each edge after the one above it.

    A host that several ranks share may be its own descendant. A path ends before it would reach a host again.
    """
    above = {target: source for source, target in seconds}
    arrival_s: dict[str, float] = {}
    for host in above:
        way: list[str] = []
        while host in above and host not in arrival_s:
            way.append(host)
            arrival_s[host] = 0.0
            host = above[host]
        at_s = arrival_s.get(host, 0.0)
        for each in reversed(way):
            at_s += seconds[above[each], each]
            arrival_s[each] = at_s
    return max(arrival_s.values(), default=0.0)
