"""Packings of trees: as fast as the narrowest cut allows, and never more than a link carries."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests import builders
from tests.examples import examples

from gavotte import _core
from gavotte.formats.network import Network
from gavotte.transfer.packing import (
    GAP,
    GIVEN_UP,
    MANY_MEMBERS,
    MOST_MEMBERS,
    WIDE_GAP,
    Packing,
    cheapest_tree,
    pack,
)
from gavotte.transfer.planning import nothing_known, plan_broadcast

MB = 1_000_000
TREE = Path(__file__).parents[2]
RATES = st.floats(4e6, 40e6)


def ground_of(network: Network) -> _core.BroadcastGround:
    return _core.BroadcastGround(_core.Network(network), 0, list(range(1, len(network.hosts))))


def packed(network: Network) -> Packing:
    packing = pack(ground_of(network), range(len(network.hosts)))
    assert packing is not None
    return packing


@st.composite
def clouds(draw: st.DrawFn) -> Network:
    """Racks of unequal hosts behind lines of unequal rates; some hosts share a machine."""
    hosts, groups = [], []
    for rack in range(draw(st.integers(1, 3))):
        members = [f"r{rack}h{number}" for number in range(draw(st.integers(1, 3)))]
        machine = {"machine": f"m{rack}"} if draw(st.booleans()) else {}
        hosts += [{"name": name, "egress_bps": draw(RATES), "ingress_bps": draw(RATES), **machine} for name in members]
        groups.append({"name": f"rack{rack}", "members": members, "up_bps": draw(RATES), "down_bps": draw(RATES)})
    if len(hosts) == 1:
        hosts.append({"name": "far", "egress_bps": draw(RATES), "ingress_bps": draw(RATES)})
    return builders.network(hosts, groups=groups, sharing="groups")


def cut_rate_bps(network: Network) -> float:
    """Return the optimum by another program: flows to each receiver, in edges that share links (max-flow, min-cut)."""
    size = len(network.hosts)
    rates_bps, _, ways = ground_of(network).links(False)
    edges = [(m, n) for m, n in product(range(size), repeat=2) if m != n and n != 0]
    count, receivers = len(edges), range(1, size)
    # Variables: the rate, the rate of each edge, and the flow to each receiver over each edge, in Mbit/s.
    width = 1 + count * size
    equal, most, limits = [], [], []
    for receiver in receivers:
        for host in receivers:
            row = np.zeros(width)
            for at, (m, n) in enumerate(edges):
                row[1 + receiver * count + at] = (n == host) - (m == host)
            row[0] = -1.0 if host == receiver else 0.0
            equal.append(row)
        for at in range(count):
            row = np.zeros(width)
            row[1 + receiver * count + at], row[1 + at] = 1.0, -1.0
            most.append(row)
            limits.append(0.0)
    for link, rate in enumerate(rates_bps):
        row = np.zeros(width)
        for at, (m, n) in enumerate(edges):
            row[1 + at] = float(link in ways[m * size + n])
        most.append(row)
        limits.append(rate / 1e6)
    cost = np.zeros(width)
    cost[0] = -1.0
    done = linprog(cost, np.array(most), limits, np.array(equal), np.zeros(len(equal)), [(0, 1e6)] * width)
    return float(-done.fun) * 1e6


@given(clouds())
@examples(25)
def test_the_bound_is_that_of_the_narrowest_cut(network: Network) -> None:
    if cut_rate_bps(network) < 0.9e12:
        assert packed(network).most_bps == pytest.approx(cut_rate_bps(network), rel=2 * GAP)
    else:
        assert pack(ground_of(network), range(len(network.hosts))) is None


@given(clouds())
@examples(60)
def test_trees_reach_all_and_overload_no_link(network: Network) -> None:
    packing = pack(ground_of(network), range(len(network.hosts)))
    if packing is None:
        return
    assert (1 - GIVEN_UP - 2 * GAP) * packing.most_bps <= packing.rate_bps <= packing.most_bps * (1 + 1e-6)
    size = len(network.hosts)
    rates_bps, _, ways = ground_of(network).links(False)
    loads = np.zeros(len(rates_bps))
    for tree in packing.trees:
        reached = {0}
        for parent, child in tree.edges:
            assert parent in reached
            assert child not in reached
            reached.add(child)
            loads[ways[parent * size + child]] += tree.rate_bps
        assert reached == set(range(size))
    assert (loads <= np.array(rates_bps) * 1.001).all()


@given(st.lists(st.lists(st.floats(0, 10), min_size=5, max_size=5), min_size=5, max_size=5))
@examples(60)
def test_no_tree_is_cheaper(rows: list[list[float]]) -> None:
    costs = np.array(rows)
    least = np.inf
    for parents in product(range(5), repeat=4):
        above = (-1, *parents)
        hosts = list(range(1, 5))
        for _ in range(4):
            hosts = [above[host] if host > 0 else host for host in hosts]
        if not any(hosts):
            least = min(least, sum(costs[above[host], host] for host in range(1, 5)))
    cheapest = cheapest_tree(costs)
    assert sum(costs[cheapest[host], host] for host in range(1, 5)) == pytest.approx(least)


def test_slow_uplinks_share_the_work_that_no_chain_could_do() -> None:
    caps = [{"name": f"h{i}", "egress_bps": rate, "ingress_bps": 100e6} for i, rate in enumerate([30e6, 1e7, 1e7, 1e7])]
    plan = plan_broadcast(builders.network(caps), "h0", ["h1", "h2", "h3"], 10 * MB)
    # Three copies by uplinks of 60 Mbit/s in all; a chain has 10.
    assert plan.bound_s == pytest.approx(4.0)
    assert plan.prices["chain"] == pytest.approx(8.0, rel=0.02)
    assert plan.prices["packing"] == pytest.approx(4.0, rel=0.06)


def test_helpers_keep_room_to_catch_up() -> None:
    """The source's 60 Mbit/s reach both others if they pass on 60 together, of which one could pass on 40."""
    caps = [{"name": f"h{i}", "egress_bps": rate, "ingress_bps": 80e6} for i, rate in enumerate([60e6, 40e6, 50e6])]
    packing = packed(builders.network(caps))
    assert packing.rate_bps == pytest.approx(60e6, rel=1e-6)
    passed_bps = dict.fromkeys((1, 2), 0.0)
    for tree in packing.trees:
        for parent, _ in tree.edges:
            if parent:
                passed_bps[parent] += tree.rate_bps
    assert passed_bps[1] <= 0.75 * 40e6
    assert passed_bps[2] <= 0.75 * 50e6


