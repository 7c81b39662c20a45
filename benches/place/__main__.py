"""Compares placement with greedy, the baselines and partitioners.

    make bench-place [ARGS="small|middle|large|scale|starts|real|ranks|reports|latency|job [--quick] [--seed 0]"]

Without a size it runs all ten, few instances of each and no lab, in some ten minutes. `judge`, which shares no code
with the product, computes the time of every answer.
"""

from __future__ import annotations

import sys

from benches.place import job, large, latency, middle, ranks, real, reports, scale, small, starts

SIZES = {
    "small": small.main,
    "middle": middle.main,
    "large": large.main,
    "scale": scale.main,
    "starts": starts.main,
    "real": real.main,
    "ranks": ranks.main,
    "reports": reports.main,
    "latency": latency.main,
    "job": job.main,
}

BRIEF = {
    "small": ["--quick"],
    "middle": ["--quick"],
    "large": ["--quick"],
    "scale": ["--quick"],
    "starts": ["--quick"],
    "real": ["--quick", "--no-lab"],
    "ranks": [],
    "reports": ["--quick"],
    "latency": ["--quick"],
    "job": ["--runs", "1"],
}
"""Arguments of each size if none is chosen."""


def main(arguments: list[str]) -> None:
    """Run one size or all."""
    chosen = [name for name in SIZES if name == (arguments or [""])[0]]
    rest = arguments[1:] if chosen else arguments
    for name in chosen or SIZES:
        print(f"== {name}")
        SIZES[name](rest if chosen else [*BRIEF[name], *rest])


main(sys.argv[1:])
