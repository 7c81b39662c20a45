"""One TCP connection on lossy paths, next to what `place` and `simulate` predict.

    make bench-loss [ARGS="--seconds 12"]

Each row is a lab with that loss and round trip, and a long CUBIC transfer of iperf3 between two of its hosts.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benches.clouds.conditions import Condition
from benches.clouds.stage import staged
from benches.machine import machine

from gavotte.terms.goodput import TCP_PAYLOAD_BYTES
from gavotte.terms.loss import connection_bps

LOSSES = (0.001, 0.003, 0.01, 0.03)
ROUND_TRIPS_MS = (2, 10, 40)
SOURCE, TARGET = "b", "c"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=12, help="of each transfer, after two that do not count")
    args = parser.parse_args()
    print(f"{machine()}; one CUBIC connection of {args.seconds} s a row; TCP goodput in Mbit/s")
    print(f"{'loss':>6}{'round trip':>12}{'iperf3':>9}{'predicted':>11}{'ratio':>7}", flush=True)
    ratios = []
    for loss in LOSSES:
        for trip_ms in ROUND_TRIPS_MS:
            condition = Condition("lossy", {"loss": loss / 2, "latency": f"{trip_ms / 4:g}ms"})
            with tempfile.TemporaryDirectory() as folder, staged(condition, Path(folder) / "lab") as stage:
                real_bps = stage.iperf3_bps(SOURCE, TARGET, seconds=args.seconds)
            path_bps = condition.egress_bps(SOURCE) * condition.goodput_share
            predicted_bps = min(path_bps, float(connection_bps(loss, trip_ms / 1e3, TCP_PAYLOAD_BYTES)))
            ratios.append(real_bps / predicted_bps)
            figures = f"{real_bps / 1e6:>9.1f}{predicted_bps / 1e6:>11.1f}{ratios[-1]:>7.2f}"
            print(f"{100 * loss:>5g}%{trip_ms:>9} ms{figures}", flush=True)
    print(f"real over predicted: {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} conditions")


if __name__ == "__main__":
    main()
