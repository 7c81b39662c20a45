"""Trees as lines of numbers, which the preloaded library reads without a JSON parser."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.errors import GavotteError
from gavotte.formats.collective import Collective

HEADER = "gavotte/shim/1"


def shim_text(collectives: Sequence[Collective]) -> str:
    """Writes the trees of one or more operations over the same ranks.

    One line with the number of ranks, then three a tree: operation, root, bytes and bytes of a segment; each rank's
    parent; the order.

    Raises:
        GavotteError: when they have unlike ranks.
    """
    sizes = {len(each.hosts) for each in collectives}
    if len(sizes) != 1:
        raise GavotteError("the operations have unlike numbers of ranks", hint="make all of them for the same ranks")
    lines = [HEADER, f"ranks {sizes.pop()}"]
    for collective in collectives:
        for stage in collective.stages:
            segment_bytes = -(-stage.bytes // stage.segments) if stage.segments > 1 else 0
            lines.append(f"{stage.operation} {stage.root} {stage.bytes} {segment_bytes}")
            lines += [" ".join(map(str, stage.parent)), " ".join(map(str, stage.order))]
    return "\n".join(lines) + "\n"
