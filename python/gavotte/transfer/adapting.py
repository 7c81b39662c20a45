"""Estimate the links of a running broadcast from what its edges carry, and pack better trees meanwhile.

A probe of a moment shows neither which ports share a line nor how fast lines are. The blocks themselves do:

1. A link carries at least what its edges have carried together over a window.
2. An edge is limited by the network if its parent always has blocks for it, and it stays below its pace. One of its
   links is then full: the one with the largest load compared with its estimate, which becomes its load.
3. Links that were not seen full may be faster than they have shown. Trees that use them show whether they are.
4. The edges of a full link are paced, so that none of them starves.

Blocks that have arrived stay. Each block that is still missing somewhere belongs to one of the new trees.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.transfer.packing import MANY_MEMBERS, Links, PackedTree, Packing, pack_links

logger = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Edge = tuple[int, int]
"""Parent and child, as numbers of hosts."""

WINDOW_S = 1.0
"""Time over which rates are averaged: five reports of each host."""

SETTLE_S = 0.7
"""Time after new trees in which rates do not count: connections open, and TCP starts."""

HOPE = 1.3
"""Possible rate of a link that was not seen full, as a multiple of its estimate."""

GAIN = 1.15
"""New trees must be this many times as fast as the present ones: blocks under way between other hosts are lost."""

BACKOFF = 1.1
"""Factor of `GAIN` after new trees that were little faster: they cost time, and show little that is new."""

MOST_GAIN = 1.25
"""Most that this factor becomes. It is below `HOPE`, so that links are tried again."""

KEPT = 0.3
"""Share of the promised gain that new trees must reach so that `GAIN` stays."""

LEAST_LEFT_S = 1.5
"""Trees stay if the broadcast should end within this time."""

LIMITED = 0.8
"""An edge is limited by the network if its parent had blocks for it in this share of the window's reports."""

PACED = 0.9
"""An edge with this share of its pace is limited by its pace."""

FULL = 0.9
"""A link with this share of its estimate counts as full."""

FASTER = 1.05
"""A link that carries this many times its estimate was not full."""

FULL_PACE = 1.1
"""Load of a full link by the paces of its edges, as a multiple of its estimate, which may be too low."""

MOST_FALL = 0.5
"""Least share of an estimate that one window leaves: an edge may just have been slow to start."""

LATE_S = 0.3
"""Largest difference in age of two hosts' reports."""

FREE_PACE = 3.0
"""Pace of trees as a multiple of their rates while these are estimates."""


@dataclass
class _Mark:
    """State at one time: what edges have moved, which parents had blocks to send, and which blocks hosts had."""

    at_s: float
    moved_bytes: dict[Edge, float]
    backlogged: frozenset[Edge]
    have: dict[int, int]


@dataclass
class Estimates:
    """What is known of the links between the members of a broadcast.

    Attributes:
        rates_bps: estimate of each link.
        names: name of each link.
        ways: the links from each member to each other one, by pairs in row order.
        full: which links were seen full.
    """

    rates_bps: Floats
    names: Sequence[str]
    ways: Sequence[Sequence[int]]
    full: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.full = np.zeros(len(self.rates_bps), dtype=np.bool_)

    def __str__(self) -> str:
        rows = zip(self.names, self.rates_bps, self.full, strict=True)
        return ", ".join(f"{name} {rate / 1e6:.1f}{' (full)' if full else ''}" for name, rate, full in rows)

    @property
    def hoped_bps(self) -> Floats:
        """Possible rate of each link."""
        return np.where(self.full, self.rates_bps, HOPE * self.rates_bps)

    def observe(self, rates_bps: Mapping[int, float], limited: Collection[int]) -> None:
        """Learn from rates that edges had at the same time.

        Args:
            rates_bps: rate of each edge, by its place in `ways`.
            limited: edges that the network limits.
        """
        loads = np.zeros(len(self.rates_bps))
        fastest = np.full(len(self.rates_bps), 1.0)
        for way, rate_bps in rates_bps.items():
            links = list(self.ways[way])
            loads[links] += rate_bps
            fastest[links] = np.maximum(fastest[links], rate_bps)
        self.full &= loads <= FASTER * self.rates_bps
        self.rates_bps = np.maximum(self.rates_bps, loads)
        shares = loads / self.rates_bps
        # A full link explains all of its edges: TCP may divide it very unequally.
        open_edges = {
            way for way in limited if self.ways[way] and not any(shares[link] >= FULL for link in self.ways[way])
        }
        for way in set(limited) - open_edges:
            for link in self.ways[way]:
                self.full[link] |= shares[link] >= FULL
        while open_edges:
            able: dict[int, list[int]] = {}
            for way in open_edges:
                for link in self.ways[way]:
                    able.setdefault(link, []).append(way)
            # A link that several limited edges share explains them together, but hardly those that are much slower
            # than its fastest edge.
            fair = {each: sum(rates_bps[way] / fastest[each] for way in ways) for each, ways in able.items()}
            link = max(able, key=lambda each: (shares[each] * fair[each] ** 0.5, -each))
            self.rates_bps[link] = max(loads[link], MOST_FALL * self.rates_bps[link])
            self.full[link] = True
            open_edges.difference_update(able[link])


