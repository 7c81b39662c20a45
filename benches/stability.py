"""Choreo's Fig. 1, 2, 7 and 8 in a lab cloud with bursting neighbours, and Fig. 7 on real latencies.

    make bench-stability [ARGS="--minutes 4 --data FOLDER"]

Hours are scaled to minutes, and the ages with them. `gavotte measure --count 360 --every 10` and `gavotte history
stability` print the same for your own hosts, at the paper's ages. The real series are round trips between 99 PlanetLab
nodes in the folder given, frame by frame. We know of no public series of rates between cloud hosts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from benches.constant.seattle import frames
from benches.machine import machine
from benches.rpca.cloud import Size, strangers, tenants

from gavotte import lab
from gavotte.formats.history import History, write_history
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.store.stability import SHARES, Stability, past_error, stability

RACKS = 4
SIZE = Size(per_rack=2, stranger_mbps=120)
EVERY_S = 6.0
AGES_S = (12.0, 30.0, 60.0, 120.0)
"""A fifth of a minute for the paper's 1 minute, a fifteenth of its 30 minutes."""
FRAMES = (1, 5, 10, 30)
PAPER = {
    "EC2": "median 0.4 to 0.5 %, mean 1.4 to 3 %, 95 % of paths below 6 %",
    "Rackspace": "median 0.18 to 0.27 %, mean 0.27 to 0.39 %, 95 % below 0.62 %",
}
BURST_BYTES, WAIT_S = 2_000_000, 4.0


def topology(seed: int) -> Topology:
    """Return eight hosts in four racks below two switches, two of them on one machine, with a neighbour in each rack."""
    rng = np.random.default_rng(seed)
    egress = [int(rate) for rate in rng.integers(80, 120, len(SIZE.hosts))]
    switches = [{"name": "core"}, *({"name": f"agg{a}", "parent": "core", "up": "200mbit"} for a in range(2))]
    switches += [{"name": f"tor{r}", "parent": f"agg{r // 2}", "up": "150mbit"} for r in range(RACKS)]
    hosts = [
        {"name": name, "egress": f"{egress[i]}mbit"}
        | ({"machine": "pm0"} if i in (0, 4) else {"switch": f"tor{i % RACKS}"})
        for i, name in enumerate(SIZE.hosts)
    ]
    hosts += [{"name": f"s{r}", "switch": f"tor{r}", "egress": f"{SIZE.stranger_mbps}mbit"} for r in range(RACKS)]
    return Topology.model_validate(
        {
            "format": FORMAT,
            "switch": switches,
            "machine": [{"name": "pm0", "switch": "tor0", "machine_rate": "280mbit"}],
            "host": hosts,
        }
    )


def watched(minutes: float, seed: int) -> History:
    """Take a snapshot every few seconds, during the neighbours' messages."""
    with (
        lab.session(topology(seed), source="bench-stability") as session,
        strangers(session, BURST_BYTES, WAIT_S, seed),
    ):
        count = max(2, round(60 * minutes / EVERY_S))
        return carry_out(
            plan_measurement(
                MeasureQuestion(
                    tenants(session, SIZE), count=count, every_s=EVERY_S, seed=seed, again=False, scale="pairs"
                )
            )
        ).history


def shown(result: Stability) -> None:
    """Print the tables of all four figures."""
    heads = " ".join(f"{f'{share} %':>7}" for share in SHARES)
    print(
        f"\nFig. 1 and 2: Mbit/s below which this percentage of the pairs stays, by minute\n{'minute':>7} {heads} {'pairs':>6}"
    )
    start_s = result.over_time[0].key
    for each in result.over_time[:: max(1, round(30 / EVERY_S))]:
        cells = " ".join(f"{rate / 1e6:>7.1f}" for rate in each.rate_bps)
        print(f"{(each.key - start_s) / 60:>7.1f} {cells} {each.pairs:>6}")
    print(
        "paper: Fig. 1, EC2 in 2012: 100 to 1000 Mbit/s; Fig. 2, 2013: 296 to 4405, 80 % of paths 900 to 1100; Rackspace: 300"
    )
    print(f"\nFig. 7: |now - then| / now\n{'age':>8} {'median':>8} {'mean':>8} {'95 %':>8} {'measurements':>13}")
    for age in result.by_age:
        print(f"{age.age_s:>6.0f} s {age.median:>8.2%} {age.mean:>8.2%} {age.most:>8.2%} {age.count:>13}")
    print("\n".join(f"paper, 1 to 30 min, {cloud}: {text}" for cloud, text in PAPER.items()))
    print(f"\nFig. 8: Mbit/s by path length\n{'hops':>7} {heads} {'pairs':>6}")
    for each in result.by_hops:
        cells = " ".join(f"{rate / 1e6:>7.1f}" for rate in each.rate_bps)
        print(f"{each.key:>7g} {cells} {each.pairs:>6}")
    print("paper: lengths 1, 2, 4, 6, 8; fastest pairs 1 hop apart, about 1 Gbit/s at every length: little correlation")


def real(folder: Path) -> None:
    """Print Fig. 7 on round trips."""
    times = frames(folder)
    at = np.arange(len(times), dtype=np.float64)
    print(
        f"\nFig. 7 on real latencies: round trips between {times.shape[1]} PlanetLab nodes, {len(times)} frames, ages in frames\n"
        f"{'age':>8} {'median':>8} {'mean':>8} {'95 %':>8} {'measurements':>13}"
    )
    for age in FRAMES:
        result = past_error(times, at, float(age))
        print(f"{age:>8} {result.median:>8.2%} {result.mean:>8.2%} {result.most:>8.2%} {result.count:>13}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="H.npz", help="write the History")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with NetLatency's SeattleData_* files")
    asked = parser.parse_args()
    print(f"machine: {machine()}\nseed: {asked.seed}; {asked.minutes:g} minutes, a snapshot every {EVERY_S:g} s")
    if asked.data is not None:
        real(asked.data)
    history = watched(asked.minutes, asked.seed)
    if asked.keep is not None:
        write_history(asked.keep, history)
    shown(stability(history, ages_s=AGES_S))


if __name__ == "__main__":
    main()
