"""One real job in the lab, observed by several sources at once, each compared with the exact bytes; then their costs.

The job is an MPI program (Open MPI) that sends a known matrix, or a Dask shuffle with known blocks, one task a host.
The exact bytes are those that the program gives to its library. A source sees more: the library's own headers and
messages.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benches import mpi
from benches.profile.observers import Observers
from benches.topologies import star

from gavotte import lab
from gavotte.collective import build_shim
from gavotte.errors import GavotteError
from gavotte.profile import profile

HERE = Path(__file__).parent
ROUNDS = 8
WITHIN = 0.01
HELD = 0.9
DASK_PORT = 8786
LONGEST_S = 180
"""Longest time that a shuffle may take, in seconds."""

Matrix = npt.NDArray[np.int64]
Seen = Mapping[str, Any]


@dataclass(frozen=True)
class Size:
    """Size of a job."""

    tasks: int
    mbit: int
    unit_bytes: int
    sampling: int
    apart: bool = False

    @property
    def job_cpus(self) -> set[int]:
        """Processors of the job: the first half, if sources have processors of their own, else all."""
        cpus = sorted(os.sched_getaffinity(1))
        return set(cpus[: len(cpus) // 2]) if self.apart else set(cpus)

    @property
    def pinned(self) -> list[str]:
        """Words before a command of the job."""
        return ["taskset", "-c", ",".join(map(str, sorted(self.job_cpus)))] if self.apart else []


def matrix_of(tasks: int, unit_bytes: int, seed: int) -> Matrix:
    """(T, T) bytes, row = source: from one to eight units a pair, none to itself."""
    units = np.random.default_rng(seed).integers(1, 9, (tasks, tasks))
    np.fill_diagonal(units, 0)
    return units * unit_bytes


class Job:
    """A job in a lab of its own, with a host for each task and one more."""

    def __init__(self, session: lab.Session, size: Size, matrix: Matrix, folder: Path) -> None:
        self.session, self.size, self.matrix, self.folder = session, size, matrix, folder
        self.hosts = [f"h{number}" for number in range(size.tasks)]
        self.spare = f"h{size.tasks}"
        self.file = folder / "matrix.json"
        self.file.write_text(json.dumps(matrix.tolist()))
        self.watchers = Observers(session, self.hosts, self.spare, folder, size.sampling)

    def seconds(self, done: subprocess.CompletedProcess[str]) -> float:
        """Return the seconds that the program reports."""
        if done.returncode:
            raise GavotteError("the job failed", hint=done.stderr.strip()[-300:])
        return float(json.loads(done.stdout.strip().splitlines()[-1])["seconds"])


class MpiJob(Job):
    """Open MPI; the counting shim is one of its sources."""

    name = "Open MPI, known matrix"
    library = "Open MPI"
    sources = ("pcap", "live", "sflow", "pmpi")

    def __init__(self, session: lab.Session, size: Size, matrix: Matrix, folder: Path) -> None:
        super().__init__(session, size, matrix, folder)
        mpi.loss_based(session, [*self.hosts, self.spare])
        self._preload = False
        build_shim(folder / "count.so", mpicc=mpi.compiler("openmpi"), counting=True)

    @contextmanager
    def pmpi(self) -> Iterator[Callable[[], Seen]]:
        """Ranks have the shim with them."""
        self._preload = True
        try:
            yield self._counted
        finally:
            self._preload = False

    def _counted(self) -> Seen:
        names = {str(rank): f"t{rank}" for rank in range(self.size.tasks)}
        profiled = profile("pmpi", sorted(self.folder.glob("job.*.pmpi")), names, name="job", min_bytes=0).traffic
        return {"pairs": profiled.to_records()}

    def run(self) -> float:
        """Run the job; return the seconds from when all ranks begin until all have their data."""
        counting = {"LD_PRELOAD": str(self.folder / "count.so"), "GAVOTTE_COUNTS": str(self.folder / "job")}
        program: list[str | Path] = [HERE / "exchange.py", self.file, str(ROUNDS)]
        environment = counting if self._preload else {}
        environment |= {"JOB_CPUS": json.dumps(sorted(self.size.job_cpus))}
        return self.seconds(
            mpi.launch(
                self.session,
                "openmpi",
                program,
                ranks=self.hosts,
                scratch=self.folder,
                environment=environment,
                timeout_s=120,
                calm=True,
            )
        )


class DaskJob(Job):
    """Dask; its own transfer logs are one of its sources."""

    name = "Dask, shuffle of known blocks"
    library = "Dask"
    sources = ("pcap", "live", "sflow", "dask")

    def __init__(self, session: lab.Session, size: Size, matrix: Matrix, folder: Path) -> None:
        super().__init__(session, size, matrix, folder)
        self._ends = ExitStack()
        self._client: subprocess.Popen[str] | None = None
        self._address = {host.name: host.address for host in session.status().hosts}
        self._scheduler = f"tcp://{self._address[self.spare]}:{DASK_PORT}"
        log = self._ends.enter_context((folder / "dask.log").open("wb"))

        def start(host: str, *line: str) -> None:
            process = session.exec(
                host, [*size.pinned, sys.executable, "-m", "dask", *line], stdout=log, stderr=log, cwd=folder
            )
            self._ends.callback(process.wait)
            self._ends.callback(process.terminate)

        own = [
            "--host",
            self._address[self.spare],
            "--port",
            str(DASK_PORT),
            "--pid-file",
            str(folder / "scheduler.pid"),
        ]
        start(self.spare, "scheduler", *own, "--no-dashboard")
        for host in self.hosts:
            words = ["--host", self._address[host], "--name", host, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            start(
                host, "worker", self._scheduler, *words, "--memory-limit", "0", "--local-directory", str(folder / host)
            )

    def close(self) -> None:
        """End workers and scheduler."""
        self._ends.close()

    @contextmanager
    def dask(self) -> Iterator[Callable[[], Seen]]:
        """Return the workers' own logs, which they always keep."""
        yield self._logged

    def _logged(self) -> Seen:
        names = {self._address[host]: f"t{number}" for number, host in enumerate(self.hosts)}
        profiled = profile("dask", self.folder / "log.json", names, name="job", min_bytes=0).traffic
        return {"pairs": profiled.to_records()}

    def run(self) -> float:
        """Run the job; return the seconds of the workers' gathering. The client stays, and runs it again when called again."""
        if self._client is None:
            program = [HERE / "shuffle.py", self._scheduler, self.file, str(ROUNDS), self.folder / "log.json"]
            words = list(map(str, [*self.size.pinned, sys.executable, *program]))
            self._client = self.session.exec(
                self.spare, words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            self._ends.callback(self._client.communicate)
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._client.stdin.write("\n")
        self._client.stdin.flush()
        if not select.select([self._client.stdout], [], [], LONGEST_S)[0]:
            self._client.kill()
        line = self._client.stdout.readline()
        if not line:
            raise GavotteError("the job failed", hint=self._client.communicate()[1].strip()[-300:])
        return float(json.loads(line)["seconds"])


@contextmanager
def closing_cpus(cpus: set[int]) -> Iterator[None]:
    """Give this process these processors back at the end."""
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)


