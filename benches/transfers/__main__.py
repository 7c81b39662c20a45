"""Orders of transfers: Orchestra's cases and an hour of coflows in the fluid model, or its cases on real packets.

    make bench-transfers [ARGS="--seeds 5 --trace FB2010-1Hr-150-0.txt --step 2 --record docs/results/data"]
    make bench-transfers ARGS="lab [--runs 5 --hosts 5 --mbit 20 --only four priority --record docs/results/data]"
    make bench-transfers ARGS="deadlines [--seeds 2 --slack 1 --gbit 1 --record docs/results/data]"
    make bench-transfers ARGS="iterations [--runs 5 --workers 6 --mbit 20 --record docs/results/data]"
    make bench-transfers ARGS="limits [--only submit --flows 300000]"

fluid.py, lab.py, deadlines.py, iterations.py and limits.py describe the cases.
"""

from __future__ import annotations

import sys

from benches.transfers import deadlines, fluid, iterations, lab, limits


def main() -> None:
    """Run the requested part."""
    parts = {"lab": lab.main, "deadlines": deadlines.main, "iterations": iterations.main, "limits": limits.main}
    if sys.argv[1:2] and sys.argv[1] in parts:
        parts[sys.argv[1]](sys.argv[2:])
    else:
        fluid.main()


if __name__ == "__main__":
    main()
