"""Pack several trees into a network, which together carry a broadcast as fast as any mechanism could.

The rate of a broadcast is at most the optimum of a linear program: each tree from the source to all receivers has a
rate, and the trees that cross a link have no more than its rate together. For the cuts of a graph and its trees this is
Edmonds' theorem (1973); Cui, Li and Nahrstedt (2004) state it for overlays whose edges share links. Column generation
solves it: the cheapest tree at the prices of the links is the next to try, and proves the optimum when it costs 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.extras import needs

Floats = npt.NDArray[np.float64]
Parents = npt.NDArray[np.int64]

MOST_MEMBERS = 301
"""Most hosts for which trees are packed, the source included: some seconds on one processor."""

GAP = 1e-3
"""Relative distance to the optimum at which the search ends."""

MANY_MEMBERS = 65
"""With more hosts, the search ends at `WIDE_GAP` or after `FEW_TRIES`."""

WIDE_GAP = 0.02

MOST_TRIES = 300
"""Most trees that are tried. Clouds of 30 hosts need up to 20."""

FEW_TRIES = 60
"""The same for more than `MANY_MEMBERS` hosts. Ugly clouds of 170 hosts need up to 40.

Ten equal racks of ten unequal hosts need 300, which takes 12 s on a busy processor. Their trees then are far from the
optimum, as the plan shows, and `auto` takes another mechanism that is faster.
"""

GIVEN_UP = 0.01
"""Share of the optimum that may be given up for fewer trees. Each tree needs time until its last host has a piece."""

MOST_CHILDREN = 4
"""Most children that a host gets when a tree is made shallower."""

SLACK = 1e-4
"""Relative excess of a link's load that counts as rounding."""

LOADS = (0.5, 0.7, 0.85, 0.95)
"""Shares of a link's rate beyond which its load costs more, when loads are balanced."""


@dataclass(frozen=True)
class PackedTree:
    """One tree of a packing.

    Attributes:
        rate_bps: rate at which each of its edges carries its share of the object.
        edges: parent and child of each edge, as numbers of hosts.
    """

    rate_bps: float
    edges: tuple[tuple[int, int], ...]

    @property
    def depth(self) -> int:
        """Largest number of edges between the source and a receiver."""
        depths: dict[int, int] = {}
        for parent, child in self.edges:
            # Edges are in an order in which parents come before their children.
            depths[child] = depths.get(parent, 0) + 1
        return max(depths.values(), default=0)


@dataclass(frozen=True)
class Packing:
    """Trees that share the links of a network.

    Attributes:
        trees: the trees, the fastest first.
        most_bps: rate that no mechanism exceeds. It is at most `GAP` above the optimum, unless the search was given up.
        limit: the link that costs most at the optimum, in words.
    """

    trees: tuple[PackedTree, ...]
    most_bps: float
    limit: str

    @property
    def rate_bps(self) -> float:
        """Rate of all trees together."""
        return sum(tree.rate_bps for tree in self.trees)

    def bound_s(self, size_bytes: int) -> float:
        """Return the least time in which any mechanism brings an object of this size to all receivers."""
        return 8.0 * size_bytes / self.most_bps


@dataclass(frozen=True)
class Links:
    """Links between the members of a broadcast.

    Attributes:
        rates_bps: rate of each link.
        names: name of each link.
        ways: the links from each member to each other one, by pairs in row order.
    """

    rates_bps: Floats
    names: Sequence[str]
    ways: Sequence[Sequence[int]]

    def among(self, places: Sequence[int]) -> Links:
        """Return the same links between some of the members.

        Args:
            places: numbers of these members, as in `ways`.
        """
        size = round(len(self.ways) ** 0.5)
        return Links(self.rates_bps, self.names, [self.ways[m * size + n] for m in places for n in places])


def pack(ground: _core.BroadcastGround, members: Sequence[int], *, best: bool = False, seed: int = 0) -> Packing | None:
    """Return trees that together are as fast as any broadcast, less `GIVEN_UP`.

    Args:
        ground: the network, its source and receivers.
        members: numbers of the source and the receivers in the network, in the ground's order.
        best: whether a host without a cap counts as fast as its best path, as bounds need it, or its median path.
        seed: decides between trees of equal cost.

    Returns:
        None if no link limits some tree, or for more than `MOST_MEMBERS` hosts.

    Raises:
        UnsupportedError: without SciPy.
    """
    rates_bps, names, ways = ground.links(best)
    return pack_links(Links(np.array(rates_bps, dtype=np.float64), names, ways), members, seed=seed)


