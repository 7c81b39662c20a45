"""Bytes that flows had moved at one point of time, from reports of several agents at times of their own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

KEPT_S = 3.0
"""Reports are kept for this long."""

LATE_S = 0.6
"""An agent whose last report is this much older than the newest one no longer delays the others."""


class Odometer:
    """What each flow has moved, by time since the common start.

    Agents report at different moments, and some reports are late. Sums of the last reports would therefore jump by the
    bytes of a whole interval. Between two reports of an agent, its flows count as equally fast.

    Args:
        sources: sending host of each flow.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._flows_of: dict[str, list[int]] = {}
        for number, source in enumerate(sources):
            self._flows_of.setdefault(source, []).append(number)
        self._times_s: list[list[float]] = [[0.0] for _ in sources]
        self._bytes: list[list[float]] = [[0.0] for _ in sources]
        self._last_s = dict.fromkeys(self._flows_of, 0.0)
        self._unfinished = {source: set(own) for source, own in self._flows_of.items()}

    def report(self, source: str, time_s: float, moved_bytes: Sequence[int]) -> None:
        """Accept a report of one agent.

        Args:
            source: its host.
            time_s: time of the report, since the start.
            moved_bytes: newest bytes of all flows, by number. Those of other agents do not count.
        """
        self._last_s[source] = max(time_s, self._last_s[source])
        for number in self._unfinished[source]:
            self._add(number, time_s, moved_bytes[number])

    def finish(self, source: str, number: int, time_s: float, moved_bytes: int) -> None:
        """Accept the end of a flow, at a time since the start."""
        self._unfinished[source].discard(number)
        self._add(number, time_s, moved_bytes)

    def now_s(self) -> float:
        """Return the latest time at which the bytes of all flows are known."""
        newest_s = max(self._last_s.values(), default=0.0)
        open_s = [last_s for source, last_s in self._last_s.items() if self._unfinished[source]]
        return max(min(open_s, default=newest_s), newest_s - LATE_S)

    def moved_bytes(self, flows: Iterable[int], time_s: float) -> float:
        """Return the bytes that some flows together had moved at a time since the start."""
        return sum(self._at(number, time_s) for number in flows)

    def _add(self, number: int, time_s: float, moved_bytes: float) -> None:
        times_s, moved = self._times_s[number], self._bytes[number]
        if time_s <= times_s[-1]:
            moved[-1] = max(moved[-1], moved_bytes)
            return
        times_s.append(time_s)
        moved.append(max(moved[-1], moved_bytes))
        while len(times_s) > 2 and times_s[1] < time_s - KEPT_S:
            del times_s[0], moved[0]

    def _at(self, number: int, time_s: float) -> float:
        times_s, moved = self._times_s[number], self._bytes[number]
        after = bisect_right(times_s, time_s)
        if after == 0:
            return moved[0]
        if after == len(times_s):
            return moved[-1]
        share = (time_s - times_s[after - 1]) / (times_s[after] - times_s[after - 1])
        return moved[after - 1] + share * (moved[after] - moved[after - 1])
