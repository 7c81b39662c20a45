"""Add up the bytes that a source reports: by task name, or as unattributed where an end is no task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gavotte.formats.inventory import Inventory
from gavotte.profile.traffic import Count, Traffic, TrafficSpan

MOST_SPANS = 100_000
"""Most intervals of a series that also lists the intervals without traffic. A longer series leaves those out."""

COLLECTIVES = ("wire", "call")
"""Ways to attribute the bytes of a collective."""

Key = Callable[[str], str | None]
"""Function from a source's identifier of an end to the name of its task; None if the end is no task."""


@dataclass(frozen=True)
class Request:
    """Request to profile an application: what to read or watch, for how long, and which tasks to count.

    Attributes:
        inputs: files, or other inputs that the source reads.
        tasks: names of the tasks by the source's identifier of each, in the order of the tasks; None infers them.
        every_s: length of each interval of the series, in seconds; None makes one interval of all traffic.
        listen: `ADDRESS:PORT` to receive exports at, instead of inputs, until Ctrl-C.
        for_s: listen, watch or capture for no longer than this many seconds.
        hosts: hosts whose agents watch their sockets, for sources that can; None = this machine.
        ready: called with a description of what the source waits for, once it waits.
        interface: interface to capture packets on, instead of inputs, until Ctrl-C. It needs tcpdump and the right to
            capture.
        collectives: one of `COLLECTIVES`, how sources that count calls attribute the bytes of a collective. `wire` = to
            the ranks between which the MPI library sends them, `call` = to those that have and want them.
        waiting: called with what the reader of the inputs waits for, if it takes long.
        ended: called again and again while sockets are watched; returns whether to stop before the time is up.
    """

    inputs: Sequence[str | Path]
    tasks: Mapping[str, str] | None = None
    every_s: float | None = None
    listen: str | None = None
    for_s: float | None = None
    hosts: Inventory | None = None
    ready: Callable[[str], None] | None = None
    interface: str | None = None
    collectives: str = "wire"
    waiting: Callable[[str], None] | None = None
    ended: Callable[[], bool] | None = None


def of_ranks(request: Request, ranks: int) -> Request:
    """Return the request with a job's ranks as tasks, named `rank0`, `rank1` and so on unless it names its tasks."""
    named = {str(rank): f"rank{rank}" for rank in range(ranks)} if request.tasks is None else request.tasks
    return replace(request, tasks=named)


@dataclass
class Gathering:
    """Bytes between tasks, added up one count after the other until they become Traffic.

    Attributes:
        request: gives the tasks and the length of intervals.
        infer: function from an end to its task's name, used if the request names no tasks.
    """

    request: Request
    infer: Key = field(default=lambda end: end)
    _spans: dict[int, dict[tuple[str, str], Count]] = field(default_factory=dict)
    _strangers: dict[tuple[str, str], int] = field(default_factory=dict)

    def name(self, end: str) -> str | None:
        """Return the name of an end's task; None if the end is no task."""
        return self.infer(end) if self.request.tasks is None else self.request.tasks.get(end)

    def add(self, source: str, target: str, count: Count, interval: int = 0) -> None:
        """Add the bytes that one end sent to another in an interval, which is numbered from the epoch."""
        ends = self.name(source), self.name(target)
        if ends[0] is None or ends[1] is None:
            strangers = ends[0] or source, ends[1] or target
            self._strangers[strangers] = self._strangers.get(strangers, 0) + count.bytes
            return
        span = self._spans.setdefault(interval, {})
        pair = ends[0], ends[1]
        span[pair] = span[pair].plus(count) if pair in span else count

    def at(self, time_s: float | None) -> int:
        """Return the number of the interval that contains a Unix time, from the epoch; 0 without time or series."""
        every_s = self.request.every_s
        return 0 if every_s is None or time_s is None else int(time_s // every_s)

    def traffic(
        self,
        seen: Mapping[str, int | float | bool],
        *,
        whole_s: tuple[float, float] | None = None,
        order: Callable[[Iterable[str]], list[str]] = sorted,
        others_bytes: int = 0,
        doubts: Sequence[str] = (),
    ) -> Traffic:
        """Return the Traffic of all counts that were added.

        Args:
            seen: the source's other counters.
            whole_s: Unix time of the begin and the end, if known.
            order: function that sorts inferred tasks.
            others_bytes: further unattributed payload, whose ends the source did not keep.
            doubts: reasons why the counts may be wrong, in words.
        """
        tasks = self.request.tasks
        busy = {task for span in self._spans.values() for pair in span for task in pair}
        return Traffic(
            inputs=tuple(str(each) for each in self.request.inputs)
            or (str(self.request.listen or self.request.interface),),
            tasks=tuple(dict.fromkeys(tasks.values())) if tasks is not None else tuple(order(busy)),
            spans=tuple(self._series(whole_s)),
            complete=tasks is not None,
            unattributed_bytes=sum(self._strangers.values()) + others_bytes,
            strangers=self._strangers,
            seen=seen,
            doubts=tuple(doubts),
        )

    def _series(self, whole_s: tuple[float, float] | None) -> Iterable[TrafficSpan]:
        every_s = self.request.every_s
        if every_s is None:
            start_s, end_s = whole_s or (None, None)
            yield TrafficSpan(start_s, end_s, self._spans.get(0, {}))
            return
        busy = sorted(self._spans)
        numbers = range(busy[0], busy[-1] + 1) if busy and busy[-1] - busy[0] < MOST_SPANS else busy
        for number in numbers:
            yield TrafficSpan(number * every_s, (number + 1) * every_s, self._spans.get(number, {}))
