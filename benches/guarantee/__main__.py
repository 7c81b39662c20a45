"""Bandwidth guarantees: ElasticSwitch's experiments (SIGCOMM 2013, section 7), simulated at 1 Gbit/s.

    make bench-guarantee [ARGS="[simulated] --parts many-to-one sharing --seeds 5 --seconds 10"]

Compared are no protection, static reservation (Oktopus), Seawall, the paper's algorithm with drops and with marks as
far as its constants are known, and Gavotte with drops and with marks. The paper's own figures are from a testbed.

    make bench-guarantee ARGS="lab [--runs 5 --seconds 8 --senders 1 10 50 --only e1 --protections ecn loss]"

The same on real packets, at a tenth of the paper's rates: `python -m benches.guarantee lab --help`.

    make bench-guarantee ARGS="bypass [--seconds 8 --runs 3]"

Real packets of a neighbour that sends past its pair or changes its host's queues, and of a tunnel.

    make bench-guarantee ARGS="storm --seconds 600 --seed 1"

Real packets while guarantees change at random, agents are killed and hosts removed: how long is a guarantee broken?
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benches.guarantee import bypass, lab, simulated, storm
from benches.machine import machine

WHERE: dict[str, Callable[[argparse.Namespace], None]] = {"simulated": simulated.main}


def main() -> None:
    """Run the requested part."""
    if sys.argv[1:2] == ["lab"]:
        lab.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["bypass"]:
        bypass.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["storm"]:
        storm.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", nargs="*", choices=[[], *WHERE], default=list(WHERE))
    parser.add_argument("--parts", nargs="+", choices=list(simulated.PARTS), default=list(simulated.PARTS))
    parser.add_argument("--seeds", type=int, default=5, help="runs of everything")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; the others follow it")
    parser.add_argument("--seconds", type=float, default=12.0, help="of each run, the first three not counted")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 10, 50, 150, 300])
    asked = parser.parse_args()
    print(f"machine: {machine()}\nseeds: {asked.seed} to {asked.seed + asked.seeds - 1}")
    for where in asked.where or WHERE:
        WHERE[where](asked)


if __name__ == "__main__":
    main()
