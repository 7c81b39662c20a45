"""Four equal shuffles, three of a high class, and small ones behind many on real packets, sent by the controller.

    make bench-transfers ARGS="lab [--runs 5 --hosts 5 --mbit 20 --only four priority behind --max-seconds 300
                               --record docs/results/data]"

Every host sends as much to every other. T is the time of one shuffle alone at the ports' goodput (1448/1514 of the wire
rate), so it contains no measurement. Policies are interleaved. The expected time is printed first; after
`--max-seconds` no round begins. `behind` has 20 transfers of a low class from one host to another, and then 100 kB of a
high class, between two idle hosts and between the same two. Orchestra's figures are next to ours: on EC2 (Fig. 14 and 15), and in a fluid.
"""

from __future__ import annotations

import argparse
import math
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benches.machine import machine, processor_times
from benches.recorded import write_figure

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import MemoryQueue, Transfer
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import Controller

FLUID_T = {"fair": 4.0, "fifo": 2.5, "fifo+": 2.580}
"""Average of four equal shuffles."""

PAPER_FOUR = {"fair": "1.45 x FIFO", "fifo": "34.6 s"}
PAPER_PRIORITY = {"fair": ("14.1", "45.6"), "priority": ("8.1", "48.7")}

LOW_T, HIGH_T, HIGH_AT = 10.0, 1.28, 3.04
"""The low class's shuffle, each high one, and the arrival of the first of these: 2 GB, 256 MB and 10 of 45.6 s, in T of
0.2 GB.
"""

LOW_COUNT, SMALL_BYTES = 20, 100_000
"""Transfers of the low class, and bytes of those that come after them."""

WAIT_GOAL_S = 0.5
"""Most by which they may take longer than alone."""

ROUND_S = {"four": 4.0, "priority": (LOW_T + 3 * HIGH_T) / 2, "behind": 0.5}
"""How long one policy keeps all ports busy once, in T."""

AROUND_S = 2.5
"""Additional time: enrolment, first looks, release."""

SETTLED_S = 1.0
"""Time until all transfers that may run do so."""

PATIENCE = 3.0
"""A transfer has failed if it takes this many times as long as all of its round should."""

Row = list[str]


def cloud(hosts: int, mbit: float) -> tuple[Topology, Network]:
    """Equal hosts on one switch, and the rate of their ports."""
    names = [f"h{number}" for number in range(hosts)]
    ports = {"egress": f"{mbit}mbit", "ingress": f"{mbit}mbit", "cpus": 4.0, "switch": "core"}
    topology = {"format": FORMAT, "switch": [{"name": "core"}], "host": [{"name": name} | ports for name in names]}
    goodput_bps = 1e6 * mbit * GOODPUT_PER_WIRE
    network = {
        "format": "gavotte/network/1",
        "hosts": [{"name": name, "egress_bps": goodput_bps, "ingress_bps": goodput_bps} for name in names],
        "rate_bps": [[None] * hosts for _ in names],
        "latency_s": [[None] * hosts for _ in names],
        "sharing": "hose",
    }
    return Topology.model_validate(topology), Network.model_validate(network)


def all_to_all(names: Sequence[str], alone_s: float, mbit: float) -> list[HostBytes]:
    """A shuffle that takes this long alone."""
    each = round(alone_s * 1e6 * mbit * GOODPUT_PER_WIRE / 8 / (len(names) - 1))
    return [HostBytes(source, target, each) for source in names for target in names if source != target]


@contextmanager
def running(inventory: Inventory, network: Network, policy: str) -> Iterator[Controller]:
    """Start a controller with an empty queue."""
    controller, stop = Controller(inventory, network, MemoryQueue(), policy), threading.Event()
    thread = threading.Thread(target=controller.run, args=(stop,))
    thread.start()
    try:
        yield controller
    finally:
        stop.set()
        thread.join()


def round_s(name: str, given: argparse.Namespace) -> float:
    """One run of one policy."""
    return ROUND_S[name] * float(given.alone) + AROUND_S


def took_s(controller: Controller, submitted: Transfer, limit_s: float) -> float:
    """Time from its submission to its end."""
    done = controller.wait(submitted.id, limit_s)
    if done.state != "done" or done.finished_s is None:
        raise GavotteError(f"transfer {done.id} is {done.state}: {done.error}")
    return done.finished_s - done.submitted_s


