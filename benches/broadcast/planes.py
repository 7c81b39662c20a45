"""The plane in which racks are inferred from block times (Orchestra's Fig. 12), on real packets.

    make bench-broadcast ARGS="planes [--receivers 30 --train 10 --draws 10 --record docs/results/data]"

Cornet broadcasts train in two clouds: three racks behind slow uplinks, as the paper's DETERlab, and one switch, as its
EC2. The paper infers the racks from 10 broadcasts. `--draws` times, half of ours are drawn, and the racks are inferred
from these alone. The plane that is drawn comes from all of them.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benches.broadcast.cases import Case, case
from benches.broadcast.ways import ways
from benches.machine import machine
from benches.recorded import write_figure

from gavotte import lab
from gavotte.transfer.blocktimes import BlockTimes
from gavotte.transfer.clustering import infer_partitions, projected, worth_it

PAPER = {"racks": "exact in 9 of 10 runs, once 5 clusters", "equal": "one cluster"}
PRINTED = {"racks": "three racks", "equal": "one switch"}


def trained(cloud: Case, given: argparse.Namespace) -> list[np.ndarray]:
    """Return the median block times of each of the training broadcasts, from row to column."""
    names, medians = cloud.network.names[1:], []
    with tempfile.TemporaryDirectory() as folder, lab.session(cloud.topology, source="bench-broadcast") as session:
        file = Path(folder) / "object"
        file.write_bytes(os.urandom(round(1e6 * given.mb)))
        for number in range(given.train):
            scratch, times = Path(folder) / str(number), Path(folder) / f"{number}.json"
            scratch.mkdir()
            ways(["cornet"], None, times)["cornet"](session, cloud, file, scratch)
            medians.append(BlockTimes.read(times).medians(names))
            print(f"  training broadcast {number + 1} of {given.train}", flush=True)
    return medians


def together(medians: Sequence[np.ndarray]) -> np.ndarray:
    """Return the median over several broadcasts; NaN where none has a time."""
    known = np.isfinite(medians).any(axis=0)
    filled = np.where(known, medians, 0.0)
    return np.where(known, np.nanmedian(np.where(np.isfinite(medians) | ~known, filled, np.nan), axis=0), np.nan)


def groups(times: np.ndarray, seed: int) -> list[int]:
    """Return the partitions that a broadcast would use."""
    inferred = infer_partitions(times, seed=seed)
    return inferred if worth_it(times, inferred) else [0] * len(times)


def same(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two divisions of the hosts are equal but for their numbers."""
    pairs = [(m, n) for m in range(len(one)) for n in range(m)]
    return all((one[m] == one[n]) == (other[m] == other[n]) for m, n in pairs)


def main(words: Sequence[str]) -> None:
    """Print one row for each cloud."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receivers", type=int, default=30)
    parser.add_argument("--train", type=int, default=10, help="broadcasts that train")
    parser.add_argument("--draws", type=int, default=10, help="inferences from half of these")
    parser.add_argument("--mb", type=float, default=2.0)
    parser.add_argument("--mbit", type=float, default=5.0, help="of each port, on the wire")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    given = parser.parse_args(words)
    about, draw = machine(), random.Random(1)
    print(f"{about}; seed 1, {given.train} broadcasts, {given.draws} draws")
    columns = ["cloud", "clusters", "racks are exact", "clusters of half the broadcasts", "paper"]
    rows, planes = [], {}
    for kind, printed in PRINTED.items():
        cloud = case(kind, given.receivers, given.mbit, seed=1, line=1.0)
        racks = [cloud.racks[name] for name in cloud.network.names[1:]]
        medians = trained(cloud, given)
        times = together(medians)
        inferred = groups(times, 1)
        points = projected(times, seed=1)
        assert points is not None, "the broadcasts leave most pairs without a block"
        # In seconds for a megabyte, like the paper's blocks of 4 MB in milliseconds.
        planes[printed] = [
            [*(1e6 * point).tolist(), rack, group] for point, rack, group in zip(points, racks, inferred, strict=True)
        ]
        drawn = [groups(together(draw.sample(medians, max(1, len(medians) // 2))), seed) for seed in range(given.draws)]
        exact = sum(same(each, racks) for each in drawn)
        counts = sorted(len(set(each)) for each in drawn)
        rows.append(
            [
                f"{printed}, {given.receivers} receivers",
                str(len(set(inferred))),
                f"{'yes' if same(inferred, racks) else 'no'}; {exact} of {given.draws} draws",
                " ".join(map(str, counts)),
                PAPER[kind],
            ]
        )
        print("  ".join(rows[-1]), flush=True)
    if given.record:
        write_figure(
            given.record / "orchestra-planes.json",
            title="Receivers by their block times",
            command=f'make bench-broadcast ARGS="planes --train {given.train}"',
            about=about,
            seed="1",
            samples=f"{given.train} broadcasts of {given.mb:g} MB in each cloud, ports of {given.mbit:g} Mbit/s",
            plot={"kind": "plane", "unit": "s for 1 MB"},
            columns=columns,
            rows=rows,
            planes=planes,
        )
