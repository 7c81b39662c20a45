"""One TCP connection behind a policer, next to what `place` and `simulate` predict.

    make bench-policer [ARGS="--seconds 6"]

Each row is a lab whose hosts have policers with buckets of that depth, and a long CUBIC transfer of iperf3.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benches.clouds.conditions import Condition
from benches.clouds.stage import staged
from benches.machine import machine

from gavotte.terms.goodput import TCP_PAYLOAD_BYTES
from gavotte.terms.policer import policed_bps

DEPTHS_KIB = (32, 64, 128, 256, 512, 1024)
ROUND_TRIPS_MS = (0.2, 2, 10, 40)
PATHS = (("a", "b"), ("b", "c"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6, help="of each transfer, after two that do not count")
    parser.add_argument("--trips", type=float, nargs="+", default=ROUND_TRIPS_MS, metavar="MS", help="round trips")
    args = parser.parse_args()
    print(f"{machine()}; one CUBIC connection of {args.seconds} s a row; TCP goodput in Mbit/s")
    print(f"{'bucket':>9}{'rate':>6}{'round trip':>12}{'iperf3':>9}{'predicted':>11}{'ratio':>7}", flush=True)
    ratios = []
    for trip_ms in args.trips:
        for depth_kib in DEPTHS_KIB:
            keys = {"policer": True} | ({"latency": f"{trip_ms / 4:g}ms"} if trip_ms >= 1 else {})
            condition = Condition("policed", keys, burst_bytes=depth_kib << 10)
            with tempfile.TemporaryDirectory() as folder, staged(condition, Path(folder) / "lab") as stage:
                for source, target in PATHS:
                    real_bps = stage.iperf3_bps(source, target, seconds=args.seconds)
                    path_bps = condition.egress_bps(source) * condition.goodput_share
                    bucket_bytes = condition.burst_bytes * condition.goodput_share
                    one_bps = float(policed_bps(path_bps, bucket_bytes, trip_ms / 1e3, TCP_PAYLOAD_BYTES))
                    predicted_bps = min(path_bps, one_bps)
                    ratios.append(real_bps / predicted_bps)
                    figures = f"{real_bps / 1e6:>9.1f}{predicted_bps / 1e6:>11.1f}{ratios[-1]:>7.2f}"
                    rate_mbps = condition.egress_bps(source) / 1e6
                    print(f"{depth_kib:>5} KiB{rate_mbps:>6g}{trip_ms:>9g} ms{figures}", flush=True)
    print(f"real over predicted: {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} conditions")


if __name__ == "__main__":
    main()
