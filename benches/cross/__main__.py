"""Compares estimates of cross traffic (Choreo's section 3.2) with the truth: a steady load, and a changing one.

The changing load is that of the paper's Fig. 4. Whole measurements also run while other traffic fills every uplink.

    make bench-cross [ARGS="[steady|onoff|full ...] --seconds 5 --seed 1"]

The paper's estimates come from ns-2, and are drawn; it prints no mean error.
"""

from __future__ import annotations

import argparse

from benches.cross import full, onoff, steady
from benches.machine import machine

PARTS = {"steady": steady.main, "onoff": onoff.main, "full": full.main}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=list(PARTS))
    parser.add_argument("--flows", type=int, nargs="+", default=[0, *range(1, 11)], help="steady: other connections")
    parser.add_argument("--queues", nargs="+", default=["187kb", "750kb"], help="steady: 5 and 20 ms of the uplink")
    parser.add_argument("--seconds", type=float, default=5.0, help="steady: of one connection")
    parser.add_argument("--figures", nargs="+", choices=("a", "b"), default=["a", "b"], help="onoff: of Fig. 4")
    parser.add_argument("--rate", type=float, default=200.0, help="onoff: Mbit/s of the shared link")
    parser.add_argument("--queue-ms", type=float, default=5.0, help="onoff: before the shared link")
    parser.add_argument("--runs", type=int, default=3, help="onoff: of each figure")
    parser.add_argument("--seed", type=int, default=1, help="onoff: of the first run; the others follow it")
    parser.add_argument("--hosts", type=int, default=8, help="full: in four racks")
    asked = parser.parse_args()
    print(f"machine: {machine()}\nseed: {asked.seed}")
    for part in asked.parts or PARTS:
        PARTS[part](asked)


if __name__ == "__main__":
    main()
