"""The least latency, and fronts of placements: no worse than brute force on small problems."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from tests import builders
from tests.place.clouds import cloud, ring
from tests.shell import gavotte

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.place import Effort, Goal, Question, decide, evaluate, front, latency_s
from gavotte.place.constraints import price_usd
from gavotte.place.front import BY
from gavotte.place.limits import PlacementLimits


def distant(seed: int) -> tuple[Network, App]:
    """Return hosts whose latencies all differ, and a few tasks that exchange bytes."""
    random = Random(seed)
    size, count = random.randint(2, 4), random.randint(3, 5)
    hosts = [
        {"name": f"h{m}", "cpus": 2.0, "egress_bps": random.choice([1e8, 2e8]), "price_usd": random.choice([1.0, 2.0])}
        for m in range(size)
    ]
    delays = [[None if m == n else random.uniform(1e-4, 1e-2) for n in range(size)] for m in range(size)]
    names = [f"t{j}" for j in range(count)]
    ways = [(*random.sample(names, 2), random.randint(10**6, 10**8)) for _ in range(5)]
    app = builders.app("app", *ways, tasks=names)
    return builders.network(hosts, None, delays), app


@cache
def every_placement(seed: int) -> list[tuple[float, float, float, int]]:
    """Return time, latency, price and hosts of each feasible assignment of `distant`."""
    return list(_every_placement(*distant(seed)))


def _every_placement(network: Network, app: App) -> Iterator[tuple[float, float, float, int]]:
    names = [task.name for task in app.task]
    for hosts in product(network.names, repeat=len(names)):
        assignment = dict(zip(names, hosts, strict=True))
        try:
            time_s = evaluate(network, [app], assignment).completion_s
        except InfeasibleError:
            continue
        yield time_s, latency_s(network, [app], assignment), price_usd(network, [app], assignment), len(set(hosts))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("within", [0.0, 0.5, 100.0])
def test_the_least_latency_is_that_of_brute_force(seed: int, within: float) -> None:
    network, app = distant(seed)
    every = every_placement(seed)
    if not every:
        with pytest.raises(InfeasibleError):
            decide(Question(network, [app]), Effort("search", time_limit_s=1.0), Goal("latency", within))
        return
    most_s = min(time_s for time_s, *_ in every) * (1 + within) * (1 + 1e-9)
    least_s = min(latency for time_s, latency, *_ in every if time_s <= most_s)
    effort = Effort("search", time_limit_s=2.0, repeatable=True)
    answer = decide(Question(network, [app]), effort, Goal("latency", within))
    assert answer.latency_s == pytest.approx(least_s)
    assert answer.placement.completion_s <= most_s


def test_the_least_latency_among_many_hosts_is_that_of_their_racks() -> None:
    """Two racks of eight hosts, and tasks that fill one of them: only exchanges lead there."""
    hosts = [{"name": f"h{m}", "cpus": 2.0, "egress_bps": 1e8, "ingress_bps": 1e8} for m in range(16)]
    delays = [[None if m == n else 1e-4 if m % 2 == n % 2 else 1e-3 for n in range(16)] for m in range(16)]
    names = [f"t{j}" for j in range(16)]
    ways = [(names[j], names[(j + step) % 16], 10**6) for j in range(16) for step in (1, 5)]
    app = builders.app("app", *ways, tasks=names)
    effort = Effort("search", time_limit_s=2.0, repeatable=True)
    answer = decide(Question(builders.network(hosts, None, delays), [app]), effort, Goal("latency", 1.0))
    assert answer.latency_s == pytest.approx(1e-4)


def test_a_search_goes_on_from_its_best_placement_where_new_starts_break_rules() -> None:
    """Random latencies: neither cuts nor random packing lead to hosts that are all near each other."""
    random = Random(2)
    hosts = [{"name": f"h{m}", "cpus": 3.0, "egress_bps": 1e8, "ingress_bps": 1e8} for m in range(24)]
    delays = [[None if m == n else random.uniform(1e-4, 1e-2) for n in range(24)] for m in range(24)]
    names = [f"t{j}" for j in range(64)]
    ways = [(names[j], names[(j + step) % 64], 10**6) for j in range(64) for step in (1, 8)]
    question = Question(builders.network(hosts, None, delays), [builders.app("app", *ways, tasks=names)])
    effort = Effort("search", time_limit_s=1.5, repeatable=True)
    answer = decide(question, effort, Goal("latency", 1.0))
    start = answer.placement.assignment
    near = replace(question, limits=PlacementLimits(max_latency_s=answer.latency_s))
    again = decide(near, replace(effort, start=start))
    assert again.latency_s <= answer.latency_s
    assert again.placement.completion_s <= answer.placement.completion_s


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("goal", ["price", "hosts", "latency"])
def test_a_front_has_the_ends_of_brute_force(seed: int, goal: str) -> None:
    network, app = distant(seed)
    column = {"latency": 1, "price": 2, "hosts": 3}[goal]
    every = [(row[0], float(row[column])) for row in every_placement(seed)]
    if not every:
        return
    best = front(Question(network, [app]), Effort("search", time_limit_s=4.0, repeatable=True), goal, 6)
    points = [(answer.total_s, BY[goal](answer)) for answer in best.answers]
    for one, other in pairwise(points):
        assert one[0] < other[0]
        assert one[1] > other[1]
    assert points[0][0] == pytest.approx(min(time_s for time_s, _ in every))
    assert points[-1][1] == pytest.approx(min(other for _, other in every))
    for point in points:
        assert any(point == pytest.approx(row) for row in every)
    assert best.within(0.0) is best.answers[0]
    assert best.within(1e9) is best.answers[-1]


def test_a_front_needs_a_goal_and_what_it_is_about() -> None:
    question = Question(cloud(), [ring()])
    with pytest.raises(GavotteError, match="a front needs another goal than `time`"):
        front(question, Effort(), "time", 4)
    with pytest.raises(GavotteError, match="the network has no prices"):
        front(question, Effort(), "price", 4)
    with pytest.raises(GavotteError, match="too small"):
        front(question, Effort(), "hosts", 1)


def test_the_command_prints_the_front(tmp_path: Path) -> None:
    hosts = [{"name": f"h{m}", "cpus": 2.0, "egress_bps": 1e8 * (m + 1), "price_usd": 1.0 + m} for m in range(4)]
    write_network(tmp_path / "n.network.json", builders.network(hosts, None))
    write_app(tmp_path / "a.app.toml", ring())
    files = [str(tmp_path / "n.network.json"), str(tmp_path / "a.app.toml")]
    command = [
        "place",
        *files,
        "--goal",
        "price",
        "--front",
        "5",
        "--time-limit",
        "3",
        "--within",
        "1000",
        "--repeatable",
    ]
    printed = json.loads(gavotte(*command, "--json").stdout)
    assert printed["front"][-1]["price_usd"] == printed["price_usd"] == 6.0
    assert printed["front"][-1]["assignment"] == printed["assignment"]
    times = [point["completion_s"] for point in printed["front"]]
    assert times == sorted(times)
    assert "placements from the fastest to the best for price" in gavotte(*command).stdout
    refused = gavotte("place", *files, "--front", "5")
    assert refused.returncode == 2
    assert "--front needs --goal" in refused.stderr
