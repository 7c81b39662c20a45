"""Two pairs on one link: TCP and UDP (E2), and the rest of the link shared (E3)."""

from __future__ import annotations

import argparse
import statistics

import numpy as np
from benches.guarantee.clouds import ENDLESS, cloud, flows, hoses, rates
from benches.guarantee.tables import OURS, seeds, show, spread, verdict

from gavotte.simulate import PROTECTIONS, Conditions, simulate_guarded

UDP_MBPS = (0, 100, 200, 300, 400, 500, 700, 1000, 1200)


def udp(asked: argparse.Namespace) -> None:
    """E2: TCP with 450 Mbit/s next to UDP: TCP >= 441; the link carries >= 900 if there is enough traffic."""
    topology = cloud(["x", "t"], ["z", "w"])
    guarantee = hoses(dict.fromkeys("xtzw", 450))
    tcp: dict[int, list[str]] = {mbps: [str(mbps)] for mbps in UDP_MBPS}
    total: dict[int, list[str]] = {mbps: [str(mbps)] for mbps in UDP_MBPS}
    goals: dict[int, list[str]] = {mbps: [] for mbps in UDP_MBPS}
    for protection in PROTECTIONS:
        for mbps in UDP_MBPS:
            own, all_ = [], []
            for seed in seeds(asked):
                sent = [("x", "z", ENDLESS, 0.001 * seed)] + [("t", "w", ENDLESS, 0.0, mbps * 1e6)] * bool(mbps)
                done = simulate_guarded(
                    topology,
                    flows(topology, sent),
                    guarantee,
                    Conditions(until_s=asked.seconds, seed=seed),
                    protection=protection,
                )
                own.append(float(rates(done, "x").mean()))
                all_.append(float(rates(done, None).mean()))
            tcp[mbps].append(spread(own))
            total[mbps].append(spread(all_))
            if protection in OURS:
                goals[mbps].append(verdict(min(own) >= 441 and min(all_) >= 900, protection))
    lines = range(1, len(PROTECTIONS) + 1)
    columns = ["UDP, Mbit/s", *PROTECTIONS]
    show(
        asked,
        "udp",
        "E2: TCP with 450 Mbit/s next to UDP that marks do not slow",
        columns,
        list(tcp.values()),
        kind="lines",
        plotted=lines,
    )
    rows = [[*total[mbps], *goals[mbps]] for mbps in UDP_MBPS]
    columns += [f"{protection}: goal" for protection in OURS]
    show(asked, "udp-all", "E2: what the link carries", columns, rows, kind="lines", plotted=lines)


PAPER = {(45, 90): "2.64, 739", (90, 180): "2.42, 750", (225, 450): "2.14, 864"}
"""Table 2: ratio and total."""


def sharing(asked: argparse.Namespace) -> None:
    """E3, Table 2: two pairs share the rest of a link by their guarantees, 1 : 2, and carry more than the paper's."""
    topology = cloud(["x", "t"], ["z", "w"])
    rows = []
    for protection in PROTECTIONS:
        for (low, high), paper in PAPER.items():
            items = []
            for seed in seeds(asked):
                starts = np.random.default_rng(seed).uniform(0, 0.1, 2)
                sent = flows(topology, [("x", "z", ENDLESS, starts[0]), ("t", "w", ENDLESS, starts[1])])
                guarantee = hoses({"x": low, "z": low, "t": high, "w": high})
                done = simulate_guarded(
                    topology, sent, guarantee, Conditions(until_s=2 * asked.seconds, seed=seed), protection=protection
                )
                items.append([float(rates(done, source).mean()) for source in "xt"])
            ratios, totals = [b / a for a, b in items], [a + b for a, b in items]
            kept = min(ratios) >= 1.8 and max(ratios) <= 2.2 and min(totals) > float(paper.split()[1])
            means = "/".join(f"{statistics.mean(column):.0f}" for column in zip(*items, strict=True))
            cells = [spread(ratios, 2), spread(totals), means, paper, verdict(kept, protection)]
            rows.append([f"{protection}, {low}/{high}", *cells])
    columns = ["protection, guarantees", "ratio", "all, Mbit/s", "each, Mbit/s", "paper: ratio, all", "goal"]
    show(asked, "sharing", "E3, Table 2: two pairs share 1000 Mbit/s", columns, rows, unit="ratio; 2 = by guarantees")
