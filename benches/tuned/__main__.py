"""Times Open MPI's collectives in a lab, by its defaults and by the rules that `gavotte collective` writes.

    make bench-tuned
    make bench-tuned ARGS="--clouds racks --operations bcast allgather --runs 9"

The hosts are measured, rules are chosen from the measurement, and jobs with and without the rules alternate. In each job every
operation and size is timed as the OSU micro-benchmarks do: the mean over calls and ranks, with a barrier between calls. Each figure is
the median over jobs.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches import mpi
from benches.collectives.clouds import CLOUDS
from benches.machine import machine, processor_times
from benches.recorded import command_line, write_figure

from gavotte import lab
from gavotte.collective.tuning import BUSY_OVERHEAD_S, Tuning, TuningQuestion, choose, settings_text, variables
from gavotte.errors import GavotteError
from gavotte.formats.network import Network, read_network
from gavotte.formats.topology import Host, Machine, Switch, Topology
from gavotte.simulate import CollectiveReplay, MessageCosts
from gavotte.terms.algorithms import ALL_BLOCKS, Library

LIBRARY: Library = "openmpi"
OPERATIONS = ("bcast", "allgather", "alltoall", "reduce", "allreduce")
SIZES = (2048, 8192, 32_768, 131_072, 524_288)
"""Bytes of the vector, or of all ranks' blocks."""
FASTER = 10
"""How much faster links are than those of `bench-collectives`, whose operations take seconds."""
LIMIT_S = 600.0
COLUMNS = ["cloud, operation, bytes", "default, ms", "rules, ms", "rules to default", "predicted", "algorithm"]


def faster(topology: Topology, factor: float) -> Topology:
    """Return a cloud whose rates are multiplied."""

    def scaled(item: Switch | Machine | Host) -> Any:
        rates = {key: getattr(item, key, None) for key in ("egress", "ingress", "up", "down", "rate", "machine_rate")}
        return item.model_copy(update={key: factor * rate for key, rate in rates.items() if rate})

    parts: dict[str, Sequence[Any]] = {"switch": topology.switch, "machine": topology.machine, "host": topology.host}
    return topology.model_copy(update={key: [scaled(each) for each in items] for key, items in parts.items()})


