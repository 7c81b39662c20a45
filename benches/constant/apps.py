"""N-body and CG in the lab: totals with calibration, beside Open MPI's and MPICH's own collectives."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benches.constant import cloud
from benches.constant.real import STRANGERS_BYTES, STRANGERS_WAIT_S, calibrated
from benches.constant.replay import HEURISTIC, best_method
from benches.mpi import IMPLEMENTATIONS, available, launch

from gavotte import lab
from gavotte.collective import plan
from gavotte.errors import GavotteError
from gavotte.formats.collective import write_collective
from gavotte.model import METHODS, model

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS: dict[str, tuple[list[str], int]] = {
    "nbody": (["--steps", "30", "--bodies", "1020"], 85 * 992),
    "cg": (["--size", "112896", "--shift", "0.2"], 8 * 336 * 336 // 12),
}
"""Arguments, and bytes of a rank's block: 1 MB to all ranks in each step."""
QUICK = {"nbody": ["--steps", "3", "--bodies", "1020"], "cg": ["--size", "112896", "--shift", "20"]}


def totals(arguments: argparse.Namespace) -> None:
    """Each program in each way, in turn, over some clouds."""
    repetitions = 1 if arguments.quick else arguments.clouds
    rpca = "rpca" if "rpca" in METHODS else "median"
    rows: dict[str, dict[str, list[tuple[float, float]]]] = {}
    spent = []
    for seed in range(arguments.seed, arguments.seed + repetitions):
        with (
            lab.session(cloud.topology(seed), source="bench-constant") as session,
            cloud.strangers(session, STRANGERS_BYTES, STRANGERS_WAIT_S, seed),
            tempfile.TemporaryDirectory(dir="/tmp") as scratch,
        ):
            calibration = calibrated(session, arguments.snapshots, seed)
            spent.append(calibration.seconds)
            for program, (words, block_bytes) in PROGRAMS.items():
                ways = {f"{each}, allgather": (each, "allgather") for each in IMPLEMENTATIONS}
                ways |= {f"{each}, gather + bcast": (each, "gather-broadcast") for each in IMPLEMENTATIONS}
                for name, method, algorithm in (
                    ("binomial", HEURISTIC, "binomial"),
                    ("fnf of mean", HEURISTIC, "fnf"),
                    (f"fnf of {rpca}", rpca, "fnf"),
                    ("ours", best_method(), "search"),
                ):
                    path = Path(scratch) / f"{program}-{algorithm}-{method}.tree.json"
                    found = plan(
                        model(calibration.history, method=method),
                        "allgather",
                        size_bytes=block_bytes,
                        algorithm=algorithm,
                        root=cloud.HOSTS[0] if algorithm == "binomial" else None,
                        seed=seed,
                    )
                    write_collective(path, found)
                    ways[name] = ("openmpi", str(path))
                order = np.random.default_rng(seed).permutation(list(ways))
                for name in (str(each) for each in order):
                    if available(ways[name][0]):
                        told = _ran(
                            session, program, words if not arguments.quick else QUICK[program], *ways[name], scratch
                        )
                        assert told["block_bytes"] == block_bytes, told
                        rows.setdefault(program, {}).setdefault(name, []).append(
                            (told["communication_s"], told["total_s"])
                        )
        print(
            f"  cloud {seed}: calibrated in {calibration.seconds:.1f} s, Norm(N_E) {calibration.norm:.3f}", flush=True
        )
    calibration_s = float(np.mean(spent))
    for program, by_name in rows.items():
        print(
            f"\n{program}: {' '.join(QUICK[program] if arguments.quick else PROGRAMS[program][0])}, {len(cloud.HOSTS)} ranks, {repetitions} clouds"
        )
        print("  paper, EC2: N-body 25 %, CG 31 % less than MPICH2's binomial, calibration included")
        print(
            f"    {'':<24} {'communication s':>16} {'total s':>9} {'with calibration':>17} {'% less than binomial':>22}"
        )
        base = np.mean([total for _, total in by_name["binomial"]])
        for name, values in sorted(by_name.items(), key=lambda item: np.mean([total for _, total in item[1]])):
            talked, total = np.mean(values, axis=0)
            aware = name == "ours" or name.startswith("fnf")
            with_s = total + (calibration_s if aware else 0.0)
            print(
                f"    {name:<24} {talked:>16.2f} {total:>9.2f} {with_s:>17.2f} "
                f"{100 * (1 - total / base):>10.1f} / {100 * (1 - with_s / base):>6.1f}"
            )
        gained_s = base - np.mean([total for _, total in by_name["ours"]])
        if gained_s > 0:
            print(f"    ours repays its calibration after {calibration_s / gained_s:.1f} such runs, against binomial")


def _ran(
    session: lab.Session, program: str, words: list[str], implementation: str, how: str, scratch: str
) -> dict[str, Any]:
    line: list[str | Path] = [EXAMPLES / program / f"{program}.py", *words, "--exchange", how]
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        ran = launch(session, implementation, line, ranks=cloud.HOSTS, scratch=Path(folder), timeout_s=900)
    if not ran.stdout.startswith("{"):
        raise GavotteError(f"{program} left with status {ran.returncode}", hint=ran.stderr.strip()[-400:])
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
