"""The experiments in the simulator: each a workload, what is counted, and what it should be."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gavotte.formats.guarantee import FORMAT, Guarantee
from gavotte.formats.topology import FORMAT as TOPOLOGY
from gavotte.formats.topology import Topology
from gavotte.simulate import PROTECTIONS, Flows, GuardedSimulation, simulate_guarded

WARM_S = 3.0
"""Not counted at the start of a run."""
OURS = ("loss", "ecn")
ENDLESS = 10**13


def cloud(left: Sequence[str], right: Sequence[str], *, together: Sequence[str] = (), core: str = "1gbit") -> Topology:
    """Hosts at 1 Gbit/s on two racks, `together` those of one machine of the right one; `core` joins the racks."""
    hosts = [{"name": name, "switch": "left", "rate": "1gbit"} for name in left]
    hosts += [{"name": name, "switch": "right", "rate": "1gbit"} for name in right]
    hosts += [{"name": name, "machine": "pm"} for name in together]
    switches = [{"name": "core"}, {"name": "left", "parent": "core", "up": core}, {"name": "right", "parent": "core"}]
    machines = [{"name": "pm", "switch": "right", "rate": "1gbit"}]
    return Topology.model_validate({"format": TOPOLOGY, "switch": switches, "machine": machines, "host": hosts})


def hoses(mbps: dict[str, float]) -> Guarantee:
    """The same guarantee in both directions."""
    entries = [{"host": host, "egress": f"{rate}mbit", "ingress": f"{rate}mbit"} for host, rate in mbps.items()]
    return Guarantee.model_validate({"format": FORMAT, "guarantee": entries})


def flows(topology: Topology, rows: Iterable[tuple[Any, ...]]) -> Flows:
    """Rows of source, target, bytes, start and, for UDP, its rate in bit/s."""
    at = {host.name: place for place, host in enumerate(topology.host)}
    listed = [(*row, math.inf, False) if len(row) == 4 else (*row, True) for row in rows]
    source, target, size, start_s, cap_bps, udp = zip(*listed, strict=True)
    return Flows(
        np.array([at[name] for name in source]),
        np.array([at[name] for name in target]),
        np.array(size, dtype=np.uint64),
        np.array(start_s, dtype=float),
        cap_bps=np.array(cap_bps, dtype=float),
        udp=np.array(udp),
    )


def rates(done: GuardedSimulation, source: str | None, *, but: str = "") -> np.ndarray:
    """(W,) Mbit/s by window after the start: pairs of one source, or of all but one."""
    first, last = round(WARM_S / done.window_s), max(len(pair.rates_bps) for pair in done.pairs)
    total = np.zeros(last)
    for pair in done.pairs:
        if (source is None and pair.source != but) or pair.source == source:
            total[: len(pair.rates_bps)] += pair.rates_bps / 1e6
    return total[first:]


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Mean and extremes."""
    return f"{statistics.mean(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def verdict(kept: bool, protection: str) -> str:
    return "" if protection not in OURS else "kept" if kept else "MISSED"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}")
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(flush=True)


def seeds(asked: argparse.Namespace) -> range:
    return range(asked.seed, asked.seed + asked.seeds)


def crowd(
    senders: int,
    edge: bool,
    connections: int,
    protection: str,
    asked: argparse.Namespace,
    seed: int,
    **constants: float,
) -> tuple[float, float, float]:
    """X sends to Z, and others to Y: what X gets, in which share of windows it has 95 % of it, and what all get."""
    crowd = [f"s{number}" for number in range(senders)]
    ends = ["z", "y"]
    topology = cloud(
        ["x", *crowd], [] if edge else ends, together=ends if edge else (), core="100gbit" if edge else "1gbit"
    )
    starts = np.random.default_rng(seed).uniform(0, 0.1, (connections, senders + 1))
    pairs = [("x", "z"), *((name, "y") for name in crowd)]
    rows = [(*pair, ENDLESS, starts[c, n]) for c in range(connections) for n, pair in enumerate(pairs)]
    guarantee = hoses(dict.fromkeys(["x", *crowd, *ends], 450))
    done = simulate_guarded(
        topology,
        flows(topology, rows),
        guarantee,
        protection=protection,
        parameters=constants,
        until_s=asked.seconds,
        seed=seed,
    )
    own, others = rates(done, "x"), rates(done, None, but="x")
    return float(own.mean()), float((own >= 0.95 * 450).mean()), float(own.mean() + others.mean())


