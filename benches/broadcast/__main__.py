"""Compares our broadcasts in the lab with other ways to copy a file to many hosts, as multiples of the lower bound.

    make bench-broadcast ARGS=ugly
    make bench-broadcast ARGS="ugly --clouds 1 16 --faults hang cut"
    make bench-broadcast ARGS=planes
    make bench-broadcast [ARGS="--case equal racks --receivers 10 30 --mb 10 50 --runs 5 --ways auto cornet libtorrent"]

The bound is the object over the slowest necessary port at the goodput of one TCP hop (1448/1514 of the wire rate). It
comes from the topology, so it contains no measurement. Ways are interleaved. Each line shows the idle share of the
processors: if it is small, the processors limited the transfers and not the network.

`ugly` predicts each way in 40 random clouds of unequal, oversubscribed racks, as multiples of the least time of any
mechanism (`gavotte.transfer.packing`). It then runs the ways in those of `--clouds` in the lab; without `--clouds`, it
predicts only. The way `without-network` is `auto` without a Network, with the time of its probe. With `--faults`, only `auto`
runs, and the busiest relay fails when it has half: the lines show for how long another receiver gets no byte, next to a run
without a fault, and how long the others take in all (`benches.broadcast.faulty`).

Ports carry the object in about 4 s, at most at 100 Mbit/s, unless `--mbit` gives their rate. `--train` broadcasts by
Cornet come before those in which `clustering` infers the racks from their block times.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.broadcast import planes
from benches.broadcast.cases import FAULTS, PRINTED, Case, case
from benches.broadcast.faulty import compare as compare_faulty
from benches.broadcast.ugly import compare as compare_ugly
from benches.broadcast.ugly import ugly
from benches.broadcast.ways import BLIND, OURS, PEERS, Outcome, ways
from benches.machine import machine, processor_times
from benches.recorded import write_figure

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import plan_broadcast

BOUND_S = 4.0
"""Time of the object through one port if no rate is given."""

CLOUDS = 40
"""Ugly clouds whose times are predicted."""

MOST_MBIT = 100.0
"""Above this rate the processors limit the transfers."""

DEFAULT_WAYS = ["auto", "mesh", "cornet", *PEERS]


@dataclass(frozen=True)
class Run:
    """One run of one way.

    Attributes:
        outcome: its result.
        idle: share of the processors' time.
    """

    outcome: Outcome
    idle: float

    @property
    def last_s(self) -> float:
        """When the last receiver had the object."""
        return max(self.outcome.seconds)


@contextmanager
def folder(parent: Path) -> Iterator[Path]:
    """A folder that is removed afterwards."""
    path = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def same_racks(cloud: Case, partitions: Sequence[int]) -> bool:
    """Whether two receivers share a partition exactly if they share a rack. All may fetch from the source."""
    names = cloud.network.names
    pairs = [(m, n) for m in range(1, len(names)) for n in range(1, m)]
    racks = [cloud.racks[name] for name in names]
    return all((racks[m] == racks[n]) == (partitions[m] == partitions[n]) for m, n in pairs)


def carry_out(cloud: Case, file: Path, base: Path, given: argparse.Namespace, kind: str) -> dict[str, list[Run]]:
    """Run each way this many times in turn, in one lab; in the case of a fault, in one lab a run."""
    runs: dict[str, list[Run]] = {}
    dying = cloud.network.names[len(cloud.network.names) // 2] if kind in FAULTS else None
    wanted = given.ways[:1] if dying else given.ways
    times = base / f"{kind}-{len(cloud.network.names)}-{file.name}.json"
    for first in range(given.runs if dying else 1):
        # A host with a fault is left out of the next run.
        with lab.session(cloud.topology, source="bench") as session:
            if "clustering" in wanted:
                (train,) = ways(["cornet"], None, times).values()
                for _ in range(given.train):
                    with folder(base) as scratch:
                        train(session, cloud, file, scratch)
            for run in [first] if dying else range(given.runs):
                for name, way in ways(wanted, dying, times, kind).items():
                    with folder(base) as scratch:
                        before = processor_times()
                        try:
                            outcome = way(session, cloud, file, scratch)
                        except (GavotteError, subprocess.TimeoutExpired, ValueError) as error:
                            print(f"  {name}: run {run} failed: {error}")
                            continue
                        after = processor_times()
                    idle = (after[1] - before[1]) / max(1.0, after[0] - before[0])
                    runs.setdefault(name, []).append(Run(outcome, idle))
    return runs


def row(name: str, done: list[Run], bound_s: float) -> list[str]:
    """Print the result of a way, and return it as docs/results shows it."""
    over = [run.last_s / bound_s for run in done]
    spread = statistics.median(run.last_s / statistics.median(run.outcome.seconds) for run in done)
    idle = min(run.idle for run in done)
    setup_s = statistics.median(run.outcome.setup_s for run in done)
    before = f", of which {setup_s:.2f} s before the first byte" if setup_s else ""
    print(
        f"  {name:18} {statistics.median(over):6.2f} x bound ({min(over):.2f} to {max(over):.2f}, n = {len(over)}), "
        f"last / median receiver {spread:.2f}, idle {idle:.0%}{before}",
        flush=True,
    )
    return [f"{statistics.median(over):.2f}", f"{min(over):.2f} to {max(over):.2f}", f"{spread:.2f}", f"{idle:.0%}"]


def compare(cloud: Case, runs: dict[str, list[Run]], kind: str) -> None:
    """Print the goals: `auto` compared with the best of the others, and the gain of keeping to racks."""
    middle = {name: statistics.median(run.last_s for run in done) for name, done in runs.items()}
    single = {name: seconds for name, seconds in middle.items() if name in OURS and name != "auto"}
    if "auto" in middle and single:
        best = min(single, key=lambda name: single[name])
        print(
            f"  auto compared with the best single mechanism, {best}: {100 * (middle['auto'] / single[best] - 1):+.1f} %"
        )
    for name in ("topology", "clustering", "auto"):
        if "cornet" in middle and name in middle and kind in ("racks", "equal"):
            print(f"  {name} compared with plain Cornet: {100 * (middle[name] / middle['cornet'] - 1):+.1f} %")
    partitionings = [run.outcome.partitions for run in runs.get("clustering", ())]
    right = sum(same_racks(cloud, partitions) for partitions in partitionings if partitions is not None)
    if partitionings:
        print(f"  clustering has inferred the racks right in {right} of {len(partitionings)} runs", flush=True)


def record(given: argparse.Namespace, rows: list[list[str]], curves: dict[str, list[float]], about: str) -> None:
    """Write the numbers as `bench-figures` reads them: a table, and the distributions of all receivers' times."""
    words = ["--case", *given.case, "--receivers", *map(str, given.receivers), "--mb", *(f"{mb:g}" for mb in given.mb)]
    words += ["--mbit", f"{given.mbit:g}"] if given.mbit else []
    if "racks" in given.case:
        words += ["--line", f"{given.line:g}", "--train", str(given.train)]
    words += ["--runs", str(given.runs), "--ways", *given.ways]
    bars: dict[str, object] = {"kind": "bars", "columns": [1], "unit": "last receiver, times the lower bound"}
    steps: dict[str, object] = {"kind": "cdf", "columns": [], "unit": "receiver has it, times the lower bound"}
    for name, title, plot, drawn in (
        (given.name, "Broadcast", bars, None),
        (f"{given.name}-cdf", "Every receiver's time", steps, curves),
    ):
        write_figure(
            given.record / f"{name}.json",
            title=title,
            command=f'make bench-broadcast ARGS="{" ".join(words)}"',
            about=about,
            seed=str(given.seed),
            samples=f"{given.runs} runs each",
            plot=plot,
            columns=["case and way", "x bound, median", "all runs", "last / median receiver", "least idle share"],
            rows=rows,
            curves=drawn,
        )


