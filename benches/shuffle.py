"""Shuffles of Orchestra's Fig. 13 over real connections: weighted by pacing, weighted by connections, and plain TCP.

    make bench-shuffle [ARGS="--runs 5 --rate 20 --unit 2.5 --seed 1"]

Topology A (B, C): two receivers fetch one unit from each of 2 (3, 4) senders of their own, and 2 (3, 4) units from one
sender that they share. Ports are equal both ways. The Network is measured first, and gives the bound. The paper's
column is its speed-up of weighted over standard shuffles on EC2, and the prediction of its fluid model.

    make bench-shuffle ARGS="guaranteed [--runs 5]"

Shuffles next to bandwidth guarantees: `python -m benches.shuffle guaranteed --help`.

    make bench-shuffle ARGS="skewed [--matrices 5 --cross 2]"

Skewed matrices over oversubscribed racks: `python -m benches.shuffle skewed --help`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from benches import guaranteed, skewed
from benches.machine import machine, processor_times
from benches.recorded import write_figure
from benches.topologies import star

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.measure import measure
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import MODES, shuffle

PAPER = {"A": (2, 18, 25), "B": (3, 24, 33), "C": (4, 29, 38)}
"""Senders of each receiver's own; speed-up in % measured and predicted (Table 3)."""
SHARED = "h0"
RECEIVERS = ("h1", "h2")


def fig13(senders: int, unit_bytes: int) -> list[HostBytes]:
    """One of the three topologies of Fig. 13."""
    flows = []
    for number, receiver in enumerate(RECEIVERS):
        own = range(3 + number * senders, 3 + (number + 1) * senders)
        flows += [HostBytes(f"h{sender}", receiver, unit_bytes) for sender in own]
        flows.append(HostBytes(SHARED, receiver, senders * unit_bytes))
    return flows


def record(given: argparse.Namespace, rows: list[list[str]], about: str, idle: str) -> None:
    """Write the numbers for docs/results."""
    write_figure(
        given.record / "orchestra-shuffle.json",
        title="Weighted shuffles on real packets",
        command=f'make bench-shuffle ARGS="--runs {given.runs} --rate {given.rate} --unit {given.unit:g}"',
        about=about,
        seed=str(given.seed),
        samples=f"{given.runs} runs of each, processors {idle}",
        plot={"kind": "bars", "columns": [1], "unit": "times the measured Network's bound"},
        columns=["topology: mode", "x bound", "all runs", "x wire", "saved, %", "paper: saved, %", "predicted, %"],
        rows=rows,
    )


def main() -> None:
    """Print one row for each topology and mode."""
    if sys.argv[1:2] == ["guaranteed"]:
        guaranteed.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["skewed"]:
        skewed.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each kind")
    parser.add_argument("--rate", type=int, default=20, help="of each host, Mbit/s on the wire")
    parser.add_argument("--unit", type=float, default=2.5, help="MB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    arguments = parser.parse_args()
    about = machine()
    print(f"machine: {about}\nseed: {arguments.seed}, {arguments.runs} runs of each kind, in random order")
    unit_bytes = round(arguments.unit * 1e6)
    hosts = 3 + 2 * max(senders for senders, _, _ in PAPER.values())
    todo = [(name, mode) for name in PAPER for mode in MODES for _ in range(arguments.runs)]
    random.Random(arguments.seed).shuffle(todo)
    times_s: dict[tuple[str, str], list[float]] = defaultdict(list)
    bounds_s: dict[str, float] = {}
    with lab.session(star([f"{arguments.rate}mbit"] * hosts, both=True), source="bench-shuffle") as cloud:
        inventory = read_inventory(cloud.hosts_file)
        network = model(measure(inventory, seed=arguments.seed).history)
        before = processor_times()
        for name, mode in todo:
            done = shuffle(fig13(PAPER[name][0], unit_bytes), inventory, network, mode=mode)
            times_s[name, mode].append(done.elapsed_s)
            bounds_s[name] = done.bound_s
        spent = [after - then for after, then in zip(processor_times(), before, strict=True)]
    print(f"processors idle {100 * spent[1] / spent[0]:.0f} % of the time\n")
    print(
        f"{'':>2} {'mode':<12} {'median s':>9} {'least':>7} {'most':>7} {'x bound':>8} {'x wire':>7} {'saved':>7} "
        f"{'paper: saved':>13} {'predicted':>10}"
    )
    rows = []
    for name, (senders, measured, predicted) in PAPER.items():
        wire_s = 2 * senders * unit_bytes * 8 / (arguments.rate * 1e6 * GOODPUT_PER_WIRE)
        standard_s = statistics.median(times_s[name, "standard"])
        for mode in MODES:
            runs = times_s[name, mode]
            middle_s = statistics.median(runs)
            paper = f"{measured:>11} % {predicted:>8} %" if mode == "connections" else ""
            print(
                f"{name:>2} {mode:<12} {middle_s:>9.3f} {min(runs):>7.3f} {max(runs):>7.3f} "
                f"{middle_s / bounds_s[name]:>8.3f} {middle_s / wire_s:>7.3f} {100 * (1 - middle_s / standard_s):>5.1f} % {paper}"
            )
            rows.append(
                [
                    f"{name}: {mode}",
                    f"{middle_s / bounds_s[name]:.3f}",
                    f"{min(runs) / bounds_s[name]:.3f} to {max(runs) / bounds_s[name]:.3f}",
                    f"{middle_s / wire_s:.3f}",
                    f"{100 * (1 - middle_s / standard_s):.1f}",
                    *((f"{measured}", f"{predicted}") if mode == "connections" else ("-", "-")),
                ]
            )
    worst = max(statistics.median(times_s[name, "paced"]) / bounds_s[name] for name in PAPER)
    print(f"\npaced: at most {worst:.3f} times the bound (goal 1.02: {'met' if worst <= 1.02 else 'missed'})")
    if arguments.record:
        record(arguments, rows, about, f"{100 * spent[1] / spent[0]:.0f} % idle")
    print("x bound: over the measured Network's bound; x wire: over the time of full frames at the shapers' rate")


if __name__ == "__main__":
    main()
