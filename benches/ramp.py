"""Single TCP connections of several sizes on paths with several round trips, next to what `place` predicts.

    make bench-ramp [ARGS="--repeats 1"]

Each row is a lab with that round trip. `run` sends a transfer between two of its hosts, which are capped at 40 and 60
Mbit/s, with a queue of 50 ms. A prediction counts until the receiver has the last byte, so half a round trip, in which
it confirms this to the sender, is subtracted from the real time.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

from benches.clouds.conditions import Condition
from benches.clouds.stage import Stage, staged
from benches.machine import machine

from gavotte.formats.app import App, Task, Transfer, write_app
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.formats.placement import write_placement
from gavotte.place import evaluate
from gavotte.terms.goodput import transfer_s

ROUND_TRIPS_MS = (0.2, 10, 40, 80, 150)
SIZES_MB = (0.3, 1, 4, 16)
PATHS = (("a", "b"), ("b", "c"))
MB = 1_000_000


def network(condition: Condition) -> Network:
    """Return the Network of a condition as it truly is."""
    hosts = [
        Host(name=name, cpus=2.0, egress_bps=condition.egress_bps(name) * condition.goodput_share)
        for name in condition.names
    ]
    rows = [[None if one is other else one.egress_bps for other in hosts] for one in hosts]
    latency_s = [[None if one is other else condition.round_trip_s / 2 for other in hosts] for one in hosts]
    return Network(format=FORMAT, hosts=hosts, rate_bps=rows, latency_s=latency_s)


def ran(stage: Stage, source: str, target: str, size: int) -> tuple[float, float]:
    """Return the seconds of a transfer, and its predicted seconds."""
    app = App(
        format="gavotte/app/1",
        name="one",
        task=[Task(name="x", cpus=2.0), Task(name="y", cpus=2.0)],
        transfer=[Transfer(source="x", target="y", bytes=size)],
    )
    placement = evaluate(network(stage.condition), [app], {"x": source, "y": target})
    write_app(stage.folder / "one.app.toml", app)
    write_placement(stage.folder / "p.placement.json", placement)
    done = stage.gavotte("run", "p.placement.json", "one.app.toml", "--hosts", "lab")
    return done["completion_s"] - stage.condition.round_trip_s / 2, done["predicted_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each transfer; the median counts")
    args = parser.parse_args()
    print(f"{machine()}; one CUBIC connection a row, median of {args.repeats}; seconds")
    print(f"{'round trip':>10}{'Mbit/s':>8}{'MB':>6}{'real':>8}{'predicted':>11}{'ratio':>7}{'of rate':>9}", flush=True)
    ratios = []
    for trip_ms in ROUND_TRIPS_MS:
        # The lab adds latencies through an element that is absent without one: its own round trip is about 0.2 ms.
        keys = {"latency": f"{trip_ms / 4:g}ms"} if trip_ms >= 1 else {}
        condition = Condition("far", keys)
        with tempfile.TemporaryDirectory() as folder, staged(condition, Path(folder) / "lab") as stage:
            for source, target in PATHS:
                for size_mb in SIZES_MB:
                    runs = [ran(stage, source, target, round(size_mb * MB)) for _ in range(args.repeats)]
                    real_s, predicted_s = median(run[0] for run in runs), runs[0][1]
                    ratios.append(real_s / predicted_s)
                    rate_bps = condition.egress_bps(source)
                    plain = real_s / transfer_s(size_mb * MB, rate_bps * condition.goodput_share)
                    figures = f"{size_mb:>6g}{real_s:>8.3f}{predicted_s:>11.3f}{ratios[-1]:>7.2f}{plain:>9.2f}"
                    print(f"{trip_ms:>7g} ms{rate_bps / 1e6:>8g}{figures}", flush=True)
    print(f"real over predicted: {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} conditions")


if __name__ == "__main__":
    main()
