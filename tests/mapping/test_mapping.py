"""Mappings: one task a host, the paper's greedy by hand, and exchanges that only help."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.examples import examples

from gavotte.collective import ranks_over
from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.mapping import METHODS, map_tasks, times_s
from gavotte.simulate import simulate_placement


def network(rate_mbps: list[list[float]]) -> Network:
    return builders.network([f"h{i}" for i in range(len(rate_mbps))], 1e6 * np.array(rate_mbps), 1e-3)


def app(tasks: int, transfers: list[tuple[int, int, int]]) -> App:
    ways = [(f"t{s}", f"t{t}", count) for s, t, count in transfers]
    return builders.app("a", *ways, tasks=[f"t{i}" for i in range(tasks)])


def test_greedy_by_hand() -> None:
    # h2 has most bandwidth and h0 the best of it; t1 has most bytes, t3 exchanges most with it, t0 less.
    rates = [[0, 10, 90, 10], [10, 0, 50, 10], [90, 50, 0, 20], [10, 10, 20, 0]]
    placed = map_tasks(
        network([[float(r) for r in row] for row in rates]), app(4, [(1, 3, 900), (0, 1, 500)]), "greedy"
    )
    assert placed.assignment == {"t0": "h1", "t1": "h2", "t2": "h3", "t3": "h0"}


def test_what_a_mapping_does_not_keep_is_refused() -> None:
    net = network([[0, 8], [8, 0]])
    pinned = app(2, [(0, 1, 10**6)]).model_dump() | {"constraints": {"pin": {"t0": "h1"}}}
    with pytest.raises(GavotteError, match="has constraints"):
        map_tasks(net, App.model_validate(pinned))
    wide = app(2, [(0, 1, 10**6)]).model_dump()
    wide["task"][1]["cpus"] = 1e3
    with pytest.raises(GavotteError, match="t1 needs more cores"):
        map_tasks(net, App.model_validate(wide))


def test_the_busiest_host() -> None:
    net = network([[0, 8, 4], [8, 0, 8], [8, 8, 0]])
    placed = map_tasks(net, app(3, [(0, 1, 10**6), (0, 2, 10**6), (1, 2, 10**6)]), "ring")
    # h0 carries 8 Mbit/s and sends 2 MB; so does h2, which receives as much. Starts within 1 ms do not count.
    assert placed.completion_s == pytest.approx(2.001)
    assert placed.bottleneck in ("egress of h0", "ingress of h2")


@pytest.mark.parametrize("latency_s", [1e-3, 5e-3, 20e-3, 75e-3])
@pytest.mark.parametrize("size_bytes", [10**5, 10**6, 10**8])
def test_simulations_predict_the_same_of_far_hosts(latency_s: float, size_bytes: int) -> None:
    net = builders.network([f"h{i}" for i in range(4)], 1e8, latency_s)
    program = app(3, [(0, 1, size_bytes), (1, 2, size_bytes // 2), (2, 0, size_bytes)])
    placed = map_tasks(net, program)
    # Without the starts of connections, the smallest transfers of the farthest hosts took a sixth of the time.
    assert placed.completion_s == pytest.approx(simulate_placement(net, [program], placed), rel=1e-3)


@given(st.integers(2, 10), st.integers(0, 2**32 - 1))
@examples(40)
def test_exchanges_only_help(size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    net = network(generator.uniform(10, 1000, (size, size)).tolist())
    tasks = int(generator.integers(2, size + 1))
    wanted = [(int(s), int(t), int(b)) for s, t, b in generator.integers(0, [tasks, tasks, 10**7], (3 * tasks, 3))]
    program = app(tasks, [(s, t, b) for s, t, b in wanted if s != t])
    placed = {method: map_tasks(net, program, method) for method in METHODS}
    for each in placed.values():
        assert len(set(each.assignment.values())) == tasks
    assert placed["exchange"].completion_s <= min(each.completion_s for each in placed.values()) + 1e-12
    past = builders.history(np.array([net.rate_bps], dtype=np.float64) / 8, 1e-3)
    at = list(placed["exchange"].assignment.values())
    again = times_s(program, ranks_over(past, at, net), net, at)
    assert again[0] == pytest.approx(placed["exchange"].completion_s)


def test_errors() -> None:
    net = network([[0, 1], [1, 0]])
    with pytest.raises(GavotteError, match="need as many hosts"):
        map_tasks(net, app(3, []))
    with pytest.raises(GavotteError, match="unknown method"):
        map_tasks(net, app(2, []), "magic")
    assert map_tasks(net, app(2, [])).completion_s == 0