@contextmanager
def standing(kind: type[MpiJob | DaskJob], size: Size, seed: int) -> Iterator[MpiJob | DaskJob]:
    """The job in a lab, ready to run."""
    matrix = matrix_of(size.tasks, size.unit_bytes, seed)
    all_cpus = os.sched_getaffinity(0)
    if size.apart:
        # What the lab and the sources start inherits this; the job's own commands take the other half.
        os.sched_setaffinity(0, all_cpus - size.job_cpus)
    with (
        closing_cpus(all_cpus),
        tempfile.TemporaryDirectory(prefix="gvt-profile-", ignore_cleanup_errors=True) as scratch,
        lab.session(star([f"{size.mbit}mbit"] * (size.tasks + 1)), source="bench-profile") as session,
    ):
        job = kind(session, size, matrix, Path(scratch))
        try:
            yield job
        finally:
            if isinstance(job, DaskJob):
                job.close()


def watched(
    job: MpiJob | DaskJob, sources: tuple[str, ...], *, around: Callable[[], None] = lambda: None
) -> tuple[float, dict[str, Seen]]:
    """Run the job once, observed by these sources; return its seconds and each source's traffic.

    Args:
        job: the job.
        sources: names.
        around: is called just before and just after the job.
    """
    with ExitStack() as stack:
        readers = {}
        for each in sources:
            begin = getattr(job, each, None) or getattr(job.watchers, each)
            readers[each] = stack.enter_context(begin())
        around()
        seconds = job.run()
        around()
    return seconds, {each: read() for each, read in readers.items()}


