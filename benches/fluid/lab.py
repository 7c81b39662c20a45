"""Compares the simulator with real TCP transfers: random clouds in the lab, random workloads of long flows.

    make bench-fluid ARGS="lab [--count 24] [--seed 101] [--ingress] [-o RESULTS.jsonl]"

Each workload is a random cloud and 10 to 30 flows that start together. A cloud has 6 to 10 hosts, egress caps, some
rack uplinks and some shared machines; with --ingress also caps on the hosts' received traffic. The lab builds the
cloud, and `gavotte run` sends the flows as real cubic connections. The simulator gets the same Topology and the same
bytes, and no result of a run. It answers twice: with equal shares, and with shares in inverse proportion to round trips
(`--tcp`).

If less than a tenth of the processors' time was idle during a run, the machine limited it. The run is repeated, at most
`--tries` times, and the run with the most idle time counts. This choice does not look at errors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benches.fluid.workloads import LAB_QUEUE_S, LEAST_S, QUEUE_S, Workload, draw
from benches.machine import machine, processor_times

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.run import run

MAKESPAN_GOAL = 0.05
FLOW_GOAL = 0.10
LEAST_IDLE = 0.10


@dataclass(frozen=True)
class Measured:
    """One workload as it ran.

    Attributes:
        finish_s: of each flow.
        retransmits: TCP segments sent again, in all.
        idle: idle share of the processors' time.
        load: of the machine over a minute, at the end.
        tries: runs it took.
    """

    finish_s: npt.NDArray[np.float64]
    retransmits: int
    idle: float
    load: float
    tries: int


@dataclass(frozen=True)
class Errors:
    """Error of a simulation, relative to the run.

    Attributes:
        makespan: with its sign.
        flows: of each flow's finish time, with its sign.
    """

    makespan: float
    flows: npt.NDArray[np.float64]

    @property
    def median_flow(self) -> float:
        """Median of the flows' errors, without sign."""
        return float(np.median(np.abs(self.flows)))


@dataclass(frozen=True)
class Compared:
    """A workload simulated and run.

    Attributes:
        workload: which.
        equal_s: finish time of each flow by equal shares.
        tcp_s: by shares in inverse proportion to round trips.
        measured: the run in the lab.
    """

    workload: Workload
    equal_s: npt.NDArray[np.float64]
    tcp_s: npt.NDArray[np.float64]
    measured: Measured

    @property
    def equal(self) -> Errors:
        """Errors of equal shares."""
        return self._errors(self.equal_s)

    @property
    def tcp(self) -> Errors:
        """Errors of TCP's shares."""
        return self._errors(self.tcp_s)

    def _errors(self, simulated_s: npt.NDArray[np.float64]) -> Errors:
        finish_s = self.measured.finish_s
        return Errors(float(simulated_s.max() / finish_s.max()) - 1, simulated_s / finish_s - 1)


def measure(workload: Workload, tries: int) -> Measured:
    """Run a workload in a lab of its own, again while the processors are too busy."""
    best: Measured | None = None
    app, placement = workload.app(), workload.placement()
    with lab.session(workload.topology, source="bench-fluid") as cloud:
        inventory = read_inventory(cloud.hosts_file)
        for attempt in range(1, tries + 1):
            before = processor_times()
            result = run(placement, [app], inventory, max_seconds=120)
            total, idle = (after - then for after, then in zip(processor_times(), before, strict=True))
            finish_s = np.zeros(len(app.transfer))
            for done in result.transfers:
                finish_s[done.transfer.id] = done.finish_s
            retransmits = sum(done.retransmits for done in result.transfers)
            outcome = Measured(finish_s, retransmits, idle / total, os.getloadavg()[0], attempt)
            if best is None or outcome.idle > best.idle:
                best = outcome
            if outcome.idle >= LEAST_IDLE:
                break
    assert best is not None
    return Measured(best.finish_s, best.retransmits, best.idle, best.load, attempt)


def compare(workload: Workload, tries: int = 1) -> Compared:
    """Simulate and run a workload."""
    equal_s, tcp_s = workload.simulated().finish_s, workload.simulated_tcp().finish_s
    return Compared(workload, equal_s, tcp_s, measure(workload, tries))


COLUMNS = "| seed | hosts | flows | run s | equal: makespan | median flow | tcp: makespan | median flow | worst | idle | load | tries |"


