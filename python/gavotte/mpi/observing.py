"""Record the time of each edge of a broadcast, in the file that `gavotte watch --observations` follows.

    from gavotte.mpi.observing import Observer
    with Observer(comm, "times.jsonl", tree_file="bcast.tree.json") as observer:
        observer.bcast(array, tree)

A sender does not know when its message has arrived, as its kernel buffers megabytes. The sender therefore sends a mark
of one byte ahead of each piece. The receiver measures the time from the mark to the piece's last byte. A piece whose
mark had arrived before the receiver waited for it is not timed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from gavotte.mpi.operations import down
from gavotte.mpi.own import flat, ours
from gavotte.mpi.trees import Tree

if TYPE_CHECKING:
    from typing_extensions import Self

LEAST_TIMED = 0.5
"""Share of a message that must have been timed for its edge to count."""

Array = npt.NDArray[Any]


class Observer:
    """Broadcasts with timed edges: rank 0 appends a Record of each edge's time to a file."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        path: str | Path,
        *,
        hosts: Sequence[str] | None = None,
        tree_file: str | Path | None = None,
    ) -> None:
        """Duplicate the communicator, so all its ranks must make an Observer at the same time.

        Args:
            comm: communicator, as for `gavotte.mpi.bcast`.
            path: the file, `*.jsonl`; only rank 0 writes it.
            hosts: host of each rank, as the Network names them.
            tree_file: the `*.tree.json` that names the hosts, instead of `hosts`.

        Raises:
            ValueError: when neither or both of `hosts` and `tree_file` are given, or there is not one host a rank.
        """
        if (hosts is None) == (tree_file is None):
            raise ValueError("pass either the hosts or a file of trees that names them")
        if tree_file is not None:
            hosts = json.loads(Path(tree_file).read_text(encoding="utf-8"))["hosts"]
        self._hosts = [str(host) for host in hosts or ()]
        if len(self._hosts) != comm.size:
            raise ValueError(f"{len(self._hosts)} hosts for {comm.size} ranks")
        self._comm = comm
        self._path = Path(path)
        self._marks = comm.Dup()
        self._run = secrets.token_hex(4)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if kind is None:  # after an error the other ranks may never call close
            self.close()

    def close(self) -> None:
        """Free the communicator of the marks. All ranks must call this."""
        self._marks.Free()

    def bcast(self, buffer: Array, tree: Tree) -> None:
        """Broadcast as `gavotte.mpi.bcast` does, and record the time of each edge."""
        own = ours(self._comm, tree, "broadcast")
        timed = _Timed(own, self._marks)
        down(cast("MPI.Intracomm", timed), flat(buffer), tree, shared=True)
        took_s = np.array([timed.whole_s(buffer.nbytes)])
        all_s = np.empty(self._marks.size) if self._marks.rank == 0 else None
        self._marks.Gather(took_s, all_s)
        self._count += 1
        if all_s is not None:
            self._write(all_s.tolist(), buffer.nbytes, tree)

    def _write(self, took_s: list[float], size_bytes: int, tree: Tree) -> None:
        shape = json.dumps([tree.parent, tree.order, tree.segment_bytes, size_bytes])
        edges = [
            (self._hosts[tree.parent[rank]], self._hosts[rank], seconds)
            for rank, seconds in enumerate(took_s)
            if np.isfinite(seconds) and self._hosts[tree.parent[rank]] != self._hosts[rank]
        ]
        labels = {
            "run": self._run,
            "operation": self._count,
            "edges": len(edges),
            "tree": hashlib.blake2s(shape.encode(), digest_size=6).hexdigest(),
            "bytes": size_bytes,
        }
        now_s = time.time()
        lines = [
            json.dumps(
                {
                    "format": "gavotte/record/1",
                    "kind": "broadcast",
                    "metric": "transfer_s",
                    "value": seconds,
                    "time_s": now_s,
                    "labels": labels | {"source": source, "target": target},
                }
            )
            for source, target, seconds in edges
        ]
        with self._path.open("a", encoding="utf-8") as file:  # in one write, as other processes may read or append
            file.write("".join(line + "\n" for line in lines))


class _Timed:
    """A communicator that sends a mark ahead of each message, and times messages from their mark to their last byte."""

    def __init__(self, own: MPI.Intracomm, marks: MPI.Intracomm) -> None:
        self.rank = own.rank
        self._own, self._marks = own, marks
        self._seconds, self._bytes = 0.0, 0

    def whole_s(self, size_bytes: int) -> float:
        """Return the seconds of the whole message, or NaN if less than the share `LEAST_TIMED` of it was timed."""
        if self._bytes < max(1, LEAST_TIMED * size_bytes):
            return float("nan")
        return self._seconds * size_bytes / self._bytes

    def Send(self, message: list[Any], dest: int) -> None:  # noqa: N802 - mpi4py's name
        self._marks.Send(np.zeros(1, dtype=np.uint8), dest=dest)
        self._own.Send(message, dest=dest)

    def Irecv(self, message: list[Any], source: int) -> _Coming:  # noqa: N802
        mark = np.empty(1, dtype=np.uint8)
        marked = self._marks.Irecv(mark, source=source)
        return _Coming(self, mark, marked, self._own.Irecv(message, source=source), message[0].nbytes)

    def timed(self, seconds: float, size_bytes: int) -> None:
        self._seconds += seconds
        self._bytes += size_bytes


class _Coming:
    """The request of a message that is being received, with the request of its mark."""

    def __init__(self, to: _Timed, mark: Array, marked: MPI.Request, message: MPI.Request, size_bytes: int) -> None:
        self._to, self._mark, self._marked, self._message, self._bytes = to, mark, marked, message, size_bytes

    def Wait(self) -> None:  # noqa: N802
        if self._marked.Test():
            self._message.Wait()
            return
        self._marked.Wait()
        started_s = time.perf_counter()
        self._message.Wait()
        self._to.timed(time.perf_counter() - started_s, self._bytes)
