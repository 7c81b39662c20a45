"""Trains a network with PyTorch on lab hosts by `gavotte launch`, next to other orders of the hosts.

    tools/peers training && make bench-training
    make bench-training ARGS="--runs 8 --record docs/results/data"

Eight hosts are in two racks, named in turn as a provider's list names them, so that a ring in their order crosses the
racks' uplinks eight times. DistributedDataParallel adds up the gradients over gloo, which goes round in the order of
ranks. The first `launch` measures the hosts and counts what their sockets send; each repetition then runs every order
once, in random order. A control group limits each host to its part of this machine's cores.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benches import mpi
from benches.launch.job import limited
from benches.launch.orders import by_racks
from benches.machine import machine
from benches.recorded import command_line, write_figure
from benches.training.job import Training

from gavotte import lab
from gavotte.formats.topology import FORMAT, Topology

HOSTS, RACKS, MBIT = 8, 2, 100
GOAL = 1.3
COLUMNS = ["order", "wall time, s", "steps, s", "own order's wall time divided by it", "crossings of racks"]


def topology() -> Topology:
    """Hosts of two racks in turn; an uplink is as fast as one host."""
    rate = f"{MBIT}mbit"
    switches = [{"name": "core"}, *({"name": f"rack{i}", "parent": "core", "up": rate} for i in range(RACKS))]
    hosts = [{"name": f"h{i}", "switch": f"rack{i % RACKS}", "egress": rate, "ingress": rate} for i in range(HOSTS)]
    return Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts})


def crossings(cloud: Topology, order: Sequence[str]) -> int:
    """Return how many edges of the ring in this order leave a rack."""
    rack = {host.name: host.switch for host in cloud.host}
    return sum(rack[a] != rack[b] for a, b in zip(order, [*order[1:], order[0]], strict=True))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description="a PyTorch training by `gavotte launch`, next to other orders of hosts"
    )
    parser.add_argument("--runs", type=int, default=8, help="repetitions of each order")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--width", type=int, default=700, help="of the hidden layers: 700 make 2.2 MB of gradients")
    parser.add_argument("--seed", type=int, default=0, help="of the random order of hosts and of the runs")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    if shutil.which("torchrun") is None:
        print("PyTorch is not installed: run `tools/peers training`")
        return 1
    about, cloud, choice = machine(), topology(), random.Random(asked.seed)
    names = [host.name for host in cloud.host]
    print(f"{about}\n{HOSTS} hosts, {asked.runs} interleaved runs of each order, seed {asked.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="gvt-training-") as scratch,
        lab.session(cloud, source="bench-training") as session,
        closing(limited(names, os.cpu_count() or 1)) as groups,
    ):
        mpi.loss_based(session, names)
        job = Training(session, Path(scratch), groups, steps=asked.steps, width=asked.width)
        first, _ = job.launch()
        print(f"first run, measured and counted: {first['wall_s']:.1f} s")
        orders = {
            "own": names,
            "random": choice.sample(names, len(names)),
            "true racks": by_racks(cloud, dict.fromkeys(names, 1), HOSTS),
        }
        walls_s: dict[str, list[float]] = {name: [] for name in (*orders, "ours")}
        steps_s: dict[str, list[float]] = {name: [] for name in walls_s}
        result = first
        for _ in range(asked.runs):
            for name in choice.sample(list(walls_s), len(walls_s)):
                if name == "ours":
                    result, seconds = job.launch()
                    wall_s = float(result["wall_s"])
                else:
                    wall_s, seconds = job.in_order(orders[name])
                walls_s[name].append(wall_s)
                steps_s[name].append(seconds)
    orders["ours"] = result["order"]
    own_s, rows = statistics.median(walls_s["own"]), []
    print(f"{'order':12}{'wall s':>8}{'least':>8}{'most':>8}{'steps s':>9}{'own / it':>10}{'crossings':>11}")
    for name, each in walls_s.items():
        wall_s, seconds, crossed = (
            statistics.median(each),
            statistics.median(steps_s[name]),
            crossings(cloud, orders[name]),
        )
        print(f"{name:12}{wall_s:8.2f}{min(each):8.2f}{max(each):8.2f}{seconds:9.2f}{own_s / wall_s:10.2f}{crossed:11}")
        rows.append([name, f"{wall_s:.2f}", f"{seconds:.2f}", f"{own_s / wall_s:.2f}", str(crossed)])
    faster = own_s / statistics.median(walls_s["ours"])
    print(
        f"ours is {faster:.2f} times as fast as the hosts' own order: {'met' if faster >= GOAL else 'MISSED'} (goal {GOAL})"
    )
    if asked.record:
        write_figure(
            asked.record / "launch-training.json",
            title="A PyTorch training whose ring crosses racks, by gavotte launch",
            command=command_line("training", asked.record),
            about=about,
            seed=str(asked.seed),
            samples=f"medians of {asked.runs} interleaved runs of {asked.steps} steps",
            plot={"kind": "bars", "columns": [1, 2], "unit": "s"},
            columns=COLUMNS,
            rows=rows,
        )
    return int(faster < GOAL)


if __name__ == "__main__":
    sys.exit(main())
