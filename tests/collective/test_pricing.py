"""Predictions compared with `simulate`: the messages of a plan, written by the rules of the documentation, as flows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.examples import examples

from gavotte.collective import OPERATIONS, TreeSearch, plan
from gavotte.collective.planning import FLAT, RINGS, TREES
from gavotte.formats.collective import Stage
from gavotte.formats.network import Network
from gavotte.mapping import METHODS, map_tasks
from gavotte.simulate import Flows, simulate, simulate_placement

Messages = list[tuple[int, int, float]]
Edges = list[tuple[int, int]]

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


class Script:
    """Return messages, and which waits for which."""

    def __init__(self) -> None:
        self.messages: Messages = []
        self.edges: Edges = []
        self._last: dict[int, int] = {}

    def send(self, source: int, target: int, size_bytes: float, *after: int) -> int:
        """After the sender's last message, and after the messages that bring its data."""
        number = len(self.messages)
        self.messages.append((source, target, size_bytes))
        before = {*after, *([self._last[source]] if source in self._last else [])}
        self.edges += [(each, number) for each in before]
        self._last[source] = number
        return number

    def seconds(self, network: Network, ranks: list[int]) -> float:
        source, target, size_bytes = zip(*self.messages, strict=True)
        flows = Flows(
            np.array(ranks)[list(source)],
            np.array(ranks)[list(target)],
            np.rint(size_bytes),
            np.zeros(len(source)),
        )
        return simulate(network, flows, edges=self.edges or None).makespan_s


def tree(stage: Stage) -> Script:
    script = Script()
    blocks = np.ones(len(stage.parent))
    if stage.operation in ("scatter", "gather"):
        for rank in reversed(stage.order[1:]):
            blocks[stage.parent[rank]] += blocks[rank]
    piece_bytes = stage.bytes / stage.segments
    came: dict[tuple[int, int], int] = {}
    flat = stage.operation in ("scatter", "gather") and stage.segments == 1 and set(stage.parent) == {stage.root}
    for rank in stage.order:
        for piece in range(stage.segments):
            for child in (other for other in stage.order if stage.parent[other] == rank and other != rank):
                after = [came[rank, piece]] if rank != stage.root else []
                came[child, piece] = script.send(rank, child, piece_bytes * blocks[child], *after)
    if flat:
        script.edges = []
    if stage.operation in ("reduce", "gather"):
        script.messages = [(target, source, size) for source, target, size in script.messages]
        script.edges = [(after, before) for before, after in script.edges]
    return script


def ring(stage: Stage) -> Script:
    script = Script()
    members = stage.order[: stage.ring]
    hung = {member: [r for r in stage.order[stage.ring or 0 :] if stage.parent[r] == member] for member in members}
    count, pieces = len(members), range(stage.segments)
    if stage.operation == "allgather":
        size_bytes = stage.bytes / stage.segments
        came = {
            (member, rank, piece): script.send(rank, member, size_bytes)
            for member in members
            for rank in hung[member]
            for piece in pieces
        }
        for step in range(count):
            for place, member in enumerate(members):
                origin = members[(place - step) % count]
                for block in [origin, *hung[origin]]:
                    for piece in pieces:
                        after = [came[member, block, piece]] if (member, block, piece) in came else []
                        if step + 1 < count:
                            following = members[(place + 1) % count]
                            came[following, block, piece] = script.send(member, following, size_bytes, *after)
                        for rank in hung[member]:
                            if rank != block:
                                script.send(member, rank, size_bytes, *after)
        return script
    size_bytes = stage.bytes / count / stage.segments
    up = {
        rank: [script.send(rank, member, size_bytes) for _ in range(count * len(pieces))]
        for member in members
        for rank in hung[member]
    }
    passed: dict[tuple[int, int, int], int] = {}
    for step in range(2 * count - 1):
        for place, member in enumerate(members):
            for piece in pieces:
                needs = [passed[step, member, piece]] if step else []
                needs += [up[rank][step * len(pieces) + piece] for rank in hung[member] if step < count]
                if step + 2 < 2 * count:
                    following = members[(place + 1) % count]
                    passed[step + 1, following, piece] = script.send(member, following, size_bytes, *needs)
                for rank in hung[member] if step + 1 >= count else []:
                    script.send(member, rank, size_bytes, *needs)
    return script


@given(
    st.integers(2, 12), st.sampled_from(OPERATIONS), st.sampled_from((FLAT, *TREES, *RINGS)), st.integers(0, 2**32 - 1)
)
@examples(120)
def test_predictions_are_what_the_simulator_says(size: int, operation: str, algorithm: str, seed: int) -> None:
    if (algorithm in RINGS and operation not in SEVERAL) or (
        algorithm == FLAT and operation not in ("scatter", "gather")
    ):
        return
    network = shared_network(size, seed)
    name = next(each for each in OPERATIONS if each == operation)
    generator = np.random.default_rng(seed)
    size_bytes, root = int(generator.integers(200_000, 4_000_000)), f"h{generator.integers(size)}"
    planned = plan(
        network, name, size_bytes=size_bytes, root=root, algorithm=algorithm, search=TreeSearch(steps=300, seed=seed)
    )
    for stage in planned.stages:
        script = ring(stage) if stage.ring else tree(stage)
        assert stage.predicted_s == pytest.approx(script.seconds(network, list(range(size))), rel=0.05)


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
