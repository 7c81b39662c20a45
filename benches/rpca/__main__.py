"""The RPCA paper's experiments (Fig. 1, 2 and 5 to 13), our trees next to its own, and real transfers in the lab.

    make bench-rpca [ARGS="PART... --quick --seeds 30 --seed 1 --plots FILE"]

    `example`    Fig. 1 and 2: the running example of four machines
    `trees`      our trees next to FNF on the same network, 64 and 196 hosts
    `bounds`     how much better than ours any scatter, allgather or allreduce could be
    `racks`      trees and rings that know racks' links next to those that do not, and the time that pricing takes
    `replay`     Fig. 7, 8, 10, 11: broadcast, scatter and mapping at several Norm(N_E), from synthetic traces
    `steps`      Fig. 5: how many snapshots are enough
    `threshold`  Fig. 6: when to calibrate again
    `simulate`   Fig. 12, 13: a cluster of 1024 hosts in 32 racks with background traffic
    `sweeps`     Fig. 9: N-body and CG over steps, message and vector sizes, by replay
    `lab`        broadcast, scatter and mapping in a lab, real transfers under background traffic
    `apps`       N-body and CG in a lab, next to Open MPI's and MPICH's own collectives

All differences are of pairs, with their standard errors. Estimators are those of `gavotte.model.METHODS`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benches.machine import machine
from benches.rpca import apps, bounds, cluster, example, racks, real, replay, sweeps
from benches.rpca.plots import Plots

from gavotte.model import METHODS

PARTS = {
    "example": example.figure,
    "trees": replay.trees,
    "bounds": bounds.limits,
    "racks": racks.figures,
    "replay": replay.figures,
    "steps": replay.steps,
    "threshold": replay.threshold,
    "simulate": cluster.figures,
    "sweeps": sweeps.figures,
    "lab": real.figures,
    "apps": apps.totals,
}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=30, help="repetitions")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--size", type=int, default=196, help="hosts in replays")
    parser.add_argument("--norms", type=float, nargs="+", default=[0.1, 0.2, 0.5])
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, help="estimators in addition to mean and auto; all if left out"
    )
    parser.add_argument("--clouds", type=int, help="labs of the real runs, for each norm (6; of apps 2)")
    parser.add_argument("--operations", nargs="+", choices=real.OPERATIONS, default=real.OPERATIONS, help="of the lab")
    parser.add_argument("--snapshots", type=int, default=10, help="of a calibration in the lab")
    parser.add_argument(
        "--keep", type=Path, help="keep each cloud of the lab here, and continue from them", metavar="FILE"
    )
    parser.add_argument("--plots", type=Path, help="draw the distributions and curves", metavar="FILE.png|svg|pdf")
    parser.add_argument("--record", type=Path, help="folder to write the error of replay to, as docs/results has it")
    parser.add_argument("--quick", action="store_true", help="3 repetitions, 64 hosts: whether it runs")
    arguments = parser.parse_args()
    arguments.plots = Plots(arguments.plots)
    if arguments.quick:
        arguments.seeds, arguments.size, arguments.snapshots = 3, 64, 3
    print(
        f"machine: {machine()}\nseed: {arguments.seed} to {arguments.seed + arguments.seeds - 1}, "
        f"{arguments.seeds} repetitions; ± is one standard error of paired differences"
    )
    for part in arguments.parts or PARTS:
        print(f"\n== {part}")
        PARTS[part](arguments)
        arguments.plots.write()


if __name__ == "__main__":
    main()
