"""The paper's Fig. 9: four machines in a ring, where greedy takes the fastest path first and loses later."""

from __future__ import annotations

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import place
from gavotte.simulate import Advance

MBIT = 1e6
MB = 1_000_000
PATHS = {("m1", "m2"): 1, ("m1", "m3"): 10, ("m2", "m4"): 8, ("m3", "m4"): 9}
"""Rates that the figure draws. For other machines it draws none; they get a tenth of the slowest."""
NOT_DRAWN = 0.1


def network() -> Network:
    """The figure's machines, of one core each, and Mbit/s for its units."""
    names = ["m1", "m2", "m3", "m4"]
    both = PATHS | {(b, a): rate for (a, b), rate in PATHS.items()}
    rates = [[None if a == b else both.get((a, b), NOT_DRAWN) * MBIT for b in names] for a in names]
    return Network.model_validate(
        {
            "format": "gavotte/network/1",
            "hosts": [{"name": name, "cpus": 1.0} for name in names],
            "rate_bps": rates,
            "latency_s": [[None] * 4 for _ in names],
            "sharing": "pipe",
        }
    )


def app() -> App:
    """The figure's tasks."""
    transfers = [("J1", "J2", 100), ("J1", "J3", 50), ("J2", "J4", 50)]
    return App.model_validate(
        {
            "format": "gavotte/app/1",
            "name": "figure-9",
            "task": [{"name": f"J{j}"} for j in range(1, 5)],
            "transfer": [{"source": a, "target": b, "bytes": size * MB} for a, b, size in transfers],
        }
    )


def main() -> None:
    """Print each method's placement of the four tasks, and its time."""
    net, figure = network(), app()
    advance = Advance(net)
    print("Fig. 9: J1 to J2 100 MB, J1 to J3 and J2 to J4 50 MB; paths of 10, 9, 8 and 1 Mbit/s\n")
    print(f"{'method':<10} {'predicted s':>11} {'fluid s':>8}  {'bound s':>8}  placement")
    for method in ("greedy", "search", "optimal", "ilp"):
        placement = place(net, [figure], method)
        fluid_s = advance([figure], [placement.assignment]).finish_s[0]
        where = ", ".join(f"{task} {host}" for task, host in placement.assignment.items())
        print(f"{method:<10} {placement.completion_s:>11.2f} {fluid_s:>8.2f}  {placement.bound_s:>8.2f}  {where}")
    print(
        "\npaper: greedy uses the path of rate 1 and is not optimal; the optimum avoids it (J1 to J2 on the path of rate 9)"
    )
