"""Trees of the preloaded library for a job's broadcasts, where the replay of the job predicts that they pay.

1. The trace shows the broadcasts among all ranks: sizes and roots.
2. `collective.plan` finds a tree for each, in the job's order of hosts.
3. The job is replayed with the messages of the trees in place of the broadcasts.

Other operations keep the MPI library's algorithms: trees of reductions add sums in another order, and the preloaded
library gains most where one message goes to all.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gavotte.collective import TreeSearch, plan
from gavotte.formats.collective import Collective, Stage
from gavotte.formats.network import Network
from gavotte.formats.trace import CollectiveCall, Irecv, Isend, Loop, MpiTrace, Operation, Wait, passes

LEAST_BYTES = 32_768
"""Smaller broadcasts go the MPI library's own way: the preloaded library's default."""

MOST_TREES = 6
"""Jobs with more sizes and roots get no trees: the preloaded library takes that of the nearest size for all others."""

TAG = 1 << 30
"""Tag of trees' messages in a replay. MPI programs may use tags up to 32767 everywhere."""

REQUEST = 1 << 30
"""First request of trees' messages."""

Key = tuple[int, int]
"""Bytes and root."""


def broadcast_trees(
    trace: MpiTrace, order: Sequence[str], network: Network, seed: int, deadline_s: float = math.inf
) -> dict[Key, Collective]:
    """Return a tree for each size and root of the broadcasts among all ranks; empty = there are none, or too many.

    Args:
        trace: the trace.
        order: host of each rank.
        network: the Network.
        seed: seed of the search.
        deadline_s: time by `time.monotonic` after which no further tree is searched for, and none is returned.

    Raises:
        GavotteError: when a pair of hosts has no rate.
    """
    keys = Counter(key for each, _ in passes(trace.ranks[0].operations) if (key := _key(each)) is not None)
    if not keys or len(keys) > MOST_TREES:
        return {}
    # A plan names its root by host, and takes the first rank there.
    if any(order.index(order[root]) != root for _, root in keys):
        return {}
    search = TreeSearch(seed=seed)
    trees = {}
    for size, root in keys:
        if time.monotonic() > deadline_s:
            return {}
        trees[size, root] = plan(network, "broadcast", size_bytes=size, root=order[root], ranks=order, search=search)
    return trees


def along_trees(trace: MpiTrace, trees: Mapping[Key, Collective]) -> MpiTrace:
    """Return a trace with the messages of trees in place of broadcasts."""
    sections = tuple(
        replace(section, operations=tuple(_replaced(section.operations, section.rank, trees)))
        for section in trace.ranks
    )
    return replace(trace, ranks=sections)


def _key(each: Operation) -> Key | None:
    """Return bytes and root of a broadcast that the preloaded library carries out; None = the operation is none."""
    if not isinstance(each, CollectiveCall) or each.kind != "bcast" or each.request is not None:
        return None
    return (each.bytes, each.root or 0) if each.communicator == 0 and each.bytes >= LEAST_BYTES else None


def _replaced(operations: Sequence[Operation], rank: int, trees: Mapping[Key, Collective]) -> Iterator[Operation]:
    for each in operations:
        key = _key(each)
        if isinstance(each, Loop):
            yield replace(each, body=tuple(_replaced(each.body, rank, trees)))
        elif key is not None and key in trees:
            yield from _down(trees[key].stages[0], rank)
        else:
            yield each


def _down(stage: Stage, rank: int) -> Iterator[Operation]:
    """Yield what a rank does: it has begun to receive all pieces, and sends each on to one child after the other."""
    whole = stage.segment_bytes or stage.bytes
    sizes = [min(whole, stage.bytes - start) for start in range(0, stage.bytes, whole)]
    receives = rank != stage.root
    if receives:
        for number, size in enumerate(sizes):
            yield Irecv(stage.parent[rank], size, TAG, 0, REQUEST + number, 0.0)
    for number, size in enumerate(sizes):
        if receives:
            yield Wait((REQUEST + number,), 0.0)
        for child in stage.children[rank]:
            yield Isend(child, size, TAG, 0, REQUEST - 1, "standard", 0.0)
            yield Wait((REQUEST - 1,), 0.0)
