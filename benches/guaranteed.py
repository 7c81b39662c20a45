"""Shuffles of `gavotte shuffle` next to bandwidth guarantees: as commands run them, with and without a Network.

    make bench-shuffle ARGS="guaranteed [--runs 5 --rate 100 --unit 6 --share 0.4 --seed 1]"

Every host sends one unit to every other one, except that the first sends four times as much to the second. Ports are
equal both ways. Hosts are guaranteed a share of their ports in both directions. The Network is measured before the
guarantees.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benches.machine import machine
from benches.topologies import star

from gavotte import lab
from gavotte.formats.guarantee import FORMAT, Guarantee
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import write_network
from gavotte.guarantee import apply, clear
from gavotte.measure import measure
from gavotte.model import model

GAVOTTE = Path(sys.executable).with_name("gavotte")
HOSTS = ("h0", "h1", "h2", "h3")
SKEW = 4
"""How many units the first host sends to the second."""
LIMIT_S = 300.0
GOAL, FREE_GOAL = 1.2, 1.5
"""Most times as long as plain TCP next to the same guarantees, and as without guarantees."""

WAYS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "no guarantees, measured": (False, ()),
    "no guarantees, `standard`": (False, ("--network", "n.network.json", "--mode", "standard")),
    "guarantees, no Network": (True, ()),
    "guarantees, `--network`": (True, ("--network", "n.network.json")),
    "guarantees, `standard`": (True, ("--network", "n.network.json", "--mode", "standard")),
}
"""Whether guarantees are kept meanwhile, and the command's options."""


def matrix(unit_bytes: int) -> str:
    """Return the bytes from each host to each other one, as the command reads them."""
    pairs = [(m, n) for m in HOSTS for n in HOSTS if m != n]
    rows = [f"{m},{n},{unit_bytes * (SKEW if (m, n) == HOSTS[:2] else 1)}" for m, n in pairs]
    return "\n".join(["source,target,bytes", *rows]) + "\n"


def keep(inventory: Inventory, rate_mbit: float, share: float) -> None:
    """Guarantee each host of the shuffle a share of its port, both ways."""
    rate = f"{rate_mbit * share:g}mbit"
    entries = [{"host": host, "egress": rate, "ingress": rate} for host in HOSTS]
    apply(Guarantee.model_validate({"format": FORMAT, "guarantee": entries}), inventory)


def carry(cloud: lab.Session, folder: str, options: Sequence[str]) -> dict[str, Any]:
    """Run the command and return what it reports."""
    line = [str(GAVOTTE), "shuffle", "bytes.csv", "--hosts", str(cloud.hosts_file), "--json", *options]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout))


def main(words: Sequence[str]) -> None:
    """Print one row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each kind")
    parser.add_argument("--rate", type=float, default=100.0, help="of each host, Mbit/s on the wire")
    parser.add_argument("--unit", type=float, default=6.0, help="MB")
    parser.add_argument("--share", type=float, default=0.4, help="of its port that a host is guaranteed")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    print(f"machine: {machine()}\nseed: {given.seed}, {given.runs} runs of each kind, in random order")
    times_s: dict[str, list[float]] = defaultdict(list)
    bound_s = 0.0
    todo = [way for way in WAYS for _ in range(given.runs)]
    random.Random(given.seed).shuffle(todo)
    topology = star([f"{given.rate:g}mbit"] * len(HOSTS), both=True)
    with TemporaryDirectory() as folder, lab.session(topology, source="bench-shuffle") as cloud:
        inventory = read_inventory(cloud.hosts_file)
        Path(folder, "bytes.csv").write_text(matrix(round(given.unit * 1e6)))
        write_network(Path(folder, "n.network.json"), model(measure(inventory, seed=given.seed).history))
        for way in todo:
            guarded, options = WAYS[way]
            if guarded:
                keep(inventory, given.rate, given.share)
            try:
                done = carry(cloud, folder, options)
            finally:
                clear(inventory)
            times_s[way].append(done["elapsed_s"])
            bound_s = done["bound_s"] or bound_s
    medians_s = {way: statistics.median(runs) for way, runs in times_s.items()}
    print(f"bound by the Network measured before: {bound_s:.3f} s\n")
    print(f"{'':<28} {'median s':>9} {'least':>7} {'most':>7} {'x bound':>8}")
    for way, runs in times_s.items():
        print(f"{way:<28} {medians_s[way]:>9.3f} {min(runs):>7.3f} {max(runs):>7.3f} {medians_s[way] / bound_s:>8.3f}")
    plain = medians_s["guarantees, no Network"] / medians_s["guarantees, `standard`"]
    free = medians_s["guarantees, no Network"] / medians_s["no guarantees, measured"]
    for what, ratio, most in (
        ("plain TCP next to the same guarantees", plain, GOAL),
        ("no guarantees", free, FREE_GOAL),
    ):
        print(f"without a Network: {ratio:.2f} times {what} (goal {most}: {'met' if ratio <= most else 'missed'})")


if __name__ == "__main__":
    main(sys.argv[1:])
