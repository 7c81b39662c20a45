"""Compares the shim's counts of each collective with the packets between the hosts of a lab, with one rank a host."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benches import mpi
from benches.profile.job import WITHIN, Matrix, matrices
from benches.profile.observers import Observers
from benches.topologies import star

from gavotte import lab
from gavotte.collective import build_shim
from gavotte.errors import GavotteError
from gavotte.profile import Request, read_traffic

PROGRAM = Path(__file__).with_name("operation.py")
OPERATIONS = (
    "bcast",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "scatter",
    "gather",
    "allgather",
    "alltoall",
    "iallgather",
)
LEAST_BYTES = 1_000_000
"""Bytes of each rank in all calls of a run: small vectors are sent many times, so that the launcher's bytes are few."""
SLACK_BYTES = 20_000
"""Bytes that a launcher and the start of MPI send between two hosts, apart from the collective."""
SLACK_SHARE = 0.03
"""Share of the bytes that are headers of the library."""
TRIES = 4
CAPTURED_SHARE = 0.85
"""Least share of all received bytes that tcpdump has to show as payload; the others are headers and acknowledgements."""
FLUSH_S = 1.0
"""Time for tcpdump to write the last packets, in addition to that of `Observers`."""
HELD = 0.95
"""Share of pairs whose interval has to hold what was captured."""


@dataclass(frozen=True)
class Compared:
    """One collective, counted and captured.

    Attributes:
        library: the MPI library.
        operation: one of `OPERATIONS`.
        captured: (T, T) bytes of the packets.
        wire: (T, T) bytes that the shim attributes to pairs, and the ends of its intervals, (3, T, T).
        call: (T, T) bytes by `--collectives call`.
        estimated: whether the shim had to estimate them.
    """

    library: str
    operation: str
    captured: Matrix
    wire: Matrix
    call: Matrix
    estimated: bool

    def misplaced(self, matrix: Matrix) -> float:
        """Share of captured bytes, 0 to 1, that a matrix attributes to a wrong pair or to none."""
        return float(np.maximum(self.captured - matrix - self._slack, 0).sum() / self.captured.sum())

    @property
    def _slack(self) -> Matrix:
        slack: Matrix = (SLACK_BYTES + SLACK_SHARE * self.captured).astype(np.int64)
        return slack

    @property
    def held(self) -> float:
        """Share of pairs, 0 to 1, whose interval holds what was captured, apart from headers and the launcher."""
        pairs = ~np.eye(len(self.captured), dtype=bool)
        _, low, high = self.wire
        within = (self.captured >= low) & (self.captured <= high + self._slack)
        return float(within[pairs].mean())


def run(
    session: lab.Session, hosts: Sequence[str], library: str, operation: str, size_bytes: int, folder: Path
) -> Compared:
    """Carry out a collective with one rank a host, and return what the shim and tcpdump saw.

    A run whose capture lost packets is repeated: a busy machine stops tcpdump before it has written all of them.

    Raises:
        GavotteError: when the program fails, or every capture lost packets.
    """
    for _ in range(TRIES):
        before = sum(mpi.received_bytes(session, hosts))
        seen = _run(session, hosts, library, operation, size_bytes, folder)
        received = sum(mpi.received_bytes(session, hosts)) - before
        if seen.captured.sum() >= CAPTURED_SHARE * received - len(hosts) * SLACK_BYTES:
            return seen
    raise GavotteError(f"tcpdump lost packets in {TRIES} runs", hint="run it on a machine with less load")


def _run(
    session: lab.Session, hosts: Sequence[str], library: str, operation: str, size_bytes: int, folder: Path
) -> Compared:
    shim = folder / f"{library}.so"
    if not shim.exists():
        build_shim(shim, mpicc=mpi.compiler(library), counting=True)
    for file in folder.glob("job.*.pmpi"):
        file.unlink()
    observers = Observers(session, hosts, "", folder, 1)
    with observers.pcap() as read:
        done = mpi.launch(
            session,
            library,
            [PROGRAM, operation, str(size_bytes), str(max(2, LEAST_BYTES // size_bytes))],
            ranks=hosts,
            scratch=folder,
            environment={"LD_PRELOAD": str(shim), "GAVOTTE_COUNTS": str(folder / "job")},
            timeout_s=120,
        )
        time.sleep(FLUSH_S)
        if done.returncode:
            raise GavotteError(f"{operation} failed", hint=done.stderr.strip()[-300:])
    captured = matrices(read(), len(hosts))[0]
    files = sorted(folder.glob("job.*.pmpi"))
    names = {str(rank): f"t{rank}" for rank in range(len(hosts))}
    wire = read_traffic("pmpi", Request(files, names))
    call = read_traffic("pmpi", Request(files, names, collectives="call"))
    return Compared(
        library,
        operation,
        captured,
        np.stack(matrices({"pairs": wire.to_records()}, len(hosts))),
        matrices({"pairs": call.to_records()}, len(hosts))[0],
        bool(wire.seen["estimated"]),
    )


def bench(tasks: int, sizes: Sequence[int], rows: list[list[str]]) -> bool:
    """Print the table; return whether intervals hold and counts that are called exact are."""
    good = True
    print(f"\ncollectives of {tasks} ranks, a host each, counted by the shim and captured by tcpdump")
    print(f"{'library':>8} {'collective':>21} {'bytes':>8} {'wire misplaced':>15} {'call misplaced':>15} {'held':>6}")
    hosts = [f"h{number}" for number in range(tasks)]
    with (
        tempfile.TemporaryDirectory(prefix="gvt-collectives-", ignore_cleanup_errors=True) as scratch,
        lab.session(star(["1gbit"] * tasks), source="bench-profile") as session,
    ):
        mpi.loss_based(session, hosts)
        for library in filter(mpi.available, mpi.IMPLEMENTATIONS):
            for operation in OPERATIONS:
                for size in sizes:
                    seen = run(session, hosts, library, operation, size, Path(scratch))
                    wire, call = seen.misplaced(seen.wire[0]), seen.misplaced(seen.call)
                    kind = "estimated" if seen.estimated else "exact"
                    good &= seen.held >= HELD and (seen.estimated or wire < WITHIN)
                    print(
                        f"{library:>8} {operation:>21} {size:>8} {wire:>14.1%}{'~' if seen.estimated else ' '}"
                        f" {call:>14.1%} {seen.held:>7.0%}"
                    )
                    cells = [f"{wire:.1%}", kind, f"{call:.1%}", f"{seen.held:.0%}"]
                    rows.append([f"{library}, {operation}, {size:,} B", *cells])
    return good
