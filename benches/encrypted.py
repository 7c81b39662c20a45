"""What `--encrypt` costs: goodput and processor time of agents with and without it, on a link without a limit."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.topology import Topology
from gavotte.transfer import BroadcastQuestion, send, shuffle
from gavotte.transfer.planning import nothing_known

SHUFFLE_BYTES = 2_000_000_000
BROADCAST_BYTES = 500_000_000
MEMORY = "/dev/shm"
"""Files are in memory, so that no disk limits them."""


@dataclass(frozen=True)
class Cost:
    """One transfer: payload over time, and the processor time of both agents for each gigabyte."""

    goodput_bps: float
    processor_s_per_gb: float


def processor_s(folder: Path) -> float:
    """Return the processor time of all agents of a lab so far."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{folder}/" not in (process / "cmdline").read_text():
                continue
            # The name is in brackets and may contain spaces.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def cost(session: lab.Session, move: Callable[[], float], size_bytes: int) -> Cost:
    """Return the cost of a transfer.

    Args:
        session: the lab.
        move: moves the bytes, and returns the seconds that this took.
        size_bytes: payload.
    """
    before_s = processor_s(session.folder)
    seconds = move()
    # Agents report before the kernel has counted their last time slice.
    time.sleep(0.1)
    return Cost(8 * size_bytes / seconds, (processor_s(session.folder) - before_s) / size_bytes * 1e9)


def costs(topology: Topology, samples: int) -> Iterator[str]:
    """Yield a line for each kind of transfer, with and without encryption; the two take turns.

    Args:
        topology: two hosts, `a` and `b`, whose link has no limit.
        samples: of each.
    """
    with lab.session(topology) as session, tempfile.TemporaryDirectory(prefix="gavotte-encrypt-", dir=MEMORY) as name:
        inventory, file, copy = read_inventory(session.hosts_file), Path(name, "file"), Path(name, "copy")
        file.write_bytes(os.urandom(1 << 20) * (BROADCAST_BYTES >> 20))

        def shuffled(encrypt: bool) -> float:
            flows = [HostBytes("a", "b", SHUFFLE_BYTES)]
            return shuffle(flows, inventory, None, mode="standard", encrypt=encrypt).elapsed_s

        def broadcast(encrypt: bool) -> float:
            copy.unlink(missing_ok=True)
            # Without rates, nothing is probed and nothing is paced.
            net = nothing_known(["a", "b"])
            question = BroadcastQuestion(
                str(file), inventory, "a", str(copy), network=net, mechanism="chain", encrypt=encrypt
            )
            return send(question).elapsed_s or float("nan")

        for kind, move, size_bytes in (
            ("shuffle", shuffled, SHUFFLE_BYTES),
            ("broadcast", broadcast, file.stat().st_size),
        ):
            taken: dict[bool, list[Cost]] = {False: [], True: []}
            for turn in range(samples + 1):
                for encrypt in (False, True):
                    sample = cost(session, partial(move, encrypt), size_bytes)
                    if turn:
                        taken[encrypt].append(sample)
            for encrypt, all_costs in taken.items():
                rate = statistics.median(each.goodput_bps for each in all_costs) / 1e9
                spent = statistics.median(each.processor_s_per_gb for each in all_costs)
                yield f"{kind:9} {'encrypted' if encrypt else 'clear':9} {rate:7.2f} {spent:6.3f}"
