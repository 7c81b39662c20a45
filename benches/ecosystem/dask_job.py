"""Shuffles of Dask: its own array and dataframe operations, on a cluster of one worker a host."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import distributed
from benches.ecosystem.comparing import Row, by_hosts
from benches.ecosystem.stage import Asked, Stage

JOBS = ("dataframe shuffle, p2p", "dataframe shuffle, tasks", "array transpose")
SHARING = 4


def version() -> str:
    """Return the version of the real component."""
    return str(distributed.__version__)


@contextmanager
def cluster(stage: Stage, hosts: Sequence[str], port: int) -> Iterator[Asked]:
    """A scheduler and the program on the first host, and a worker on each; gives what runs a job there."""
    dask, log = [sys.executable, "-m", "dask"], stage.folder / f"dask-{port}.log"
    address = f"tcp://{stage.addresses[hosts[0]]}:{port}"
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ExitStack() as ends:

        def start(host: str, *words: object) -> None:
            ends.enter_context(stage.running(host, [*dask, *words], log, one_thread))

        start(hosts[0], "scheduler", "--host", stage.addresses[hosts[0]], "--port", port, "--no-dashboard")
        for host in hosts:
            own = ["--host", stage.addresses[host], "--name", host, "--nthreads", 1, "--no-nanny", "--no-dashboard"]
            folder = stage.folder / f"dask-{port}-{host}"
            start(host, "worker", address, *own, "--local-directory", folder, "--memory-limit", 0)
        program = [sys.executable, Path(__file__).with_name("dask_program.py"), address, len(hosts)]
        yield ends.enter_context(stage.asking(hosts[0], program, log, one_thread))


def compared(stage: Stage, runs: int, seed: int) -> Iterator[Row]:
    """Run each job on clusters of the first hosts and of those that Gavotte chose."""
    yield from by_hosts(stage, f"Dask {version()}", JOBS, cluster, (runs, seed))
