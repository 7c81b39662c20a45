"""Short flows: their cost to a long flow (E5), and their own times (E7)."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from benches.guarantee.clouds import ENDLESS, WARM_S, cloud, flows, hoses
from benches.guarantee.tables import OURS, seeds, show, spread, verdict

from gavotte.formats.topology import FORMAT, Topology
from gavotte.simulate import PROTECTIONS, Conditions, Queues, simulate_guarded

NEW_PER_S = (0, 1, 10, 20, 30, 50)
SHORT_BYTES = 20_000


def mice(asked: argparse.Namespace) -> None:
    """E5, Fig. 9: short flows to ever new hosts cost an elephant of the same host at most 5 %."""
    table: dict[int, list[str]] = {new_per_s: [str(new_per_s)] for new_per_s in NEW_PER_S}
    goals: dict[int, list[str]] = {new_per_s: [] for new_per_s in NEW_PER_S}
    for protection in PROTECTIONS:
        for new_per_s in NEW_PER_S:
            matches = [elephant(new_per_s, protection, asked, seed) for seed in seeds(asked)]
            table[new_per_s].append(spread(matches))
            if protection in OURS:
                goals[new_per_s].append(verdict(min(matches) >= 0.95 * 450, protection))
    columns = ["new pairs a second", *PROTECTIONS, *(f"{protection}: goal" for protection in OURS)]
    rows = [[*table[new_per_s], *goals[new_per_s]] for new_per_s in NEW_PER_S]
    title = "E5: an elephant with 450 Mbit/s next to 100 short flows a second"
    show(asked, "mice", title, columns, rows, kind="lines", plotted=range(1, len(PROTECTIONS) + 1))


def elephant(new_per_s: int, protection: str, asked: argparse.Namespace, seed: int) -> float:
    """Return Mbit/s of X's long flow while X sends 100 short ones a second, this many of them to new hosts."""
    count = int(new_per_s * asked.seconds)
    fresh = [f"n{number}" for number in range(count)]
    known = [f"k{number}" for number in range(10)]
    topology = cloud(["x", "y"], ["z", "t", *known, *fresh])
    rng = np.random.default_rng(seed)
    times = rng.uniform(0, asked.seconds, count)
    sent: list[tuple[Any, ...]] = [("x", "z", ENDLESS, 0.0), ("y", "t", ENDLESS, 0.0)]
    sent += [("x", name, SHORT_BYTES, float(at)) for name, at in zip(fresh, times, strict=True)]
    rest = int((100 - new_per_s) * asked.seconds) * bool(new_per_s)
    sent += [("x", known[n % 10], SHORT_BYTES, float(rng.uniform(0, asked.seconds))) for n in range(rest)]
    guarantee = hoses(dict.fromkeys(["x", "y", "z", "t", *known, *fresh], 450))
    done = simulate_guarded(
        topology, flows(topology, sent), guarantee, Conditions(until_s=asked.seconds, seed=seed), protection=protection
    )
    long = next(pair for pair in done.pairs if (pair.source, pair.target) == ("x", "z"))
    return float(long.rates_bps[round(WARM_S / done.window_s) :].mean()) / 1e6


MACHINES, VMS = 6, 4
"""Guarantee in a rack with as many hosts as Fig. 11 has, behind a link that is oversubscribed 6 to 1."""
HOSE_MBPS = 0.9 * 1000 / (MACHINES * VMS)
OTHERS = (0, 1, 5, 11, 23)
EACH_S = 1.0
"""Time between short flows: longer than a pair is remembered, so that each starts cold."""
STEP_S = 0.0002


def latency(asked: argparse.Namespace) -> None:
    """E7, Fig. 11: a short flow takes at most 1 ms more without other flows, and less than unprotected with them."""
    tables: dict[str, dict[int, list[str]]] = {
        word: {others: [str(others)] for others in OTHERS} for word in ("median", "99th percentile")
    }
    taken: dict[str, dict[int, tuple[float, float]]] = {}
    for protection in PROTECTIONS:
        taken[protection] = {}
        for others in OTHERS:
            runs = [short_flows(others, protection, asked, seed) for seed in seeds(asked)]
            middle = [float(np.median(took)) for took in runs]
            high = [float(np.quantile(took, 0.99)) for took in runs]
            taken[protection][others] = (float(np.mean(middle)), float(np.mean(high)))
            tables["median"][others].append(spread(middle, 1))
            tables["99th percentile"][others].append(spread(high, 1))
    for place, (word, table) in enumerate(tables.items()):
        rows = []
        for others, cells in table.items():
            goals = []
            for protection in OURS:
                own, unprotected = taken[protection][others][place], taken["none"][others][place]
                goals.append(verdict(own <= unprotected + 1.0 if others == 0 else own <= unprotected, protection))
            rows.append([*cells, *goals])
        show(
            asked,
            f"latency-{word.split()[0]}",
            f"E7: a flow of {SHORT_BYTES // 1000} kB next to long ones, {word}",
            ["other pairs", *PROTECTIONS, *(f"{protection}: goal" for protection in OURS)],
            rows,
            kind="lines",
            plotted=range(1, len(PROTECTIONS) + 1),
            unit="ms",
            scale="log",
        )


def short_flows(others: int, protection: str, asked: argparse.Namespace, seed: int) -> np.ndarray:
    """Return (F,) milliseconds of X's short flows to Y while this many long ones leave its rack."""
    switches: list[dict[str, Any]] = [{"name": "core"}]
    switches += [{"name": rack, "parent": "core", "up": "1gbit"} for rack in ("left", "right")]
    machines = [
        {"name": f"{rack}{m}", "switch": rack, "rate": "1gbit", "machine_rate": "4gbit"}
        for rack in ("left", "right")
        for m in range(MACHINES)
    ]
    hosts = [{"name": f"{machine['name']}-{v}", "machine": machine["name"]} for machine in machines for v in range(VMS)]
    topology = Topology.model_validate({"format": FORMAT, "switch": switches, "machine": machines, "host": hosts})
    left, right = ([host["name"] for host in hosts if host["name"].startswith(rack)] for rack in ("left", "right"))
    rng = np.random.default_rng(seed)
    sent: list[tuple[Any, ...]] = [
        (left[n], right[n], ENDLESS, float(rng.uniform(0, 0.1))) for n in range(1, others + 1)
    ]
    starts = np.arange(WARM_S, asked.seconds - EACH_S, EACH_S) + rng.uniform(0, 0.1)
    sent += [(left[0], right[0], SHORT_BYTES, float(at)) for at in starts]
    done = simulate_guarded(
        topology,
        flows(topology, sent),
        hoses(dict.fromkeys([*left, *right], HOSE_MBPS)),
        Conditions(until_s=asked.seconds, seed=seed),
        protection=protection,
        queues=Queues(step_s=STEP_S),
    )
    finish_s = done.simulation.finish_s[others:]
    return np.where(np.isnan(finish_s), asked.seconds - starts, finish_s - starts) * 1e3