def many_to_one(asked: argparse.Namespace) -> None:
    """E1: X has >= 98 % of 450 Mbit/s in the mean, 95 % in nine of ten windows of 200 ms; the link carries >= 900."""
    for edge in (False, True):
        for connections in (1, 2):
            rows = []
            for protection in PROTECTIONS:
                for senders in asked.senders:
                    found = [crowd(senders, edge, connections, protection, asked, seed) for seed in seeds(asked)]
                    own, windows, total = (list(column) for column in zip(*found, strict=True))
                    kept = min(own) >= 441 and min(windows) >= 0.9 and min(total) >= 900
                    cells = [spread(own), spread([100 * share for share in windows]), spread(total)]
                    rows.append([protection, str(senders), *cells, verdict(kept, protection)])
            where = "edge" if edge else "core"
            title = f"E1 many to one, {where} link full, {connections} TCP a pair; paper: X stays near 450"
            show(title, ["protection", "senders", "X Mbit/s", "windows %", "all Mbit/s", ""], rows)


def udp(asked: argparse.Namespace) -> None:
    """E2: TCP with 450 Mbit/s beside UDP: TCP >= 441; the link carries >= 900 where there is that much to send."""
    topology = cloud(["x", "t"], ["z", "w"])
    guarantee = hoses(dict.fromkeys("xtzw", 450))
    rows = []
    for protection in PROTECTIONS:
        for mbps in (0, 100, 200, 300, 400, 500, 700, 1000, 1200):
            own, all_ = [], []
            for seed in seeds(asked):
                sent = [("x", "z", ENDLESS, 0.001 * seed)] + [("t", "w", ENDLESS, 0.0, mbps * 1e6)] * bool(mbps)
                done = simulate_guarded(
                    topology, flows(topology, sent), guarantee, protection=protection, until_s=asked.seconds, seed=seed
                )
                own.append(float(rates(done, "x").mean()))
                all_.append(float(rates(done, None).mean()))
            kept = min(own) >= 441 and min(all_) >= 900
            rows.append([protection, str(mbps), spread(own), spread(all_), verdict(kept, protection)])
    show("E2 TCP beside UDP that marks do not slow", ["protection", "UDP Mbit/s", "TCP Mbit/s", "all Mbit/s", ""], rows)


PAPER = {(45, 90): "203/536 2.64 739", (90, 180): "219/531 2.42 750", (225, 450): "275/589 2.14 864"}
"""Table 2: rates, ratio and total."""


def sharing(asked: argparse.Namespace) -> None:
    """E3, Table 2: two pairs share the rest of a link by their guarantees, 1 : 2, and carry more than the paper's."""
    topology = cloud(["x", "t"], ["z", "w"])
    rows = []
    for protection in PROTECTIONS:
        for (low, high), paper in PAPER.items():
            found = []
            for seed in seeds(asked):
                starts = np.random.default_rng(seed).uniform(0, 0.1, 2)
                sent = flows(topology, [("x", "z", ENDLESS, starts[0]), ("t", "w", ENDLESS, starts[1])])
                guarantee = hoses({"x": low, "z": low, "t": high, "w": high})
                done = simulate_guarded(
                    topology, sent, guarantee, protection=protection, until_s=2 * asked.seconds, seed=seed
                )
                found.append([float(rates(done, source).mean()) for source in "xt"])
            ratios, totals = [b / a for a, b in found], [a + b for a, b in found]
            kept = min(ratios) >= 1.8 and max(ratios) <= 2.2 and min(totals) > float(paper.split()[2])
            means = "/".join(f"{statistics.mean(column):.0f}" for column in zip(*found, strict=True))
            rows.append(
                [
                    protection,
                    f"{low}/{high}",
                    means,
                    spread(ratios, 2),
                    spread(totals),
                    paper,
                    verdict(kept, protection),
                ]
            )
    show(
        "E3 sharing the rest of 1000 Mbit/s",
        ["protection", "guarantees", "Mbit/s", "ratio", "all Mbit/s", "paper", ""],
        rows,
    )