def faulty_clouds(given: argparse.Namespace, size_bytes: int) -> None:
    """Let the busiest relay of each cloud fail, and print what that costs the other receivers."""
    stalls_s: dict[str, list[float]] = {}
    with folder(Path(tempfile.gettempdir())) as base:
        file = base / "object"
        file.write_bytes(random.Random(given.seed).randbytes(size_bytes))
        for number in given.clouds:
            for fault, run in compare_faulty(number, ugly(number), file, base, given.faults):
                stalls_s.setdefault(fault, []).append(run.stall_s)
    for fault, values in stalls_s.items():
        middle_s, most_s = statistics.median(values), max(values)
        print(f"{fault:6} longest stall: median {middle_s:.2f} s, most {most_s:.2f} s, n = {len(values)}")


def ugly_clouds(given: argparse.Namespace, about: str) -> None:
    """Predict each way in the ugly clouds, then run the ways in some of them, and print both over the bound."""
    size_bytes = int(given.mb[0] * 1e6)
    if given.faults:
        faulty_clouds(given, size_bytes)
        return
    if not given.clouds:
        predicted = compare_ugly(range(CLOUDS), size_bytes)
        record_ugly(given, "predicted", "", predicted, about)
    over: dict[str, list[float]] = {}
    with folder(Path(tempfile.gettempdir())) as base:
        file = base / "object"
        file.write_bytes(random.Random(given.seed).randbytes(size_bytes))
        for number in given.clouds:
            cloud = ugly(number)
            plan = plan_broadcast(cloud.network, "h0", cloud.network.names[1:], size_bytes, mechanism="packing")
            assert plan.bound_s is not None
            print(f"cloud {number} in the lab: {len(plan.receivers)} receivers, bound {plan.bound_s:.2f} s")
            predicted_plan = plan_broadcast(
                cloud.network, "h0", cloud.network.names[1:], size_bytes, mechanism="cornet"
            )
            for name, done in carry_out(cloud, file, base, given, "ugly").items():
                row(name, done, plan.bound_s)
                over.setdefault(name, []).append(statistics.median(run.last_s for run in done) / plan.bound_s)
                seconds = predicted_plan.prices.get(name)
                if name == "cornet" and seconds:
                    off = statistics.median(run.last_s for run in done) / seconds - 1
                    print(f"    its prediction of {seconds:.1f} s was off by {100 * off:+.0f} %", flush=True)
    for name, ratios in over.items():
        print(f"{name:12} median {statistics.median(ratios):5.2f} x bound, most {max(ratios):5.2f}, n = {len(ratios)}")
    if over:
        words = f" --clouds {' '.join(map(str, given.clouds))} --runs {given.runs} --ways {' '.join(given.ways)}"
        record_ugly(given, "lab", words, over, about)


