"""Shuffles of many jobs at once (E4)."""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np
from benches.guarantee.clouds import flows, hoses
from benches.guarantee.tables import seeds, show, spread, verdict

from gavotte.formats.topology import FORMAT, Topology
from gavotte.simulate import PROTECTIONS, Conditions, simulate_guarded

RACKS, MACHINES, VMS = 4, 8, 4
"""Guarantee of the shuffle's cloud: 128 hosts behind rack links that are oversubscribed 4 to 1."""
HOSE_MBPS = 0.9 * 2000 / (MACHINES * VMS)


def shuffle_cloud() -> Topology:
    """Return racks of machines of hosts."""
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
    return Topology.model_validate({"format": FORMAT, "switch": switches, "machine": machines, "host": hosts})


def draw(names: list[str], active: float, seed: int) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return flows of jobs on a share of the hosts, and each one's job: one reducer for three mappers."""
    rng = np.random.default_rng(seed)
    chosen = list(rng.permutation(names)[: round(active * len(names))])
    jobs: list[int] = []
    sent: list[tuple[Any, ...]] = []
    while len(chosen) >= 4:
        size = min(len(chosen), 4 + int(rng.exponential(8)))
        job, chosen = chosen[:size], chosen[size:]
        reducers = max(1, size // 4)
        for mapper in job[reducers:]:
            for reducer in job[:reducers]:
                sent.append((mapper, reducer, int(20e6 / reducers), 0.0))
                jobs.append(len(chosen))
    return sent, jobs


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
            sent, jobs = draw(names, active, seed)
            for protection in PROTECTIONS:
                done = simulate_guarded(
                    topology,
                    flows(topology, sent),
                    guarantee,
                    Conditions(until_s=600, seed=seed),
                    protection=protection,
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
            numbers = [f"{statistics.median(ratios):.2f}", f"{max(ratios):.2f}", f"{worst:.1f}"]
            cells = [*numbers, spread(throughput[protection]), str(len(ratios)), verdict(kept, protection)]
            rows.append([f"{100 * active:.0f} % active, {protection}", *cells])
    columns = ["case", "median", "longest", "none takes up to, times", "all, Mbit/s", "jobs", "goal"]
    title = "E4: shuffle time as a multiple of static reservation's"
    show(asked, "shuffles", title, columns, rows, plotted=(1, 2), unit="shuffle time / static reservation's")
