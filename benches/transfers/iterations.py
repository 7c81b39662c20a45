"""Iterations of logistic regression before and after our transfers (Orchestra's Fig. 16), on real packets.

    make bench-transfers ARGS="iterations [--runs 5 --workers 6 --mbit 20 --model 4 --gradients 8 --compute 2
                               --record docs/results/data]"

An iteration has three parts. The master broadcasts the parameters to all workers; the workers compute; and each sends
its gradients to the reducers. The computation is a pause, the same on both sides, so only the transfers differ. As in
the paper's application, reducers get unequal parts, since features are not equally frequent.

Before: the workers fetch the parameters from one server at once, as from a file system with one copy, and each reducer
opens one connection to each mapper. After: `broadcast` and `shuffle` as they are by default. Both know the Network.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.broadcast import ways
from benches.broadcast.cases import Case, case
from benches.machine import machine
from benches.recorded import write_figure

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.transfer import broadcast, shuffle

REDUCERS = 3
"""Workers that reduce. The k-th of them gets k + 1 parts."""


@dataclass(frozen=True)
class Iteration:
    """Seconds of each part."""

    broadcast_s: float
    shuffle_s: float
    compute_s: float

    @property
    def all_s(self) -> float:
        """The whole iteration."""
        return self.broadcast_s + self.shuffle_s + self.compute_s


def gradients(names: Sequence[str], megabytes: float) -> list[HostBytes]:
    """Return what workers send: this much to all reducers together."""
    workers = names[1:]
    parts = sum(range(1, REDUCERS + 1))
    return [
        HostBytes(worker, reducer, round(1e6 * megabytes / len(workers) * (k + 1) / parts))
        for worker in workers
        for k, reducer in enumerate(workers[:REDUCERS])
        if worker != reducer
    ]


def before(session: lab.Session, cloud: Case, file: Path, scratch: Path, given: argparse.Namespace) -> Iteration:
    """One iteration with a server and plain TCP."""
    fetched_s = max(ways.http(session, cloud, file, scratch).seconds)
    flows = gradients(cloud.network.names, given.gradients)
    shuffled = shuffle(flows, read_inventory(session.hosts_file), network=cloud.network, mode="standard")
    return Iteration(fetched_s, shuffled.elapsed_s, given.compute)


def after(session: lab.Session, cloud: Case, file: Path, scratch: Path, given: argparse.Namespace) -> Iteration:
    """One iteration with our transfers."""
    inventory = read_inventory(session.hosts_file)
    sent = broadcast(str(file), inventory, "h0", str(scratch / "copy-{host}"), network=cloud.network)
    assert sent.elapsed_s is not None, sent.lost
    shuffled = shuffle(gradients(cloud.network.names, given.gradients), inventory, network=cloud.network)
    return Iteration(sent.elapsed_s, shuffled.elapsed_s, given.compute)


SIDES = {"before: one server, plain TCP": before, "after: `broadcast`, `shuffle`": after}


def main(words: Sequence[str]) -> None:
    """Print one row for each side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="iterations of each side, in turn")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--mbit", type=float, default=20.0, help="of each port, on the wire")
    parser.add_argument("--model", type=float, default=4.0, help="MB of parameters")
    parser.add_argument("--gradients", type=float, default=8.0, help="MB that all workers send together")
    parser.add_argument("--compute", type=float, default=2.0, help="seconds of computation; they are not waited for")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    given = parser.parse_args(words)
    about = machine()
    print(f"{about}; seed 1, {given.runs} runs of each, {given.workers} workers of {given.mbit:g} Mbit/s")
    cloud = case("equal", given.workers, given.mbit, seed=1, line=1.0)
    runs: dict[str, list[Iteration]] = {name: [] for name in SIDES}
    with tempfile.TemporaryDirectory() as folder, lab.session(cloud.topology, source="bench-transfers") as session:
        file = Path(folder) / "parameters"
        file.write_bytes(os.urandom(round(1e6 * given.model)))
        for run in range(given.runs):
            for name, side in SIDES.items():
                scratch = Path(folder) / f"{run}-{len(runs[name])}-{time.monotonic_ns()}"
                scratch.mkdir()
                runs[name].append(side(session, cloud, file, scratch, given))
                print(f"{name}: {runs[name][-1]}", flush=True)
    columns = ["iteration", "broadcast, s", "shuffle, s", "computation, s", "all, s", "all runs", "x faster"]
    first_s = statistics.median(each.all_s for each in runs[next(iter(runs))])
    rows = []
    for name, own in runs.items():
        middle_s = statistics.median(each.all_s for each in own)
        rows.append(
            [
                name,
                f"{statistics.median(each.broadcast_s for each in own):.2f}",
                f"{statistics.median(each.shuffle_s for each in own):.2f}",
                f"{given.compute:.2f}",
                f"{middle_s:.2f}",
                f"{min(each.all_s for each in own):.2f} to {max(each.all_s for each in own):.2f}",
                f"{first_s / middle_s:.2f}",
            ]
        )
    for row in [columns, *rows]:
        print("  ".join(row))
    if given.record:
        write_figure(
            given.record / "orchestra-iterations.json",
            title="One iteration of logistic regression",
            command=f'make bench-transfers ARGS="iterations --runs {given.runs}"',
            about=about,
            seed="1",
            samples=f"{given.runs} iterations each, {given.workers} workers of {given.mbit:g} Mbit/s",
            plot={"kind": "bars", "columns": [1, 2, 3], "unit": "seconds"},
            columns=columns,
            rows=rows,
        )
