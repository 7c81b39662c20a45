"""Read and write coflow traces: tables of flows, and the format of the public traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import FormatError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import read_bytes, write_bytes


@dataclass(frozen=True)
class Trace:
    """Coflows that arrive one after the other: transfers of many flows, each done when all its flows are.

    Flows of a coflow that join the same ports count as one.

    Attributes:
        core: the compiled trace.
        path: the file that it was read from; empty for one that was made.
    """

    core: _core.CoflowTrace
    path: str = ""

    @property
    def ports(self) -> list[str]:
        """Names of the ports, or of the hosts."""
        return self.core.ports

    @property
    def names(self) -> list[str]:
        """Names of the C coflows."""
        return self.core.names

    @property
    def arrival_s(self) -> npt.NDArray[np.float64]:
        """Arrival time of each coflow in seconds, shape (C,)."""
        return self.core.arrival_s

    @property
    def classes(self) -> npt.NDArray[np.uint32]:
        """Priority class of each coflow, 0 = the highest, shape (C,)."""
        return self.core.classes

    @property
    def deadline_s(self) -> npt.NDArray[np.float64]:
        """Seconds after its arrival by which each coflow has to finish, shape (C,); inf = no deadline."""
        return self.core.deadline_s

    @property
    def flow_count(self) -> int:
        """Number of flows of all coflows."""
        return self.core.flow_count

    @property
    def bytes(self) -> float:
        """Bytes of all flows."""
        return self.core.bytes

    def __len__(self) -> int:
        return len(self.core.names)


def read_trace(path: str | Path) -> Trace:
    """Read a coflow trace, in either of two formats.

    A table has a first line that names its columns, in any order: `coflow`, `arrival_s`, `source`, `target`, `bytes`,
    and optionally `class`, `weight` and `deadline_s`, which are the same on all lines of a coflow. The public traces
    (`FB2010-1Hr-150-0.txt`) have a first line of two numbers.

    Args:
        path: the file.

    Raises:
        FormatError: naming file, line, field and remedy.
    """
    check_kind(path, "trace")
    text = read_bytes(path)
    try:
        return Trace(_core.CoflowTrace.read(text), str(path))
    except ValueError as error:
        raise FormatError(str(path), "", str(error)) from None


def write_trace(path: str | Path, trace: Trace) -> None:
    """Write a coflow trace as a table, whole or not at all.

    Args:
        path: the CSV file.
        trace: what to write; its weights count as 1.
    """
    coflow, source, target, size = (column.tolist() for column in trace.core.flows())
    names, ports = trace.names, trace.ports
    arrival_s, classes = trace.arrival_s.tolist(), trace.classes.tolist()
    due = ["" if math.isinf(each) else repr(each) for each in trace.deadline_s.tolist()]
    lines = (
        f"{names[c]},{arrival_s[c]!r},{ports[s]},{ports[t]},{b!r},{classes[c]},{due[c]}"
        for c, s, t, b in zip(coflow, source, target, size, strict=True)
    )
    write_bytes(path, "\n".join(["coflow,arrival_s,source,target,bytes,class,deadline_s", *lines, ""]).encode())
