"""Fig. 10: workloads placed by each method and sent as real TCP transfers between the ten hosts of a lab cloud.

`gavotte measure` measures each cloud once; all methods place on the model of it. The methods of one workload run one
after the other in a random order. A run is repeated if less than a tenth of the processors' time was idle, at most
`--tries` times. The run with the most idle time counts; this choice does not look at the transfers' times.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from benches.choreo.placing import METHODS, NAMES, Placed, place_all, scale
from benches.choreo.summary import Times, plot, table
from benches.choreo.workloads import AT_ONCE, IN_SEQUENCE, Workload, cloud, draw, statistics_of
from benches.machine import processor_times

from gavotte import lab
from gavotte.errors import InfeasibleError
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import Network
from gavotte.measure import measure
from gavotte.model import model
from gavotte.run import run

LEAST_IDLE = 0.10
MOST_S = 120.0
KINDS = (AT_ONCE, IN_SEQUENCE)


@dataclass(frozen=True)
class Row:
    """One workload as it ran.

    Attributes:
        kind: all at once or in sequence.
        cloud: seed of the cloud.
        seed: of the workload.
        measured_s: method to seconds: the completion time, or the sum of the running times.
        predicted_s: the same by the fluid model on the measured network.
        idle: least idle share of the processors' time during a run.
        tries: runs that it took, all methods together.
    """

    kind: str
    cloud: int
    seed: int
    measured_s: dict[str, float]
    predicted_s: dict[str, float]
    idle: float
    tries: int


def measured_network(inventory: Inventory, seed: int) -> Network:
    """Return the cloud as measured."""
    measurement = measure(inventory, seed=seed)
    for again in (1, 2):
        if measurement.answered == measurement.paths:
            break
        measurement = measure(inventory, seed=seed + again)  # a busy machine; try another order of probes
    return model(measurement.history)


def run_once(load: Workload, placed: Placed, inventory: Inventory) -> tuple[float, float]:
    """Return the seconds by the paper's measure, and the idle share of the processors' time."""
    before = processor_times()
    done = run(placed.placement, load.apps, inventory, max_seconds=MOST_S)
    total, idle = (after - then for after, then in zip(processor_times(), before, strict=True))
    took_s = done.completion_s if load.kind == AT_ONCE else sum(done.apps.values())
    return took_s, idle / total


def run_all(load: Workload, placed: dict[str, Placed], inventory: Inventory, *, cloud_seed: int, tries: int) -> Row:
    """Run each method's placement, in a random order of the workload's own."""
    measured_s, left, count = {}, [], 0
    for method in random.Random(load.seed).sample(list(placed), len(placed)):
        best = (0.0, -1.0)
        for _ in range(tries):
            result = run_once(load, placed[method], inventory)
            count += 1
            best = max(best, result, key=lambda one: one[1])
            if best[1] >= LEAST_IDLE:
                break
        measured_s[method] = best[0]
        left.append(best[1])
    predicted_s = {method: placed[method].predicted_s for method in METHODS}
    return Row(load.kind, cloud_seed, load.seed, {m: measured_s[m] for m in METHODS}, predicted_s, min(left), count)


def workloads(
    network: Network,
    kind: str,
    seeds: Iterator[int],
    count: int,
    *,
    target_s: float,
    limit_s: float,
    stuck: Counter[str],
) -> Iterator[tuple[Workload, dict[str, Placed]]]:
    """Yield workloads that every method can place, on this network."""
    made = 0
    while made < count:
        load = draw(next(seeds), kind)
        try:
            load = scale(network, load, target_s)
            placed = place_all(network, load, limit_s=limit_s)
        except InfeasibleError as error:
            stuck[f"{str(error).split(':')[0]}, {kind}"] += 1
            continue
        made += 1
        yield load, placed


def columns() -> str:
    """Return the heading of the rows."""
    heads = " ".join(f"{NAMES.get(method, method):>12}" for method in METHODS)
    return f"{'':<11} {'cloud':>5} {'seed':>5} {heads} {'idle':>5} {'tries':>5}   (s measured / by the fluid model)"


def row_text(row: Row) -> str:
    """Return a workload's line."""
    cells = " ".join(f"{row.measured_s[m]:>5.2f} /{row.predicted_s[m]:>5.2f}" for m in METHODS)
    return f"{row.kind:<11} {row.cloud:>5} {row.seed:>5} {cells} {100 * row.idle:>3.0f} % {row.tries:>5}"


