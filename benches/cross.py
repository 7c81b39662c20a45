"""Cross traffic of 1 to 10 background TCP connections, estimated by Choreo's section 3.2 and compared with the truth.

    make bench-cross [ARGS="--seconds 5 --seed 1"]

Background connections run between other hosts over the same uplink. The paper's Fig. 4 shows its estimates in ns-2;
it prints no mean error.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import time
from collections.abc import Iterator

import numpy as np
from benches.machine import machine

from gavotte import lab
from gavotte.errors import AgentError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure.cross import cross
from gavotte.terms.goodput import GOODPUT_PER_WIRE

UPLINK = 300e6
STARTS = 5
SETTLE_S = 3.0
"""Until the background shares fairly."""


def cloud_of(queue: str) -> Topology:
    """Two hosts at each end of one 300 Mbit/s uplink."""
    return Topology.model_validate(
        {
            "format": FORMAT,
            "switch": [{"name": "core"}, {"name": "tor", "parent": "core", "up": "300mbit", "queue": queue}],
            "host": [
                {"name": name, "switch": switch}
                for name, switch in (("a", "tor"), ("b", "core"), ("c", "tor"), ("d", "core"))
            ],
        }
    )


@contextlib.contextmanager
def background(session: lab.Session, flows: int, seconds: float) -> Iterator[None]:
    """Cubic connections from c to d for as long as the block runs."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    client_command = ["iperf3", "-c", "d", "-P", str(flows), "-t", str(int(seconds)), "-C", "cubic"]
    server = session.exec("d", ["iperf3", "-s"], **quiet)
    for _ in range(STARTS):
        time.sleep(0.3)
        client = session.exec("c", client_command, **quiet)
        time.sleep(SETTLE_S)
        if client.poll() is None:
            break
    else:
        raise AgentError(f"iperf3 did not start {flows} connections in {STARTS} tries")
    try:
        yield
    finally:
        for process in (client, server):
            process.kill()
            process.wait()


def main() -> None:
    """Prints one row for each number of background connections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flows", type=int, nargs="+", default=[0, *range(1, 11)])
    parser.add_argument("--queues", nargs="+", default=["187kb", "750kb"], help="5 and 20 ms of the uplink")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1, help="printed only: nothing here is drawn")
    arguments = parser.parse_args()
    print(
        f"machine: {machine()}\nseed: {arguments.seed}; uplink 300 Mbit/s, cubic, {arguments.seconds} s each, one run each\n"
    )
    print(
        f"{'queue':>6} {'true c':>7} {'c1/c2 - 1':>10} {'10-90 %':>13} {'mean |error|':>13} {'two conn.':>10} {'loaded ms':>10}"
    )
    for queue in arguments.queues:
        errors, medians = [], []
        with lab.session(cloud_of(queue), source="bench-cross") as session:
            inventory = read_inventory(session.hosts_file)
            for flows in arguments.flows:
                around = background(session, flows, 4 * arguments.seconds + 10) if flows else contextlib.nullcontext()
                with around:
                    known = cross(inventory, "a", "b", max_bps=UPLINK * GOODPUT_PER_WIRE, seconds=arguments.seconds)
                    try:
                        two = f"{cross(inventory, 'a', 'b', seconds=arguments.seconds).median:.1f}"
                    except AgentError:
                        two = "refused"
                error = float(np.abs(known.connections - flows).mean())
                errors.append(error)
                medians.append(abs(known.median - flows))
                print(
                    f"{queue:>6} {flows:>7} {known.median:>10.1f} {known.low:>5.1f} -{known.high:>6.1f} {error:>13.2f} "
                    f"{two:>10} {1e3 * known.rtt_loaded_s:>10.1f}",
                    flush=True,
                )
        print(
            f"{queue:>6} mean |estimate - true| over {len(errors)} loads: of the median over time {np.mean(medians):.2f} "
            f"connections, of single windows of 100 ms {np.mean(errors):.2f}\n"
        )


if __name__ == "__main__":
    main()
