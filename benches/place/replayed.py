"""The same programs with real transfers: a lab cloud with the regions' rates, scaled down, measured once and placed on.

Egress and ingress of each host, and the rate of each slower pair, are the regions' times one factor. The factor keeps
the sum of all hosts' rates within the machine's capacity. `gavotte measure` and `gavotte model` make the Network that
the methods place on; the methods know nothing else of the cloud. Bytes are scaled by one factor for each program, so
that round-robin takes some seconds by the fluid model.

The methods' runs take turns, in a random order for each repetition. A run is repeated if less than a tenth of the
processors' time was idle, at most `tries` times. The run with the most idle time counts.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from benches.machine import processor_times
from benches.sharing import lab_of
from tests.measure.random_clouds import Cloud

from gavotte.formats.app import App
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure import measure
from gavotte.model import model
from gavotte.place import Effort, Question, decide
from gavotte.run import run
from gavotte.simulate import simulate_placement
from gavotte.terms.goodput import GOODPUT_PER_WIRE

OURS = "auto"
OTHERS = ("round-robin", "greedy")
METHODS = (OURS, *OTHERS)
TOTAL_BPS = 200e6
"""Allowed sum of all hosts' rates: two shared processors carry four times as much, if nothing else runs on them."""
TARGET_S = 5.0
"""Seconds of round-robin."""
QUEUE_BYTES = 512 * 1024
"""Queue before each cap: some thirty connections of a host share it, and the lab's own queues would leave each three
frames.
"""
LEAST_IDLE = 0.10
MOST_S = 60.0


@dataclass(frozen=True)
class Replayed:
    """One program in the lab.

    Attributes:
        program: its name.
        predicted_s: by method, on the measured Network.
        simulated_s: by method, max-min fair on the measured Network.
        measured_s: by method, one for each repetition.
        idle: least idle share of the processors' time during a run.
    """

    program: str
    predicted_s: Mapping[str, float]
    simulated_s: Mapping[str, float]
    measured_s: Mapping[str, Sequence[float]]
    idle: float

    def gains(self, other: str) -> list[float]:
        """Return the share of the other's time that ours saved, repetition by repetition."""
        return [1 - a / b for a, b in zip(self.measured_s[OURS], self.measured_s[other], strict=True)]


def cloud_of(network: Network, total_bps: float) -> tuple[Cloud, float]:
    """Return a lab cloud with this Network's rates, and the factor by which they were scaled.

    Args:
        network: its hosts have an egress and an ingress cap each.
        total_bps: wire rate of all egress caps together.
    """
    egress = [host.egress_bps or math.inf for host in network.hosts]
    ingress = [host.ingress_bps or math.inf for host in network.hosts]
    factor = total_bps / (sum(egress) / GOODPUT_PER_WIRE)

    def wire(rate_bps: float) -> float:
        return rate_bps * factor / GOODPUT_PER_WIRE

    hosts = [
        {
            "name": host.name,
            "switch": "core",
            "egress": f"{wire(egress[m]):.0f}bit",
            "ingress": f"{wire(ingress[m]):.0f}bit",
            "queue": f"{QUEUE_BYTES}b",
            "cpus": host.cpus,
        }
        for m, host in enumerate(network.hosts)
    ]
    pairs = {
        (m, n): wire(rate)
        for m, row in enumerate(network.rate_bps)
        for n, rate in enumerate(row)
        if rate is not None and rate < min(egress[m], ingress[n]) * (1 - 1e-9)
    }
    topology = Topology.model_validate({"format": FORMAT, "switch": [{"name": "core"}], "host": hosts})
    return Cloud("hose", topology, pairs), factor


def measured_network(inventory: Inventory, seed: int) -> Network:
    """Return the cloud as measured: each path once, and again while some do not answer on a busy machine."""
    measurement = measure(inventory, seed=seed)
    for again in (1, 2):
        if measurement.answered == measurement.paths:
            break
        measurement = measure(inventory, seed=seed + again)
    print(
        f"measured {measurement.answered} of {measurement.paths} paths in {measurement.seconds:.1f} s, {measurement.bytes_sent / 1e6:.0f} MB sent"
    )
    return model(measurement.history)


