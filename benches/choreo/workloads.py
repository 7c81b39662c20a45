"""Clouds and workloads by the recipe of Choreo's section 6.1, seeded.

The paper has the traffic of HP Cloud tenants, whose matrices are not public. This module draws workloads instead, and
prints their statistics:

- an application has 3 to 7 tasks (uniform), each of 0.5 to 4 cores in steps of a half (uniform);
- its traffic is *sparse*, *all-to-all* or a *shuffle*, with equal chances:
    sparse: each task sends to one to three others, bytes log-normal with sigma 1.6, so that few pairs carry most;
    all-to-all: each pair both ways, sigma 1.0;
    shuffle: half of the tasks send to the others, sigma 0.3, the near-uniform case of the paper's section 7.1;
- all at once: one to three applications become one;
- in sequence: two to four, in Poisson order. The mean gap is half of an application's time when it is placed at random
  and alone, so that they overlap;
- applications are drawn again while together they need more than 85 % of the cloud's 40 cores, or one of them fits on
  one VM, where placement has no effect.

A cloud has ten VMs of four cores. `ec2-2013` is Fig. 2 a: 80 % of VMs send 900 to 1100 Mbit/s, the others 300 to 900,
and up to two pairs share a machine with 4 Gbit/s inside. `ec2-2012` is Fig. 1: all between 100 Mbit/s and 1 Gbit/s. In
the lab all rates and bytes are scaled.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gavotte.formats.app import FORMAT as APP
from gavotte.formats.app import App, Transfer
from gavotte.formats.history import History
from gavotte.formats.topology import FORMAT as TOPOLOGY
from gavotte.formats.topology import Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

HOSTS = 10
CORES = 4.0
FULLEST = 0.85
"""Largest share of the cloud's cores that a workload takes."""
SPARSE, DENSE, SHUFFLE = PATTERNS = ("sparse", "all-to-all", "shuffle")
SIGMA = {SPARSE: 1.6, DENSE: 1.0, SHUFFLE: 0.3}
"""Standard deviation of the logarithm of bytes."""
MEDIAN_BYTES = 10e6
"""Bytes before a workload is scaled to its seconds."""
FASTEST_MBIT = 1100
FAMILIES = ("ec2-2013", "ec2-2012")

AT_ONCE = "at once"
IN_SEQUENCE = "in sequence"
COUNTS = {AT_ONCE: (1, 3), IN_SEQUENCE: (2, 4)}
"""Applications of a workload (sections 6.2 and 6.3)."""


def cloud(seed: int, family: str, *, fastest_mbit: float = FASTEST_MBIT) -> Topology:
    """Return ten VMs behind one unlimited core, each with an egress cap; same for the same arguments."""
    rng = random.Random(f"cloud {family} {seed}")
    scale = fastest_mbit / FASTEST_MBIT
    if family == "ec2-2013":
        rates = [rng.uniform(900, 1100) if m < 8 else rng.uniform(300, 900) for m in range(HOSTS)]
        shared = rng.randint(0, 2)
    else:
        rates = [rng.uniform(100, 1000) for _ in range(HOSTS)]
        shared = 0
    rng.shuffle(rates)
    machines = [{"name": f"pm{k}", "switch": "core", "machine_rate": f"{4000 * scale:.0f}mbit"} for k in range(shared)]
    hosts: list[dict[str, Any]] = [
        {"name": f"vm{m}", "egress": f"{rate * scale:.1f}mbit", "cpus": CORES}
        | ({"machine": f"pm{m // 2}"} if m < 2 * shared else {"switch": "core"})
        for m, rate in enumerate(rates)
    ]
    return Topology.model_validate(
        {"format": TOPOLOGY, "switch": [{"name": "core"}], "machine": machines, "host": hosts}
    )


def history(topology: Topology, *, error: float = 0.0, rng: np.random.Generator | None = None) -> History:
    """Return the measurement of such a cloud: the rate of each path alone, with a log-normal error of this deviation.

    An infinite error means no measurement: all paths have the same rate.
    """
    size = len(topology.host)
    machine_at = {machine.name: machine for machine in topology.machine}
    rates_bps = np.full((size, size), np.nan)
    hops = np.zeros((size, size), dtype=np.int64)
    for m, source in enumerate(topology.host):
        for n, target in enumerate(topology.host):
            if m == n:
                continue
            inside = source.machine is not None and source.machine == target.machine
            rate_bps = machine_at[source.machine].machine_rate if inside and source.machine else source.egress
            assert rate_bps is not None
            rates_bps[m, n] = rate_bps * GOODPUT_PER_WIRE
            hops[m, n] = 1 if inside else 2
    if math.isinf(error):
        rates_bps = np.where(np.isnan(rates_bps), np.nan, np.nanmean(rates_bps))
    elif error > 0:
        assert rng is not None
        rates_bps = rates_bps * np.exp(rng.normal(0.0, error, (size, size)))
    return History(
        alpha_s=np.where(np.isnan(rates_bps), np.nan, 0.0)[None],
        beta_Bps=rates_bps[None] / 8,
        time_s=np.zeros(1),
        hosts=tuple(host.name for host in topology.host),
        hops=hops,
        cpus=np.full(size, CORES),
        memory_bytes=np.zeros(size, dtype=np.int64),
    )


