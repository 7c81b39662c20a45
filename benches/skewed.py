"""Skewed shuffles over oversubscribed racks on real packets: each mode next to the bound and to plain TCP.

    make bench-shuffle ARGS="skewed [--matrices 5 --runs 1 --mbit 40 --seconds 6 --cross 0 --seed 1]"

Each matrix has 6 to 8 senders and receivers and 33 to 45 flows, whose sizes differ up to a hundred times. Hosts are in
racks whose uplinks carry less than their hosts together. The Network is the truth. With `--cross N`, N plain TCP
connections share the uplink that decides the bound; the time is then compared with that of the best mode only. A second
number then compares it with the time that the uplink needs for the shuffle and for what the others got meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benches.machine import machine, processor_times

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import MODES, shuffle, wss_bound
from gavotte.transfer.shuffling import slowest_flows

RACKS, HOSTS_PER_RACK = 4, 4
UPLINKS = (0.5, 0.75, 1.0, 1.5)
"""What a rack can send and receive, compared with one of its hosts."""

FLOWS = range(33, 46)
SPREAD = 100.0
"""Largest flow compared with the smallest one."""

GOAL = 1.02
"""Of the bound, and of the best mode."""

START_S, SETTLE_S = 0.5, 2.0
"""Time until the others' receiver listens, and until its connections fill the link."""

SOURCE = Path(__file__).parent / "cross" / "source.py"


def cloud(draw: random.Random, host_mbit: float) -> tuple[Topology, Network]:
    """Draw racks with uplinks of their own. Return them and their true Network."""
    uplinks = [host_mbit * draw.choice(UPLINKS) for _ in range(RACKS)]
    names = [f"h{number}" for number in range(RACKS * HOSTS_PER_RACK)]
    switches = [
        {"name": "core"},
        *({"name": f"tor{r}", "parent": "core", "up": f"{uplinks[r]}mbit"} for r in range(RACKS)),
    ]
    caps = {"egress": f"{host_mbit}mbit", "ingress": f"{host_mbit}mbit", "cpus": 4.0}
    hosts = [{"name": name, "switch": f"tor{at // HOSTS_PER_RACK}"} | caps for at, name in enumerate(names)]
    per_mbit = 1e6 * GOODPUT_PER_WIRE
    network = {
        "format": "gavotte/network/1",
        "hosts": [
            {"name": name, "egress_bps": host_mbit * per_mbit, "ingress_bps": host_mbit * per_mbit} for name in names
        ],
        "rate_bps": [[None] * len(names) for _ in names],
        "latency_s": [[None] * len(names) for _ in names],
        "groups": [
            {
                "name": f"tor{r}",
                "members": names[HOSTS_PER_RACK * r : HOSTS_PER_RACK * (r + 1)],
                "up_bps": uplinks[r] * per_mbit,
                "down_bps": uplinks[r] * per_mbit,
            }
            for r in range(RACKS)
        ],
        "sharing": "groups",
    }
    return Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts}), Network.model_validate(
        network
    )


def matrix(draw: random.Random, network: Network, seconds: float) -> list[HostBytes]:
    """Draw a matrix whose bound is this long."""
    senders = draw.sample(network.names, draw.randint(6, 8))
    receivers = draw.sample(network.names, draw.randint(6, 8))
    pairs = [(source, target) for source in senders for target in receivers if source != target]
    chosen = draw.sample(pairs, min(len(pairs), draw.choice(FLOWS)))
    weights = {pair: SPREAD ** draw.random() for pair in chosen}
    bound_s, _ = wss_bound(network, [(*pair, weight) for pair, weight in weights.items()])
    return [HostBytes(*pair, max(1, round(weight * seconds / bound_s))) for pair, weight in weights.items()]