def record_ugly(given: argparse.Namespace, what: str, words: str, over: dict[str, list[float]], about: str) -> None:
    """Write how many times the bound each way takes: its median and most, and how `auto` compares with the best other."""
    if given.record is None:
        return
    rows = []
    for name, ratios in over.items():
        row = [f"`{name}`", f"{statistics.median(ratios):.2f}", f"{max(ratios):.2f}", str(len(ratios))]
        same = "auto" in over and name != "auto" and len(ratios) == len(over["auto"])
        slower = [auto / other - 1 for auto, other in zip(over["auto"], ratios, strict=True)] if same else []
        rows.append([*row, f"{100 * max(slower):+.0f} %" if slower else "-"])
    write_figure(
        given.record / f"orchestra-ugly-{what}.json",
        title="Ugly clouds, " + ("predicted" if what == "predicted" else "in the lab"),
        command=f'make bench-broadcast ARGS="ugly --mb {given.mb[0]:g}{words}"',
        about=about,
        seed=f"{given.seed}; each cloud's own number",
        samples=f"{len(next(iter(over.values())))} clouds"
        + (f", median of {given.runs} each" if what == "lab" else ""),
        plot={"kind": "cdf", "unit": "last receiver, times the bound"},
        columns=["way", "x bound, median", "most", "clouds", "`auto` compared with it, at worst"],
        rows=rows,
        curves={name: sorted(ratios) for name, ratios in over.items()},
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["cases", "ugly"], default="cases")
    parser.add_argument(
        "--clouds", type=int, nargs="*", default=[], help="of `ugly`: seeds of clouds to run in the lab"
    )
    parser.add_argument("--faults", choices=FAULTS, nargs="*", default=[], help="of `ugly`: what happens to a relay")
    parser.add_argument("--case", choices=PRINTED, nargs="*", default=list(PRINTED))
    parser.add_argument("--receivers", type=int, nargs="*", default=[10], help="as 1 10 25 50 100")
    parser.add_argument("--mb", type=float, nargs="*", default=[10.0], help="sizes of the object, as 10 50 200")
    parser.add_argument(
        "--mbit", type=float, help="rate of a port; left out = so that the bound is about 4 s, at most 100"
    )
    parser.add_argument("--line", type=float, default=1.0, help="how many hosts a line between racks can carry")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--train", type=int, default=10, help="broadcasts by Cornet from which clustering learns")
    parser.add_argument("--ways", nargs="*", choices=[*OURS, BLIND, *PEERS], default=DEFAULT_WAYS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="write every receiver's time as JSON lines")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    parser.add_argument("--name", default="orchestra-broadcast", help="of the figure that --record writes")
    return parser.parse_args()


