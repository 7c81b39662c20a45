"""Many senders to one host (E1), and the same with other constants (E6)."""

from __future__ import annotations

import argparse

import numpy as np
from benches.guarantee.clouds import ENDLESS, cloud, flows, hoses, rates
from benches.guarantee.tables import OURS, seeds, show, spread, verdict

from gavotte.simulate import PROTECTIONS, Conditions, simulate_guarded

PLACES = {False: "core", True: "edge"}


def crowd(
    senders: int,
    edge: bool,
    connections: int,
    protection: str,
    asked: argparse.Namespace,
    seed: int,
    **constants: float,
) -> tuple[float, float, float]:
    """X sends to Z, others to Y: the rate of X, its share of windows with 95 % of its guarantee, the total rate."""
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
        Conditions(until_s=asked.seconds, seed=seed),
        protection=protection,
        parameters=constants,
    )
    own, others = rates(done, "x"), rates(done, None, but="x")
    return float(own.mean()), float((own >= 0.95 * 450).mean()), float(own.mean() + others.mean())


def many_to_one(asked: argparse.Namespace) -> None:
    """E1: X has >= 98 % of 450 Mbit/s in the mean, 95 % in nine of ten windows of 200 ms; the link carries >= 900."""
    judged = []
    for edge, place in PLACES.items():
        for connections in (1, 2):
            table: dict[int, list[str]] = {senders: [str(senders)] for senders in asked.senders}
            for protection in PROTECTIONS:
                for senders in asked.senders:
                    matches = [crowd(senders, edge, connections, protection, asked, seed) for seed in seeds(asked)]
                    own, windows, total = (list(column) for column in zip(*matches, strict=True))
                    table[senders].append(spread(own))
                    if protection in OURS:
                        kept = min(own) >= 441 and min(windows) >= 0.9 and min(total) >= 900
                        cells = [spread(own), spread([100 * share for share in windows]), spread(total)]
                        where = f"{protection}, {place}, {connections} TCP a pair, {senders} senders"
                        judged.append([where, *cells, verdict(kept, protection)])
            show(
                asked,
                f"{place}-{connections}",
                f"E1: what X gets of 450 Mbit/s, {place} link full, {connections} TCP a pair",
                ["senders", *PROTECTIONS],
                list(table.values()),
                kind="lines",
                plotted=range(1, len(PROTECTIONS) + 1),
            )
    columns = ["case", "X, Mbit/s", "windows with 95 %, %", "all, Mbit/s", "goal"]
    show(asked, "many-to-one", "E1: X, its windows, and what the link carries", columns, judged, plotted=(1, 3))


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
OWN = {"loss": {"delta_bps": 0.2e6, "time_scalar": 0.5}, "ecn": {"delta_bps": 1e6, "time_scalar": 1.5}}
OWN["auto"] = OWN["ecn"]
PAPERS = ("elasticswitch-loss", "elasticswitch-ecn")
OWN |= {protection: {"delta_bps": 0.5e6, "time_scalar": 1.5} for protection in PAPERS}


def sensitivity(asked: argparse.Namespace) -> None:
    """E6, Fig. 10: X within 2 % of its guarantee, or above it, for all constants."""
    swept = [*PAPERS, *OURS]
    table: dict[str, list[str]] = {name: [name] for name in SWEEP}
    judged: dict[str, list[str]] = {name: [name] for name in SWEEP}
    for protection in swept:
        for name, change in SWEEP.items():
            own = OWN[protection]
            constants = {key: value * own[key] if name == "more aggressive" else value for key, value in change.items()}
            matches = [crowd(100, True, 1, protection, asked, seed, **constants) for seed in seeds(asked)]
            means = [each[0] for each in matches]
            table[name].append(spread(means))
            if protection in OURS:
                cells = [spread([100 * each[1] for each in matches]), spread([each[2] for each in matches])]
                judged[name] += [*cells, verdict(min(means) >= 0.98 * 450, protection)]
    show(
        asked,
        "constants",
        "E6: what X gets of 450 Mbit/s next to 100 senders, edge link full",
        ["constants", *swept],
        list(table.values()),
        plotted=range(1, len(swept) + 1),
    )
    columns = ["constants"]
    for protection in OURS:
        columns += [f"{protection}: windows, %", f"{protection}: all, Mbit/s", f"{protection}: goal"]
    show(
        asked, "constants-all", "E6: windows, and what the link carries", columns, list(judged.values()), plotted=(2, 5)
    )
