"""Choreo's examples, and the workloads of the benchmark that repeats its evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from benches.choreo import figure9
from benches.choreo.placing import METHODS, place_all, scale
from benches.choreo.summary import gains, row
from benches.choreo.workloads import AT_ONCE, CORES, FAMILIES, FULLEST, HOSTS, IN_SEQUENCE, cloud, draw, history
from tests import builders

from gavotte import lab
from gavotte.errors import InfeasibleError
from gavotte.formats.inventory import read_inventory
from gavotte.model import model
from gavotte.place import place
from gavotte.place.sequence import sequence
from gavotte.run import run
from gavotte.simulate import Advance


def test_figure_9() -> None:
    """Greedy gives the largest transfer the path of rate 10 and another the path of rate 1; the optimum avoids that."""
    net, app = figure9.network(), figure9.app()
    greedy = place(net, [app], "greedy")
    assert greedy.completion_s == pytest.approx(8 * 50 / 1)
    for method in ("search", "optimal", "ilp", "auto"):
        placement = place(net, [app], method, time_limit_s=1.0 if method == "search" else 10.0)
        assert placement.completion_s == pytest.approx(8 * 100 / 9)
        assert placement.optimal or method == "search"


@pytest.mark.parametrize("kind", [AT_ONCE, IN_SEQUENCE])
def test_workloads_are_by_the_recipe(kind: str) -> None:
    parts = set()
    for seed in range(40):
        load = draw(seed, kind)
        assert load == draw(seed, kind)
        parts.add(load.parts)
        cores = [task.cpus for app in load.apps for task in app.task]
        assert set(cores) <= {0.5 * step for step in range(1, 9)}
        assert sum(cores) <= FULLEST * HOSTS * CORES
        arrivals = [app.arrival_s for app in load.apps]
        assert arrivals == sorted(arrivals)
        assert len(load.apps) == (1 if kind == AT_ONCE else load.parts)
        assert min(sum(task.cpus for task in app.task) for app in load.apps) > CORES
    assert parts == ({1, 2, 3} if kind == AT_ONCE else {2, 3, 4})


@pytest.mark.parametrize("family", FAMILIES)
def test_clouds_have_the_rates_of_their_family(family: str) -> None:
    rates = np.array([[host.egress or 0.0 for host in cloud(seed, family).host] for seed in range(20)]) / 1e6
    assert (rates.min(), rates.max()) >= (100, 900)
    assert rates.max() <= 1100
    if family == "ec2-2013":
        assert ((rates >= 899) & (rates <= 1100)).sum(axis=1).min() == 8


def test_a_measurement_with_error_is_off_by_as_much() -> None:
    topology = cloud(1, "ec2-2012")
    exact, rough = (model(history(topology, error=error, rng=np.random.default_rng(3))) for error in (0.0, 0.2))
    ratios = [
        b / a
        for exact_row, rough_row in zip(exact.rate_bps, rough.rate_bps, strict=True)
        for a, b in zip(exact_row, rough_row, strict=True)
        if a is not None and b is not None
    ]
    assert len(ratios) == 90
    assert np.std(np.log(ratios)) == pytest.approx(0.2, rel=0.3)


@pytest.mark.slow
def test_every_method_places_and_times_scale() -> None:
    net = model(history(cloud(2, "ec2-2013")))
    done = 0
    for seed in range(2):
        for kind in (AT_ONCE, IN_SEQUENCE):
            try:
                load = scale(net, draw(seed, kind), 3.0)
                placed = place_all(net, load, limit_s=0.05, ours="search")
            except InfeasibleError:
                continue
            done += 1
            assert tuple(placed) == METHODS
            if kind == AT_ONCE:
                assert np.mean([placed[base].predicted_s for base in METHODS[2:]]) == pytest.approx(3.0, rel=1e-3)
    assert done >= 2


def test_gains_are_shares_of_the_baseline() -> None:
    times = {"auto": [1.0, 3.0, 1.0], "random": [4.0, 2.0, 1.0]}
    assert gains(times, "auto", "random") == pytest.approx([0.75, -0.5, 0.0])
    cells = row("x", gains(times, "auto", "random")).split()
    assert [cell for cell in cells if cell != "%"] == (
        "x 3 8.3 36.3 0.0 75.0 -50.0 33.3 75.0 33.3 50.0".split()  # noqa: SIM905 - a row reads best as one
    )


@pytest.mark.lab
def test_a_sequence_runs_as_forecast(small_cloud: lab.Session) -> None:
    """Egress caps of 100, 200 and 150 Mbit/s; a and b share a machine."""
    net = builders.network(
        [
            {"name": name, "egress_bps": rate * 1e6 * 1448 / 1514, "machine": machine}
            for name, rate, machine in (("a", 100, "pm0"), ("b", 200, "pm0"), ("c", 150, "pm1"))
        ],
        cpus=2.0,
    )
    pinned = {"pin": {"x": "b", "y": "c"}}
    apps = [
        builders.app(name, ("x", "y", 15_000_000), arrival_s=arrival_s, constraints=pinned)
        for name, arrival_s in (("one", 0.0), ("two", 0.3))
    ]
    done = sequence(net, apps, Advance(net))
    assert done.running_s["one"] > 8 * 15e6 / 200e6 * 1.2, "the second takes half of the link"
    ran = run(done.placement, apps, read_inventory(small_cloud.hosts_file))
    # One link carries both until the end. TCP decides which of two young connections has more of it.
    assert ran.completion_s == pytest.approx(done.placement.completion_s, rel=0.25)
    assert ran.apps.keys() == {"one", "two"}
