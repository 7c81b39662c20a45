"""Networks with too many hosts for a matrix: the verb looks at some of them, or a line says why not."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tests import builders

from gavotte.collective import TreeSearch, plan
from gavotte.collective.planning import RINGS
from gavotte.collective.ranks import MOST_RANKS
from gavotte.errors import GavotteError
from gavotte.formats.collective import Operation
from gavotte.formats.network import Network
from gavotte.mapping import map_tasks
from gavotte.mapping.mapping import MOST_HOSTS
from gavotte.place import Effort, Goal, PlacementLimits, Question, decide, evaluate
from gavotte.report import Outcome, report
from gavotte.report.page import DRAWN
from gavotte.simulate import simulate_placement

MANY = MOST_HOSTS + 1000
APP = builders.app("sort", ("a", "b", 10_000_000), ("b", "c", 5_000_000), ("c", "a", 1000))


def free(size: int, *, racks: int = 4, **fields: object) -> Network:
    """Without any matrix: every fifth host is fast, racks take turns."""
    hosts = [{"name": f"v{m}", "egress_bps": 1e8 if m % 5 else 1e9} for m in range(size)]
    groups = [
        {"name": f"rack{r}", "members": [f"v{m}" for m in range(r, size, racks)], "up_bps": 3e8} for r in range(racks)
    ]
    whole = {"format": "gavotte/network/1", "hosts": hosts, "groups": groups, "sharing": "groups", "rate_bps": []}
    return Network.model_validate(whole | fields)


def test_a_collective_is_of_its_ranks_not_of_all_hosts() -> None:
    ranks = ["v5", "v1", "v5", "v12", "v20"]
    few, many = (plan(free(size), "allreduce", size_bytes=1 << 20, ranks=ranks) for size in (40, MANY))
    assert few == many
    for asked, purpose in (
        ({"algorithm": "ring"}, "rings are made for"),
        ({"search": TreeSearch(mpi="openmpi")}, "the MPI library's time is predicted for"),
    ):
        with pytest.raises(GavotteError, match=f"{MANY} ranks are more than the {MOST_RANKS} that {purpose}; name"):
            plan(free(MANY), "allreduce", size_bytes=1 << 20, **asked)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["broadcast", "gather", "allreduce"])
def test_a_collective_of_many_ranks_is_made_tier_by_tier(operation: Operation) -> None:
    network = free(MOST_RANKS + 52, racks=60)
    chosen = plan(network, operation, size_bytes=1 << 20, search=TreeSearch(steps=1000))
    assert chosen.predicted_s < 0.8 * chosen.baselines_s["binomial"]
    assert not set(chosen.baselines_s) & set(RINGS)
    if operation == "allreduce":  # from a host that is as fast as any
        root = chosen.hosts[chosen.stages[0].root]
        assert root == "v0"
    for stage in chosen.stages:
        assert sorted(stage.order) == list(range(len(network.hosts)))


@pytest.mark.slow
def test_a_mapping_looks_at_some_hosts_of_each_kind() -> None:
    few, many = (map_tasks(free(size), APP) for size in (MOST_HOSTS // 16, MANY))
    assert many.completion_s == few.completion_s
    assert many.assignment == few.assignment
    unlike = [host.model_copy(update={"cpus": 1.0 + m}) for m, host in enumerate(free(MANY).hosts)]
    with pytest.raises(GavotteError, match=f"{MANY} hosts that differ are more than the {MOST_HOSTS}"):
        map_tasks(free(MANY).model_copy(update={"hosts": unlike}), APP)


def test_a_report_shows_some_of_many_hosts_and_says_so(tmp_path: Path) -> None:
    placed = builders.placement({"a": "v7", "b": "v8", "c": f"v{MANY - 2}"}, "sort")
    report(tmp_path / "r.html", free(MANY), apps=[APP], outcomes=[Outcome(placed)])
    text = (tmp_path / "r.html").read_text()
    assert f"{DRAWN} of the {MANY} hosts are shown, those with tasks and others evenly chosen" in text
    assert "none has a rate of its own" in text
    assert text.count("<tr><td>v") == DRAWN + 3
    assert all(f"<tr><td>{name}</td>" in text for name in ("v7", "v8", f"v{MANY - 2}"))
    assert f"and {-(-MANY // 4) - 8} more" in text
    small = builders.network(3, 1e8)
    report(tmp_path / "s.html", small)
    assert "are shown" not in (tmp_path / "s.html").read_text()


@pytest.mark.rare
@pytest.mark.slow
def test_pairs_of_some_of_many_hosts_are_drawn(tmp_path: Path) -> None:
    report(tmp_path / "r.html", builders.network(DRAWN + 5, 1e8))
    text = (tmp_path / "r.html").read_text()
    assert f"{DRAWN * (DRAWN - 1)} of {DRAWN * (DRAWN - 1)} known, 0 doubtful among the hosts shown" in text


def test_prices_of_too_many_hosts_are_refused() -> None:
    with pytest.raises(
        GavotteError, match="8193 hosts are more than the 8192 whose prices are compared; leave hosts out"
    ):
        decide(Question(free(8193), [APP], limits=PlacementLimits(max_price_usd=1.0)), Effort("greedy"))
    assert (
        decide(
            Question(free(40), [APP], limits=PlacementLimits(max_price_usd=1.0)), Effort("greedy")
        ).placement.completion_s
        > 0
    )


def compact(size: int) -> Network:
    """The same in version 2: half a round trip of each host, what a rack adds, and a pair that differs."""
    whole = free(size).model_dump(exclude_unset=True)
    for m, host in enumerate(whole["hosts"]):
        host["latency_s"] = 1e-5 * (1 + m % 7)
    for rack in whole["groups"]:
        rack["latency_s"] = 1e-4
    slow = [{"source": "v5", "target": "v10", "rate_bps": 2e7}, {"source": "v10", "target": "v5", "latency_s": 3e-4}]
    del whole["rate_bps"]
    return Network.model_validate(whole | {"format": "gavotte/network/2", "exceptions": slow})


def test_verbs_answer_alike_with_and_without_matrices(tmp_path: Path) -> None:
    tree = compact(40)
    matrices = tree.in_matrices()
    placed = builders.placement({"a": "v5", "b": "v10", "c": "v11"}, "sort")
    for chosen in (placed, decide(Question(matrices, [APP]), Effort("search", time_limit_s=1)).placement):
        # The pair that differs takes 8 x 10 MB / 20 Mbit/s.
        of_tree, of_matrices = (evaluate(each, [APP], chosen.assignment).completion_s for each in (tree, matrices))
        assert of_tree == pytest.approx(of_matrices)
        assert (of_tree == pytest.approx(4.0)) == (chosen is placed)
        assert simulate_placement(tree, [APP], chosen) == pytest.approx(simulate_placement(matrices, [APP], chosen))
    of_tree, of_matrices = (
        decide(Question(each, [APP]), Effort("search", time_limit_s=1)).placement.completion_s
        for each in (tree, matrices)
    )
    assert of_tree == pytest.approx(of_matrices)
    ranks = ["v5", "v10", "v11", "v20", "v33"]
    for operation in get_args(Operation):
        of_tree, of_matrices = (
            plan(each, operation, size_bytes=1 << 20, ranks=ranks).predicted_s for each in (tree, matrices)
        )
        assert of_tree == pytest.approx(of_matrices), operation


def test_many_hosts_of_version_2_have_latencies() -> None:
    far = compact(MANY)
    assert far.pair_latency_s(5, 10) == pytest.approx(1e-4 + 6e-5 + 4e-5)
    ranks = ["v5", "v10", "v11"]
    slow, fast = (plan(each, "broadcast", size_bytes=100, ranks=ranks).predicted_s for each in (far, free(MANY)))
    assert slow > fast + 1e-4
    assert map_tasks(far, APP).completion_s > 0
    with pytest.raises(GavotteError, match="hosts are more than the"):
        decide(Question(far, [APP]), Effort("search", time_limit_s=1), Goal("latency"))
