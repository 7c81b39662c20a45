"""The experiments in the simulator: each has a workload, counted values, and a goal."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from benches.guarantee.crowds import many_to_one, sensitivity
from benches.guarantee.jobs import shuffles
from benches.guarantee.pairs import sharing, udp
from benches.guarantee.short import latency, mice

PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "many-to-one": many_to_one,
    "udp": udp,
    "sharing": sharing,
    "shuffles": shuffles,
    "mice": mice,
    "sensitivity": sensitivity,
    "latency": latency,
}


def main(asked: argparse.Namespace) -> None:
    """Run the requested parts."""
    for part in asked.parts:
        began = time.monotonic()
        asked.part = part
        PARTS[part](asked)
        print(f"{part}: {asked.seeds} runs each, {time.monotonic() - began:.0f} s")