def pack_links(links: Links, members: Sequence[int], *, seed: int = 0) -> Packing | None:
    """Return trees as `pack` does.

    Args:
        links: the links between the members.
        members: numbers of the source and the receivers, in the order of the links' ways.
        seed: as above.

    Raises:
        UnsupportedError: without SciPy.
    """
    if not 1 < len(members) <= MOST_MEMBERS or not len(links.rates_bps):
        return None
    search = _Search(links.rates_bps, links.ways, len(members), np.random.default_rng(seed))
    most = search.solve()
    if most is None:
        return None
    most_bps, prices = most
    trees = search.shallow(search.fewer())
    return Packing(
        tuple(
            PackedTree(rate, tuple((members[m], members[n]) for m, n in _edges(parents)))
            for rate, parents in sorted(trees, key=lambda tree: -tree[0])
        ),
        most_bps,
        links.names[int(np.argmax(prices * search.rates))],
    )


class _Search:
    """Column generation over the trees of one broadcast. Members are numbered from 0, the source."""

    def __init__(
        self, rates_bps: Floats, ways: Sequence[Sequence[int]], size: int, random: np.random.Generator
    ) -> None:
        self.rates = rates_bps
        self._size = size
        self._random = random
        self._ways = ways
        self._pairs = np.repeat(np.arange(size * size), [len(way) for way in ways])
        self._links = np.array([link for way in ways for link in way], dtype=np.int64)
        self._scale = float(rates_bps.max())
        self._trees: list[Parents] = []
        self._closed: set[int] = set()
        self._loads: list[Floats] = []
        self._flows: Floats = np.zeros(0)

    def solve(self) -> tuple[float, Floats] | None:
        """Return the highest rate of any broadcast and the price of each link, or None if nothing limits it."""
        prices: Floats = 1 / self.rates
        least, rate, tried = np.inf, 0.0, set()
        many = self._size > MANY_MEMBERS
        gap = WIDE_GAP if many else GAP
        for _ in range(FEW_TRIES if many else MOST_TRIES):
            costs = np.bincount(self._pairs, prices[self._links], self._size**2).reshape(self._size, self._size)
            noise = self._random.random(costs.shape)
            parents = cheapest_tree(costs * (1 + 1e-7 * noise) + 1e-9 * noise * costs.max())
            crossed = self._load(parents)
            cost = float(crossed @ prices)
            if cost <= 0 and not rate:
                return None
            # Prices that are scaled until the cheapest tree costs 1 are a feasible dual: their value is a bound.
            least = min(least, float(prices @ self.rates) / cost if cost > 0 else np.inf)
            key = parents.tobytes()
            if key in tried or (rate and least <= rate * (1 + gap)):
                break
            tried.add(key)
            self._trees.append(parents)
            self._loads.append(crossed)
            rate, self._flows, prices = self._solved()
        return max(least, rate), prices

    def fewer(self) -> list[int]:
        """Keep few of the trees that the optimum uses, and return their numbers."""
        least = (1 - GIVEN_UP) * self._flows.sum()
        used = self._flows > 1e-6 * self._flows.sum()
        self._closed.update(int(tree) for tree in np.flatnonzero(~used))
        for tree in sorted(np.flatnonzero(used), key=self._flows.__getitem__):
            self._closed.add(int(tree))
            rate, flows, _ = self._solved()
            if rate >= least:
                self._flows = flows
            else:
                self._closed.remove(int(tree))
        self._flows = self._balanced()
        return [int(tree) for tree in np.flatnonzero(self._flows > 0)]

    def shallow(self, kept: Sequence[int]) -> list[tuple[float, Parents]]:
        """Return rate and parents of these trees, moved nearer to the source where no link gets too much."""
        trees = [(float(self._flows[tree]), self._trees[tree].copy()) for tree in kept]
        total = sum((self._flows[tree] * self._loads[tree] for tree in kept), self.rates * 0)
        room = np.maximum(self.rates * (1 + SLACK) - total, 0.0)
        for rate, parents in trees:
            while self._raise_one(rate, parents, room):
                pass
        return trees

    def _raise_one(self, rate: float, parents: Parents, room: Floats) -> bool:
        """Move the deepest host that can move to a parent nearer to the source. Return whether one was moved."""
        depths = _depths(parents)
        children = np.bincount(parents[1:], minlength=self._size)
        by_depth = np.argsort(depths, kind="stable")
        for child in by_depth[:0:-1]:
            old = self._ways[parents[child] * self._size + child]
            for parent in by_depth:
                if depths[parent] + 1 >= depths[child]:
                    break
                new = self._ways[parent * self._size + child]
                if children[parent] < MOST_CHILDREN and all(room[link] >= rate for link in new if link not in old):
                    room[list(old)] += rate
                    room[list(new)] -= rate
                    parents[child] = parent
                    return True
        return False

    def _load(self, parents: Parents) -> Floats:
        """Return how often a tree crosses each link."""
        crossed = [link for host in range(1, self._size) for link in self._ways[parents[host] * self._size + host]]
        return np.bincount(crossed, minlength=len(self.rates)).astype(np.float64)

    def _solved(self) -> tuple[float, Floats, Floats]:
        """Return the highest rate of all trees that are not closed, the rate of each, and the price of each link."""
        with needs("solvers"):
            from scipy.optimize import linprog
        bounds = [(0.0, 0.0 if tree in self._closed else None) for tree in range(len(self._trees))]
        # Rates near 1, since tolerances of the solver are absolute.
        limits = self.rates / self._scale
        result = linprog(-np.ones(len(bounds)), np.column_stack(self._loads), limits, bounds=bounds, method="highs-ds")
        flows = np.maximum(result.x, 0.0) * self._scale
        return float(flows.sum()), flows, np.maximum(-result.ineqlin.marginals, 0.0)

    def _balanced(self) -> Floats:
        """Return rates of the open trees, with the same sum, that leave room on as many links as possible.

        Many optima are equally fast. One in which a host passes on all that its uplink carries has no room to catch up
        after a lost packet. The sum over links of a convex function of their load is least where loads are alike.
        """
        from scipy import sparse
        from scipy.optimize import linprog

        used = np.flatnonzero(self._flows > 0)
        if len(used) < 2:
            return self._flows
        rates = self._flows[used] / self._scale
        loads = np.column_stack([self._loads[tree] for tree in used]) * self._scale / self.rates[:, None]
        loads = loads[loads.any(axis=1)]
        # Variables: the rate of each tree, and by how much each link's load exceeds each share.
        excesses = len(loads) * len(LOADS)
        result = linprog(
            np.concatenate([np.zeros(len(used)), np.ones(excesses)]),
            sparse.vstack(
                [
                    sparse.hstack([np.tile(loads, (len(LOADS), 1)), -sparse.identity(excesses)]),
                    sparse.hstack([loads, sparse.csr_matrix((len(loads), excesses))]),
                ]
            ),
            np.concatenate([np.repeat(LOADS, len(loads)), np.maximum(1.0, loads @ rates)]),
            np.concatenate([np.ones(len(used)), np.zeros(excesses)])[None],
            [rates.sum()],
            method="highs-ds",
        )
        flows = np.zeros_like(self._flows)
        flows[used] = self._flows[used] if result.x is None else np.maximum(result.x[: len(used)], 0.0) * self._scale
        return flows