def test_racks_with_a_narrow_way_out_are_left_as_little_as_possible() -> None:
    """Two racks have a narrow way out, so one tree through them is slow, but each may pass on a little."""
    hosts = [{"name": f"h{i}", "egress_bps": 40e6, "ingress_bps": 40e6} for i in range(6)]
    lines = [(20e6, 40e6), (4e6, 16e6), (4e6, 16e6)]
    groups = [
        {"name": f"rack{r}", "members": [f"h{2 * r}", f"h{2 * r + 1}"], "up_bps": up, "down_bps": down}
        for r, (up, down) in enumerate(lines)
    ]
    network = builders.network(hosts, groups=groups, sharing="groups")
    plan = plan_broadcast(network, "h0", [f"h{i}" for i in range(1, 6)], 10 * MB)
    assert plan.mechanism == "packing"
    # 28 Mbit/s out of the racks together carry two copies; the best single tree carries 10.
    assert plan.bound_s == pytest.approx(80 / 14, rel=0.01)
    assert plan.bound_s is not None
    assert plan.predicted_s is not None
    assert plan.predicted_s < 1.08 * plan.bound_s
    assert min(plan.prices[name] for name in ("chain", "tree", "binomial", "mesh")) > 1.3 * plan.bound_s


def test_trees_of_many_hosts_are_near_the_bound_if_few_links_decide() -> None:
    """The source sends at 8 Mbit/s, the others at 4 to 40."""
    rng = np.random.default_rng(1)
    egress_bps = [8e6, *rng.uniform(4e6, 40e6, 99).tolist()]
    hosts = [{"name": f"h{i}", "egress_bps": rate, "ingress_bps": 80e6} for i, rate in enumerate(egress_bps)]
    network = builders.network(hosts)
    assert len(hosts) > MANY_MEMBERS
    packing = packed(network)
    assert packing.rate_bps >= (1 - GIVEN_UP - WIDE_GAP) * packing.most_bps
    plan = plan_broadcast(network, "h0", [f"h{i}" for i in range(1, 100)], 10 * MB, mechanism="packing")
    assert plan.bound_s is not None
    assert plan.predicted_s is not None
    assert plan.predicted_s < 1.1 * plan.bound_s


def test_what_nothing_limits_needs_no_trees() -> None:
    assert pack(ground_of(nothing_known(["a", "b"])), range(2)) is None
    crowd = builders.network([{"name": f"h{i}", "egress_bps": 1e7} for i in range(MOST_MEMBERS + 1)])
    assert pack(ground_of(crowd), range(MOST_MEMBERS + 1)) is None


def test_a_program_that_packs_trees_may_use_other_solvers() -> None:
    """The symbols of highspy and OR-tools clash: the second one cannot be loaded."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests import builders\n"
        "from tests.transfer.test_packing import packed\n"
        "packed(builders.network(3, egress_bps=8e6))\n"
        "from ortools.sat.python import cp_model\n"
        "print('both')"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(TREE)], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "both\n", ended.stderr
