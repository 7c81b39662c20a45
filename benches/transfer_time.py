"""Predicts TCP transfers of 1 to 50 MB by (C, b, r) and by one rate, and times real ones.

    make bench-transfer-time [ARGS="--rates 100 300 --repeats 3 --seed 1"]

For each rate and bucket, one gated train gives C, b and r. Real TCP transfers then run between the same two hosts, each
after the bucket has filled again. "one rate" is the result of iperf3, netperf and Choreo: the sustained rate alone.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from benches.machine import machine
from benches.topologies import star

from gavotte import lab
from gavotte.formats.app import FORMAT, App
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.placement import Placement
from gavotte.measure import measure
from gavotte.run import run
from gavotte.terms.goodput import GOODPUT_PER_WIRE, transfer_s

SIZES_MB = (1, 2, 5, 10, 20, 50)


def timed(inventory: Inventory, size_bytes: int) -> float:
    """Return the seconds of one real transfer from h0 to h1."""
    app = App.model_validate(
        {
            "format": FORMAT,
            "name": "one",
            "task": [{"name": "from"}, {"name": "to"}],
            "transfer": [{"source": "from", "target": "to", "bytes": size_bytes}],
        }
    )
    placement = Placement(
        apps=["one"],
        method="given",
        assignment={"from": "h0", "to": "h1"},
        completion_s=0,
        bound_s=0,
        optimal=False,
        bottleneck="",
        elapsed_s=0,
        seed=0,
    )
    return run(placement, [app], inventory).completion_s


def main() -> None:
    """Print one row for each rate, bucket and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 300], help="Mbit/s on the wire")
    parser.add_argument("--buckets", nargs="+", default=["512kb", "5mb"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(
        f"machine: {machine()}\nseed: {arguments.seed}, {arguments.repeats} transfers of each kind, cubic, times are medians\n"
    )
    print(
        f"{'rate':>5} {'bucket':>7} {'MB':>4} {'measured s':>11} {'(C,b,r) s':>10} {'error':>8} {'one rate s':>11} {'error':>8}"
    )
    errors: list[float] = []
    singles: list[float] = []
    for rate in arguments.rates:
        for bucket in arguments.buckets:
            topology = star([f"{rate}mbit"] * 2, burst=bucket)
            with lab.session(topology, source="bench-transfer-time") as cloud:
                inventory = read_inventory(cloud.hosts_file)
                history = measure(inventory, method="train", seed=arguments.seed).history
                assert history.proof is not None
                rate_bps = 8 * history.beta_Bps[0, 0, 1]
                depth = history.proof.bucket_bytes[0, 0, 1] * GOODPUT_PER_WIRE
                peak_bps = 8 * history.proof.peak_Bps[0, 0, 1]
                refill_s = 8 * topology.host[0].burst / (rate * 1e6)
                order = [size for size in SIZES_MB for _ in range(arguments.repeats)]
                random.Random(arguments.seed).shuffle(order)
                seen: dict[int, list[float]] = {size: [] for size in SIZES_MB}
                for size in order:
                    time.sleep(1.5 * refill_s + 0.1)
                    seen[size].append(timed(inventory, size * 1_000_000))
            for size in SIZES_MB:
                actual = statistics.median(seen[size])
                full = transfer_s(size * 1e6, rate_bps, bucket_bytes=depth, peak_bps=peak_bps)
                single = transfer_s(size * 1e6, rate_bps)
                # Below the bucket's depth the host's own speed decides, and a train cannot know TCP's.
                counted = size * 1e6 > 1.2 * depth
                if counted:
                    errors.append(abs(full / actual - 1))
                    singles.append(abs(single / actual - 1))
                print(
                    f"{rate:>5} {bucket:>7} {size:>4} {actual:>11.3f} {full:>10.3f} {100 * (full / actual - 1):>+7.1f}% "
                    f"{single:>11.3f} {100 * (single / actual - 1):>+7.1f}%{'' if counted else '  (within the bucket)'}"
                )
    print(
        f"\nbeyond the bucket, n = {len(errors)}: (C,b,r) off by median {100 * statistics.median(errors):.2f} %, at most "
        f"{100 * max(errors):.2f} % (goal 3 %); one rate off by median {100 * statistics.median(singles):.1f} %, at most "
        f"{100 * max(singles):.1f} %"
    )


if __name__ == "__main__":
    main()