RACKS, MACHINES, VMS = 4, 8, 4
"""Of the shuffle's cloud: 128 hosts behind rack links that are oversubscribed 4 to 1."""
HOSE_MBPS = 0.9 * 2000 / (MACHINES * VMS)


def shuffle_cloud() -> Topology:
    switches: list[dict[str, Any]] = [{"name": "core"}]
    switches += [{"name": f"r{r}", "parent": "core", "up": "2gbit"} for r in range(RACKS)]
    machines = [
        {"name": f"p{r}-{m}", "switch": f"r{r}", "rate": "1gbit", "machine_rate": "4gbit"}
        for r in range(RACKS)
        for m in range(MACHINES)
    ]
    hosts = [
        {"name": f"v{n}-{v}", "machine": machine["name"]} for n, machine in enumerate(machines) for v in range(VMS)
    ]
    return Topology.model_validate({"format": TOPOLOGY, "switch": switches, "machine": machines, "host": hosts})


def shuffles(asked: argparse.Namespace) -> None:
    """E4, Fig. 8: shuffles of many jobs at once never take longer than with static reservation."""
    topology = shuffle_cloud()
    names = [host.name for host in topology.host]
    guarantee = hoses(dict.fromkeys(names, HOSE_MBPS))
    rows = []
    for active in (0.1, 0.25, 0.5, 1.0):
        took: dict[str, list[float]] = {protection: [] for protection in PROTECTIONS}
        throughput: dict[str, list[float]] = {protection: [] for protection in PROTECTIONS}
        for seed in seeds(asked):
            rng = np.random.default_rng(seed)
            chosen = list(rng.permutation(names)[: round(active * len(names))])
            jobs: list[int] = []
            sent: list[tuple[Any, ...]] = []
            while len(chosen) >= 4:
                size = min(len(chosen), 4 + int(rng.exponential(8)))
                job, chosen = chosen[:size], chosen[size:]
                # Unbalanced: one reducer for three mappers.
                reducers = max(1, size // 4)
                for mapper in job[reducers:]:
                    for reducer in job[:reducers]:
                        sent.append((mapper, reducer, int(20e6 / reducers), 0.0))
                        jobs.append(len(chosen))
            for protection in PROTECTIONS:
                done = simulate_guarded(
                    topology, flows(topology, sent), guarantee, protection=protection, until_s=600, seed=seed
                )
                finish_s = done.simulation.finish_s
                took[protection] += [
                    max(finish_s[n] for n, own in enumerate(jobs) if own == job) for job in sorted(set(jobs))
                ]
                throughput[protection].append(sum(row[2] for row in sent) * 8e-6 / done.simulation.makespan_s)
        for protection in PROTECTIONS:
            ratios = [own / static for own, static in zip(took[protection], took["static"], strict=True)]
            worst = max(none / own for none, own in zip(took["none"], took[protection], strict=True))
            kept = max(ratios) <= 1.0 and statistics.median(ratios) <= 0.9
            rows.append(
                [
                    protection,
                    f"{100 * active:.0f}",
                    str(len(ratios)),
                    f"{statistics.median(ratios):.2f}",
                    f"{max(ratios):.2f}",
                    f"{worst:.1f}",
                    spread(throughput[protection]),
                    verdict(kept, protection),
                ]
            )
    columns = ["protection", "active %", "jobs", "median", "max", "none takes up to", "all Mbit/s", ""]
    show("E4 shuffle time as a multiple of static reservation's; paper: never above 1", columns, rows)


def mice(asked: argparse.Namespace) -> None:
    """E5, Fig. 9: short flows to ever new hosts cost an elephant of the same host at most 5 %."""
    rows = []
    for protection in PROTECTIONS:
        for new_per_s in (0, 1, 10, 20, 30, 50):
            found = []
            for seed in seeds(asked):
                count = int(new_per_s * asked.seconds)
                fresh = [f"n{number}" for number in range(count)]
                known = [f"k{number}" for number in range(10)]
                topology = cloud(["x", "y"], ["z", "t", *known, *fresh])
                rng = np.random.default_rng(seed)
                times = rng.uniform(0, asked.seconds, count)
                sent = [("x", "z", ENDLESS, 0.0), ("y", "t", ENDLESS, 0.0)]
                sent += [("x", name, 20_000, float(at)) for name, at in zip(fresh, times, strict=True)]
                rest = int((100 - new_per_s) * asked.seconds) * bool(new_per_s)
                sent += [("x", known[n % 10], 20_000, float(rng.uniform(0, asked.seconds))) for n in range(rest)]
                guarantee = hoses(dict.fromkeys(["x", "y", "z", "t", *known, *fresh], 450))
                done = simulate_guarded(
                    topology, flows(topology, sent), guarantee, protection=protection, until_s=asked.seconds, seed=seed
                )
                long = next(pair for pair in done.pairs if (pair.source, pair.target) == ("x", "z"))
                found.append(float(long.rates_bps[round(WARM_S / done.window_s) :].mean()) / 1e6)
            rows.append([protection, str(new_per_s), spread(found), verdict(min(found) >= 0.95 * 450, protection)])
    columns = ["protection", "new pairs/s", "elephant Mbit/s", ""]
    show(
        "E5 100 short flows a second beside an elephant with 450 Mbit/s; paper: less from 20 new pairs a second",
        columns,
        rows,
    )


SWEEP: dict[str, dict[str, float]] = {
    "as it is": {},
    "more aggressive": {"delta_bps": 5.0, "time_scalar": 4 / 3},
    "no Hold-Increase": {"hold_per_loss": 0.0, "hold_per_mark": 0.0},
    "no Rate-Caution": {"rate_caution": 0.0},
    "neither": {"hold_per_loss": 0.0, "hold_per_mark": 0.0, "rate_caution": 0.0},
    "allocation 10 ms": {"allocation_period_s": 0.010},
    "allocation 30 ms": {"allocation_period_s": 0.030},
    "partition 100 ms": {"partition_period_s": 0.100},
    "partition 150 ms": {"partition_period_s": 0.150},
}
"""E6, section 7.2. "More aggressive" multiplies."""
OWN = {"loss": {"delta_bps": 0.3e6, "time_scalar": 0.8}, "ecn": {"delta_bps": 1e6, "time_scalar": 1.5}}
OWN |= {f"elasticswitch-{mode}": {"delta_bps": 0.5e6, "time_scalar": 1.5} for mode in OWN}


def sensitivity(asked: argparse.Namespace) -> None:
    """E6, Fig. 10: X within 2 % of what it has with the constants as they are, or above its guarantee."""
    rows = []
    for protection in ("elasticswitch-loss", "elasticswitch-ecn", *OURS):
        for name, change in SWEEP.items():
            own = OWN[protection]
            constants = {key: value * own[key] if name == "more aggressive" else value for key, value in change.items()}
            found = [crowd(100, True, 1, protection, asked, seed, **constants) for seed in seeds(asked)]
            means = [each[0] for each in found]
            cells = [spread(means), spread([100 * each[1] for each in found]), spread([each[2] for each in found])]
            rows.append([protection, name, *cells, verdict(min(means) >= 0.98 * 450, protection)])
    columns = ["protection", "constants", "X Mbit/s", "windows %", "all Mbit/s", ""]
    show("E6 100 senders to one, edge link full", columns, rows)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "many-to-one": many_to_one,
    "udp": udp,
    "sharing": sharing,
    "shuffles": shuffles,
    "mice": mice,
    "sensitivity": sensitivity,
}


def main(asked: argparse.Namespace) -> None:
    """Runs the parts asked for."""
    for part in asked.parts:
        began = time.monotonic()
        PARTS[part](asked)
        print(f"{part}: {asked.seeds} runs each, {time.monotonic() - began:.0f} s")
