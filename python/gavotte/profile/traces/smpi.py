"""Write a trace as SimGrid's time-independent trace, which `smpirun -replay` runs on any platform.

A line is a rank, an action and its arguments. Sizes are bytes. Computing is in flops of hosts that do `FLOPS_PER_S`.
Collectives of all ranks stay collectives, so SMPI chooses their algorithms. Those of other communicators, and those
whose counts differ by rank, are taken apart (`apart`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from gavotte.formats.trace import CollectiveCall, Compute, Irecv, Isend, MpiTrace, RankTrace, Recv, Send, Wait
from gavotte.profile.traces.apart import take_apart
from gavotte.profile.traces.goal import Tags, check_size, matched

FLOPS_PER_S = 1e9
"""Speed that the platform's hosts must have, `speed="1Gf"`, for computing to take its measured time."""

_INT_MAX = (1 << 31) - 1
_WHOLE = {
    "barrier": "barrier",
    "comm": "barrier",
    "bcast": "bcast {size} {root}",
    "reduce": "reduce {size} 0 {root}",
    "allreduce": "allreduce {size} 0",
    "alltoall": "alltoall {size} {size}",
    "allgather": "allgather {size} {size}",
    "gather": "gather {size} {size} {root}",
    "scatter": "scatter {size} {size} {root}",
}
"""Actions of collectives of all ranks."""


def smpi_lines(trace: MpiTrace) -> Iterator[str]:
    """Yield the lines of a time-independent trace.

    Raises:
        GavotteError: when the trace has too many calls to be written out.
    """
    check_size(trace)
    tags = Tags()
    for rank in trace.ranks:
        for action in _actions(trace, rank, tags):
            yield f"{rank.rank} {action}"


def _actions(trace: MpiTrace, rank: RankTrace, tags: Tags) -> Iterator[str]:
    """Yield what one rank does."""
    own = rank.rank
    begun: dict[int, list[str]] = {}
    yield "init"
    for each in matched(rank):
        if isinstance(each, Compute):
            if each.mean_s > 0:
                yield f"compute {each.mean_s * FLOPS_PER_S:.9g}"
        elif isinstance(each, Send):
            yield f"send {each.peer} {tags(each.communicator, each.tag)} {each.bytes}"
        elif isinstance(each, Recv):
            yield f"recv {each.peer} {tags(each.communicator, each.tag)} {each.bytes}"
        elif isinstance(each, Isend):
            tag = tags(each.communicator, each.tag)
            yield f"isend {each.peer} {tag} {each.bytes}"
            begun[each.request] = [f"wait {own} {each.peer} {tag}"]
        elif isinstance(each, Irecv):
            tag = tags(each.communicator, each.tag)
            yield f"irecv {each.peer} {tag} {each.bytes}"
            begun[each.request] = [f"wait {each.peer} {own} {tag}"]
        elif isinstance(each, Wait):
            for request in each.requests:
                yield from begun.pop(request, ())
        elif isinstance(each, CollectiveCall):
            waits = yield from _collective(trace, own, each, tags(each.communicator, None))
            if each.request is not None:
                begun[each.request] = waits
            else:
                yield from waits
    yield "finalize"


def _collective(trace: MpiTrace, own: int, each: CollectiveCall, tag: int) -> Generator[str, None, list[str]]:
    """Yield the actions of a collective; return those that wait for its end.

    SMPI replays no nonblocking collective: all steps but the last take place when it begins.
    """
    communicator = trace.communicators[each.communicator]
    is_whole = communicator.members == tuple(range(len(trace.ranks))) and not communicator.remote
    if is_whole and each.request is None and each.kind in _WHOLE and each.bytes <= _INT_MAX:
        yield _WHOLE[each.kind].format(size=each.bytes, root=each.root)
        return []
    waits: list[str] = []
    for step in take_apart(each, communicator, own):
        yield from waits
        waits = [f"wait {peer} {own} {tag}" for peer, _ in step.receives]
        waits += [f"wait {own} {peer} {tag}" for peer, _ in step.sends]
        for peer, size in step.receives:
            yield f"irecv {peer} {tag} {size}"
        for peer, size in step.sends:
            yield f"isend {peer} {tag} {size}"
    return waits