def cheapest_tree(costs: Floats) -> Parents:
    """Return the parent of each host in the cheapest tree that is rooted at host 0 (Chu and Liu, 1965; Edmonds, 1967).

    Args:
        costs: (N, N) cost of the edge from row to column.

    Returns:
        (N,) parents; that of host 0 is -1.
    """
    size = len(costs)
    costs = costs.copy()
    np.fill_diagonal(costs, np.inf)
    costs[:, 0] = np.inf
    parents: Parents = costs.argmin(axis=0)
    parents[0] = -1
    circle = np.array(_circle(parents), dtype=np.int64)
    if not len(circle):
        return parents
    # The circle becomes one host, the last. An edge into it replaces the circle's edge to the same host.
    within = np.zeros(size, dtype=bool)
    within[circle] = True
    outside = np.flatnonzero(~within)
    count = len(outside)
    smaller = np.full((count + 1, count + 1), np.inf)
    smaller[:count, :count] = costs[np.ix_(outside, outside)]
    into = costs[np.ix_(outside, circle)] - costs[parents[circle], circle]
    entries = into.argmin(axis=1)
    smaller[:count, count] = into[np.arange(count), entries]
    out = costs[np.ix_(circle, outside)]
    exits = out.argmin(axis=0)
    smaller[count, :count] = out[exits, np.arange(count)]
    inner = cheapest_tree(smaller)
    for at, host in enumerate(outside):
        if host != 0:
            parents[host] = circle[exits[at]] if inner[at] == count else outside[inner[at]]
    parents[circle[entries[inner[count]]]] = outside[inner[count]]
    return parents


def _circle(parents: Parents) -> list[int]:
    """Return the hosts of a circle of parents; empty if each host leads to host 0."""
    seen = np.zeros(len(parents), dtype=np.int64)
    for start in range(1, len(parents)):
        host, path = start, []
        while host > 0 and not seen[host]:
            seen[host] = start
            path.append(host)
            host = int(parents[host])
        if host > 0 and seen[host] == start:
            return path[path.index(host) :]
    return []


def _depths(parents: Parents) -> npt.NDArray[np.int64]:
    """Return the number of edges between host 0 and each host."""
    depths = np.zeros(len(parents), dtype=np.int64)
    above = parents.copy()
    while (above >= 0).any():
        depths += above >= 0
        above = np.where(above >= 0, parents[above], -1)
    return depths


def _edges(parents: Parents) -> list[tuple[int, int]]:
    """Return parent and child of each edge, parents before their children."""
    return [(int(parents[child]), int(child)) for child in np.argsort(_depths(parents), kind="stable")[1:]]
