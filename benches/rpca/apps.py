"""N-body and CG in the lab: totals with calibration, next to Open MPI's and MPICH's own collectives."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benches.mpi import IMPLEMENTATIONS, available, compiler, launch, loss_based, received_bytes
from benches.rpca import cloud
from benches.rpca.replay import BEST
from benches.rpca.stats import saved

from gavotte import lab
from gavotte.collective import TreeSearch, build_shim, norm_of, plan, shim_text
from gavotte.errors import GavotteError
from gavotte.formats.collective import Collective, Operation, write_collective
from gavotte.formats.history import Floats
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.model import model

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE = cloud.Size(per_rack=4, egress_mbps=(20, 70), uplink_mbps=(80, 160), stranger_mbps=130)
"""Rates of all hosts and neighbours together are below the 0.9 Gbit/s that two cores carry."""
STRANGERS_BYTES, STRANGERS_WAIT_S = 4_000_000, 0.5
PROBE_S = 0.2
ROUNDS, IN_A_ROUND = 2, 2
"""Repetitions of each job, and of each of its ways in random order: starting 16 ranks takes as long as a repetition."""
BUDGET_S = 1300.0
"""No round of a cloud begins later."""
CLOUDS = 2
"""Clouds, unless `--clouds` is given."""
SNAPSHOTS = 1
"""Snapshots of a calibration, which each run pays for; `make bench-rpca ARGS=steps` shows the gain of more. With three,
which took 55 s, ours was as fast.
"""
LONG = 500
"""Steps of the long run in the last column: this run's steps, each as long. The paper's N-body took 2560."""


@dataclass(frozen=True)
class Program:
    """One application.

    Attributes:
        words: its arguments in a full run.
        quick: in a quick one.
        block_bytes: of a rank, in each exchange.
        paper: what the RPCA paper gained over binomial trees, in %.
    """

    words: tuple[str, ...]
    quick: tuple[str, ...]
    block_bytes: int
    paper: int


PROGRAMS = {
    "nbody": Program(("--steps", "5", "--bodies", "1024"), ("--steps", "2", "--bodies", "1024"), 64 * 992, 25),
    "cg": Program(("--size", "65536", "--shift", "16"), ("--size", "65536", "--shift", "99"), 8 * 256 * 256 // 16, 31),
}
BASELINE, OURS = "binomial", "ours"
CALLS = {"allgather": "MPI_Allgather", "gather-broadcast": "MPI_Gather + MPI_Bcast"}


@dataclass(frozen=True)
class Job:
    """One mpirun: several ways to exchange, one after the other.

    Attributes:
        implementation: whose mpirun.
        ways: name of each in the table, and its arguments.
        aware: names of those that need a calibration.
        environment: for the ranks.
    """

    implementation: str
    ways: dict[str, str]
    aware: frozenset[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class Run:
    """Results of one way in one repetition."""

    steps: int
    total_s: float
    communication_s: float
    checksum: float


@dataclass(frozen=True)
class CloudResult:
    """Results of one cloud.

    Attributes:
        spent_s: seconds of its calibration, model and plan.
        aware: ways that need them.
        runs: of each way, one a repetition.
    """

    spent_s: float
    aware: frozenset[str]
    runs: dict[str, list[Run]]


def _jobs(history: Any, program: Program, scratch: Path, seed: int) -> tuple[list[Job], Collective, float]:
    """Return all ways, our schedule, and the seconds of its model and search."""

    def planned(method: str, operation: Operation, size_bytes: int, algorithm: str) -> Collective:
        root = None if algorithm == "auto" and operation == "allgather" else SIZE.hosts[0]
        believed = model(history, method=method)
        return plan(
            believed, operation, size_bytes=size_bytes, algorithm=algorithm, root=root, search=TreeSearch(seed=seed)
        )

    started = time.perf_counter()
    ours = planned(BEST, "allgather", program.block_bytes, "auto")
    spent_s = time.perf_counter() - started
    own = {
        BASELINE: planned("mean", "allgather", program.block_bytes, "binomial"),
        "fnf of rpca": planned("rpca", "allgather", program.block_bytes, "fnf"),
        OURS: ours,
    }
    paths = {}
    for number, (name, result) in enumerate(own.items()):
        paths[name] = str(scratch / f"{program.block_bytes}-{number}.tree.json")
        write_collective(paths[name], result)
    trees = scratch / f"{program.block_bytes}.txt"
    gather = planned(BEST, "gather", program.block_bytes, "auto")
    spread = planned(BEST, "broadcast", program.block_bytes * len(SIZE.hosts), "auto")
    trees.write_text(shim_text([ours, gather, spread]))
    jobs = []
    for each in filter(available, IMPLEMENTATIONS):
        plain = {f"{each}: {call}": how for how, call in CALLS.items()}
        through = paths if each == "openmpi" else {}
        aware = frozenset(through) - {BASELINE}
        jobs.append(Job(each, {**through, **plain}, aware, {}))
        library = scratch / f"libgavotte-{each}.so"
        if not library.exists():
            build_shim(library, mpicc=compiler(each))
        loaded = {f"{name}, preloaded": how for name, how in plain.items()}
        environment = {"LD_PRELOAD": str(library), "GAVOTTE_TREES": str(trees), "GAVOTTE_MIN_BYTES": "4096"}
        jobs.append(Job(each, loaded, frozenset(loaded), environment))
    return jobs, ours, spent_s


def totals(arguments: argparse.Namespace) -> None:
    """Run each program in each way, in turn, in one cloud after the other."""
    rounds = 1 if arguments.quick else ROUNDS
    clouds = 1 if arguments.quick else arguments.clouds or CLOUDS
    results: dict[str, list[CloudResult]] = {name: [] for name in PROGRAMS}
    for seed in range(arguments.seed, arguments.seed + clouds):
        print(f"cloud {seed}, load {os.getloadavg()[0]:.1f}")
        with (
            lab.session(cloud.topology(seed, SIZE), source="bench-rpca") as session,
            cloud.strangers(session, STRANGERS_BYTES, STRANGERS_WAIT_S, seed),
            tempfile.TemporaryDirectory(dir="/tmp") as folder,
        ):
            loss_based(session, (*SIZE.hosts, *cloud.STRANGERS))
            for name, result in _in_one(session, Path(folder), rounds, seed, arguments.quick).items():
                results[name].append(result)
    for name, seen in results.items():
        _tell(name, seen)


def _in_one(session: lab.Session, scratch: Path, rounds: int, seed: int, quick: bool) -> dict[str, CloudResult]:
    """Calibrate a cloud, and run all programs in all ways in it."""
    started = time.perf_counter()
    count = 2 if quick else SNAPSHOTS
    # A doubtful path measured again would no longer belong to its snapshot's moment.
    history = carry_out(
        plan_measurement(
            MeasureQuestion(
                cloud.tenants(session, SIZE),
                method=bulk(seconds=PROBE_S),
                count=count,
                again=False,
                seed=seed,
                scale="pairs",
            )
        )
    ).history
    measured_s = time.perf_counter() - started
    jobs, results = {}, {}
    norm = f", Norm(N_E) {norm_of(1 / history.beta_Bps):.3f}" if count > 1 else ""  # a single one has no spread
    for name, program in PROGRAMS.items():
        jobs[name], ours, planned_s = _jobs(history, program, scratch, seed)
        results[name] = CloudResult(
            measured_s + planned_s, frozenset(way for job in jobs[name] for way in job.aware), {}
        )
        print(
            f"  {name}: snapshots: {count}, in {measured_s:.1f} s{norm}, modelled and planned in {planned_s:.1f} s; "
            f"ours is {ours.algorithm}, {ours.predicted_s:.3f} s "
            + ", ".join(f"{other} {seconds:.3f}" for other, seconds in ours.baselines_s.items()),
            flush=True,
        )
    generator = np.random.default_rng(seed)
    for number in range(rounds):
        if time.perf_counter() - started > BUDGET_S:
            print(f"  stopped after {number} rounds: they took {BUDGET_S:.0f} s", flush=True)
            break
        for name, program in PROGRAMS.items():
            words = program.quick if quick else program.words
            for at in generator.permutation(len(jobs[name])):
                for way, run in _ran(session, name, words, jobs[name][at], scratch, generator):
                    results[name].runs.setdefault(way, []).append(run)
        print(f"  round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
    return results


def _ran(
    session: lab.Session, name: str, words: Sequence[str], job: Job, scratch: Path, generator: np.random.Generator
) -> Iterator[tuple[str, Run]]:
    """Run one job, its ways in random order, each as often as in a round."""
    order = [str(way) for way in generator.permutation(list(job.ways) * IN_A_ROUND)]
    line: list[str | Path] = [EXAMPLES / name / f"{name}.py", *words, "--exchange", *(job.ways[way] for way in order)]
    before = received_bytes(session, SIZE.hosts)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        ran = launch(
            session,
            job.implementation,
            line,
            ranks=SIZE.hosts,
            scratch=Path(folder),
            environment=job.environment,
            timeout_s=900,
            calm=True,
        )
    reports = [json.loads(text) for text in ran.stdout.splitlines() if text.startswith("{")]
    if len(reports) != len(order):
        raise GavotteError(f"{name} left with status {ran.returncode}", hint=ran.stderr.strip()[-400:])
    got = min(now - then for now, then in zip(received_bytes(session, SIZE.hosts), before, strict=True))
    least = (len(SIZE.hosts) - 1) * PROGRAMS[name].block_bytes * sum(each["steps"] for each in reports)
    if got < least:
        raise GavotteError(
            f"a host received {got} bytes of {least}", hint="the ranks met elsewhere than on the network"
        )
    for way, each in zip(order, reports, strict=True):
        if each["block_bytes"] != PROGRAMS[name].block_bytes:
            raise GavotteError(f"{name} sends blocks of {each['block_bytes']} bytes", hint="plan for these")
        yield way, Run(each["steps"], each["total_s"], each["communication_s"], each["checksum"])


def _tell(name: str, clouds: list[CloudResult]) -> None:
    """Print a program's table; a calibration is spread over its cloud's repetitions, which are one long run."""
    every = [run for result in clouds for runs in result.runs.values() for run in runs]
    # The libraries add up CG's products in different orders.
    alike = np.allclose([run.checksum for run in every], every[0].checksum, rtol=1e-6)
    if not alike or len({run.steps for run in every}) != 1:
        raise GavotteError(f"{name} has different results by different ways", hint="the exchange is wrong")
    program, steps, first = PROGRAMS[name], every[0].steps, clouds[0]
    ways, aware = list(first.runs), first.aware

    def joined(way: str, extra: Callable[[CloudResult], float]) -> Floats:
        parts = [np.array([run.total_s for run in result.runs[way]]) + extra(result) for result in clouds]
        return np.concatenate(parts)

    def calibrated(way: str, repetitions: Callable[[CloudResult], float]) -> Floats:
        return joined(way, lambda result: result.spent_s / repetitions(result) if way in aware else 0.0)

    total = {way: joined(way, lambda _: 0.0) for way in ways}
    whole = {way: calibrated(way, lambda result: len(result.runs[BASELINE])) for way in ways}
    long = {way: calibrated(way, lambda _: LONG / steps) for way in ways}
    own = f"of {steps * len(first.runs[BASELINE])} steps"
    spent = ", ".join(f"{result.spent_s:.1f} s" for result in clouds)
    print(
        f"\n{name}, {len(SIZE.hosts)} ranks, {program.block_bytes / 1e3:.0f} kB of each to all in a step, {len(clouds)} clouds, "
        f"{len(total[BASELINE])} x {steps} steps; calibrations {spent}\n"
        f"  paper, EC2, 196 hosts: {program.paper} % less than binomial, calibration included\n"
        f"    {'':<44} {'s a step':>9} {'talking':>8} {'% less than binomial':>21} {f'with calib., {own}':>25} "
        f"{f'of {LONG} steps':>13}"
    )
    for way, seconds in sorted(total.items(), key=lambda item: item[1].mean()):
        talked = np.mean([run.communication_s for result in clouds for run in result.runs[way]]) / steps
        gain = ["", "", ""]
        if way != BASELINE:
            gain = [saved(each[way], total[BASELINE]) for each in (total, whole, long)]
        print(f"    {way:<44} {seconds.mean() / steps:>9.3f} {talked:>8.3f} {gain[0]:>21} {gain[1]:>25} {gain[2]:>13}")
    print("  ours over binomial, cloud by cloud: " + ", ".join(_gain(result, OURS) for result in clouds))
    print("  against the library's own MPI_Allgather, without and with calibration; steps after which it is repaid")
    spent_s = float(np.mean([result.spent_s for result in clouds]))

    def repaid(way: str, other: str) -> str:
        gained_s = float((total[other] - total[way]).mean()) / steps
        return f"{spent_s / gained_s:.0f}" if gained_s > 0 else "never"

    for way in (each for each in ways if each in aware):
        library = way.split(":")[0] if ":" in way else "openmpi"
        other = f"{library}: MPI_Allgather"
        pair = f"{saved(total[way], total[other])} {saved(whole[way], total[other])}"
        print(f"    {way:<44} {pair}   {repaid(way, other):>6}")
    print(f"  against binomial ours is repaid after {repaid(OURS, BASELINE)} steps")


def _gain(result: CloudResult, way: str) -> str:
    own, base = (np.array([run.total_s for run in result.runs[each]]) for each in (way, BASELINE))
    return f"{saved(own, base).strip()} %"
