"""A training over gloo by torchrun: in the hosts' own order, and by `gavotte launch`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benches.ecosystem.comparing import Row, in_turns
from benches.ecosystem.stage import HOSTS, Chosen, Stage
from benches.training.job import Training

SHARING = HOSTS
STEPS, WIDTH = 12, 700


def version() -> str:
    """Return the version of the real component; empty if it is not installed."""
    if shutil.which("torchrun") is None:
        return ""
    line = ["/usr/bin/python3", "-c", "import torch; print(torch.__version__)"]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60).stdout.strip()


def compared(stage: Stage, runs: int, seed: int) -> Iterator[Row]:
    """Train on all hosts, whose ring crosses the racks at each step in their own order."""
    folder = Path(stage.folder, "torchrun")
    folder.mkdir()
    job = Training(stage.session, folder, stage.groups, steps=STEPS, width=WIDTH)
    job.launch()  # measures, and counts what the sockets send
    first = job.launch()[0]
    ways = {"own": lambda: job.in_order(stage.hosts)[0], "ours": lambda: float(job.launch()[0]["wall_s"])}
    times = in_turns(ways, runs, seed)
    order = tuple(map(str, first["order"]))
    chosen = Chosen(order, first["low_s"], first["high_s"], 0.0)
    yield Row(
        f"torchrun {version()}", "order of hosts, by gavotte launch", "gloo training", tuple(stage.hosts), chosen, times
    )
