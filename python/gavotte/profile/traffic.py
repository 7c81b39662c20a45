"""Traffic: the bytes that each task sent to each other one, as one source saw them. Every source returns a Traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes
from gavotte.tables import Tabular, square

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

JUMP_SHARE = 0.001
"""Share of all bytes, 0 to 1, that a pair must miss before a warning names it. Pairs below are left out of an App."""

LOSSES = {
    "damaged_datagrams": "datagrams were damaged",
    "lost_datagrams": "datagrams were lost in transit",
    "lost_samples": "samples were lost in transit; the others were scaled up for them",
    "dropped_samples": "samples were dropped by their agent; the others were scaled up for them",
    "lost_records": "flow records were lost in transit",
    "untold_sets": "sets of flows had no template",
    "socket_drops": "datagrams came faster than they were read",
    "dropped_packets": "packets came faster than they were read; TCP sequence numbers made up for most of them",
    "closed_unseen": "connections ended between two samples; the bytes since the earlier sample are missing",
    "uncounted_datagrams": "datagrams found no room in the kernel's table",
    "missing_ranks": "ranks have no file among the inputs; what they sent is missing",
    "unfinished_ranks": "ranks ended without MPI_Finalize; the last of their messages may be missing",
    "uncounted_bytes": "bytes went to ranks outside MPI_COMM_WORLD, as of spawned programs; no pair has them",
    "unplaced_bytes": "bytes of the smallest pairs found no room in the tables; --tasks keeps all pairs of the tasks",
    "blank_files": "captures end in zeros, as after a crash; all packets before the zeros are counted",
}
"""Counters of a source that indicate missing bytes."""


class Count(NamedTuple):
    """Payload bytes from one task to another with a 95 % interval, which has no width if the source misses nothing.

    Attributes:
        bytes: best estimate.
        low_bytes: lower end of the interval.
        high_bytes: upper end of the interval.
    """

    bytes: int
    low_bytes: int
    high_bytes: int

    @classmethod
    def exact(cls, size_bytes: int) -> Count:
        """Return a count of bytes that were all seen, with an interval of no width."""
        return cls(size_bytes, size_bytes, size_bytes)

    def plus(self, other: Count) -> Count:
        """Return the sum of two counts; the ends of the intervals add up, as for errors that do not cancel out."""
        return Count(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class TrafficSpan:
    """Bytes between tasks during one span of time.

    Attributes:
        start_s: Unix time at which the span begins; None if the source has no clock.
        end_s: Unix time at which the span ends; None if the source has no clock.
        counts: bytes by (source, target) task. A task may send to itself, which does not use the network.
    """

    start_s: float | None
    end_s: float | None
    counts: Mapping[tuple[str, str], Count]


@dataclass(frozen=True)
class Traffic(Tabular):
    """Traffic of one application as one source saw it. Each byte seen is either attributed or unattributed.

    Attributes:
        inputs: names of the inputs, for messages.
        tasks: names of the tasks, in the order that the App will have.
        spans: consecutive spans of time; most sources have one.
        complete: whether the App has all of `tasks`. If not, the tasks were inferred, and the App leaves out those
            with nothing but noise.
        unattributed_bytes: payload from or to an end that is no task.
        strangers: unattributed payload by pair of ends. An end that is a task has the task's name. Payload whose ends
            the source did not keep is left out.
        seen: the source's other counters by name, for the report.
        doubts: reasons of this input why the counts may be wrong, one line each.
        skipped: number of packets, samples or flows that carry no payload that counts, by reason.
    """

    inputs: tuple[str, ...]
    tasks: tuple[str, ...]
    spans: tuple[TrafficSpan, ...]
    complete: bool = True
    unattributed_bytes: int = 0
    strangers: Mapping[tuple[str, str], int] = field(default_factory=dict)
    seen: Mapping[str, int | float | bool] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[tuple[str, str], Count]:
        """Bytes of each (source, target) pair over all spans, in the order of the tasks."""
        sums: dict[tuple[str, str], Count] = {}
        for span in self.spans:
            for pair, count in span.counts.items():
                sums[pair] = sums[pair].plus(count) if pair in sums else count
        at = {task: index for index, task in enumerate(self.tasks)}
        return dict(sorted(sums.items(), key=lambda item: (at[item[0][0]], at[item[0][1]])))

    @property
    def attributed_bytes(self) -> int:
        """Payload bytes between tasks, including those that a task sends to itself."""
        return sum(count.bytes for count in self.counts.values())

    @property
    def bytes(self) -> int:
        """All payload bytes that the source saw, attributed and unattributed."""
        return self.attributed_bytes + self.unattributed_bytes

    @property
    def warnings(self) -> list[str]:
        """Reasons why the counts miss bytes, one line each."""
        lines = [f"{self.seen[name]} {what}" for name, what in LOSSES.items() if self.seen.get(name)]
        if self.seen.get("counts_datagrams") is False:
            lines.append(
                "UDP is not counted; counting it needs CAP_BPF and CAP_NET_ADMIN, and bpf() allowed by seccomp"
            )
        if self.seen.get("truncated"):
            lines.append("the capture ends within a packet; all packets before it are counted")
        return [*lines, *self._jumps(), *self.doubts]

    def _jumps(self) -> list[str]:
        """Return a line if most bytes of a pair were not captured: only a jump of sequence numbers indicates them."""
        if not self.seen.get("unseen_bytes"):
            return []
        counts = self.counts
        least = JUMP_SHARE * sum(count.bytes for count in counts.values())
        missing = {pair: count.bytes - count.low_bytes for pair, count in counts.items()}
        pairs = [pair for pair, size in missing.items() if size > max(counts[pair].bytes / 2, least)]
        if not pairs:
            return []
        largest = max(pairs, key=missing.__getitem__)
        others = f", and in {counted(len(pairs) - 1, 'other pair')}" if len(pairs) > 1 else ""
        sizes = f"{format_bytes(missing[largest])} of {format_bytes(counts[largest].bytes)}"
        return [
            f"{sizes} from {largest[0]} to {largest[1]} were not captured{others}: TCP's sequence numbers "
            "jump over them; a forged packet does the same"
        ]

    def to_numpy(self, key: Literal["bytes", "low_bytes", "high_bytes"] = "bytes") -> npt.NDArray[np.int64]:
        """Return the bytes between tasks as a (T, T) matrix in the order of `tasks`, row = source, column = target."""
        return square(self.tasks, ((s, t, getattr(count, key)) for (s, t), count in self.counts.items()))

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row for each pair of tasks: source, target, bytes, low_bytes, high_bytes."""
        return [{"source": s, "target": t, **count._asdict()} for (s, t), count in self.counts.items()]
