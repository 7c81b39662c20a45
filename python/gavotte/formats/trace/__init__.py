"""Trace: the MPI calls of each rank of a run, with the computing between them, folded into loops (`*.trace`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.formats.trace.operations import (
        KINDS,
        MODES,
        UNKNOWN,
        Cancel,
        CollectiveCall,
        Communicator,
        Compute,
        Irecv,
        Isend,
        Loop,
        MpiTrace,
        Operation,
        RankTrace,
        Recv,
        Send,
        Wait,
        computing_s,
        passes,
    )
    from gavotte.formats.trace.reading import parse_trace, read_trace

__all__ = [
    "KINDS",
    "MODES",
    "UNKNOWN",
    "Cancel",
    "CollectiveCall",
    "Communicator",
    "Compute",
    "Irecv",
    "Isend",
    "Loop",
    "MpiTrace",
    "Operation",
    "RankTrace",
    "Recv",
    "Send",
    "Wait",
    "computing_s",
    "parse_trace",
    "passes",
    "read_trace",
]

load_on_first_use(
    __name__,
    {
        "operations": (
            "KINDS",
            "MODES",
            "UNKNOWN",
            "Cancel",
            "CollectiveCall",
            "Communicator",
            "Compute",
            "Irecv",
            "Isend",
            "Loop",
            "MpiTrace",
            "Operation",
            "RankTrace",
            "Recv",
            "Send",
            "Wait",
            "computing_s",
            "passes",
        ),
        "reading": ("parse_trace", "read_trace"),
    },
)
