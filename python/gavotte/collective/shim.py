"""Write trees and rings as lines of numbers, which the preloaded library reads without a JSON parser."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.errors import GavotteError
from gavotte.formats.collective import LIBRARY, Collective

HEADER = "gavotte/shim/1"


def shim_text(collectives: Sequence[Collective]) -> str:
    """Return the text with the trees of one or more operations over the same ranks, for the preloaded library.

    After the header, one line has the number of ranks and one their hosts. Each tree has three lines: operation, root,
    bytes and bytes of a segment; each rank's parent; the order. A ring has the number of its members in place of the
    root. The two trees of an allgather or allreduce follow each other. The first is `allgather-gather` or
    `allreduce-reduce`. An operation that is left to the MPI library has one line: `library`, operation, root, bytes.

    Raises:
        GavotteError: when the operations have different ranks.
    """
    ranks = {tuple(each.hosts) for each in collectives}
    if len(ranks) != 1:
        raise GavotteError("the operations have different ranks", hint="plan all of them for the same hosts")
    hosts = ranks.pop()
    lines = [HEADER, f"ranks {len(hosts)}", f"hosts {' '.join(hosts)}"]
    for collective in collectives:
        if collective.algorithm == LIBRARY:
            lines.append(f"library {collective.operation} {collective.stages[0].root} {collective.bytes}")
            continue
        for stage in collective.stages:
            parts = len(collective.stages) > 1
            name = f"{collective.operation}-{stage.operation}" if parts else stage.operation
            lines.append(f"{name} {stage.ring or stage.root} {stage.bytes} {stage.segment_bytes}")
            parent = [stage.root if rank == stage.root else above for rank, above in enumerate(stage.parent)]
            lines += [" ".join(map(str, parent)), " ".join(map(str, stage.order))]
    return "\n".join(lines) + "\n"
