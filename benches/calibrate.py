"""Choreo's Fig. 6: the error of its trains by the number and length of their bursts, compared with gated trains.

    make bench-calibrate [ARGS="--paths 4 --seed 1"]

There are two clouds, with token buckets of 32 kB and of 512 kB. A train must empty a bucket before it sees the rate.
The paper's Rackspace may have had deep buckets, since its errors fall only at bursts of 2000. Truth is bulk TCP on the
same path, as in the paper.
"""

from __future__ import annotations

import argparse

import numpy as np
from benches.machine import machine

from gavotte import lab
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure import bulk, measure
from gavotte.measure.calibrate import BURSTS, PACKETS, Calibration, CalibrationQuestion, calibrate, plan_calibration

CLOUDS = {"32kb": (60, 250), "512kb": (280, 300)}
"""Depth of the bucket, and the range of the hosts' rates in Mbit/s."""
HOSTS = 6
PAPER = {("32kb", 10, 200): 9.0, ("512kb", 10, 2000): 4.0}
"""Errors in % that section 4.1 prints, for EC2 and Rackspace; the rest of its figure is drawn."""


def cloud(burst: str, seed: int) -> Topology:
    """Return hosts behind one unlimited switch."""
    rng = np.random.default_rng(seed)
    rates = [int(rate) for rate in rng.integers(*CLOUDS[burst], HOSTS)]
    hosts = [
        {"name": f"vm{i}", "switch": "core", "egress": f"{rate}mbit", "burst": burst} for i, rate in enumerate(rates)
    ]
    return Topology.model_validate({"format": FORMAT, "switch": [{"name": "core"}], "host": hosts})


def gated(inventory: Inventory, paths: int, seed: int) -> tuple[float, int]:
    """Return the mean error of gated trains compared with bulk TCP, and how many of the paths answered."""
    rng = np.random.default_rng(seed)
    names = inventory.names
    every = [(s, t) for s in names for t in names if s != t]
    chosen = [every[i] for i in rng.permutation(len(every))[:paths]]
    train = measure(inventory, pairs=chosen, seed=seed).history.beta_Bps[0]
    truth = measure(inventory, method=bulk(seconds=3.0), pairs=chosen, seed=seed).history.beta_Bps[0]
    off = np.abs(train / truth - 1)
    return float(np.nanmean(off)), int(np.isfinite(off).sum())


def table(result: Calibration, burst: str, train: tuple[float, int], paths: int) -> str:
    """Return the table of errors by B and K, next to the paper's."""
    errors = {(each.bursts, each.packets): each for each in result.trains}
    lines = [f"{'B':>6} " + " ".join(f"{f'K = {k}':>9}" for k in BURSTS) + f" {'paper, K = 10':>14} {'gated':>9}"]
    for b in PACKETS:
        cells = " ".join(
            f"{100 * errors[k, b].mean_error:>7.1f} %" if errors[k, b].answered else f"{'-':>9}" for k in BURSTS
        )
        paper = f"{PAPER[burst, 10, b]:.0f} %" if (burst, 10, b) in PAPER else ""
        lines.append(f"{b:>6} {cells} {paper:>14} {100 * train[0]:>7.2f} %")
    best = result.best
    chosen = "none" if best is None else f"{best.bursts} x {best.packets}"
    return "\n".join([*lines, f"{result.paths} paths; best: {chosen}; gated trains: {train[1]} of {paths} paths"])


def main() -> None:
    """Print a table for each cloud."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", type=int, default=4, help="of each cloud")
    parser.add_argument("--bulk-s", type=float, default=3.0, help="of bulk TCP; the paper: 10")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"machine: {machine()}\nseed: {asked.seed}")
    for burst, (low, high) in CLOUDS.items():
        with lab.session(cloud(burst, asked.seed), source="bench-calibrate") as session:
            inventory = read_inventory(session.hosts_file)
            train = gated(inventory, asked.paths, asked.seed)
            result = calibrate(
                plan_calibration(
                    CalibrationQuestion(inventory, paths=asked.paths, bulk_s=asked.bulk_s, seed=asked.seed)
                )
            )
        print(
            f"\nFig. 6: mean error against bulk TCP, P = 1472, hosts of {low} to {high} Mbit/s, buckets of {burst}\n"
            f"{table(result, burst, train, asked.paths)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