@dataclass(frozen=True)
class Workload:
    """Applications that are placed and run together.

    Attributes:
        seed: makes it again.
        kind: `AT_ONCE`, with one application made of all; or `IN_SEQUENCE`.
        apps: with arrivals in units of an application's time, until scaled.
        parts: how many applications were drawn.
    """

    seed: int
    kind: str
    apps: list[App]
    parts: int

    def scaled(self, factor: float, gap_s: float = 0.0) -> Workload:
        """Return the workload with all bytes times a factor, arrivals times a gap."""
        return Workload(self.seed, self.kind, [_scaled(app, factor, gap_s) for app in self.apps], self.parts)


def draw(seed: int, kind: str) -> Workload:
    """Draw a workload; same for the same arguments."""
    rng = random.Random(f"workload {kind} {seed}")
    count = rng.randint(*COUNTS[kind])
    while True:
        apps, arrival = [], 0.0
        for number in range(count):
            apps.append(_app(rng, f"app{number}", arrival))
            arrival += rng.expovariate(1.0)
        cores = [sum(task.cpus for task in app.task) for app in apps]
        if min(cores) > CORES and sum(cores) <= FULLEST * HOSTS * CORES:
            break  # the count stays as drawn, or few workloads of many applications would be left
    return Workload(seed, kind, apps if kind == IN_SEQUENCE else [_combined(apps)], len(apps))


def _app(rng: random.Random, name: str, arrival: float) -> App:
    tasks = [f"t{i}" for i in range(rng.randint(3, 7))]
    pattern = rng.choice(PATTERNS)
    half = len(tasks) // 2
    if pattern == SHUFFLE:
        pairs = [(task, other) for task in tasks[:half] for other in tasks[half:]]
    else:
        others = {task: [t for t in tasks if t != task] for task in tasks}
        most = {task: rng.randint(1, min(3, len(tasks) - 1)) if pattern == SPARSE else len(tasks) - 1 for task in tasks}
        pairs = [(task, other) for task in tasks for other in rng.sample(others[task], most[task])]
    transfers = [
        {"source": a, "target": b, "bytes": max(1, int(MEDIAN_BYTES * rng.lognormvariate(0.0, SIGMA[pattern])))}
        for a, b in pairs
    ]
    return App.model_validate(
        {
            "format": APP,
            "name": name,
            "arrival_s": arrival,
            "task": [{"name": task, "cpus": rng.randint(1, 8) / 2} for task in tasks],
            "transfer": transfers,
        }
    )


def _combined(apps: Sequence[App]) -> App:
    """Return one application of several, as in section 6.2: their matrices and core vectors joined."""
    return App(
        format=APP,
        name="combined",
        task=[task.model_copy(update={"name": f"{app.name}.{task.name}"}) for app in apps for task in app.task],
        transfer=[
            transfer.model_copy(
                update={"source": f"{app.name}.{transfer.source}", "target": f"{app.name}.{transfer.target}"}
            )
            for app in apps
            for transfer in app.transfer
        ],
    )


def _scaled(app: App, factor: float, gap_s: float) -> App:
    transfers: list[Transfer] = [t.model_copy(update={"bytes": max(1, int(t.bytes * factor))}) for t in app.transfer]
    return app.model_copy(update={"transfer": transfers, "arrival_s": app.arrival_s * gap_s})


def statistics_of(workloads: Sequence[Workload]) -> str:
    """Return the statistics of the workloads in a line."""
    parts = [load.parts for load in workloads]
    apps = [app for load in workloads for app in load.apps]
    tasks = [len(app.task) for app in apps]
    cores = [task.cpus for app in apps for task in app.task]
    pairs = [len(app.transfer) for app in apps]
    sizes = [transfer.bytes / 1e6 for app in apps for transfer in app.transfer]
    used = [sum(task.cpus for app in load.apps for task in app.task) / (HOSTS * CORES) for load in workloads]
    top = sum(sorted(sizes)[-max(1, len(sizes) // 10) :]) / sum(sizes)
    text = (
        f"{len(workloads)} workloads of {min(parts)} to {max(parts)} applications (mean {statistics.fmean(parts):.1f}); "
        f"tasks {min(tasks)} to {max(tasks)} (median {statistics.median(tasks):.0f}), cores of a task {min(cores):g} to "
        f"{max(cores):g} (mean {statistics.fmean(cores):.2f}), cloud filled to {100 * statistics.fmean(used):.0f} % in the mean; "
        f"transfers {min(pairs)} to {max(pairs)} (median {statistics.median(pairs):.0f}), median {statistics.median(sizes):.2f} MB, "
        f"the largest tenth carries {100 * top:.0f} % of the bytes"
    )
    gaps = [
        later.arrival_s - app.arrival_s
        for load in workloads
        for app, later in zip(load.apps, load.apps[1:], strict=False)
    ]
    return text + (f"; mean gap between arrivals {statistics.fmean(gaps):.2f} s" if gaps else "")