@contextlib.contextmanager
def crossing(session: lab.Session, link: str | None, count: int) -> Iterator[Path | None]:
    """Keep plain TCP connections on the uplink or downlink of the rack that decides the bound.

    Yields:
        file with the number of bytes that they have moved.
    """
    if not count or link is None or "tor" not in link:
        yield None
        return
    rack = int(link[link.index("tor") + 3 :].split()[0])
    inside, outside = f"h{rack * HOSTS_PER_RACK}", f"h{(rack + 1) % RACKS * HOSTS_PER_RACK}"
    source, target = (inside, outside) if link.startswith("up") else (outside, inside)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, str(SOURCE)]
    folder = tempfile.TemporaryDirectory()
    counted = Path(folder.name) / "bytes"
    processes = [session.exec(target, [*python, "sink", str(counted)], **quiet)]
    try:
        time.sleep(START_S)
        processes += [session.exec(source, [*python, "full", target, "600"], **quiet) for _ in range(count)]
        time.sleep(SETTLE_S)
        yield counted
    finally:
        for process in processes:
            process.kill()
            process.wait()
        folder.cleanup()


def moved_bytes(counted: Path | None) -> int:
    """Return how many bytes others have moved."""
    return int(counted.read_text()) if counted is not None else 0


def main(words: Sequence[str]) -> None:
    """Print one row for each matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=int, default=5)
    parser.add_argument("--runs", type=int, default=1, help="of each mode for each matrix")
    parser.add_argument("--mbit", type=float, default=40.0, help="of each host")
    parser.add_argument("--seconds", type=float, default=6.0, help="bound of each matrix")
    parser.add_argument("--cross", type=int, default=0, help="connections of others on the slowest uplink")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    print(f"machine: {machine()}\nseed: {given.seed}, {given.matrices} matrices, {given.runs} runs of each mode")
    print(f"{'seed':>4} {'flows':>5} {'bound s':>8}  " + " ".join(f"{mode:>12}" for mode in given.modes) + "  link")
    worst: dict[str, float] = defaultdict(float)
    before = processor_times()
    for seed in range(given.seed, given.seed + given.matrices):
        draw = random.Random(seed)
        topology, network = cloud(draw, given.mbit)
        flows = matrix(draw, network, given.seconds)
        todo = [mode for mode in given.modes for _ in range(given.runs)]
        draw.shuffle(todo)
        times_s: dict[str, list[float]] = defaultdict(list)
        shared: dict[str, list[float]] = defaultdict(list)
        with lab.session(topology, source="bench-shuffle") as session:
            inventory = read_inventory(session.hosts_file)
            bound_s, link = wss_bound(network, [(flow.source, flow.target, float(flow.bytes)) for flow in flows])
            left = [(flow.source, flow.target, float(flow.bytes)) for flow in flows]
            own_bytes = sum(flows[number].bytes for number in slowest_flows(network, left))
            with crossing(session, link, given.cross) as counted:
                for mode in todo:
                    before_bytes, begin_s = moved_bytes(counted), time.monotonic()
                    done = shuffle(flows, inventory, network, mode=mode)
                    times_s[mode].append(done.elapsed_s)
                    # The others had the whole link before its start and after its end.
                    alone_s = time.monotonic() - begin_s - done.elapsed_s
                    others_bytes = max(0.0, moved_bytes(counted) - before_bytes - own_bytes * alone_s / bound_s)
                    shared[mode].append(done.elapsed_s / (bound_s * (1 + others_bytes / own_bytes)))
        medians_s = {mode: statistics.median(runs) for mode, runs in times_s.items()}
        ratios = {mode: medians_s[mode] / bound_s for mode in given.modes}
        best = min(ratios.values())
        for mode, ratio in ratios.items():
            worst[mode] = max(worst[mode], ratio / (best if given.cross else 1.0))
        cells = " ".join(
            f"{ratios[mode]:>6.3f} {statistics.median(shared[mode]):.3f}" if given.cross else f"{ratios[mode]:>12.3f}"
            for mode in given.modes
        )
        print(f"{seed:>4} {len(flows):>5} {bound_s:>8.2f}  {cells}  {link}", flush=True)
    spent = [after - then for after, then in zip(processor_times(), before, strict=True)]
    print(f"processors idle {100 * spent[1] / spent[0]:.0f} % of the time")
    unit = "the best mode" if given.cross else "the bound"
    for mode, ratio in worst.items():
        verdict = f" (goal {GOAL}: {'met' if ratio <= GOAL else 'missed'})" if mode == "paced" else ""
        print(f"{mode}: at most {ratio:.3f} times {unit}{verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
