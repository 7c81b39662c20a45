"""Trees that follow what their edges carry: estimates of links, and broadcasts that are played on a known network."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests import builders

from gavotte import _core
from gavotte.formats.network import Network
from gavotte.transfer.adapting import FREE_PACE, Adapting, Estimates
from gavotte.transfer.packing import pack

BLOCK_BYTES = 16_384
STEP_S = 0.05
REPORT_S = 0.2


def ground_of(network: Network) -> _core.BroadcastGround:
    return _core.BroadcastGround(_core.Network(network), 0, list(range(1, len(network.hosts))))


def racks(line_bps: float, slow_bps: float = 20e6) -> Network:
    """Return three racks of three hosts, behind lines of this rate. Host `r1h0` has `slow_bps`, others 20 Mbit/s."""
    hosts = [
        {"name": name, "egress_bps": slow_bps if name == "r1h0" else 20e6, "ingress_bps": 40e6}
        for name in (f"r{rack}h{number}" for rack, number in product(range(3), range(3)))
    ]
    groups = [
        {
            "name": f"rack{rack}",
            "members": [f"r{rack}h{number}" for number in range(3)],
            "up_bps": line_bps,
            "down_bps": line_bps,
        }
        for rack in range(3)
    ]
    return builders.network(hosts, groups=groups, sharing="groups")


def test_the_link_that_slow_edges_share_counts_as_full_and_no_other() -> None:
    # Links 0 to 2 are ports of hosts, link 3 a line that edges 0 and 1 cross.
    estimates = Estimates(np.array([20e6, 20e6, 20e6, 20e6]), ["a", "b", "c", "line"], [[0, 3], [1, 3], [2]])
    estimates.observe({0: 4e6, 1: 4e6, 2: 30e6}, [0, 1])
    assert estimates.rates_bps == pytest.approx([20e6, 20e6, 30e6, 10e6])
    assert estimates.full.tolist() == [False, False, False, True]
    # One window takes away half of an estimate at most; the next one finds the rate.
    estimates.observe({0: 4e6, 1: 4e6}, [0, 1])
    assert estimates.rates_bps == pytest.approx([20e6, 20e6, 30e6, 8e6])
    # A link that carries more was not full.
    estimates.observe({0: 8e6, 1: 8e6}, [])
    assert estimates.rates_bps[3] == pytest.approx(16e6)
    assert not estimates.full.any()


def shares_bps(rates_bps: list[float], ways: list[list[int]], most_bps: list[float]) -> list[float]:
    """Return max-min fair rates of flows over links, each at most as fast as given."""
    flows, left = [0.0] * len(ways), list(rates_bps)
    growing = {flow for flow, most in enumerate(most_bps) if most > 0}
    while growing:
        users = [sum(link in ways[flow] for flow in growing) for link in range(len(left))]
        step = min([left[link] / count for link, count in enumerate(users) if count])
        step = min([step, *(most_bps[flow] - flows[flow] for flow in growing)])
        for flow in growing:
            flows[flow] += step
        left = [rate - step * count for rate, count in zip(left, users, strict=True)]
        full = {link for link, rate in enumerate(left) if rate <= 1.0}
        growing = {flow for flow in growing if flows[flow] < most_bps[flow] - 1 and not full & set(ways[flow])}
    return flows


class Played:
    """A broadcast whose hosts are played on a network, planned by another network."""

    def __init__(self, true: Network, believed: Network, size_bytes: int) -> None:
        self.size = len(true.hosts)
        self.count = -(-size_bytes // BLOCK_BYTES)
        self.ground = ground_of(believed)
        self.rates_bps, _, self.ways = ground_of(true).links(False)
        self.conductor = _core.Conductor(
            self.ground, size_bytes, BLOCK_BYTES, "packing", BLOCK_BYTES, 1e9, [0] * self.size, 0
        )
        self.adapting = Adapting(self.ground, range(self.size), size_bytes, BLOCK_BYTES, learns=True)
        packing = pack(self.ground, range(self.size))
        assert packing is not None
        self.have = [(1 << self.count) - 1] + [0] * (self.size - 1)
        self.carried: dict[tuple[int, int], float] = {}
        self.feeds: dict[tuple[int, int], tuple[int, float]] = {}
        self.planted = 0
        self.plant(packing.trees, 0.0)
        for host in range(self.size):
            self.conductor.opened(host, self.bits(host), 0, 0.0)

    def bits(self, host: int) -> bytes:
        return self.have[host].to_bytes(-(-self.count // 8), "little")

    def plant(self, trees: object, now_s: float) -> None:
        self.conductor.plant([(FREE_PACE * tree.rate_bps, tree.edges) for tree in trees])  # type: ignore[attr-defined]
        self.adapting.planted(trees, now_s)  # type: ignore[arg-type]
        self.planted += 1

    def run(self, *, adapts: bool) -> float:
        """Return the seconds until the last host has everything."""
        kept: set[int] = set()
        step = 0
        while len(kept) < self.size - 1:
            now_s = step * STEP_S
            assert now_s < 200
            if step % round(REPORT_S / STEP_S) == 0:
                self.report(kept, now_s)
                if adapts and (trees := self.adapting.better(now_s)):
                    self.plant(trees, now_s)
                self.conduct()
            self.move()
            step += 1
        return step * STEP_S

    def report(self, kept: set[int], now_s: float) -> None:
        for host in range(self.size):
            self.conductor.progress(host, self.bits(host), self.have[host].bit_count() * BLOCK_BYTES, now_s)
            self.adapting.progress(host, self.bits(host))
            if host and self.have[host].bit_count() == self.count and host not in kept:
                kept.add(host)
                self.conductor.kept(host)
        self.conductor.tick(now_s)

    def conduct(self) -> None:
        for child, feeds in self.conductor.changes():
            self.adapting.feed(child, [(parent, blocks, pace) for parent, blocks, pace, _ in feeds])
            self.feeds = {ends: feed for ends, feed in self.feeds.items() if ends[1] != child}
            for parent, blocks, pace, _ in feeds:
                self.feeds[parent, child] = int.from_bytes(blocks, "little"), pace

    def move(self) -> None:
        able = {ends: fed & self.have[ends[0]] & ~self.have[ends[1]] for ends, (fed, _) in self.feeds.items()}
        active = [ends for ends, blocks in able.items() if blocks]
        rates_bps = shares_bps(
            self.rates_bps,
            [self.ways[parent * self.size + child] for parent, child in active],
            [min(self.feeds[ends][1], 8 * BLOCK_BYTES * (able[ends].bit_count() + 1) / STEP_S) for ends in active],
        )
        for ends, rate_bps in zip(active, rates_bps, strict=True):
            carried, blocks = self.carried.get(ends, 0.0) + rate_bps * STEP_S / 8, able[ends]
            while carried >= BLOCK_BYTES and blocks:
                lowest = blocks & -blocks
                self.have[ends[1]] |= lowest
                blocks ^= lowest
                carried -= BLOCK_BYTES
            self.carried[ends] = carried


@pytest.mark.parametrize("slow", [False, True], ids=["slow lines", "slow host"])
def test_trees_follow_what_was_not_probed(slow: bool) -> None:
    """All ports and lines are believed to be equal. A line carries 8 Mbit/s, or one host sends at 2."""
    true = racks(60e6, slow_bps=2e6) if slow else racks(8e6)
    size_bytes = 16_000_000
    packing = pack(ground_of(true), range(9))
    assert packing is not None
    bound_s = packing.bound_s(size_bytes)
    adapted = Played(true, racks(20e6), size_bytes)
    seconds = adapted.run(adapts=True)
    assert seconds < 1.5 * bound_s
    fixed_s = Played(true, racks(20e6), size_bytes).run(adapts=False)
    assert seconds < (0.8 if slow else 1.1) * fixed_s
    assert adapted.planted > 1 or not slow


def test_trees_are_packed_again_without_a_host_that_is_lost() -> None:
    network = racks(60e6)
    adapting = Adapting(ground_of(network), range(9), 8_000_000, BLOCK_BYTES, learns=False)
    for host in range(9):
        adapting.progress(host, bytes(64))
    assert adapting.better(1.0) == ()
    adapting.lost(4)
    trees = adapting.better(2.0)
    assert {child for tree in trees for _, child in tree.edges} == set(range(1, 9)) - {4}
    assert all(parent != 4 for tree in trees for parent, _ in tree.edges)
    whole = pack(_core.BroadcastGround(_core.Network(network), 0, [1, 2, 3, 5, 6, 7, 8]), [0, 1, 2, 3, 5, 6, 7, 8])
    assert whole is not None
    assert sum(tree.rate_bps for tree in trees) == pytest.approx(whole.rate_bps, rel=0.02)
    assert adapting.better(3.0) == ()
