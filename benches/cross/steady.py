"""Cross traffic of 0 to 10 steady background TCP connections, between other hosts over the same uplink.

It is estimated once with the path's known rate, once by turns of one and several connections.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import time
from collections.abc import Iterator

import numpy as np

from gavotte import lab
from gavotte.errors import AgentError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure.cross import CrossQuestion, cross
from gavotte.terms.goodput import GOODPUT_PER_WIRE

UPLINK = 300e6
STARTS = 5
SETTLE_S = 3.0
"""Time until the background shares fairly."""


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
    """Keep cubic connections from c to d for as long as the block runs."""
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


def main(arguments: argparse.Namespace) -> None:
    """Print one row for each number of background connections."""
    print(f"uplink 300 Mbit/s, cubic, {arguments.seconds} s of one connection each, one run each\n")
    print(
        f"{'queue':>6} {'true c':>7} {'c1/c2 - 1':>10} {'10-90 %':>13} {'mean |error|':>13} {'by turns':>9} {'interval':>15} "
        f"{'loaded ms':>10}"
    )
    for queue in arguments.queues:
        errors, medians, turns = [], [], []
        with lab.session(cloud_of(queue), source="bench-cross") as session:
            inventory = read_inventory(session.hosts_file)
            for flows in arguments.flows:
                around = background(session, flows, 6 * arguments.seconds + 30) if flows else contextlib.nullcontext()
                with around:
                    known = cross(
                        CrossQuestion(inventory, "a", "b", max_bps=UPLINK * GOODPUT_PER_WIRE, seconds=arguments.seconds)
                    )
                    two = cross(CrossQuestion(inventory, "a", "b", seconds=max(arguments.seconds, 6.0)))
                error = float(np.abs(known.connections - flows).mean())
                errors.append(error)
                medians.append(abs(known.median - flows))
                turns.append((flows, two))
                print(
                    f"{queue:>6} {flows:>7} {known.median:>10.1f} {known.low:>5.1f} -{known.high:>6.1f} {error:>13.2f} "
                    f"{f'{two.median:.1f}' if two.told else 'unknown':>9} {two.low:>6.1f} -{two.high:>7.1f} "
                    f"{1e3 * known.rtt_loaded_s:>10.1f}",
                    flush=True,
                )
        known_turns = [(flows, two) for flows, two in turns if two.told]
        inside = sum(two.low <= flows <= two.high for flows, two in turns)
        off = [abs(two.median - flows) for flows, two in known_turns]
        print(
            f"{queue:>6} mean |estimate - true| over {len(errors)} loads: of the median over time {np.mean(medians):.2f} "
            f"connections, of single windows of 100 ms {np.mean(errors):.2f}\n"
            f"{queue:>6} by turns: known in {len(known_turns)} of {len(turns)}"
            f"{f', off by {np.mean(off):.2f} in the mean, {max(off):.2f} at most' if off else ''}; the truth within the interval "
            f"in {inside} of {len(turns)}\n"
        )