class Adapting:
    """Trees of a running broadcast, which follow what its edges carry.

    Attributes:
        estimates: what is known of the links.
    """

    def __init__(
        self, ground: _core.BroadcastGround, members: Sequence[int], size_bytes: int, block_bytes: int, *, learns: bool
    ) -> None:
        """Start from the rates of the ground.

        Args:
            ground: the network, its source and receivers.
            members: numbers of the source and the receivers in the network, in the ground's order.
            size_bytes: size of the object.
            block_bytes: size of a block.
            learns: whether rates are only probed, of at most `MANY_MEMBERS` hosts. Otherwise, trees change only when
                hosts are lost.
        """
        rates_bps, names, ways = ground.links(False)
        self.estimates = Estimates(np.array(rates_bps, dtype=np.float64), names, ways)
        self._members = list(members)
        self._place = {host: place for place, host in enumerate(members)}
        self._size_bytes = size_bytes
        self._block_bytes = block_bytes
        self._learns = learns and len(members) <= MANY_MEMBERS
        self._have: dict[int, int] = {}
        self._feeds: dict[int, dict[int, tuple[int, float]]] = {}
        self._moved: dict[Edge, float] = {}
        self._marks: deque[_Mark] = deque()
        self._settled_s = 0.0
        self._gone: set[int] = set()
        self._lost = False
        self._gain = GAIN
        self._hoped_bps = 0.0
        self._planned_bps: dict[Edge, float] = {}

    def feed(self, child: int, feeds: Iterable[tuple[int, bytes, float]]) -> None:
        """Record which blocks a host gets from which parent, and the pace in bit/s; 0 = none."""
        self._feeds[child] = {parent: (int.from_bytes(blocks, "little"), pace) for parent, blocks, pace in feeds}

    def progress(self, host: int, have: bytes) -> None:
        """Record which blocks a host has."""
        blocks = int.from_bytes(have, "little")
        new = blocks & ~self._have.get(host, 0)
        for parent, (fed, _) in self._feeds.get(host, {}).items():
            if came := (new & fed).bit_count():
                self._moved[parent, host] = self._moved.get((parent, host), 0.0) + came * self._block_bytes
        self._have[host] = blocks

    def lost(self, host: int) -> None:
        """Record that a host no longer takes part."""
        if host in self._place and host not in self._gone:
            self._gone.add(host)
            self._feeds.pop(host, None)
            self._lost = True

    def planted(self, trees: Sequence[PackedTree], now_s: float) -> None:
        """Record that these trees were planted."""
        self._settled_s = now_s
        self._marks.clear()
        self._planned_bps = {}
        for tree in trees:
            for edge in tree.edges:
                self._planned_bps[edge] = self._planned_bps.get(edge, 0.0) + tree.rate_bps

    def limits_bps(self) -> dict[Edge, float]:
        """Return the largest pace of each edge; infinite = no limit.

        The edges of a full link share it as planned. Without paces, TCP lets some of them starve, with all hosts that
        depend on them.
        """
        if not self._learns:
            return {}
        size, estimates = len(self._members), self.estimates
        loads = np.zeros(len(estimates.rates_bps))
        ways = {
            (parent, child): list(estimates.ways[self._place[parent] * size + self._place[child]])
            for parent, child in self._planned_bps
        }
        for edge, rate_bps in self._planned_bps.items():
            loads[ways[edge]] += rate_bps
        limits = {}
        for edge, rate_bps in self._planned_bps.items():
            rooms = [estimates.rates_bps[link] / loads[link] for link in ways[edge] if estimates.full[link]]
            limits[edge] = FULL_PACE * rate_bps * float(min(rooms)) if rooms else np.inf
        return limits

    def better(self, now_s: float) -> tuple[PackedTree, ...]:
        """Learn from the window that ends now, and return better trees; none if the present ones stay.

        Args:
            now_s: time since the source began to send.
        """
        left = self._left()
        if not left:
            return ()
        if not self._learns:
            trees = self._packed() if self._lost else None
            self._lost = False
            return () if trees is None else trees.trees
        if now_s < self._settled_s + SETTLE_S:
            return ()
        self._mark(now_s)
        span_s = now_s - self._marks[0].at_s
        if span_s < 0.9 * WINDOW_S:
            return ()
        self._learn()
        first = self._marks[0].have
        came = {host: (self._have[host] & ~first.get(host, 0)).bit_count() * self._block_bytes for host in left}
        # The last receiver decides.
        end_s = max(span_s * left[host] / max(came[host], 1) for host in left)
        self._marks.clear()
        present_bps = 8 * max(left.values()) / end_s
        if self._hoped_bps:
            self._gain = GAIN if present_bps >= self._hoped_bps else min(MOST_GAIN, self._gain * BACKOFF)
            self._hoped_bps = 0.0
        packing = self._packed() if end_s >= LEAST_LEFT_S else None
        if packing is None or packing.rate_bps < self._gain * present_bps:
            return ()
        self._hoped_bps = present_bps + KEPT * (packing.rate_bps - present_bps)
        logger.info("%.2f s: trees of %.1f instead of %.1f Mbit/s", now_s, packing.rate_bps / 1e6, present_bps / 1e6)
        return packing.trees

    def _left(self) -> dict[int, int]:
        """Return the bytes that each receiver lacks, for receivers that take part and are not complete."""
        every = (1 << -(-self._size_bytes // self._block_bytes)) - 1
        left = {
            host: (every & ~have).bit_count() * self._block_bytes
            for host, have in self._have.items()
            if host in self._place and host not in self._gone
        }
        return {host: each for host, each in left.items() if each}

    def _mark(self, now_s: float) -> None:
        backlogged = set()
        for child, feeds in self._feeds.items():
            for parent, (fed, _) in feeds.items():
                lacking = fed & ~self._have.get(child, 0)
                # Reports of two hosts differ in age. An edge that keeps up seems a few blocks behind.
                late_blocks = LATE_S * self._rate_bps((parent, child)) / 8 / self._block_bytes
                if (lacking & self._have.get(parent, 0)).bit_count() >= max(2.0, late_blocks):
                    backlogged.add((parent, child))
        self._marks.append(_Mark(now_s, dict(self._moved), frozenset(backlogged), dict(self._have)))

    def _rate_bps(self, edge: Edge) -> float:
        """Return the rate of an edge since the window's first mark."""
        if len(self._marks) < 2:
            return 0.0
        first, last = self._marks[0], self._marks[-1]
        moved = last.moved_bytes.get(edge, 0.0) - first.moved_bytes.get(edge, 0.0)
        return 8 * moved / max(last.at_s - first.at_s, 1e-3)

    def _learn(self) -> None:
        """Learn from the rates over the window."""
        size = len(self._members)
        rates: dict[int, float] = {}
        limited = []
        for child, feeds in self._feeds.items():
            for parent, (_, pace) in feeds.items():
                if child not in self._place or parent not in self._place:
                    continue
                rate = self._rate_bps((parent, child))
                way = self._place[parent] * size + self._place[child]
                rates[way] = rate
                times = sum((parent, child) in mark.backlogged for mark in self._marks)
                if rate > 0 and times >= LIMITED * len(self._marks) and (pace <= 1 or rate < PACED * pace):
                    limited.append(way)
        self.estimates.observe(rates, limited)
        logger.debug("links: %s", self.estimates)

    def _packed(self) -> Packing | None:
        """Return trees for the present estimates, of the hosts that take part."""
        here = [place for place, host in enumerate(self._members) if host not in self._gone]
        rates_bps = self.estimates.hoped_bps if self._learns else self.estimates.rates_bps
        links = Links(rates_bps, self.estimates.names, self.estimates.ways).among(here)
        return pack_links(links, [self._members[place] for place in here])
