"""Traffic: who sent how many bytes to whom, as one source saw it. Every source returns one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gavotte.tables import Tabular, square

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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
    "unplaced_bytes": "bytes found no room in the tables",
}
"""Counters of a source that indicate missing bytes."""


class Count(NamedTuple):
    """Payload bytes from one task to another, and the 95 % interval around them; a source that misses nothing has none.

    Attributes:
        bytes: best estimate.
        low_bytes: lower end.
        high_bytes: upper end.
    """

    bytes: int
    low_bytes: int
    high_bytes: int

    @classmethod
    def exact(cls, size_bytes: int) -> Count:
        """Bytes that were all seen."""
        return cls(size_bytes, size_bytes, size_bytes)

    def plus(self, other: Count) -> Count:
        """The sum; its interval is that of errors that do not cancel out."""
        return Count(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class TrafficSpan:
    """What was sent during some time.

    Attributes:
        start_s: Unix time at which it begins; None where the source has no clock.
        end_s: and ends.
        counts: (source, target) task to bytes; a task may send to itself, which costs no network.
    """

    start_s: float | None
    end_s: float | None
    counts: Mapping[tuple[str, str], Count]


@dataclass(frozen=True)
class Traffic(Tabular):
    """All that one source tells of an application. Bytes in = attributed + unattributed.

    Attributes:
        inputs: what was read, for messages.
        tasks: in the order that their App will have.
        spans: one after the other; most sources have one.
        complete: whether every one of `tasks` is a task; else they were inferred, and one with mere noise is none.
        unattributed_bytes: payload with an end that is no task.
        strangers: that payload by pair, an end that is a task by its name; what found no room there is left out.
        seen: what else the source counted, by name, for its report.
    """

    inputs: tuple[str, ...]
    tasks: tuple[str, ...]
    spans: tuple[TrafficSpan, ...]
    complete: bool = True
    unattributed_bytes: int = 0
    strangers: Mapping[tuple[str, str], int] = field(default_factory=dict)
    seen: Mapping[str, int | float | bool] = field(default_factory=dict)

    @property
    def counts(self) -> dict[tuple[str, str], Count]:
        """Bytes of each pair over all spans, in the order of the tasks."""
        sums: dict[tuple[str, str], Count] = {}
        for span in self.spans:
            for pair, count in span.counts.items():
                sums[pair] = sums[pair].plus(count) if pair in sums else count
        at = {task: index for index, task in enumerate(self.tasks)}
        return dict(sorted(sums.items(), key=lambda item: (at[item[0][0]], at[item[0][1]])))

    @property
    def attributed_bytes(self) -> int:
        """Payload that is known to go from task to task, those to itself included."""
        return sum(count.bytes for count in self.counts.values())

    @property
    def bytes(self) -> int:
        """All payload that the source saw."""
        return self.attributed_bytes + self.unattributed_bytes

    @property
    def warnings(self) -> list[str]:
        """What is missing from the counts, one line each."""
        lines = [f"{self.seen[name]} {what}" for name, what in LOSSES.items() if self.seen.get(name)]
        if self.seen.get("counts_datagrams") is False:
            lines.append(
                "UDP is not counted; counting it needs CAP_BPF and CAP_NET_ADMIN, and bpf() allowed by seccomp"
            )
        if self.seen.get("truncated"):
            lines.append("the capture ends within a packet; all packets before it are counted")
        return lines

    def to_numpy(self, key: Literal["bytes", "low_bytes", "high_bytes"] = "bytes") -> npt.NDArray[np.int64]:
        """(T, T) bytes in the order of `tasks`, row = source."""
        return square(self.tasks, ((s, t, getattr(count, key)) for (s, t), count in self.counts.items()))

    def to_records(self) -> list[dict[str, Any]]:
        """One row a pair: source, target, bytes, low_bytes, high_bytes."""
        return [{"source": s, "target": t, **count._asdict()} for (s, t), count in self.counts.items()]
