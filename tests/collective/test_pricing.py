"""Predictions compared with the replay of a job that runs the plan, and of mappings with `simulate`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.collective.recording import recorded
from tests.examples import examples

from gavotte import _core
from gavotte.collective import OPERATIONS, TreeSearch, plan
from gavotte.collective.planning import FLAT, RINGS, TREES
from gavotte.formats.network import Network
from gavotte.mapping import METHODS, map_tasks
from gavotte.simulate import MessageCosts, simulate_placement
from gavotte.simulate.platform import build_platform

SEVERAL = ("allgather", "allreduce")


def shared_network(size: int, seed: int) -> Network:
    """Return hosts with caps, some two on a machine, in racks behind uplinks of their own, or under one area."""
    generator = np.random.default_rng(seed)
    names = [f"h{i}" for i in range(size)]
    hosts = [
        {
            "name": name,
            "machine": f"m{generator.integers(size)}" if generator.random() < 0.5 else None,
            "egress_bps": generator.uniform(5e7, 1e9),
            "ingress_bps": generator.uniform(5e7, 1e9),
        }
        for name in names
    ]
    racks = [part.tolist() for part in np.array_split(generator.permutation(names), max(1, size // 3)) if len(part)]
    groups = [
        {
            "name": f"r{k}",
            "members": rack,
            "up_bps": generator.uniform(5e7, 6e8),
            "down_bps": generator.uniform(5e7, 6e8),
        }
        for k, rack in enumerate(racks)
    ]
    if len(groups) > 2 and generator.random() < 0.5:
        area = {"name": "area", "members": racks[0] + racks[1], "up_bps": 2e8, "down_bps": 3e8}
        groups = [group | ({"parent": "area"} if k < 2 else {}) for k, group in enumerate(groups)] + [area]
    return builders.network(
        hosts,
        generator.uniform(5e7, 2e9, (size, size)),
        generator.uniform(1e-5, 1e-3, (size, size)),
        groups=groups,
        sharing=["pipe", "hose", "groups"][int(generator.integers(3))],
    )


@given(
    st.integers(2, 12), st.sampled_from(OPERATIONS), st.sampled_from((FLAT, *TREES, *RINGS)), st.integers(0, 2**32 - 1)
)
@examples(120)
def test_predictions_are_what_the_replay_of_such_a_job_says(
    size: int, operation: str, algorithm: str, seed: int
) -> None:
    if (algorithm in RINGS and operation not in SEVERAL) or (
        algorithm == FLAT and operation not in ("scatter", "gather")
    ):
        return
    network = shared_network(size, seed)
    name = next(each for each in OPERATIONS if each == operation)
    generator = np.random.default_rng(seed)
    size_bytes, root = int(np.exp(generator.uniform(5, 15))), f"h{generator.integers(size)}"
    planned = plan(
        network, name, size_bytes=size_bytes, root=root, algorithm=algorithm, search=TreeSearch(steps=300, seed=seed)
    )
    for stage in planned.stages:
        ranks = recorded(stage)
        program = _core.JobProgram(ranks, [list(range(size))])
        (replayed,) = program.replay(build_platform(network, 1.0, 0), range(size), MessageCosts(), seeds=[None])
        assert stage.predicted_s == pytest.approx(replayed.makespan_s, rel=0.02)


@pytest.mark.parametrize("size_bytes", [1, 1000, 65_536, 65_537, 10_000_000])
def test_one_message_takes_its_latency_and_its_bytes(size_bytes: int) -> None:
    network = builders.network(2, [[0, 8e6], [4e6, 0]], [[0, 0.01], [0.03, 0]])
    costs = MessageCosts()
    seconds = 0.01 + 8 * size_bytes / 8e6 + 2 * costs.overhead_s
    if size_bytes > costs.eager_bytes:
        # The first 65,536 bytes announce the message; the answer comes back, and the rest takes the latency again.
        seconds += 0.03 + 0.01
    planned = plan(network, "broadcast", size_bytes=size_bytes, root="vm0", algorithm="binomial")
    assert planned.predicted_s == pytest.approx(seconds, rel=1e-6)


@given(st.integers(2, 10), st.sampled_from(OPERATIONS), st.integers(0, 2**32 - 1))
@examples(60)
def test_a_tree_takes_no_less_than_one_message_and_grows_with_the_bytes(size: int, operation: str, seed: int) -> None:
    network = shared_network(size, seed).model_copy(update={"sharing": "pipe", "groups": []})
    name = next(each for each in OPERATIONS if each == operation)
    before_s = 0.0
    for size_bytes in (1, 100, 10_000, 60_000, 70_000, 1_000_000):
        planned = plan(network, name, size_bytes=size_bytes, root="h0", algorithm="binomial")
        fastest_bps = max(rate or 0.0 for row in network.rate_bps for rate in row)
        assert planned.predicted_s >= 8 * size_bytes / fastest_bps
        assert planned.predicted_s >= before_s
        before_s = planned.predicted_s


def test_a_sender_does_not_wait_for_latencies() -> None:
    # 1 kB to each of seven hosts leaves within 7 ms, and the last one arrives 50 ms later.
    network = builders.network(8, 8e6, 0.05, egress_bps=8e6, ingress_bps=8e6)
    flat = plan(network, "scatter", size_bytes=1000, root="vm0", algorithm="flat")
    assert flat.predicted_s == pytest.approx(0.057, rel=0.01)
    planned = plan(network, "broadcast", size_bytes=1000, root="vm0")
    assert planned.predicted_s == pytest.approx(0.057, rel=0.01), "all children at the root, and not three hops"


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
@examples(60)
def test_mappings_are_what_the_simulator_says(size: int, seed: int) -> None:
    network, generator = shared_network(size, seed), np.random.default_rng(seed)
    tasks = int(generator.integers(2, size + 1))
    # A mapping has no start of connections, which takes time in the simulator unless transfers are large.
    rows = generator.integers(0, [tasks, tasks, 10**10], (3 * tasks, 3)).tolist()
    ways = [(f"t{s}", f"t{t}", b) for s, t, b in rows if s != t and b]
    app = builders.app("a", *ways, tasks=[f"t{i}" for i in range(tasks)])
    for method in METHODS:
        placed = map_tasks(network, app, method)
        assert placed.completion_s == pytest.approx(simulate_placement(network, [app], placed), rel=0.05)


def test_ranks_of_one_host_share_its_caps() -> None:
    network = builders.network(3, 1e8, 1e-4, egress_bps=1e8, ingress_bps=1e8)
    alone = plan(network, "broadcast", size_bytes=1 << 20, ranks=["vm0", "vm1"], algorithm="binomial")
    # Both ranks of vm0 send to vm1 and vm2 at the same time.
    both = plan(network, "allgather", size_bytes=1 << 20, ranks=["vm0", "vm1", "vm0", "vm2"], algorithm="rank-ring")
    assert both.predicted_s == pytest.approx(6 * alone.predicted_s, rel=0.05)


def test_a_fast_mate_on_the_machine_makes_no_scatter_fast() -> None:
    # h0 reaches its mate with 1000 Mbit/s and the other ten with 90 each, together 100.
    rates = np.full((12, 12), 9e7)
    rates[0, 1] = rates[1, 0] = 1e9
    hosts = [{"name": f"h{i}", "machine": "m" if i < 2 else None, "egress_bps": 1e8} for i in range(12)]
    network = builders.network(hosts, rates, 1e-4)
    size_bytes = 2_000_000
    flat = plan(network, "scatter", size_bytes=size_bytes, root="h0", algorithm="flat")
    assert flat.predicted_s == pytest.approx(10 * size_bytes * 8 / 1e8, rel=0.01)
    unknown = builders.network([host | {"egress_bps": None} for host in hosts], rates, 1e-4)
    careful = plan(unknown, "scatter", size_bytes=size_bytes, root="h0", algorithm="flat")
    assert careful.predicted_s == pytest.approx(10 * size_bytes * 8 / 9e7, rel=0.01), "no more than its best pair"


@pytest.mark.parametrize("operation", SEVERAL)
def test_a_ring_crosses_each_uplink_once(operation: str) -> None:
    # Every pair alone carries 1000 Mbit/s, but each of four racks is behind a link of 500; by rank, all pairs cross.
    size = 16
    groups = [
        {"name": f"r{k}", "members": [f"h{i}" for i in range(k, size, 4)], "up_bps": 5e8, "down_bps": 5e8}
        for k in range(4)
    ]
    network = builders.network([f"h{i}" for i in range(size)], 1e9, 1e-4, groups=groups, sharing="groups")
    name = next(each for each in OPERATIONS if each == operation)
    planned = plan(network, name, size_bytes=1 << 20)
    assert planned.algorithm == "ring"
    assert planned.predicted_s < 0.35 * planned.baselines_s["rank-ring"]
    members = planned.stages[0].order[: planned.stages[0].ring]
    crossings = sum(a % 4 != b % 4 for a, b in pairwise([*members, members[0]]))
    assert crossings == 4


def test_a_broadcast_enters_each_rack_once() -> None:
    size = 24
    groups = [
        {"name": f"r{k}", "members": [f"h{i}" for i in range(k, size, 4)], "up_bps": 2e8, "down_bps": 2e8}
        for k in range(4)
    ]
    network = builders.network([f"h{i}" for i in range(size)], 2e8, 1e-4, groups=groups, sharing="groups")
    planned = plan(network, "broadcast", size_bytes=8 << 20, algorithm="search")
    (stage,) = planned.stages
    entered = [rank % 4 for rank in stage.order[1:] if stage.parent[rank] % 4 != rank % 4]
    assert len(entered) <= 5
    assert planned.predicted_s < 0.8  # 0.34 s is one copy at 200 Mbit/s
