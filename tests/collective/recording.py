"""Record what the ranks of a plan do: `gavotte.mpi` runs on a communicator that sends nothing and notes every call."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from gavotte.formats.collective import Stage
from gavotte.simulate import MessageCosts

Op = tuple[object, ...]


@dataclass
class Recorder:
    """A rank's communicator.

    Attributes:
        rank: the rank.
        size: number of ranks.
        ops: its calls, as `_core.JobProgram` takes them.
    """

    rank: int
    size: int
    ops: list[Op] = field(default_factory=list)
    _requests: int = 0

    def Irecv(self, _buffer: Any, source: int) -> Request:  # noqa: N802
        request = self._next()
        self.ops.append(("irecv", source, 0, 0, request.number))
        return request

    def Isend(self, buffer: Any, dest: int) -> Request:  # noqa: N802
        request = self._next()
        array = buffer[0] if isinstance(buffer, list | tuple) else buffer
        self.ops.append(("isend", dest, array.nbytes, 0, 0, request.number, False))
        return request

    def Send(self, buffer: Any, dest: int) -> None:  # noqa: N802
        self.Isend(buffer, dest).Wait()

    def _next(self) -> Request:
        self._requests += 1
        return Request(self, self._requests)


@dataclass(frozen=True)
class Request:
    """A request of one rank."""

    of: Recorder
    number: int

    def Wait(self) -> None:  # noqa: N802
        self.of.ops.append(("wait", [self.number]))

    @staticmethod
    def Waitall(requests: list[Request]) -> None:  # noqa: N802
        if requests:
            requests[0].of.ops.append(("wait", [request.number for request in requests]))


def _without_mpi() -> ModuleType:
    """Import `gavotte.mpi` with a stand-in for mpi4py, whose import would start MPI."""
    mpi = mock.MagicMock(Request=Request)
    stand_in = {"mpi4py": SimpleNamespace(MPI=mpi), "mpi4py.MPI": mpi}
    own = [name for name in sys.modules if name.split(".")[:2] == ["gavotte", "mpi"]]
    with mock.patch.dict(sys.modules, stand_in):
        for name in own:
            del sys.modules[name]
        along = importlib.import_module("gavotte.mpi")
        operations = importlib.import_module("gavotte.mpi.operations")
    operations.ours = lambda comm, _tree, _operation: comm  # type: ignore[attr-defined]
    return along


ALONG = _without_mpi()


@dataclass(frozen=True)
class Sum:
    """The operator of one rank's reductions, which takes as long as the replay's default says."""

    of: Recorder

    def Is_commutative(self) -> bool:  # noqa: N802
        return True

    def Reduce_local(self, part: Any, _total: Any) -> None:  # noqa: N802
        self.of.ops.append(("compute", part.nbytes * MessageCosts().combine_s, 0.0))


def recorded(stage: Stage) -> list[list[Op]]:
    """Return the calls of each rank along one stage's tree or ring."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stage.tree.json"
        path.write_text(json.dumps({"stages": [stage.model_dump(mode="json")]}))
        trees = ALONG.read_trees(path)
    size = len(stage.parent)
    ranks = [Recorder(rank, size) for rank in range(size)]
    for comm in ranks:
        root = comm.rank == stage.root
        part, whole = np.zeros(stage.bytes, dtype=np.uint8), np.zeros(stage.bytes * size, dtype=np.uint8)
        result = np.zeros_like(part)
        match stage.operation:
            case "broadcast":
                ALONG.bcast(comm, part, trees[0])
            case "reduce":
                ALONG.reduce(comm, part, result if root else None, trees[0], Sum(comm))
            case "scatter":
                ALONG.scatter(comm, whole if root else None, part, trees[0])
            case "gather":
                ALONG.gather(comm, part, whole if root else None, trees[0])
            case "allgather":
                ALONG.allgather(comm, part, whole, trees)
            case "allreduce":
                ALONG.allreduce(comm, part, result, trees, Sum(comm))
    return [comm.ops for comm in ranks]
