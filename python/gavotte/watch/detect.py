"""Tells "the constant has moved" from "a spike". Pure: expected and observed times in, changes out."""

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
"""Band widths that a residual must exceed to count at all."""

LIMIT = 10.4
"""Band widths of excess at which an edge is said to have moved: just below six operations of `CLIP` less `DRIFT`."""

CLIP = 3.0
"""A residual counts for no more, so that no single spike alarms, however long: six in a row are needed."""

MIN_WIDTH = 0.01
"""A narrower band would call rounding a change."""

LOAD_EDGES = 4
"""With fewer edges their median is no load, but the change itself."""

MEMORY = 32
"""Residuals kept of each edge, to say by how much it moved."""


def exceeds(observed_s: float, expected_s: float, threshold: float = 1.0) -> bool:
    """The RPCA paper's test, Algorithm 1 line 6: |t - t'| / t' >= threshold; 1 = 100 % as in its section V-C.

    Args:
        observed_s: seconds t that an operation took.
        expected_s: seconds t' by the constant.
        threshold: share of the expected time.

    Raises:
        GavotteError: for an expected time that is not above zero.
    """
    if not expected_s > 0:
        raise GavotteError(f"cannot compare with an expected time of {expected_s} s", hint="use a time above 0")
    return abs(observed_s - expected_s) / expected_s >= threshold


@dataclass(frozen=True)
class Change:
    """An edge whose constant has moved.

    Attributes:
        source: sender.
        target: receiver.
        direction: what became of its times.
        factor: observed over expected time, the load of each operation taken out.
        operations: how many ago it seems to have moved.
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
        """Starts from what is expected.

        Args:
            edges: (source, target) of each.
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
        """Takes one operation.

        Args:
            times_s: (E,) seconds that each edge's transfer took, NaN = not known this time.

        Returns:
            The edges that are beyond the limit now, worst first; again each time until `expect` resets them.
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
        """Restart an edge after a new calibration.

        Raises:
            GavotteError: for an edge that is not watched, or no time.
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
    """What tells of one edge, such as a `Change`."""

    @property
    def source(self) -> str:
        """Sender."""

    @property
    def target(self) -> str:
        """Receiver."""


def movers(changes: Collection[OnEdge], edges: Collection[Edge]) -> list[str]:
    """Hosts whose every edge has changed, two at least: they moved, rather than one link.

    Args:
        changes: what `EdgeCusum.observe` returned, or pairs that calibration found elsewhere.
        edges: all that are watched, or were calibrated.

    Returns:
        Names, sorted. What none of them explains is a change of single links.
    """
    all_of = Counter(host for edge in edges for host in edge)
    changed = Counter(host for change in changes for host in (change.source, change.target))
    return sorted(host for host, count in changed.items() if count == all_of[host] >= 2)


def whole_s(seconds: Mapping[Edge, float]) -> float:
    """Seconds down the longest way of a tree, each edge after the one above it.

    Hosts that several ranks share may stand below themselves; a way ends where it would come round.
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
