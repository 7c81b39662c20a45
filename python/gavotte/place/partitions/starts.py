"""Partitions as starts of the search, from a child process that works next to it.

A partitioner minimises the total of all cuts, not the time of the slowest link. A search from its blocks still ends
below one from our own cuts in some graphs: by 4 to 8 % with 2,000 tasks on 200 hosts (`make bench-place ARGS=starts`).
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gavotte import _core

logger = logging.getLogger(__name__)

CHILD = "partition_child.py"

START_S = 0.25
"""Seconds until a partitioner has been loaded."""

MOST_SHARE = 0.3
"""Largest share of the time left that a partition may be expected to take."""

KAHIP_HOSTS = 2_000
"""Beyond, KaHIP takes minutes."""

MOST_SEED = 1 << 31
"""Partitioners' seeds are below this."""

_Hosts = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Partitioner:
    """A partitioner that may be installed.

    Attributes:
        name: as `partition_child.py` knows it.
        package: the Python module of its package.
        task_s: seconds for each task, about, with ten tasks a host (`make bench-place ARGS=starts` prints them).
        hosts: the most hosts for which it is of use.
        alike: whether all blocks have the same room.
    """

    name: str
    package: str
    task_s: float
    hosts: float = float("inf")
    alike: bool = False


PARTITIONERS = (
    Partitioner("mtkahypar", "mtkahypar", 5e-4),
    Partitioner("kahip", "kahip", 5e-5, hosts=KAHIP_HOSTS, alike=True),
    Partitioner("metis", "pymetis", 1e-5),
)
"""Those that are tried, the best first."""


def installed() -> list[Partitioner]:
    """Return the partitioners whose packages are installed, the best first."""
    return [partitioner for partitioner in PARTITIONERS if find_spec(partitioner.package) is not None]


class Partitions:
    """Partitions of one problem's tasks, one after another: each suitable partitioner in turn, with growing seeds.

    A context manager: its end ends the child process.

    Args:
        core: the problem.
        seed: of the first partition.
        left_s: returns the seconds left, after which no partition is of use.
        partitioners: those to use, the best first; None = all that are installed.
    """

    def __init__(
        self,
        core: _core.Problem,
        seed: int,
        left_s: Callable[[], float],
        partitioners: Sequence[Partitioner] | None = None,
    ) -> None:
        self._core, self._seed, self._left_s = core, seed, left_s
        self._partitioners = installed() if partitioners is None else partitioners
        self._child: subprocess.Popen[bytes] | None = None
        self._files = contextlib.ExitStack()
        self._begun = False
        self._turns: Iterator[tuple[int, Partitioner]] = iter(())

    def __enter__(self) -> Partitions:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._files.close()

    def begin(self) -> None:
        """Start the first partition, unless one was started or no partitioner suits."""
        if self._begun:
            return
        self._begun = True
        most_s = self._left_s() * MOST_SHARE
        if most_s <= START_S:
            return
        rows = self._core.unit_graph()
        first, others, *_, room = rows
        tasks, alike = len(first) - 1, bool(np.all(room == room[0]))
        suitable = [
            partitioner
            for partitioner in self._partitioners
            if len(room) <= partitioner.hosts
            and (alike or not partitioner.alike)
            and START_S + partitioner.task_s * tasks <= most_s
        ]
        if not suitable or len(others) == 0:
            return
        # Files without a name: a signal that ends this process leaves none behind.
        self._graph = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- closed at the end
        self._blocks = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        np.savez(self._graph, *rows)
        self._graph.flush()
        self._turns = ((turn, suitable[turn % len(suitable)]) for turn in count())
        self._next()

    def take(self) -> _Hosts | None:
        """Return the placement of a partition if one has become complete, and start the next; None if there is none."""
        if self._child is None or (status := self._child.poll()) is None:
            return None
        laid = None
        if status == 0:
            self._blocks.seek(0)
            laid = self._core.lay_blocks(np.load(self._blocks), self._seed, 1)
        else:
            logger.info("a partitioner ended with status %d", status)
        self._next()
        return laid

    def _next(self) -> None:
        turn, partitioner = next(self._turns)
        # -I: nothing of the caller's folder or environment can shadow the partitioners' modules.
        command = [sys.executable, "-I", str(Path(__file__).with_name(CHILD)), partitioner.name]
        command += [str((self._seed + turn) % MOST_SEED), f"{self._left_s():.3f}"]
        files = [self._graph.fileno(), self._blocks.fileno()]
        command += [f"/dev/fd/{file}" for file in files]
        logger.debug("starts %s", partitioner.name)
        self._child = subprocess.Popen(command, pass_fds=files, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
