"""Broadcast, scatter and mapping in a lab: real transfers while neighbours burst, calibrated by real measurements."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benches.mpi import launch
from benches.recorded import write_figure
from benches.rpca import cloud, neighbours, traces
from benches.rpca.plots import Plots
from benches.rpca.replay import BASELINE, BEST, HEURISTIC, PAPERS
from benches.rpca.stats import cdf, saved, table

from gavotte import lab
from gavotte.collective import TreeSearch, norm_of, plan, replay
from gavotte.errors import GavotteError
from gavotte.formats.collective import Operation, write_collective
from gavotte.formats.history import Floats, History
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.mapping import map_tasks
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.model import METHODS, model

MESSAGE_BYTES = 200_000
BLOCK_BYTES = 50_000
TASK_SHARE = 20
"""Task graphs have a twentieth of the paper's 5 to 10 MB, as rates are a thirtieth of a cloud's. With a hundredth, each
would take as long as a burst.
"""
ORACLE = "oracle"
PROBE_S = 0.1
"""Seconds of bulk TCP on each pair: about the time of a message."""
USUAL = ("mean", "median", "rpca", "mode", "auto")
"""Estimators that are tried by default: each has trees of its own, and each tree takes its time."""
OPERATIONS = ("broadcast", "scatter", "mapping")
CLOUDS = 6
"""Clouds of each norm, unless `--clouds` is given."""
LEAST_S = 60.0
"""A job that takes this many times as long as it should is ended."""


@dataclass(frozen=True)
class Calibration:
    """The measured snapshots, and the time that they took."""

    history: History
    seconds: float

    @property
    def norm(self) -> float:
        """Norm(N_E) at a tolerance of 10 %."""
        return norm_of(1 / self.history.beta_Bps)


@dataclass(frozen=True)
class Run:
    """One calibration and the runs after it.

    Attributes:
        wanted: norm for which the neighbours' silences were chosen.
        seed: of the cloud.
        norm: Norm(N_E) of its calibration.
        calibration_s: time of the calibration.
        times: seconds of each repetition, by operation and method.
        replayed: mean seconds of the trees predicted from the calibration's snapshots, by operation and method.
    """

    wanted: float
    seed: int
    norm: float
    calibration_s: float
    times: dict[str, dict[str, list[float]]]
    replayed: dict[str, dict[str, float]]


def calibrated(
    session: lab.Session, count: int, seed: int, *, inventory: Inventory | None = None, seconds: float = 0.3
) -> Calibration:
    """Measure all pairs of some hosts, the tenants of `cloud` by default, by this many seconds of bulk TCP each."""
    started = time.perf_counter()
    hosts = cloud.tenants(session) if inventory is None else inventory
    # A doubtful path measured again would no longer belong to this moment.
    measurement = carry_out(
        plan_measurement(
            MeasureQuestion(
                hosts, method=bulk(seconds=seconds), count=count, again=inventory is None, seed=seed, scale="pairs"
            )
        )
    )
    return Calibration(measurement.history, time.perf_counter() - started)


class Job:
    """The ranks' job: each tree and mapping once a repetition, even if several methods chose it."""

    def __init__(
        self, calibration: Calibration, names: list[str], folder: Path, root: str, seed: int, kinds: Sequence[str]
    ) -> None:
        self._folder, self._root, self._seed = folder, root, seed
        self._history = calibration.history
        believed = {name: model(calibration.history, method=name, seed=seed) for name in names}
        believed[ORACLE] = neighbours.truth(seed)
        ours = believed.get(BEST) or model(calibration.history, method=BEST, seed=seed)
        self.label: dict[str, dict[str, str]] = {}
        """For each operation, the tree or mapping of each method: methods that decide alike share it."""
        self.replayed: dict[str, dict[str, float]] = {}
        self.content: dict[str, Any] = {
            "root": neighbours.HOSTS.index(root),
            "message_bytes": MESSAGE_BYTES,
            "block_bytes": BLOCK_BYTES,
            "seed": seed,
        }
        sizes: dict[Operation, int] = {"broadcast": MESSAGE_BYTES, "scatter": BLOCK_BYTES}
        for operation, size_bytes in sizes.items():
            if operation in kinds:
                self._trees(operation, size_bytes, believed, ours)
        if "mapping" in kinds:
            self._mappings(believed, ours)

    def _trees(self, operation: Operation, size_bytes: int, believed: dict[str, Network], ours: Network) -> None:
        wanted = {BASELINE: (ours, "binomial")} | {name: (network, "fnf") for name, network in believed.items()}
        best = "auto" if operation == "scatter" else "search"  # which may find that a flat tree is best
        wanted |= {"ours": (ours, best), "ours, oracle": (believed[ORACLE], best)}
        paths: dict[str, str] = {}
        for name, (network, algorithm) in wanted.items():
            planned = plan(
                network,
                operation,
                size_bytes=size_bytes,
                root=self._root,
                algorithm=algorithm,
                search=TreeSearch(seed=self._seed),
            )
            stage = planned.stages[0]
            key = json.dumps([stage.parent, stage.order, stage.segments])
            self.label.setdefault(operation, {})[name] = key
            self.replayed.setdefault(operation, {})[name] = float(replay(self._history, planned).mean())
            if key not in paths:
                path = self._folder / f"{operation}-{len(paths)}.tree.json"
                write_collective(path, planned)
                paths[key] = str(path)
        self.content[operation] = paths

    def _mappings(self, believed: dict[str, Network], ours: Network) -> None:
        app = traces.task_graph(len(neighbours.HOSTS), np.random.default_rng(self._seed), degree=4)
        smaller = [each.model_copy(update={"bytes": each.bytes // TASK_SHARE}) for each in app.transfer]
        app = app.model_copy(update={"transfer": smaller})
        wanted = {BASELINE: (ours, "ring")} | {name: (network, "greedy") for name, network in believed.items()}
        wanted |= {"ours": (ours, "exchange"), "ours, oracle": (believed[ORACLE], "exchange")}
        mappings: dict[str, list[int]] = {}
        for name, (network, method) in wanted.items():
            placed = map_tasks(network, app, method).assignment.values()
            hosts = [neighbours.HOSTS.index(host) for host in placed]
            key = json.dumps(hosts)
            self.label.setdefault("mapping", {})[name] = key
            mappings[key] = hosts
        names = [task.name for task in app.task]
        self.content["mapping"] = mappings
        self.content["messages"] = [[names.index(t.source), names.index(t.target), t.bytes] for t in app.transfer]

    def run(self, session: lab.Session, repetitions: int) -> dict[str, dict[str, list[float]]]:
        """Return the seconds of each repetition, by operation and method."""
        path = self._folder / "job.json"
        path.write_text(json.dumps(self.content | {"repetitions": repetitions}))
        program = [Path(__file__).with_name("worker.py"), path]
        limit_s = LEAST_S * (1 + repetitions)
        ran = launch(
            session, "openmpi", program, ranks=neighbours.HOSTS, scratch=self._folder, timeout_s=limit_s, calm=True
        )
        if not ran.stdout.startswith("{"):
            raise GavotteError(f"mpirun left with status {ran.returncode}", hint=ran.stderr.strip()[-400:])
        times_by_key: dict[str, dict[str, list[float]]] = json.loads(ran.stdout)
        values = {
            kind: {name: times_by_key[kind][key] for name, key in names.items()} for kind, names in self.label.items()
        }
        for kind, times in times_by_key.items():
            if "library" in times:
                values[kind]["library"] = times["library"]
        return values


def one(wanted: float, seed: int, names: list[str], snapshots: int, repetitions: int, kinds: Sequence[str]) -> Run:
    """Calibrate one cloud, and run everything in it."""
    root = neighbours.HOSTS[int(np.random.default_rng(seed).integers(len(neighbours.HOSTS)))]
    with (
        neighbours.cloud(seed) as session,
        neighbours.bursting(session, neighbours.wait_s(wanted, PROBE_S), seed),
        tempfile.TemporaryDirectory(dir="/tmp") as scratch,
    ):
        calibration = calibrated(session, snapshots, seed, inventory=neighbours.tenants(session), seconds=PROBE_S)
        job = Job(calibration, names, Path(scratch), root, seed, kinds)
        times = job.run(session, repetitions)
    return Run(wanted, seed, calibration.norm, calibration.seconds, times, job.replayed)


def figures(arguments: argparse.Namespace) -> None:
    """Run clouds until there are enough repetitions of each norm, norms in turn; `--keep` keeps all results."""
    clouds = 1 if arguments.quick else arguments.clouds or CLOUDS
    each = max(2, -(-arguments.seeds // clouds))
    names = [name for name in METHODS if name in (arguments.methods or USUAL)]
    names = [HEURISTIC, *(name for name in names if name != HEURISTIC)]
    done = [run for run in kept(arguments.keep) if set(run.times) >= set(arguments.operations)]
    for seed in range(arguments.seed, arguments.seed + clouds):
        for wanted in arguments.norms:
            if any(run.wanted == wanted and run.seed == seed for run in done):
                continue
            started = time.perf_counter()
            run = one(wanted, seed, names, arguments.snapshots, each, arguments.operations)
            done.append(run)
            if arguments.keep is not None:
                with arguments.keep.open("a") as file:
                    file.write(json.dumps(asdict(run)) + "\n")
            result = ", ".join(f"{kind} {_short(times)}" for kind, times in run.times.items())
            print(
                f"  Norm {wanted} wanted, cloud {seed}: {arguments.snapshots} snapshots in {run.calibration_s:.1f} s, Norm(N_E) "
                f"{run.norm:.3f}, {each} repetitions, {time.perf_counter() - started:.0f} s in all; {result}",
                flush=True,
            )
    print(
        f"\nReal transfers of {MESSAGE_BYTES / 1e6:g} MB (broadcast) and {BLOCK_BYTES / 1e6:g} MB a rank (scatter), "
        f"{len(neighbours.HOSTS)} hosts with pairs of {neighbours.RANGE_MBPS[0]:g} to {neighbours.RANGE_MBPS[1]:g} Mbit/s, behind links of {neighbours.LINK_MBPS} Mbit/s shared with "
        f"neighbours\nthat burst for {neighbours.BURST_S} s with 1 + Exp({neighbours.FLOWS:g}) connections; Open MPI through "
        "gavotte.mpi; library = Open MPI's own; ± over clouds"
    )
    for wanted in arguments.norms:
        shown(
            f"Norm {wanted} wanted",
            [run for run in done if run.wanted == wanted],
            arguments.plots,
            PAPERS.get(wanted, ""),
        )
    if arguments.record is not None:
        record(arguments.record, [run for run in done if "broadcast" in run.times], arguments)
    shown("all together", done, arguments.plots, "paper, EC2: 32 to 40 % over baseline, RPCA 8 to 10 % over heuristics")


def shown(title: str, clouds: list[Run], plots: Plots, paper: str) -> None:
    """Print the tables of some clouds."""
    if not clouds:
        return
    norms = [run.norm for run in clouds]
    print(
        f"\n{title}: Norm(N_E) {np.mean(norms):.3f} ({min(norms):.3f} to {max(norms):.3f}), {len(clouds)} clouds\n  {paper}"
    )
    common = [kind for kind in OPERATIONS if all(kind in run.times for run in clouds)]
    for kind in common:
        rows = {name: _pooled(clouds, kind, name) for name in clouds[0].times[kind]}
        of = np.repeat(np.arange(len(clouds)), [len(run.times[kind][BASELINE]) for run in clouds])
        print(f"  {kind}, {len(of)} repetitions\n{table(rows, BASELINE, HEURISTIC, of)}")
        if {"rpca", "ours"} <= set(rows):
            print(f"    ours over rpca {saved(rows['ours'], rows['rpca'], of)} %")
        if kind == "broadcast":
            methods = [name for name in (BASELINE, HEURISTIC, "rpca", "ours", ORACLE) if name in rows]
            print(cdf(rows, BASELINE, methods))
            plots.cdf(f"lab, broadcast, {title}, met {np.mean(norms):.2f}", rows, BASELINE, methods)
            errors = ", ".join(f"{name} {100 * np.mean(off):.0f} %" for name, off in _off(clouds, kind).items())
            base = np.sum([run.replayed[kind][BASELINE] for run in clouds])
            gains = {
                name: 1 - np.sum([run.replayed[kind][name] for run in clouds]) / base
                for name in clouds[0].replayed[kind]
            }
            predicted = ", ".join(f"{name} {100 * gain:.1f} %" for name, gain in gains.items() if name != BASELINE)
            print(
                f"    replay of the calibration, which estimators have seen, predicts less than baseline: {predicted}"
            )
            print(f"    replay of the calibration is off the real mean by {errors} (paper: baseline 18 %, RPCA 9 %)")


def _off(clouds: list[Run], kind: str) -> dict[str, list[float]]:
    """Return, by method and cloud, how far the replay of the calibration is from the mean of the real runs."""
    methods = (name for name in (BASELINE, HEURISTIC, "rpca", "ours") if all(name in c.times[kind] for c in clouds))
    return {
        name: [abs(c.replayed[kind][name] / float(np.mean(c.times[kind][name])) - 1) for c in clouds]
        for name in methods
    }


def record(folder: Path, done: list[Run], arguments: argparse.Namespace) -> None:
    """Write the error of replay for broadcasts, a row a norm, for docs/results."""
    norms = {wanted: result for wanted in arguments.norms if (result := [run for run in done if run.wanted == wanted])}
    if not norms:
        return
    off = {wanted: _off(result, "broadcast") for wanted, result in norms.items()}
    methods = list(next(iter(off.values())))
    rows = [["the paper, EC2", *({BASELINE: "18", "rpca": "9"}.get(name, "") for name in methods)]]
    for wanted, result in norms.items():
        shares = [100 * np.array(off[wanted][name]) for name in methods]
        cells = [f"{each.mean():.0f} ± {each.std(ddof=1) if len(each) > 1 else 0:.0f}" for each in shares]
        rows.append([f"Norm {np.mean([run.norm for run in result]):.2f}", *cells])
    clouds = min(map(len, norms.values()))
    asked = f"--norms {' '.join(map(str, norms))} --clouds {clouds} --snapshots {arguments.snapshots}"
    asked += f" --seeds {arguments.seeds}"
    if arguments.methods:
        asked += f" --methods {' '.join(arguments.methods)}"
    write_figure(
        folder / "rpca-predicted.json",
        title="How far the replay of a calibration is from the real broadcasts",
        command=f'make bench-rpca ARGS="lab --operations broadcast {asked}"',
        seed=str(arguments.seed),
        samples=f"{clouds} clouds a norm, {arguments.seeds} repetitions; ± is the deviation between clouds",
        plot={"kind": "bars", "columns": list(range(1, len(methods) + 1)), "unit": "off by, %"},
        columns=["replay off by, %", *methods],
        rows=rows,
    )


def kept(path: Path | None) -> list[Run]:
    """Return the results of an earlier run."""
    if path is None or not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def _pooled(clouds: list[Run], kind: str, name: str) -> Floats:
    return np.concatenate([np.array(run.times[kind][name]) for run in clouds])


def _short(times: dict[str, list[float]]) -> str:
    """Return the means of the four main methods, in seconds."""
    names = [name for name in (BASELINE, HEURISTIC, "rpca", "ours") if name in times]
    return "/".join(f"{np.mean(times[name]):.2f}" for name in names)
