"""Repeats Choreo's evaluation: sections 5 and 6, Fig. 10 with real transfers in the lab, and section 7.2 by simulation.

    make bench-choreo ARGS="[figure9|optimal|lab|migrations|error|reviews|tenants ...] [--quick] [--plots CDF.png] [-o ROWS.jsonl]"

workloads.py has the recipe of clouds and workloads, and each run prints its drawn ones. `error` shows the remaining
gain when measurements are worse. `reviews` shows the gain of migration by the fluid model, `migrations` the same with
real transfers. `optimal` compares greedy with the optimum (section 5), and `tenants` shows the gain of several tenants
of one cloud.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benches.choreo import error, figure9, lab, migrations, optimal, reviews, tenants
from benches.choreo.workloads import FAMILIES
from benches.machine import machine

from gavotte import lab as real

PARTS = ("figure9", "optimal", "lab", "migrations", "error", "reviews", "tenants")
IN_LAB = {"lab": lab.main, "migrations": migrations.main}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if left out")
    parser.add_argument("--quick", action="store_true", help="two clouds, few workloads")
    parser.add_argument("--seed", type=int, default=1, help="of the first cloud; the others follow it")
    parser.add_argument("--family", choices=FAMILIES, default=FAMILIES[0], help="whose rates the clouds have")
    parser.add_argument("--clouds", type=int, default=10, help="lab, migrations: how many")
    parser.add_argument(
        "--per-cloud", type=int, default=3, help="lab: workloads of each kind on each cloud; migrations: workloads"
    )
    parser.add_argument("--fastest", type=float, default=200.0, help="lab, migrations: Mbit/s of the fastest host")
    parser.add_argument("--target", type=float, default=2.0, help="lab: seconds that baselines take in the mean")
    parser.add_argument(
        "--limit", type=float, default=1.0, help="lab, migrations, optimal: seconds for a placement of ours"
    )
    parser.add_argument("--tries", type=int, default=2, help="lab, migrations: runs at most while the machine is busy")
    parser.add_argument("--fluid", action="store_true", help="lab: also the gains by the fluid model")
    parser.add_argument("--error-workloads", type=int, default=100, help="error: of each kind")
    parser.add_argument("--review-workloads", type=int, default=40, help="reviews: how many")
    parser.add_argument(
        "--error-limit", type=float, default=0.1, help="error, reviews, tenants: seconds for a placement of ours"
    )
    parser.add_argument("--tenant-clouds", type=int, default=20, help="tenants: how many clouds")
    parser.add_argument("--plots", type=Path, metavar="FILE", help="lab: draw the CDFs, as .png, .svg or .pdf")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="lab: append each workload's times as JSON lines"
    )
    asked = parser.parse_args()
    parts = asked.parts or list(PARTS)
    for part in parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}; choose of {', '.join(PARTS)}")
    if asked.quick:
        asked.clouds, asked.per_cloud, asked.error_workloads, asked.review_workloads = 2, 1, 6, 4
    print(f"machine: {machine()}\n")
    if "figure9" in parts:
        figure9.main()
    if "optimal" in parts:
        optimal.main(asked)
    for part in (part for part in IN_LAB if part in parts):
        if not real.supported():
            sys.exit(f"no lab can run here: {real.missing()}")
        print()
        IN_LAB[part](asked)
    if "error" in parts:
        error.main(asked)
    if "reviews" in parts:
        reviews.main(asked)
    if "tenants" in parts:
        tenants.main(asked)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
