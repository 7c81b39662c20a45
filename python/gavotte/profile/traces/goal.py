"""Write a trace as GOAL text, which LogGOPSim and ATLAHS replay.

Each rank is a graph of `calc` (nanoseconds), `send` and `recv`. `requires` starts an operation when another is done,
`irequires` when it has begun. Loops are unfolded. Collectives are taken apart (`apart`). Sizes are at least 1 byte,
since LogGOPSim subtracts one.
"""

from __future__ import annotations

from collections.abc import Iterator

from gavotte.errors import GavotteError
from gavotte.formats.trace import (
    UNKNOWN,
    Cancel,
    CollectiveCall,
    Compute,
    Irecv,
    Isend,
    MpiTrace,
    Operation,
    RankTrace,
    Recv,
    Send,
    Wait,
    passes,
)
from gavotte.profile.traces.apart import take_apart

MOST_CALLS = 10_000_000
"""Most calls that are unfolded: some 1 GB of text."""


def goal_lines(trace: MpiTrace) -> Iterator[str]:
    """Yield the lines of a GOAL schedule.

    Raises:
        GavotteError: when the trace has more than `MOST_CALLS` calls.
    """
    check_size(trace)
    tags = Tags()
    yield f"num_ranks {len(trace.ranks)}"
    for rank in trace.ranks:
        yield f"rank {rank.rank} {{"
        yield from _Schedule(trace, rank, tags).lines()
        yield "}"


def check_size(trace: MpiTrace) -> None:
    """Refuse a trace whose loops are too long to be written out.

    Raises:
        GavotteError: naming the number of calls.
    """
    if (total := sum(rank.calls for rank in trace.ranks)) > MOST_CALLS:
        raise GavotteError(
            f"the trace has {total} calls, and {MOST_CALLS} at most can be written out", hint="trace a shorter run"
        )


def matched(rank: RankTrace) -> Iterator[Operation]:
    """Yield the operations of a rank without receives that match no message, and without the end of such receives."""
    gone: set[int] = set()
    if any(isinstance(each, Cancel) for each, _ in passes(rank.operations)):
        begun: dict[int, int] = {}
        for number, each in enumerate(rank.unfold()):
            if isinstance(each, Irecv | Isend):
                begun[each.request] = number
            elif isinstance(each, Cancel) and each.request in begun:
                gone.add(begun[each.request])
    for number, each in enumerate(rank.unfold()):
        if number in gone or isinstance(each, Cancel) or (isinstance(each, Recv | Irecv) and each.peer == UNKNOWN):
            continue
        yield each


class Tags:
    """Numbers for pairs of a communicator and a tag. Collectives have one for each communicator."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int | None], int] = {}

    def __call__(self, communicator: int, tag: int | None) -> int:
        """Return the number of a tag; None = the tag of collectives."""
        return self._numbers.setdefault((communicator, tag), len(self._numbers))


class _Schedule:
    """Operations of one rank, and on which others each depends."""

    def __init__(self, trace: MpiTrace, rank: RankTrace, tags: Tags) -> None:
        self._trace, self._rank, self._tags = trace, rank, tags
        self._count = 0
        self._before: list[tuple[str, str]] = []
        """What the next operation depends on: the kind of dependency, and the label."""
        self._open: dict[int, list[str]] = {}
        """Labels of each request."""

    def lines(self) -> Iterator[str]:
        waiting_s = 0.0
        for each in matched(self._rank):
            if isinstance(each, Compute):
                # Shares of a nanosecond add up.
                waiting_s += each.mean_s
                if (whole := int(waiting_s * 1e9)) > 0:
                    waiting_s -= whole / 1e9
                    yield from self._blocking(f"calc {whole}")
            elif isinstance(each, Send):
                yield from self._blocking(self._send(each.peer, each.bytes, self._tags(each.communicator, each.tag)))
            elif isinstance(each, Recv):
                yield from self._blocking(self._recv(each.peer, each.bytes, self._tags(each.communicator, each.tag)))
            elif isinstance(each, Isend):
                text = self._send(each.peer, each.bytes, self._tags(each.communicator, each.tag))
                yield from self._started(each.request, text)
            elif isinstance(each, Irecv):
                text = self._recv(each.peer, each.bytes, self._tags(each.communicator, each.tag))
                yield from self._started(each.request, text)
            elif isinstance(each, Wait):
                yield from self._wait([label for request in each.requests for label in self._open.pop(request, [])])
            elif isinstance(each, CollectiveCall):
                yield from self._collective(each)

    @staticmethod
    def _send(peer: int, size: int, tag: int) -> str:
        return f"send {max(size, 1)}b to {peer} tag {tag}"

    @staticmethod
    def _recv(peer: int, size: int, tag: int) -> str:
        return f"recv {max(size, 1)}b from {peer} tag {tag}"

    def _operation(self, text: str, before: list[tuple[str, str]]) -> Iterator[str]:
        self._count += 1
        yield f"l{self._count}: {text}"
        for how, label in before:
            yield f"l{self._count} {how} {label}"

    def _blocking(self, text: str) -> Iterator[str]:
        """Write an operation that the next one waits for."""
        yield from self._operation(text, self._before)
        self._before = [("requires", f"l{self._count}")]

    def _started(self, request: int | None, text: str) -> Iterator[str]:
        """Write an operation that the next one only follows."""
        yield from self._operation(text, self._before)
        label = f"l{self._count}"
        self._before = [("irequires", label)]
        if request is not None:
            self._open.setdefault(request, []).append(label)

    def _wait(self, labels: list[str]) -> Iterator[str]:
        yield from self._operation("calc 0", self._before + [("requires", each) for each in labels])
        self._before = [("requires", f"l{self._count}")]

    def _collective(self, each: CollectiveCall) -> Iterator[str]:
        """Write the messages of a collective. What follows a nonblocking one waits for its first messages to begin."""
        tag = self._tags(each.communicator, None)
        first: list[tuple[str, str]] = []
        before = self._before
        for step in take_apart(each, self._trace.communicators[each.communicator], self._rank.rank):
            begin, labels = self._before, []
            for text in [
                *(self._recv(peer, size, tag) for peer, size in step.receives),
                *(self._send(peer, size, tag) for peer, size in step.sends),
            ]:
                yield from self._operation(text, begin)
                labels.append(f"l{self._count}")
            if labels:
                self._before = [("requires", label) for label in labels]
                first = first or [("irequires", label) for label in labels]
        if each.request is not None:
            self._open[each.request] = [label for _, label in self._before] if first else []
            self._before = first or before