def replay(
    network: Network, apps: Sequence[App], *, total_bps: float, repetitions: int, limit_s: float, tries: int, seed: int
) -> list[Replayed]:
    """Build the lab, measure it, and run every program by every method; print a row for each.

    Args:
        network: its rates become the cloud's.
        apps: programs with enough traffic for a meaningful run.
        total_bps: sum of all hosts' rates.
        repetitions: runs of each method.
        limit_s: for a placement.
        tries: of a run, at most, while the machine is busy.
        seed: of everything.
    """
    cloud, factor = cloud_of(network, total_bps)
    print(
        f"\nreplayed in the lab: {len(cloud.topology.host)} hosts, rates of the regions times 1/{1 / factor:.0f}, all egress "
        f"together {total_bps / 1e6:.0f} Mbit/s, {len(cloud.pair_bps)} pairs with a rate of their own; seed {seed}, "
        f"{repetitions} repetitions, methods take turns"
    )
    with lab_of(cloud) as session:
        inventory = read_inventory(session.hosts_file)
        believed = measured_network(inventory, seed)
        print(
            "seconds predicted / simulated / measured (mean); then time saved by auto: predicted / simulated / measured (s.e.)"
        )
        print(
            f"{'program':<12}"
            + "".join(f"{name:>22}" for name in METHODS)
            + "".join(f"{'over ' + o:>30}" for o in OTHERS)
        )
        done = []
        for app in apps:
            done.append(_replayed(believed, app, inventory, repetitions, limit_s, tries, seed))
            print(row(done[-1]), flush=True)
    for other in OTHERS:
        means = [statistics.fmean(one.gains(other)) for one in done]
        print(
            f"measured time saved over {other}: mean {_mean_text(means)} over {len(means)} programs, least {min(means):.0%}"
        )
    ratios = [s / one.simulated_s[m] for one in done for m in METHODS for s in one.measured_s[m]]
    print(f"measured / simulated: median {statistics.median(ratios):.3f}, {min(ratios):.2f} to {max(ratios):.2f}")
    return done


def row(one: Replayed) -> str:
    """Return a program's line."""
    cells = [
        f"{one.predicted_s[m]:.2f} / {one.simulated_s[m]:.2f} / {statistics.fmean(one.measured_s[m]):.2f}"
        for m in METHODS
    ]
    saved = []
    for other in OTHERS:
        predicted, simulated = (1 - times_s[OURS] / times_s[other] for times_s in (one.predicted_s, one.simulated_s))
        saved.append(f"{predicted:.0%} / {simulated:.0%} / {_mean_text(one.gains(other))}")
    texts = "".join(f"{cell:>22}" for cell in cells) + "".join(f"{cell:>30}" for cell in saved)
    return f"{one.program:<12}{texts}  idle {one.idle:.0%}"


def _replayed(
    network: Network, app: App, inventory: Inventory, repetitions: int, limit_s: float, tries: int, seed: int
) -> Replayed:
    blind = decide(Question(network, [app]), Effort("round-robin", seed=seed)).placement
    factor = TARGET_S / simulate_placement(network, [app], blind)
    transfers = [t.model_copy(update={"bytes": max(int(t.bytes * factor), 1)}) for t in app.transfer]
    scaled = app.model_copy(update={"transfer": transfers})
    placed = {
        m: decide(Question(network, [scaled]), Effort(m, seed=seed, time_limit_s=limit_s)).placement for m in METHODS
    }
    measured_s: dict[str, list[float]] = {method: [] for method in METHODS}
    idle = 1.0
    for repetition in range(repetitions):
        for method in random.Random(f"{seed} {app.name} {repetition}").sample(METHODS, len(METHODS)):
            took_s, left = _run(placed[method], scaled, inventory, tries)
            measured_s[method].append(took_s)
            idle = min(idle, left)
    return Replayed(
        program=app.name,
        predicted_s={method: placement.completion_s for method, placement in placed.items()},
        simulated_s={method: simulate_placement(network, [scaled], placement) for method, placement in placed.items()},
        measured_s=measured_s,
        idle=idle,
    )


def _run(placement: Placement, app: App, inventory: Inventory, tries: int) -> tuple[float, float]:
    """Return seconds, and the idle share of the processors' time."""
    best = (0.0, -1.0)
    for _ in range(tries):
        before = processor_times()
        took_s = run(placement, [app], inventory, max_seconds=MOST_S).completion_s
        total, idle = (after - then for after, then in zip(processor_times(), before, strict=True))
        best = max(best, (took_s, idle / total), key=lambda one: one[1])
        if best[1] >= LEAST_IDLE:
            break
    return best


def _mean_text(gains: Sequence[float]) -> str:
    """Format the mean, with its standard error if there are several."""
    error = f" ± {100 * float(np.std(gains, ddof=1)) / math.sqrt(len(gains)):.1f}" if len(gains) > 1 else ""
    return f"{100 * statistics.fmean(gains):.1f}{error} %"