def four(controller: Controller, names: Sequence[str], given: argparse.Namespace) -> list[float]:
    """Return when each of four equal shuffles ends that arrive at once, in T."""
    flows = all_to_all(names, given.alone, given.mbit)
    submitted = [controller.submit(flows) for _ in range(4)]
    limit_s = PATIENCE * round_s("four", given)
    return [took_s(controller, each, limit_s) / given.alone for each in submitted]


def priority(controller: Controller, names: Sequence[str], given: argparse.Namespace) -> list[float]:
    """Return the times of the low class's shuffle, then of each high one, in seconds."""
    unit_s, limit_s = given.alone / 2, PATIENCE * round_s("priority", given)
    low = controller.submit(all_to_all(names, LOW_T * unit_s, given.mbit), priority_class=1)
    threading.Event().wait(HIGH_AT * unit_s)
    high = []
    for _ in range(3):
        submitted = controller.submit(all_to_all(names, HIGH_T * unit_s, given.mbit), priority_class=0)
        high.append(took_s(controller, submitted, limit_s))
    return [took_s(controller, low, limit_s), *high]


def behind(controller: Controller, names: Sequence[str], given: argparse.Namespace) -> list[float]:
    """Return the time of a small transfer alone, and behind many on idle and on the same hosts, in seconds."""
    limit_s = PATIENCE * round_s("behind", given) + given.alone * LOW_COUNT
    one, two, three, four, *_ = names
    elsewhere, same = [HostBytes(three, four, SMALL_BYTES)], [HostBytes(one, two, SMALL_BYTES)]
    alone_s = took_s(controller, controller.submit(elsewhere), limit_s)
    size = round(given.alone * 1e6 * given.mbit * GOODPUT_PER_WIRE / 8)
    low = [controller.submit([HostBytes(one, two, size)], priority_class=1) for _ in range(LOW_COUNT)]
    threading.Event().wait(SETTLED_S)
    high = [took_s(controller, controller.submit(flows, priority_class=0), limit_s) for flows in (elsewhere, same)]
    for transfer in low:
        controller.cancel(transfer.id)
    return [alone_s, *high]


CASES = {
    "four": (four, ("fair", "fifo", "fifo+")),
    "priority": (priority, ("fair", "priority")),
    "behind": (behind, ("priority", "sebf")),
}


def show(columns: Row, rows: Sequence[Row]) -> None:
    """Print a table."""
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(flush=True)


def table_of_four(runs: Mapping[str, list[list[float]]], idle: Mapping[str, float]) -> tuple[Row, list[Row]]:
    """Print the times next to the fluid's."""
    rows, middle = [], {}
    for policy, ends in runs.items():
        averages = [statistics.mean(each) for each in ends]
        middle[policy] = statistics.median(averages)
        typical = [statistics.median(end) for end in zip(*ends, strict=True)]
        rows.append(
            [
                policy,
                f"{middle[policy]:.3f}",
                f"{min(averages):.3f} to {max(averages):.3f}",
                f"{FLUID_T[policy]:.3f}",
                f"{middle[policy] / FLUID_T[policy]:.3f}",
                " ".join(f"{end:.2f}" for end in typical),
                PAPER_FOUR.get(policy, "-"),
                f"{idle[policy]:.0%}",
            ]
        )
    if {"fair", "fifo"} <= middle.keys():
        over = middle["fifo"] / FLUID_T["fifo"]
        print(
            f"FIFO is {middle['fair'] / middle['fifo']:.2f} x as fast as fair on average (paper: 1.45, 1.6 in theory)"
        )
        print(f"FIFO's average is {over:.3f} of its fluid value (goal 1.03: {'met' if over <= 1.03 else 'missed'})")
    columns = [
        "policy",
        "average, T",
        "all runs",
        "fluid, T",
        "compared with the fluid",
        "ends, T",
        "paper",
        "least idle share",
    ]
    return columns, rows


def table_of_priority(runs: Mapping[str, list[list[float]]], idle: Mapping[str, float]) -> tuple[Row, list[Row]]:
    """Print the times next to the paper's."""
    rows, middle = [], {}
    for policy, each in runs.items():
        high = statistics.median(statistics.mean(run[1:]) for run in each)
        middle[policy] = (high, statistics.median(run[0] for run in each))
        rows.append([policy, f"{high:.2f}", f"{middle[policy][1]:.2f}", *PAPER_PRIORITY[policy], f"{idle[policy]:.0%}"])
    if {"fair", "priority"} <= middle.keys():
        faster = 1 - middle["priority"][0] / middle["fair"][0]
        slower = middle["priority"][1] / middle["fair"][1] - 1
        met = "met" if faster >= 0.43 and slower <= 0.07 else "missed"
        print(f"high class {faster:.1%} faster (paper 43 %), low class {slower:+.1%} slower (paper 7 %): {met}")
    columns = ["policy", "high class, s", "low class, s", "paper: high, s", "paper: low, s", "least idle share"]
    return columns, rows