def main() -> None:
    """Run the ways in turn and print each one's times over the bound."""
    if sys.argv[1:2] == ["planes"]:
        planes.main(sys.argv[2:])
        return
    given = arguments()
    about_machine = machine()
    print(about_machine, f"seed {given.seed}", sep="\n")
    if given.what == "ugly":
        ugly_clouds(given, about_machine)
        return
    lines: list[str] = []
    rows: list[list[str]] = []
    curves: dict[str, list[float]] = {}
    with folder(Path(tempfile.gettempdir())) as base:
        for mb in given.mb:
            held = base / f"{mb:g}"
            held.mkdir()
            file = held / f"object{mb:g}"
            file.write_bytes(random.Random(given.seed).randbytes(int(mb * 1e6)))
            mbit = given.mbit or min(MOST_MBIT, 8 * mb / BOUND_S / GOODPUT_PER_WIRE)
            for kind, receivers in [(kind, receivers) for kind in given.case for receivers in given.receivers]:
                cloud = case(kind, receivers, mbit, seed=given.seed, line=given.line)
                plan = plan_broadcast(cloud.network, "h0", cloud.network.names[1:], file.stat().st_size)
                bound_s = plan.bound_s
                assert bound_s is not None
                print(
                    f"{PRINTED[kind]}, {receivers} receivers, {mb:g} MB at {mbit:.1f} Mbit/s: bound {bound_s:.3f} s by "
                    f"{plan.port}, auto = {plan.mechanism}"
                )
                runs = carry_out(cloud, file, base, given, kind)
                for name, done in runs.items():
                    label = f"{PRINTED[kind]}, {receivers} receivers, {mb:g} MB: `{name}`"
                    rows.append([label, *row(name, done, bound_s)])
                    curves[label] = sorted(
                        round(second / bound_s, 4) for each in done for second in each.outcome.seconds
                    )
                    for number, each in enumerate(done):
                        about = {"case": kind, "receivers": receivers, "mb": mb, "mbit": mbit, "way": name}
                        about |= {"run": number, "idle": each.idle, "bound_s": bound_s}
                        lines.append(json.dumps(about | {"seconds": each.outcome.seconds}))
                compare(cloud, runs, kind)
                if given.output is not None:
                    given.output.write_text("".join(f"{line}\n" for line in lines))
    if given.record is not None:
        record(given, rows, curves, about_machine)


if __name__ == "__main__":
    os.environ.setdefault("XDG_CACHE_HOME", tempfile.gettempdir())
    main()