def matrices(seen: Seen, tasks: int) -> tuple[Matrix, Matrix, Matrix]:
    """Return bytes, low and high of each pair of tasks, (T, T)."""
    result = np.zeros((3, tasks, tasks), dtype=np.int64)
    for row in seen["pairs"]:
        at = int(row["source"][1:]), int(row["target"][1:])
        result[:, at[0], at[1]] = row["bytes"], row["low_bytes"], row["high_bytes"]
    return result[0], result[1], result[2]


def compare(job: MpiJob | DaskJob, rows: list[list[str]]) -> bool:
    """Print the matrices and each source's error; add a row a source; report whether all goals are met."""
    _, seen = watched(job, job.sources)
    tasks, exact = job.size.tasks, job.matrix
    pairs = ~np.eye(tasks, dtype=bool)
    read = {each: matrices(result, tasks) for each, result in seen.items()}
    print(f"\n{job.name}: {tasks} tasks, {exact.sum() / 1e6:.1f} MB, MB a pair")
    print(f"{'pair':>9} {'exact':>8} " + " ".join(f"{each:>8}" for each in job.sources) + "   sFlow's interval")
    for s, t in zip(*np.nonzero(pairs), strict=True):
        cells = " ".join(f"{read[each][0][s, t] / 1e6:8.3f}" for each in job.sources)
        low, high = (read["sflow"][end][s, t] / 1e6 for end in (1, 2))
        print(f"{s:>4} {t:>4} {exact[s, t] / 1e6:8.3f} {cells}   {low:7.3f} to {high:7.3f}")
    good = True
    for each in job.sources:
        result, low, high = read[each]
        error = np.abs(result - exact)[pairs] / exact[pairs]
        whole = result[pairs].sum() / exact.sum() - 1
        held = float(((low <= exact) & (exact <= high))[pairs].mean())
        if each == "sflow":
            rate = f"1 in {job.size.sampling}"
            verdict = held >= HELD
            measure = f"{rate}: exact bytes within its interval in {held:.0%} of {pairs.sum()} pairs (goal {HELD:.0%})"
        else:
            verdict = float(error.max()) <= WITHIN
            measure = f"largest error of a pair {error.max():.3%} (goal {WITHIN:.0%})"
        rows.append(
            [
                f"{job.library}, `{each}`",
                f"{error.max():.2%}",
                f"{whole:+.2%}",
                f"{held:.0%} of {pairs.sum()}" if each == "sflow" else "exact",
                "met" if verdict else "missed",
            ]
        )
        print(f"{each:>6}: {measure}; in all {whole:+.3%}; {'met' if verdict else 'MISSED'}")
        good &= verdict
    return good


def missing() -> list[str]:
    """Return the programs that the comparison needs and that are not installed."""
    return [each for each in ("tcpdump", "pmacctd", "mpirun.openmpi") if shutil.which(each) is None]