def table_of_behind(runs: Mapping[str, list[list[float]]], idle: Mapping[str, float]) -> tuple[Row, list[Row]]:
    """Print the times next to those without other transfers."""
    rows, worst_s = [], 0.0
    for policy, each in runs.items():
        alone_s, idle_s, same_s = (statistics.median(times) for times in zip(*each, strict=True))
        worst_s = max(worst_s, idle_s - alone_s, same_s - alone_s)
        rows.append([policy, f"{alone_s:.2f}", f"{idle_s:.2f}", f"{same_s:.2f}", f"{idle[policy]:.0%}"])
    met = "met" if worst_s <= WAIT_GOAL_S else "missed"
    print(f"small transfers wait {worst_s:.2f} s for others (goal {WAIT_GOAL_S} s: {met})")
    return ["policy", "alone, s", "between idle hosts, s", "between the same hosts, s", "least idle share"], rows


def record(
    folder: Path, name: str, table: tuple[Row, list[Row]], given: argparse.Namespace, about: str, runs: int
) -> None:
    """Write the numbers for docs/results."""
    columns, rows = table
    write_figure(
        folder / f"orchestra-{name}-lab.json",
        title=TITLES[name],
        command=f'make bench-transfers ARGS="lab --only {name} --runs {given.runs} --alone {given.alone:g}"',
        about=about,
        seed="none",
        samples=f"{runs} runs each, {given.hosts} hosts of {given.mbit:g} Mbit/s",
        plot={
            "kind": "bars",
            "columns": PLOTTED[name],
            "unit": "average completion time, T" if name == "four" else "completion time, s",
        },
        columns=columns,
        rows=[[f"`{row[0]}`", *row[1:]] for row in rows],
    )


TABLES = {"four": table_of_four, "priority": table_of_priority, "behind": table_of_behind}

TITLES = {
    "four": "Four equal shuffles on real packets",
    "priority": "Priorities on real packets",
    "behind": "Small transfers behind many on real packets",
}

PLOTTED = {"four": [1, 3], "priority": [1, 2, 3, 4], "behind": [1, 2, 3]}


def main(words: Sequence[str]) -> None:
    """Print one row for each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each policy")
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--mbit", type=float, default=20.0, help="of each port, on the wire")
    parser.add_argument("--alone", type=float, default=3.0, help="T: seconds that one of the four shuffles takes alone")
    parser.add_argument(
        "--max-seconds", type=float, help="begin no round after this time; left out = as many as asked for"
    )
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    given = parser.parse_args(words)
    about = machine()
    print(f"{about}; {given.runs} runs of each, {given.hosts} hosts of {given.mbit:g} Mbit/s")
    topology, network = cloud(given.hosts, given.mbit)
    rounds = [given.runs * len(CASES[name][1]) * round_s(name, given) for name in given.only]
    print(
        f"takes about {sum(rounds):.0f} s: "
        + ", ".join(f"{n} {s:.0f} s" for n, s in zip(given.only, rounds, strict=True))
    )
    end_s = time.monotonic() + (given.max_seconds or math.inf)
    for name in given.only:
        work, policies = CASES[name]
        runs: dict[str, list[list[float]]] = defaultdict(list)
        idle: dict[str, float] = {}
        with lab.session(topology, source="bench-transfers") as session:
            inventory = read_inventory(session.hosts_file)
            for run in range(given.runs):
                if time.monotonic() + len(policies) * round_s(name, given) > end_s and run:
                    print(f"{name}: {run} of {given.runs} runs, since the time is up")
                    break
                for policy in policies:
                    before = processor_times()
                    with running(inventory, network, policy) as controller:
                        runs[policy].append(work(controller, network.names, given))
                    after = processor_times()
                    share = (after[1] - before[1]) / max(1.0, after[0] - before[0])
                    idle[policy] = min(share, idle.get(policy, 1.0))
        table = TABLES[name](runs, idle)
        show(*table)
        if given.record:
            record(given.record, name, table, given, about, min(map(len, runs.values())))
