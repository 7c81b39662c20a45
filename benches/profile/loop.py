"""The whole loop: a profile taken of a real run under one placement, placed anew, run again. Is it faster by what was said?

Nine ranks of an MPI program in three groups that talk within themselves, on nine hosts in three unequal racks. First
rank i runs on host i, which puts each group across the racks; agents watch that run's sockets, and the App of that
profile is placed on the Network as measured. Then both placements run in turn.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benches import mpi
from benches.profile.job import HERE, Matrix
from benches.profile.observers import GAVOTTE, LONGEST_S, START_S, said

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.app import read_app
from gavotte.formats.network import Network, read_network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.place import evaluate, place

RANKS = 9
GROUP = 3
ROUNDS = 4
UPLINKS_MBIT = (60, 45, 80)
HOST_MBIT = 40


def racks() -> Topology:
    """Three racks of three hosts behind uplinks of their own; neighbours by number are in different racks."""
    hosts = [
        {"name": f"h{n}", "switch": f"tor{n // GROUP}", "egress": f"{HOST_MBIT}mbit", "cpus": 1.0} for n in range(RANKS)
    ]
    tors = [{"name": f"tor{n}", "parent": "core", "up": f"{rate}mbit"} for n, rate in enumerate(UPLINKS_MBIT)]
    return Topology.model_validate({"format": FORMAT, "switch": [{"name": "core"}, *tors], "host": hosts})


def grouped(unit_bytes: int) -> Matrix:
    """(9, 9) bytes: ten units to each rank of the same group (rank modulo 3), one to the next rank."""
    matrix = np.zeros((RANKS, RANKS), dtype=np.int64)
    for source in range(RANKS):
        for target in range(RANKS):
            if source != target and source % GROUP == target % GROUP:
                matrix[source, target] = 10 * unit_bytes
        matrix[source, (source + 1) % RANKS] += unit_bytes
    return matrix


def run(session: lab.Session, hosts: Sequence[str], folder: Path) -> float:
    """Seconds of the job with rank i on the i-th of these hosts."""
    program: list[str | Path] = [HERE / "exchange.py", folder / "matrix.json", str(ROUNDS)]
    done = mpi.launch(session, "openmpi", program, ranks=hosts, scratch=folder, timeout_s=120, calm=True)
    if done.returncode:
        raise GavotteError("the job failed", hint=done.stderr.strip()[-300:])
    return float(json.loads(done.stdout.strip().splitlines()[-1])["seconds"])


def measured(session: lab.Session, folder: Path, seed: int) -> Network:
    """The cloud as our own commands find it, shared links with it."""
    history, network = folder / "cloud.npz", folder / "cloud.network.json"
    for words in (
        ["measure", "--hosts", "lab", "--sharing", "--seed", str(seed), "-o", str(history)],
        ["model", str(history), "--fill", "-o", str(network)],
    ):
        done = subprocess.run(
            [GAVOTTE, *words], capture_output=True, text=True, timeout=300, check=False, env=session.environment()
        )
        if done.returncode:
            raise GavotteError(done.stderr.strip().splitlines()[-1])
    return read_network(network)


def profiled(session: lab.Session, hosts: Sequence[str], folder: Path) -> tuple[Path, float]:
    """Watches one run through the agents; gives its App and how long it took."""
    tasks, app = folder / "tasks", folder / "job.app.toml"
    tasks.write_text("".join(f"rank:{rank} rank{rank}\n" for rank in range(len(hosts))))
    words = [GAVOTTE, "profile", "live", "--hosts", "lab", "--for", str(LONGEST_S), "--tasks", str(tasks)]
    watching = subprocess.Popen(
        [*words, "--name", "job", "-o", str(app)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=session.environment(),
    )
    try:
        said(watching, "waiting")
        seconds = run(session, hosts, folder)
    finally:
        watching.send_signal(2)
        watching.wait(START_S)
    return app, seconds


def loop(unit_bytes: int, runs: int, seed: int, rows: list[list[str]]) -> bool:
    """Prints predicted and measured times of both placements; tells whether the gain is within 10 points."""
    with (
        tempfile.TemporaryDirectory(prefix="gvt-loop-") as scratch,
        lab.session(racks(), source="bench-profile") as session,
    ):
        folder = Path(scratch)
        matrix = grouped(unit_bytes)
        (folder / "matrix.json").write_text(json.dumps(matrix.tolist()))
        hosts = [f"h{n}" for n in range(RANKS)]
        mpi.loss_based(session, hosts)
        network = measured(session, folder, seed)
        path, _ = profiled(session, hosts, folder)
        app = read_app(path)
        before = evaluate(network, [app], {f"rank{rank}": host for rank, host in enumerate(hosts)})
        after = place(network, [app], seed=seed, time_limit_s=5.0)
        chosen = [after.assignment[f"rank{rank}"] for rank in range(RANKS)]
        times: dict[str, list[float]] = {"before": [], "after": []}
        for _ in range(runs):
            times["before"].append(run(session, hosts, folder))
            times["after"].append(run(session, chosen, folder))
    said_s = {"before": before.completion_s, "after": after.completion_s}
    seen = {(each.source, each.target): each.bytes for each in app.transfer}
    wanted = {(f"rank{s}", f"rank{t}"): int(size) for (s, t), size in np.ndenumerate(matrix) if size}
    error = max(abs(seen.get(pair, 0) / size - 1) for pair, size in wanted.items())
    print(
        f"\nthe loop: {RANKS} ranks, {matrix.sum() / 1e6:.0f} MB, racks behind {UPLINKS_MBIT} Mbit/s, {runs} runs each"
    )
    print(f"profile: {app.total_bytes / 1e6:.1f} MB, largest error of a pair {error:.2%}; placed on {' '.join(chosen)}")
    print(f"{'':>8} {'predicted s':>12} {'measured s':>11} {'s.e.':>6} {'measured / predicted':>21}")
    mean = {key: statistics.fmean(each) for key, each in times.items()}
    for key, each in times.items():
        spread = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else 0.0
        name = "one rank a host, in order" if key == "before" else "placed by its profile"
        rows.append([name, f"{said_s[key]:.2f}", f"{mean[key]:.2f} ± {spread:.2f}", f"{mean[key] / said_s[key]:.2f}"])
        print(f"{key:>8} {said_s[key]:>12.2f} {mean[key]:>11.2f} {spread:>6.2f} {mean[key] / said_s[key]:>21.3f}")
    foretold, found = (1 - each["after"] / each["before"] for each in (said_s, mean))
    good = abs(foretold - found) <= 0.1
    rows.append(["saved", "", "", f"{foretold:.1%} predicted, {found:.1%} measured"])
    print(f"saved: {foretold:.1%} predicted, {found:.1%} measured; {'met' if good else 'MISSED'} (within 10 points)")
    return good
