"""The bound by tasks that exchange most: never above a placement, and near the best where such a task decides."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from tests import builders
from tests.builders import MB, MBIT

from gavotte.errors import InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.place import Effort, Question, decide
from gavotte.place.columns import Instance, build_instance
from gavotte.place.exact import hubs, installed
from gavotte.place.exact.hubs import hub_bound_s

pytestmark = pytest.mark.slow


def cloud(count: int, rng: random.Random, *, cpus: float = 2.0, machines: bool = False) -> Network:
    """Hosts with caps of their own, in pairs on one machine or each on its own."""
    return Network(
        format=FORMAT,
        hosts=[
            Host(
                name=f"h{m}",
                cpus=cpus,
                egress_bps=rng.uniform(200, 900) * MBIT,
                ingress_bps=rng.uniform(200, 900) * MBIT,
                machine=f"pm{m // 2}" if machines and m < 2 else None,
            )
            for m in range(count)
        ],
        sharing="hose",
        rate_bps=[],
        latency_s=[],
    )


def least_s(instance: Instance) -> float:
    """Compute the best time by trying every placement."""

    def time_s(hosts: tuple[int, ...]) -> float:
        try:
            return float(instance.core.evaluate(np.array(hosts, dtype=np.uint32)).seconds)
        except InfeasibleError:
            return math.inf

    return min(time_s(hosts) for hosts in itertools.product(range(len(instance.hosts)), repeat=len(instance.tasks)))


@pytest.mark.parametrize("seed", range(12))
def test_no_placement_is_below_it(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"t{i}" for i in range(6)]
    ways = [(*rng.sample(names, 2), rng.randint(1, 90) * MB) for _ in range(12)]
    app = builders.app("drawn", *ways, tasks=names)
    instance = build_instance(cloud(3, rng, machines=seed % 2 == 1), [app], "hose")
    bound_s, stopped = hub_bound_s(instance, limit_s=60, strict=False)
    assert not stopped
    assert bound_s <= least_s(instance)


def wheel(rng: random.Random) -> App:
    """A hub with forty partners, each of which sends half as much to two others."""
    rim = [f"r{i}" for i in range(40)]
    ways = [("hub", each, rng.randint(5, 60) * MB) for each in rim]
    ways += [(each, rim[(at + step) % 40], rng.randint(5, 30) * MB) for at, each in enumerate(rim) for step in (7, 18)]
    return builders.app("wheel", *ways, tasks=["hub", *rim])


def test_it_is_near_the_best_where_one_task_decides() -> None:
    rng = random.Random(0)
    net, app = cloud(12, rng, cpus=9.0), wheel(rng)
    instance = build_instance(net, [app], "hose")
    answer = decide(Question(net, [app]), Effort("search", time_limit_s=1.0, repeatable=True)).placement.completion_s
    bound_s, _ = hub_bound_s(instance, limit_s=60, strict=False)
    assert instance.core.bound_s() < 0.95 * bound_s
    assert 0.97 * answer <= bound_s <= answer * (1 + 1e-9)


def test_without_its_solver_it_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "CHILD", "no_such_child.py")
    monkeypatch.setitem(installed._PACKAGES, "no_such_child.py", "ortools")
    rng = random.Random(0)
    instance = build_instance(cloud(12, rng, cpus=9.0), [wheel(rng)], "hose")
    assert hub_bound_s(instance, limit_s=60, strict=True) == (0.0, True)


def test_without_limits_it_says_nothing() -> None:
    hosts = [Host(name=f"h{m}", cpus=2.0) for m in range(3)]
    net = Network(format=FORMAT, hosts=hosts, sharing="hose", rate_bps=[], latency_s=[])
    app = builders.app("a", ("a", "b", MB), ("b", "c", MB), tasks=["a", "b", "c"])
    assert hub_bound_s(build_instance(net, [app], "hose"), limit_s=60, strict=False) == (0.0, False)
