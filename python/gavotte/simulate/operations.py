"""The operations of a Trace as the compiled replay takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.trace import Cancel, CollectiveCall, Compute, Irecv, Isend, Loop, Recv, Send, Wait

if TYPE_CHECKING:
    from gavotte.formats.trace import Communicator, MpiTrace, Operation

BLOCKING = 2**32 - 1
"""Request of calls that block."""
COMM_BYTES = 8
"""Bytes on which ranks agree when they make a communicator."""


def program_of(trace: MpiTrace) -> _core.JobProgram:
    """Return a Trace as the compiled replay takes it.

    Raises:
        GavotteError: when an operation names a rank or communicator that does not exist.
    """
    members = [_members(each) for each in trace.communicators]
    ranks = [list(_operations(rank.operations, members)) for rank in trace.ranks]
    try:
        return _core.JobProgram(ranks, members)
    except (ValueError, OverflowError) as error:
        raise GavotteError(f"the trace cannot be replayed: {error}", hint="trace the job again") from None


def _members(communicator: Communicator) -> list[int]:
    """Return the members of a communicator. Those of an intercommunicator act as one group."""
    both = [*communicator.members, *communicator.remote]
    members = sorted(set(both)) if communicator.remote else both
    return [member for member in members if member >= 0]


def _operations(operations: Sequence[Operation], members: Sequence[Sequence[int]]) -> Iterator[tuple[Any, ...]]:
    """Yield operations as tuples. Calls that block are a begin and a wait."""
    for each in operations:
        match each:
            case Compute():
                yield ("compute", each.mean_s, each.variance_s2)
            case Send():
                yield _isend(each, BLOCKING)
                yield ("wait", [BLOCKING])
            case Isend():
                yield _isend(each, each.request)
            case Recv() | Irecv() if each.peer < 0:
                pass  # it never completed
            case Recv():
                yield ("irecv", each.peer, each.tag, each.communicator, BLOCKING)
                yield ("wait", [BLOCKING])
            case Irecv():
                yield ("irecv", each.peer, each.tag, each.communicator, each.request)
            case Wait():
                yield ("wait", list(each.requests))
            case Cancel():
                yield ("cancel", each.request)
            case CollectiveCall():
                yield _collective(each, members)
            case Loop():
                yield ("loop", each.count, list(_operations(each.body, members)))


def _isend(each: Send | Isend, request: int) -> tuple[Any, ...]:
    return ("isend", each.peer, each.bytes, each.tag, each.communicator, request, each.mode == "synchronous")


def _collective(each: CollectiveCall, members: Sequence[Sequence[int]]) -> tuple[Any, ...]:
    """Return a collective. The creation of a communicator is an agreement on a few bytes."""
    kind, size = each.kind, each.bytes
    if kind == "comm":
        kind, size = "allreduce", COMM_BYTES
    elif kind.startswith("neighbor_"):
        kind = "neighbor"
    group = members[each.communicator] if each.communicator < len(members) else []
    root = group.index(each.root) if each.root in group else 0
    lists = (list(each.counts), list(each.sources), list(each.targets))
    return ("collective", kind, each.communicator, root, size, *lists, each.request)
