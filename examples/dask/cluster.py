"""A Dask cluster in a lab: the scheduler and the program on h0, one worker on each other host."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from distributed import Client

from gavotte import read_inventory
from gavotte.formats.topology import FORMAT, Topology
from gavotte.lab import session
from gavotte.transfer.dask import Scatter

PORT = 8786
READY_S = 120
RUN_S = 900

Send = Callable[[Any], Any]
"""Brings an object to all workers, and returns its future."""


def parser(about: str | None, **sizes: int) -> argparse.ArgumentParser:
    """Read the arguments of both programs.

    Args:
        about: what the program does.
        sizes: names of its own numbers, with their defaults.
    """
    words = argparse.ArgumentParser(description=about)
    for name, value in (sizes | {"workers": 4, "mbit": 100}).items():
        words.add_argument(f"--{name}", type=int, default=value)
    words.add_argument("--ways", nargs="*", choices=["gavotte", "dask"], default=["gavotte", "dask"])
    words.add_argument("--at", help=argparse.SUPPRESS)
    words.add_argument("--hosts", help=argparse.SUPPRESS)
    return words


def in_lab(
    program: str, words: list[str], *, workers: int, mbit: int, egress_mbit: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Run a program on h0 of a new lab, with the scheduler's address and the hosts file before its other arguments.

    Args:
        program: path of the Python program.
        words: its other arguments.
        workers: number of hosts with a worker.
        mbit: rate of each host's port.
        egress_mbit: rates at which certain hosts send instead.
    """
    names = [f"h{i}" for i in range(workers + 1)]
    hosts = [
        {
            "name": name,
            "switch": "core",
            "egress": f"{egress_mbit.get(name, mbit)}mbit",
            "ingress": f"{mbit}mbit",
            "cpus": 1.0,
        }
        for name in names
    ]
    cloud = Topology.model_validate({"format": FORMAT, "switch": [{"name": "core"}], "host": hosts})
    with session(cloud, source="the Dask example") as lab, ExitStack() as ends:
        scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        address = {host.name: host.address for host in read_inventory(lab.hosts_file).host}
        scheduler = f"tcp://{address['h0']}:{PORT}"
        log = ends.enter_context((scratch / "dask.log").open("wb"))
        dask = [sys.executable, "-m", "dask"]

        def start(name: str, *line: str) -> None:
            process = lab.exec(name, [*dask, *line], stdout=log, stderr=log, cwd=scratch)
            ends.callback(process.wait)
            ends.callback(process.terminate)

        start("h0", "scheduler", "--host", address["h0"], "--port", str(PORT), "--no-dashboard")
        for name in names[1:]:
            own = ["--host", address[name], "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            start(name, "worker", scheduler, *own, "--local-directory", str(scratch / name), "--memory-limit", "0")
        done = lab.run(
            "h0", [sys.executable, program, "--at", scheduler, "--hosts", str(lab.hosts_file), *words], timeout=RUN_S
        )
        if done.returncode:
            sys.exit((scratch / "dask.log").read_text()[-2000:] or done.returncode)


@contextmanager
def senders(scheduler: str, hosts: str, workers: int) -> Iterator[tuple[Client, dict[str, Send]]]:
    """Return a client whose workers have all joined, and two ways to bring an object to them: Gavotte's and Dask's."""
    with Client(scheduler, timeout=READY_S) as client:
        client.wait_for_workers(workers, timeout=READY_S)
        yield (
            client,
            {
                "gavotte": Scatter(client, read_inventory(hosts), source="h0", least_bytes=0),
                "dask": lambda data: client.scatter(data, broadcast=True, hash=False),
            },
        )