def measured(session: lab.Session, folder: Path, seed: int) -> Network:
    """Measure the hosts of a lab as a user does."""
    gavotte = str(Path(sys.executable).with_name("gavotte"))
    history, network = folder / "h.npz", folder / "n.network.json"
    for words in (
        ["measure", "--hosts", "lab", "--count", "2", "--seed", str(seed), "-o", str(history)],
        ["model", str(history), "-o", str(network)],
    ):
        ran = subprocess.run(
            [gavotte, *words], env=session.environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        if ran.returncode:
            raise GavotteError(f"gavotte {words[0]} failed", hint=ran.stderr.strip()[-400:])
    return read_network(network)


def run(
    session: lab.Session, hosts: list[str], cases: list[str], folder: Path, more: dict[str, str]
) -> dict[str, float]:
    """Run one job; return the seconds of each case."""
    worker: list[str | Path] = [Path(__file__).with_name("worker.py"), *cases]
    ran = mpi.launch(
        session, LIBRARY, worker, ranks=hosts, scratch=folder, environment=more, timeout_s=LIMIT_S, calm=True
    )
    if ran.returncode:
        raise GavotteError(f"Open MPI left with status {ran.returncode}", hint=ran.stderr.strip()[-400:])
    answer: dict[str, float] = json.loads(ran.stdout)
    return answer


def rules(network: Network, hosts: list[str], asked: argparse.Namespace) -> Tuning:
    """Choose the rules for these operations and sizes."""
    sizes = {
        name: [size // len(hosts) if name in ALL_BLOCKS else size for size in asked.sizes] for name in asked.operations
    }
    replay = CollectiveReplay(network, hosts, MessageCosts(library=LIBRARY))
    busy = CollectiveReplay(network, hosts, MessageCosts(library=LIBRARY, overhead_s=BUSY_OVERHEAD_S))
    return choose(TuningQuestion(LIBRARY, len(hosts), sizes, reorder_sums=True), replay.seconds, busy.seconds)


def compare(cloud: str, asked: argparse.Namespace) -> list[list[str]]:
    """Print one cloud's table; return its rows."""
    topology = faster(CLOUDS[cloud](), asked.faster)
    choice = random.Random(asked.seed)
    with (
        lab.session(topology, source="bench-tuned") as session,
        tempfile.TemporaryDirectory(prefix="gvt-tuned-") as scratch,
    ):
        folder, hosts = Path(scratch), [host.name for host in topology.host]
        mpi.loss_based(session, hosts)
        tuning = rules(measured(session, folder, asked.seed), hosts, asked)
        file = folder / "rules"
        file.write_text(settings_text(tuning.question.library, tuning.settings))
        ways = {"default": {}, "rules": variables(tuning.question.library, tuning.settings, str(file))}
        calls = {size: asked.calls if size <= 32_768 else max(asked.calls // 4, 1) for size in asked.sizes}
        cases = [
            f"{each.operation}:{each.size_bytes}:{calls[size]}"
            for name in asked.operations
            for size, each in zip(
                sorted(asked.sizes), [one for one in tuning.choices if one.operation == name], strict=True
            )
        ]
        times: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        before, idle_before = processor_times()
        for _ in range(asked.runs):
            names = list(ways)
            choice.shuffle(names)
            for name in names:
                times[name].append(run(session, hosts, cases, folder, ways[name]))
        after, idle_after = processor_times()
    print(f"\n{cloud}: cores idle {(idle_after - idle_before) / (after - before):.0%} of the time")
    print(f"{'operation':>20} {'default ms':>11} {'rules ms':>10} {'ratio':>6} {'predicted':>9}  algorithm")
    rows = []
    for each in tuning.choices:
        key = f"{each.operation}:{each.size_bytes}"
        default_s, ours_s = (statistics.median(one[key] for one in times[name]) for name in ways)
        predicted = each.predicted_s / each.default_s
        pieces = f" in {each.segment_bytes} B" if each.segment_bytes else ""
        name = tuning.name(each.algorithm, each.operation) + pieces
        print(
            f"{each.operation:>11} {each.size_bytes:>8} {1e3 * default_s:11.2f} {1e3 * ours_s:10.2f} "
            f"{ours_s / default_s:6.2f} {predicted:9.2f}  {name}",
            flush=True,
        )
        numbers = [f"{1e3 * default_s:.2f}", f"{1e3 * ours_s:.2f}", f"{ours_s / default_s:.2f}", f"{predicted:.2f}"]
        rows.append([f"{cloud}, {each.operation} {each.size_bytes}", *numbers, name])
    changed = [float(row[3]) for row in rows if row[5] != "default"]
    if changed:
        print(
            f"rules change {len(changed)} of {len(rows)}: median ratio {statistics.median(changed):.2f}, "
            f"least {min(changed):.2f}, most {max(changed):.2f}"
        )
    return rows


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Open MPI's collectives by default and by measured rules")
    parser.add_argument("--clouds", nargs="+", choices=CLOUDS, default=list(CLOUDS))
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="bytes, of all blocks together")
    parser.add_argument("--runs", type=int, default=7, help="jobs with and without the rules, each")
    parser.add_argument("--calls", type=int, default=20, help="timed calls of each operation in a job")
    parser.add_argument("--faster", type=float, default=FASTER, help="factor of the links' rates")
    parser.add_argument("--seed", type=int, default=1, help="of the measurement and of the order of jobs")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    if not mpi.available(LIBRARY):
        print("Open MPI is not installed; `make setup` says why")
        return 1
    about, rows = machine(), []
    print(f"{about}\nseed {asked.seed}, medians of {asked.runs} jobs each, which alternate in random order")
    for cloud in asked.clouds:
        rows += compare(cloud, asked)
    if asked.record and rows:
        write_figure(
            asked.record / "collectives-tuned.json",
            title="Open MPI's collectives by default and by rules from a measurement",
            command=command_line("tuned", asked.record),
            about=about,
            seed=str(asked.seed),
            samples=f"8 ranks on 8 hosts, medians of {asked.runs} jobs of each kind, which alternate",
            plot={"kind": "bars", "columns": [1, 2], "unit": "ms"},
            columns=COLUMNS,
            rows=rows,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