def times_of(rows: Sequence[Row], *, predicted: bool = False) -> Times:
    """Seconds by method."""
    return {m: [(row.predicted_s if predicted else row.measured_s)[m] for row in rows] for m in METHODS}


def main(asked: argparse.Namespace) -> None:
    """Print a line for each workload, then the gains next to the paper's."""
    print(
        f"clouds {asked.seed} to {asked.seed + asked.clouds - 1} of {asked.family}, fastest host {asked.fastest:g} Mbit/s; "
        f"{asked.per_cloud} workloads of each kind on each; baselines take {asked.target:g} s in the mean; "
        f"ours: auto, {asked.limit:g} s a placement; cubic; load {os.getloadavg()[0]:.1f}\n{columns()}"
    )
    rows: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    loads: dict[str, list[Workload]] = {kind: [] for kind in KINDS}
    seeds = {kind: iter(range(100 * asked.seed, 1 << 30)) for kind in KINDS}
    stuck: Counter[str] = Counter()
    for seed in range(asked.seed, asked.seed + asked.clouds):
        with lab.session(cloud(seed, asked.family, fastest_mbit=asked.fastest), source="bench-choreo") as session:
            inventory = read_inventory(session.hosts_file)
            network = measured_network(inventory, seed)
            for kind in KINDS:
                drawn = workloads(
                    network, kind, seeds[kind], asked.per_cloud, target_s=asked.target, limit_s=asked.limit, stuck=stuck
                )
                for load, placed in drawn:
                    row = run_all(load, placed, inventory, cloud_seed=seed, tries=asked.tries)
                    rows[kind].append(row)
                    loads[kind].append(load)
                    print(row_text(row), flush=True)
                    if asked.output is not None:
                        with asked.output.open("a") as file:
                            file.write(json.dumps(asdict(row)) + "\n")
    for kind in KINDS:
        figure = "Fig. 10 a" if kind == AT_ONCE else "Fig. 10 b"
        print(
            f"\n{figure}, {kind}: time saved, by real transfers (s.e. over workloads)\n{table(times_of(rows[kind]), kind)}"
        )
        print(f"drawn: {statistics_of(loads[kind])}")
        ratios = {
            m: [row.measured_s[m] / row.predicted_s[m] for row in rows[kind] if row.predicted_s[m] > 0] for m in METHODS
        }
        shown = ", ".join(f"{NAMES.get(m, m)} {statistics.median(values):.3f}" for m, values in ratios.items())
        print(f"measured over the fluid model's time, median: {shown}")
        if asked.fluid:
            print(f"\nthe same by the fluid model\n{table(times_of(rows[kind], predicted=True), kind)}")
    redrawn = "; ".join(f"{count} that {why} could not place" for why, count in sorted(stuck.items())) or "none"
    runs = sum(row.tries for each in rows.values() for row in each)
    print(
        f"\n{runs} runs, {sum(row.idle < LEAST_IDLE for each in rows.values() for row in each)} workloads with a run below "
        f"{100 * LEAST_IDLE:.0f} % idle; workloads drawn again: {redrawn}; load at the end "
        f"{os.getloadavg()[0]:.1f}"
    )
    if asked.plots is not None:
        plot(asked.plots, {kind: times_of(rows[kind]) for kind in KINDS})
        print(f"CDFs: {asked.plots}")
