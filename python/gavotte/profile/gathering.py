"""Adds up what a source tells of who sent what, gives the tasks their names, and keeps apart what has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gavotte.formats.inventory import Inventory
from gavotte.profile.traffic import Count, Traffic, TrafficSpan

MOST_SPANS = 100_000
"""More intervals than that are not filled up with empty ones between the busy ones."""

Key = Callable[[str], str | None]
"""From what a source calls an end to the name of its task; None where it is none."""


@dataclass(frozen=True)
class Request:
    """What is to be profiled.

    Attributes:
        inputs: files, or what else the source reads.
        tasks: what the source calls a task to its name, in the order of the tasks; None infers them.
        every_s: how long an interval of the series is; None makes one of all.
        listen: `ADDRESS:PORT` to receive exports at, instead of inputs, until Ctrl-C.
        for_s: listen, watch or capture for no longer than this many seconds.
        hosts: whose sockets to watch through their agents, for sources that do; None = this machine.
        ready: called with what the source waits for, once it does.
        interface: to capture packets on, instead of inputs, until Ctrl-C; needs tcpdump and the right to capture.
    """

    inputs: Sequence[str | Path]
    tasks: Mapping[str, str] | None = None
    every_s: float | None = None
    listen: str | None = None
    for_s: float | None = None
    hosts: Inventory | None = None
    ready: Callable[[str], None] | None = None
    interface: str | None = None


def of_ranks(request: Request, ranks: int) -> Request:
    """The request with the ranks of a job as its tasks, `rank0`, `rank1` and so on, where it names none."""
    named = {str(rank): f"rank{rank}" for rank in range(ranks)} if request.tasks is None else request.tasks
    return replace(request, tasks=named)


@dataclass
class Gathering:
    """Counts on their way to Traffic.

    Attributes:
        request: whose tasks and interval hold.
        infer: the task's name where no tasks are given.
    """

    request: Request
    infer: Key = field(default=lambda end: end)
    _spans: dict[int, dict[tuple[str, str], Count]] = field(default_factory=dict)
    _strangers: dict[tuple[str, str], int] = field(default_factory=dict)

    def name(self, end: str) -> str | None:
        """The task that an end is."""
        return self.infer(end) if self.request.tasks is None else self.request.tasks.get(end)

    def add(self, source: str, target: str, count: Count, interval: int = 0) -> None:
        """Counts what one end sent another in an interval, numbered since the epoch."""
        ends = self.name(source), self.name(target)
        if ends[0] is None or ends[1] is None:
            strangers = ends[0] or source, ends[1] or target
            self._strangers[strangers] = self._strangers.get(strangers, 0) + count.bytes
            return
        span = self._spans.setdefault(interval, {})
        pair = ends[0], ends[1]
        span[pair] = span[pair].plus(count) if pair in span else count

    def at(self, time_s: float | None) -> int:
        """The number of the interval that a time is in."""
        every_s = self.request.every_s
        return 0 if every_s is None or time_s is None else int(time_s // every_s)

    def traffic(
        self,
        seen: Mapping[str, int | float | bool],
        *,
        whole_s: tuple[float, float] | None = None,
        order: Callable[[Iterable[str]], list[str]] = sorted,
        others_bytes: int = 0,
    ) -> Traffic:
        """What was gathered.

        Args:
            seen: what else the source counted.
            whole_s: when it began and ended, if that is known.
            order: of inferred tasks.
            others_bytes: payload that was seen and whose ends were not kept.
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
