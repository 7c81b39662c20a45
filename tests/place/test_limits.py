"""PlacementLimits on the whole placement, hosts and price as goals, and rates known to an interval."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.place.clouds import cloud, ring

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.network import Network
from gavotte.place import (
    Answer,
    Effort,
    Goal,
    PlacementLimits,
    Question,
    decide,
    evaluate,
    explain,
    place,
    worst_case,
)
from gavotte.place import latency_s as latency_s_of
from gavotte.place.constraints import price_usd

METHODS = ("optimal", "ilp", "search")


def priced() -> Network:
    """Three hosts of four cores: the fast one is expensive, and so are bytes to and from it."""
    prices = [[None, 1.0, 4.0], [1.0, None, 5.0], [4.0, 5.0, None]]
    network = cloud(3, cpus=4.0, price_usd_per_gb=prices)
    hosts = [host.model_copy(update={"price_usd": 0.001 * (m + 1)}) for m, host in enumerate(network.hosts)]
    return network.model_copy(update={"hosts": hosts})


@cache
def every_placement() -> list[tuple[float, float, int]]:
    """Return time, price and hosts of every assignment of the ring to the priced hosts that fits."""
    network, result = priced(), []
    for hosts in product(network.names, repeat=6):
        assignment = dict(zip("abcdef", hosts, strict=True))
        try:
            time_s = evaluate(network, [ring()], assignment).completion_s
        except InfeasibleError:
            continue
        result.append((time_s, price_usd(network, [ring()], assignment), len(set(hosts))))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_price_is_a_limit_and_the_best_below_it_is_found(method: str) -> None:
    network = priced()
    every = every_placement()
    cheapest = min(price for _, price, _ in every)
    for most in (cheapest, cheapest * 1.5):
        answer = decide(
            Question(network, [ring()], limits=PlacementLimits(max_price_usd=most)), Effort(method, time_limit_s=10.0)
        )
        assert answer.price_usd <= most * (1 + 1e-9)
        least_s = min(time_s for time_s, price, _ in every if price <= most * (1 + 1e-9))
        assert answer.placement.completion_s == pytest.approx(least_s)


def test_price_counts_hosts_and_bytes_once() -> None:
    assignment = dict.fromkeys("abcd", "vm0") | dict.fromkeys("ef", "vm2")
    # d sends e 4 MB and f sends a 6 MB, 4 USD a GB each way; vm0 and vm2 are used.
    assert price_usd(priced(), [ring()], assignment) == pytest.approx(0.001 + 0.003 + 4.0 * 10e6 / 1e9)


@pytest.mark.parametrize("method", METHODS)
def test_hosts_are_a_limit(method: str) -> None:
    answer = decide(
        Question(cloud(cpus=4.0), [ring("abcdef")], limits=PlacementLimits(max_hosts=2)),
        Effort(method, time_limit_s=5.0),
    ).placement
    assert len(set(answer.assignment.values())) == 2


def test_the_next_best_move_keeps_limits_and_allowed_hosts() -> None:
    network, app = cloud(cpus=4.0), ring("abc", apart=[["b", "c"], ["a", "c"]])
    given = evaluate(network, [app], {"a": "vm0", "b": "vm0", "c": "vm1"})

    def hosts_after(**options: Any) -> set[str]:
        move = explain(Question(network, [app], **options), given).runner_up
        assert move is not None
        return set((given.assignment | {task: target for task, _, target in move.moves}).values())

    # b sends 2 MB at 8 Mbit/s: alone on a third host it would send faster.
    assert len(hosts_after()) == 3
    assert len(hosts_after(limits=PlacementLimits(max_hosts=2))) == 2
    assert "vm3" not in hosts_after(allowed={"b": ["vm0", "vm2"]})


@pytest.mark.slow
def test_what_breaks_a_limit_is_an_error() -> None:
    with pytest.raises(InfeasibleError, match="at most 2 hosts"):
        decide(Question(cloud(), [ring()], limits=PlacementLimits(max_hosts=2)), Effort(time_limit_s=5.0))
    with pytest.raises(InfeasibleError, match=r"a price of at most 0\.001 USD"):
        decide(Question(priced(), [ring()], limits=PlacementLimits(max_price_usd=0.001)), Effort(time_limit_s=5.0))
    with pytest.raises(InfeasibleError, match=r"greedy costs .* USD, more than 0\.001 USD"):
        decide(Question(priced(), [ring()], limits=PlacementLimits(max_price_usd=0.001)), Effort("greedy"))


def spent(network: Network, goal: str, within: float) -> Answer:
    effort = Effort("search", time_limit_s=2.0, repeatable=True)
    return decide(Question(network, [ring()]), effort, Goal(goal, within))


@pytest.mark.slow
@pytest.mark.parametrize("within", [0.0, 0.5])
def test_goals_are_the_least_within_the_time(within: float) -> None:
    network = priced()
    every = every_placement()
    most_s = min(every)[0] * (1 + within) * (1 + 1e-9)
    cheap = spent(network, "price", within)
    least = min(price for time_s, price, _ in every if time_s <= most_s)
    dearest = max(price for _, price, _ in every)
    assert cheap.placement.completion_s <= most_s
    assert least * (1 - 1e-9) <= cheap.price_usd <= least + dearest * 2**-8
    few = spent(network, "hosts", within)
    assert len(set(few.placement.assignment.values())) == min(n for time_s, _, n in every if time_s <= most_s)


@pytest.mark.parametrize(
    ("goal", "within", "words"),
    [("fame", 0.1, "unknown goal `fame`"), ("hosts", -0.1, "within -0.1"), ("price", 0.1, "the network has no prices")],
)
def test_senseless_goal_is_one_line(goal: str, within: float, words: str) -> None:
    with pytest.raises(GavotteError, match=words):
        spent(cloud(), goal, within)


def test_robust_placement_has_the_least_worst_case() -> None:
    caps: list[dict[str, Any]] = [
        {"egress_bps": 80e6, "egress_low_bps": 8e6},
        {"egress_bps": 40e6, "egress_low_bps": 38e6},
        {"egress_bps": 39e6},
    ]
    network = cloud(3, cpus=4.0)
    hosts = [host.model_copy(update=cap) for host, cap in zip(network.hosts, caps, strict=True)]
    network = network.model_copy(update={"hosts": hosts})
    worst = worst_case(network)
    assert [host.egress_bps for host in worst.hosts] == [8e6, 38e6, 39e6]
    hopeful, robust = place(network, [ring()], time_limit_s=5.0), place(worst, [ring()], time_limit_s=5.0)
    assert hopeful.completion_s < robust.completion_s
    assert evaluate(worst, [ring()], hopeful.assignment).completion_s > robust.completion_s
    lows = [[None, 1e6, None], [None, None, None], [None, None, None]]
    assert worst_case(network.model_copy(update={"rate_low_bps": lows})).rate_bps[0][1] == 1e6
    with pytest.raises(GavotteError, match="no intervals of rates"):
        worst_case(cloud())


@pytest.mark.parametrize("method", ["search", "optimal"])
def test_threads_change_nothing(method: str) -> None:
    app = ring("abcdefghijkl", cpus=0.5)
    answers = [
        decide(Question(cloud(8), [app]), Effort(method, seed=3, time_limit_s=0.5, threads=threads, clock=lambda: 0.0))
        for threads in (1, 2, 5)
    ]
    assert answers[0] == answers[1] == answers[2]


def test_the_least_latency_is_that_of_every_placement() -> None:
    rng = np.random.default_rng(5)
    latency_s = rng.permutation(12).reshape(4, 3)
    rows = [[0.0 if m == n else 0.001 * (1 + latency_s[m][n - (n > m)]) for n in range(4)] for m in range(4)]
    network, app = cloud(latency_s=rows), ring()

    effort = Effort(time_limit_s=4.0, repeatable=True)
    answer = decide(Question(network, [app]), effort, Goal("latency", 1e5))
    feasible = (places for places in product(range(4), repeat=6) if max(map(places.count, range(4))) <= 2)
    ends = [(i, (i + 1) % 6) for i in range(6)]
    least_s = min(max(rows[at[i]][at[j]] if at[i] != at[j] else 0.0 for i, j in ends) for at in feasible)
    assert latency_s_of(network, [app], answer.placement.assignment) == pytest.approx(least_s)
    unknown = network.model_copy(update={"latency_s": [[None] * 4] * 4})
    with pytest.raises(GavotteError, match="the network has no latencies"):
        decide(Question(unknown, [app]), effort, Goal("latency", 0.0))
