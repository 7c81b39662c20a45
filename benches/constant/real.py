"""Broadcast, scatter and mapping in a lab: real transfers under background traffic, calibrated by real measurements."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benches.constant import cloud, traces
from benches.constant.replay import BASELINE, HEURISTIC, best_method, methods_to_run
from benches.constant.stats import cdf, table
from benches.mpi import launch

from gavotte import lab
from gavotte.collective import norm_of, plan
from gavotte.errors import GavotteError
from gavotte.formats.collective import Operation, write_collective
from gavotte.formats.history import History
from gavotte.formats.network import Network
from gavotte.mapping import map_tasks
from gavotte.measure import measure
from gavotte.measure.methods import bulk
from gavotte.model import model

MESSAGE_BYTES = 2_000_000
BLOCK_BYTES = 500_000
STRANGERS_BYTES, STRANGERS_WAIT_S = 8_000_000, 0.5
ORACLE = "oracle"
PROBE_S = 0.3
"""Of bulk TCP on each pair: about what a message takes."""


@dataclass(frozen=True)
class Calibration:
    """What was measured, and what it took."""

    history: History
    seconds: float

    @property
    def norm(self) -> float:
        """Norm(N_E) at a tolerance of 10 %."""
        return norm_of(1 / self.history.beta_Bps)


def calibrated(session: lab.Session, count: int, seed: int) -> Calibration:
    """Measures all pairs of the tenant some times."""
    started = time.perf_counter()
    found = measure(cloud.tenants(session), method=bulk(seconds=PROBE_S), count=count, seed=seed)
    return Calibration(found.history, time.perf_counter() - started)


def networks(calibration: Calibration, names: list[str], seed: int) -> dict[str, Network]:
    """What each estimator believes, and the truth without strangers."""
    return {name: model(calibration.history, method=name) for name in names} | {ORACLE: cloud.truth(seed)}


def job(believed: dict[str, Network], folder: Path, root: str, repetitions: int, seed: int) -> dict[str, Any]:
    """The job file's content; trees are written beside it."""
    ours = believed[best_method()]
    made: dict[str, dict[str, str]] = {}
    kinds: tuple[tuple[Operation, int], ...] = (("broadcast", MESSAGE_BYTES), ("scatter", BLOCK_BYTES))
    for operation, size_bytes in kinds:
        wanted = {BASELINE: (ours, "binomial")} | {name: (network, "fnf") for name, network in believed.items()}
        wanted |= {"ours": (ours, "search"), "ours, oracle": (believed[ORACLE], "search")}
        made[operation] = {}
        for number, (name, (network, algorithm)) in enumerate(wanted.items()):
            path = folder / f"{operation}-{number}.tree.json"
            found = plan(network, operation, size_bytes=size_bytes, root=root, algorithm=algorithm, seed=seed)
            write_collective(path, found)
            made[operation][name] = str(path)
    generator = np.random.default_rng(seed)
    app = traces.task_graph(len(cloud.HOSTS), generator, degree=4)
    # A tenth of the paper's 5 to 10 MB, as rates are a tenth of a cloud's.
    app = app.model_copy(update={"transfer": [t.model_copy(update={"bytes": t.bytes // 10}) for t in app.transfer]})
    wanted_maps = {BASELINE: (ours, "ring")} | {name: (network, "greedy") for name, network in believed.items()}
    wanted_maps |= {"ours": (ours, "exchange"), "ours, oracle": (believed[ORACLE], "exchange")}
    mapping = {
        name: [cloud.HOSTS.index(host) for host in map_tasks(network, app, method).assignment.values()]
        for name, (network, method) in wanted_maps.items()
    }
    names = [task.name for task in app.task]
    return {
        "root": cloud.HOSTS.index(root),
        "message_bytes": MESSAGE_BYTES,
        "block_bytes": BLOCK_BYTES,
        "repetitions": repetitions,
        "seed": seed,
        **made,
        "mapping": mapping,
        "messages": [[names.index(t.source), names.index(t.target), t.bytes] for t in app.transfer],
    }


def figures(arguments: argparse.Namespace) -> None:
    """Runs clouds until there are enough repetitions, a few in each."""
    clouds = 1 if arguments.quick else arguments.clouds
    each = max(2, -(-arguments.seeds // clouds))
    names = methods_to_run(arguments.methods)
    pooled: dict[str, dict[str, list[float]]] = {}
    for seed in range(arguments.seed, arguments.seed + clouds):
        root = cloud.HOSTS[int(np.random.default_rng(seed).integers(len(cloud.HOSTS)))]
        with (
            lab.session(cloud.topology(seed), source="bench-constant") as session,
            cloud.strangers(session, STRANGERS_BYTES, STRANGERS_WAIT_S, seed),
            tempfile.TemporaryDirectory(dir="/tmp") as scratch,
        ):
            calibration = calibrated(session, arguments.snapshots, seed)
            believed = networks(calibration, names, seed)
            path = Path(scratch) / "job.json"
            path.write_text(json.dumps(job(believed, Path(scratch), root, each, seed)))
            program = [Path(__file__).with_name("worker.py"), path]
            ran = launch(session, "openmpi", program, ranks=cloud.HOSTS, scratch=Path(scratch), timeout_s=1800)
            if not ran.stdout.startswith("{"):
                raise GavotteError(f"mpirun left with status {ran.returncode}", hint=ran.stderr.strip()[-400:])
            found: dict[str, dict[str, list[float]]] = json.loads(ran.stdout)
        print(
            f"  cloud {seed}: {calibration.history.snapshots} snapshots in {calibration.seconds:.1f} s, Norm(N_E) "
            f"{calibration.norm:.3f}, root {root}, {each} repetitions",
            flush=True,
        )
        for kind, times in found.items():
            for name, seconds in times.items():
                pooled.setdefault(kind, {}).setdefault(name, []).extend(seconds)
    print(
        f"\nReal transfers, {len(cloud.HOSTS)} hosts, {len(cloud.STRANGERS)} strangers sending "
        f"{STRANGERS_BYTES / 1e6:g} MB every {STRANGERS_WAIT_S} s in the mean; Open MPI through gavotte.mpi; "
        "library = Open MPI's own\n  paper, EC2: 32 to 40 % over baseline, RPCA 8 to 10 % over heuristics"
    )
    for kind, rows in pooled.items():
        by_name = {name: np.array(seconds) for name, seconds in rows.items()}
        print(f"  {kind}\n{table(by_name, BASELINE, HEURISTIC)}")
        if kind == "broadcast":
            shown = [name for name in (BASELINE, HEURISTIC, "rpca", "ours", ORACLE) if name in by_name]
            print(cdf(by_name, BASELINE, shown))