def _row(done: Compared) -> str:
    measured, workload = done.measured, done.workload
    cells = [
        f"{workload.seed}",
        f"{len(workload.topology.host)}",
        f"{len(workload.flows)}",
        f"{measured.finish_s.max():.2f}",
        f"{100 * done.equal.makespan:+.1f} %",
        f"{100 * done.equal.median_flow:.1f} %",
        f"{100 * done.tcp.makespan:+.1f} %",
        f"{100 * done.tcp.median_flow:.1f} %",
        f"{100 * np.abs(done.tcp.flows).max():.0f} %",
        f"{100 * measured.idle:.0f} %",
        f"{measured.load:.1f}",
        f"{measured.tries}",
    ]
    return "| " + " | ".join(cells) + " |"


def _document(done: Compared) -> str:
    measured = done.measured
    document = {
        "seed": done.workload.seed,
        "equal_s": done.equal_s.tolist(),
        "tcp_s": done.tcp_s.tolist(),
        "measured_s": measured.finish_s.tolist(),
        "retransmits": measured.retransmits,
        "idle": measured.idle,
        "load": measured.load,
        "tries": measured.tries,
    }
    return json.dumps(document)


def _summary(name: str, errors: Sequence[Errors]) -> tuple[str, bool]:
    makespans = [abs(each.makespan) for each in errors]
    medians = [each.median_flow for each in errors]
    flows = np.abs(np.concatenate([each.flows for each in errors]))
    signed = statistics.median(each.makespan for each in errors)
    text = (
        f"\n{name}: {len(errors)} workloads, {len(flows)} flows\n"
        f"  makespan off by median {100 * statistics.median(makespans):.1f} % (signed {100 * signed:+.1f} %), at most "
        f"{100 * max(makespans):.1f} %; within {100 * MAKESPAN_GOAL:.0f} % in "
        f"{sum(m <= MAKESPAN_GOAL for m in makespans)} of {len(makespans)}\n"
        f"  median flow of a workload off by {100 * statistics.median(medians):.1f} %, at most {100 * max(medians):.1f} %; "
        f"within {100 * FLOW_GOAL:.0f} % in {sum(m <= FLOW_GOAL for m in medians)} of {len(medians)}\n"
        f"  all flows: median {100 * np.median(flows):.1f} %, 90 % within {100 * np.quantile(flows, 0.9):.1f} %, at most "
        f"{100 * flows.max():.0f} %"
    )
    return text, max(makespans) <= MAKESPAN_GOAL and max(medians) <= FLOW_GOAL


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each workload, and the model's errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=24, help="workloads")
    parser.add_argument("--seed", type=int, default=101, help="of the first workload; the others follow it")
    parser.add_argument("--tries", type=int, default=3, help="runs of a workload at most, if the machine is busy")
    parser.add_argument("--least", type=float, default=LEAST_S, help="seconds that the shortest flow takes")
    parser.add_argument(
        "--queue-ms", type=float, default=1000 * QUEUE_S, help="depth of each queue; 0 = the lab's, 50 ms"
    )
    parser.add_argument("--ingress", action="store_true", help="cap what half of the hosts receive, too")
    parser.add_argument("--super-packets", action="store_true", help="let hosts send 16 kB at once, as the lab does")
    parser.add_argument("-o", "--output", type=Path, help="append each workload's times, as JSON lines")
    parsed = parser.parse_args(arguments)
    if not lab.supported():
        sys.exit(f"no lab can run here: {lab.missing()}")
    queue_s = parsed.queue_ms / 1000 or None
    print(f"machine: {machine()}")
    print(
        f"seeds: {parsed.seed} to {parsed.seed + parsed.count - 1}; cubic; shortest flow {parsed.least:g} s; "
        f"queues {1000 * (queue_s or LAB_QUEUE_S):g} ms; {'with' if parsed.ingress else 'without'} ingress caps\n"
    )
    print(COLUMNS)
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    all_done = []
    for seed in range(parsed.seed, parsed.seed + parsed.count):
        frames = not parsed.super_packets
        workload = draw(seed, least_s=parsed.least, queue_s=queue_s, frames=frames, ingress=parsed.ingress)
        done = compare(workload, parsed.tries)
        all_done.append(done)
        print(_row(done), flush=True)
        if parsed.output is not None:
            with parsed.output.open("a") as file:
                file.write(_document(done) + "\n")
    text, _ = _summary("equal shares", [done.equal for done in all_done])
    print(text)
    text, met = _summary("shares by round trips", [done.tcp for done in all_done])
    print(f"{text}\nload at the end {os.getloadavg()[0]:.1f}")
    if not met:
        sys.exit("not every workload is within the goals: makespan 5 %, median flow 10 %")


if __name__ == "__main__":
    main()
