"""Times of the MPI library's own operations, as `python -m gavotte.mpi.timing` measured them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from gavotte.errors import FormatError
from gavotte.formats.collective import Operation
from gavotte.formats.record import Record, read_records

METRIC = "library_s"


def read_library(path: str | Path) -> tuple[Record, ...]:
    """Read the Records of `python -m gavotte.mpi.timing`; other Records of the file are ignored.

    Raises:
        FormatError: naming file, line, field and remedy; also if the file has no such Record.
    """
    records = tuple(record for record in read_records(path) if record.metric == METRIC)
    if not records:
        raise FormatError(
            str(path), "metric", f"is `{METRIC}` in no line", "time the library with `python -m gavotte.mpi.timing`"
        )
    return records


def library_seconds(
    records: Sequence[Record], operation: Operation, size_bytes: int, root: str | None, hosts: Sequence[str]
) -> float | None:
    """Return the seconds of the library's own operation, or None if it was not timed for this size, root and ranks.

    Between two sizes that were timed, the seconds are interpolated linearly. A later Record replaces an earlier one of
    the same size.

    Args:
        records: what `read_library` returns.
        operation: the operation.
        size_bytes: as for the MPI call.
        root: host of the root; ignored by allgather and allreduce.
        hosts: host of each rank.
    """
    rooted = operation not in ("allgather", "allreduce")
    ranks = ",".join(hosts)
    timed: dict[int, float] = {}
    for record in records:
        labels = record.labels
        same = labels.get("operation") == operation and labels.get("ranks") == ranks
        size = labels.get("bytes")
        if same and isinstance(size, int) and (not rooted or labels.get("root") == root):
            timed[size] = record.value
    sizes = sorted(timed)
    after = bisect_left(sizes, size_bytes)
    if after == len(sizes) or (after == 0 and sizes[0] != size_bytes):
        return None
    if sizes[after] == size_bytes:
        return timed[size_bytes]
    low, high = sizes[after - 1], sizes[after]
    share = (size_bytes - low) / (high - low)
    return (1 - share) * timed[low] + share * timed[high]
