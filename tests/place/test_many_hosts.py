"""Networks that caps and groups alone limit need no matrix, and mean the same as one full of unknown pairs."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MB, MBIT

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import FORMAT, Group, Host, Network, read_network, write_network
from gavotte.place import METHODS, Effort, Question, decide, evaluate
from gavotte.simulate import Flows, replay_placement, simulate


def racks(count: int, rng: random.Random, sharing: str, *, matrix: bool) -> Network:
    hosts = [
        Host(
            name=f"h{m}",
            cpus=2.0,
            egress_bps=rng.uniform(200, 900) * MBIT,
            ingress_bps=rng.uniform(200, 900) * MBIT,
            machine=f"pm{m // 2}" if m % 5 == 0 else None,
        )
        for m in range(count)
    ]
    groups = [
        Group(name=f"rack{at}", members=[host.name for host in hosts[at::3]], up_bps=500 * MBIT, down_bps=600 * MBIT)
        for at in range(3)
    ]
    unknown = [[None] * count for _ in range(count)] if matrix else []
    return Network.model_validate(
        {
            "format": FORMAT,
            "hosts": hosts,
            "groups": groups,
            "sharing": sharing,
            "rate_bps": unknown,
            "latency_s": unknown,
        }
    )


def drawn(rng: random.Random, tasks: int) -> App:
    ways = [(*(f"t{i}" for i in rng.sample(range(tasks), 2)), rng.randint(1, 90) * MB) for _ in range(3 * tasks)]
    return builders.app("drawn", *ways, tasks=[f"t{i}" for i in range(tasks)])


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["hose", "groups"])
# Only the ILP's solver among these stops by the clock, so its answer may differ.
@pytest.mark.parametrize("method", [method for method in METHODS if method != "ilp"])
def test_an_empty_matrix_is_one_of_unknown_pairs(method: str, sharing: str) -> None:
    for seed in range(3):
        without, full = (racks(9, random.Random(seed), sharing, matrix=matrix) for matrix in (False, True))
        app = drawn(random.Random(seed), 6)
        one, other = (
            decide(Question(net, [app]), Effort(method, time_limit_s=0.3, repeatable=True, seed=seed))
            for net in (without, full)
        )
        assert one.placement.assignment == other.placement.assignment
        assert one.placement.completion_s == other.placement.completion_s
        assert one.placement.bound_s == pytest.approx(other.placement.bound_s)
        assert evaluate(without, [app], one.placement.assignment).completion_s == one.placement.completion_s
        replays = [replay_placement(net, [app], one.placement).completion_s for net in (without, full)]
        assert replays[0] == replays[1]


def test_pipes_need_pairs() -> None:
    with pytest.raises(GavotteError, match="no pair of hosts has a rate"):
        decide(Question(racks(4, random.Random(0), "pipe", matrix=False), [drawn(random.Random(0), 3)]))


@pytest.mark.slow
def test_memory_grows_with_hosts_not_with_pairs(tmp_path: Path) -> None:
    """5,000 hosts have 25 million pairs: 200 MB as eight bytes each."""
    path = tmp_path / "n.network.json"
    write_network(path, racks(5000, random.Random(1), "groups", matrix=False))
    assert path.stat().st_size < 2 * MB
    tracemalloc.start()
    network = read_network(path)
    app = drawn(random.Random(1), 60)
    placement = decide(Question(network, [app]), Effort("auto", time_limit_s=0.5)).placement
    done = simulate(network, Flows([0, 1], [2, 3], [MB, MB], [0.0, 0.0]))  # type: ignore[arg-type]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert placement.completion_s >= placement.bound_s
    assert done.makespan_s > 0
    assert peak_bytes < 100 * MB
