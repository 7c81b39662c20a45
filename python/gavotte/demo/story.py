"""Run the demo. It is above all rooms and may import each of them."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.rates import format_bytes
from gavotte.formats.topology import read_topology
from gavotte.measure import measure
from gavotte.model import model
from gavotte.place import place
from gavotte.profile import profile, read_tasks
from gavotte.report import Outcome, report
from gavotte.run import run
from gavotte.simulate import simulate_placement
from gavotte.terms import Progress

OURS, CHOREO = "auto", "greedy"
BASELINES = ("random", "round-robin", "min-machines")
"""The baselines of Choreo, section 6."""
PLACE_S = 1.0
"""Time limit of a placement. For 16 tasks on 10 hosts, more time finds nothing better."""

Steps = Callable[[str], AbstractContextManager[Progress]]
"""Function that opens the progress display of one named step."""


@dataclass(frozen=True)
class DemoResult:
    """Results of the demo.

    Attributes:
        paths: number of requested directed paths.
        answered: number of those that answered.
        measure_s: wall time of measuring them.
        seed: seed of every random choice.
        outcomes: our placement, Choreo's, then the baselines, each predicted and run.
        report: the HTML page, None if none was requested.
    """

    paths: int
    answered: int
    measure_s: float
    seed: int
    outcomes: tuple[Outcome, ...]
    report: Path | None

    @property
    def gain_over_baselines(self) -> dict[str, float]:
        """Return the share of the baselines' mean time that our placement and Choreo's save (Choreo section 6.2)."""
        measured = {o.placement.method: o.measured_s or 0.0 for o in self.outcomes}
        mean_s = statistics.fmean(measured[method] for method in BASELINES)
        return {method: 1 - measured[method] / mean_s for method in (OURS, CHOREO)}


def demo(*, seed: int = 0, report_file: Path | None = None, steps: Steps | None = None) -> DemoResult:
    """Start ten hosts in four racks, measure, place, run and compare. The lab is removed afterwards.

    Args:
        seed: seed of the order of probes and of the random placement.
        report_file: path of the HTML page.
        steps: shows progress; called with each step's name.

    Raises:
        UnsupportedError: where neither root nor user namespaces work.
    """
    show: Steps = steps or (lambda _name: nullcontext(lambda _done, _total: None))
    here = resources.files("gavotte.demo")
    with (
        resources.as_file(here / "cloud.topology.toml") as topology_file,
        resources.as_file(here / "pagerank" / "pagerank.pcap.gz") as capture,
        resources.as_file(here / "pagerank" / "ranks.hosts") as ranks,
    ):
        topology = read_topology(topology_file)
        with show("profiling a captured MPI run") as advance:
            app = profile("pcap", capture, read_tasks(ranks), name="pagerank").app
            advance(1, 1)
    with ExitStack() as stack:
        with show("starting the lab") as advance:
            cloud = stack.enter_context(lab.session(topology, source="demo"))
            advance(1, 1)
        inventory = read_inventory(cloud.hosts_file)
        with show("measuring") as advance:
            measured = measure(inventory, seed=seed, progress=advance)
            if measured.answered < measured.paths:  # a busy machine; another order of probes succeeds
                measured = measure(inventory, seed=seed + 1, progress=advance)
        network = model(measured.history)
        methods = (OURS, CHOREO, *BASELINES)
        placements = []
        with show("placing") as advance:
            for done, method in enumerate(methods, 1):
                placements.append(place(network, [app], method, seed=seed, time_limit_s=PLACE_S))
                advance(done, len(methods))
        outcomes = []
        for placement in placements:
            with show(f"running {placement.method}") as advance:
                took_s = run(placement, [app], inventory, progress=advance).completion_s
            outcomes.append(Outcome(placement, took_s, simulate_placement(network, [app], placement)))
    result = DemoResult(
        paths=measured.paths,
        answered=measured.answered,
        measure_s=measured.seconds,
        seed=seed,
        outcomes=tuple(outcomes),
        report=report_file,
    )
    if report_file is not None:
        facts = {
            "cloud": f"{len(topology.host)} emulated hosts on one Linux machine, kernel {platform.release()}",
            "paths": f"{measured.answered} of {measured.paths} paths in {measured.seconds:.2f} s, "
            f"{format_bytes(measured.bytes_sent)} sent",
            "gain": ", ".join(f"{method} {100 * gain:.0f} %" for method, gain in result.gain_over_baselines.items())
            + " less than the mean of the three baselines (one run of each)",
            "seed": str(seed),
        }
        report(
            report_file,
            network,
            history=measured.history,
            apps=[app],
            outcomes=result.outcomes,
            title="Gavotte demo",
            facts=facts,
        )
    return result
