"""A network that answers like real ones, but at once: max-min fair shares of a described tree, plus noise."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set

import numpy as np
from tests import builders

from gavotte.formats.history import Floats, History, Ints
from gavotte.formats.topology import Topology
from gavotte.measure.adapt.overlap import Series
from gavotte.measure.plan.trials import Way
from gavotte.terms import Pair
from gavotte.terms.goodput import GOODPUT_PER_WIRE

BIN_S = 0.01
HOLD_S = 0.4


class Oracle:
    """Simulates a topology: a `Carrier` without packets.

    Attributes:
        names: of the hosts.
        links: capacity in wire bit/s by name; unlimited ones are left out.
        hops: (N, N) path lengths as traceroute counts them.
        asked: rounds so far.
        bytes_sent: goodput of all rounds.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        noise: float = 0.0,
        seed: int = 0,
        pair_bps: Mapping[Pair, float] | None = None,
    ) -> None:
        self.names = tuple(host.name for host in topology.host)
        self.links: dict[str, float] = {}
        self.pair_bps = dict(pair_bps or {})
        self.asked = 0
        self.bytes_sent = 0
        self._noise = noise
        self._rng = random.Random(seed)
        switches = {switch.name: switch for switch in topology.switch}
        machines = {machine.name: machine for machine in topology.machine}
        self._machine: list[str] = []
        self._above: list[list[str]] = []
        self._inside: dict[str, float | None] = {}
        for host in topology.host:
            box = machines[host.machine] if host.machine else None
            self._machine.append(host.machine or f"alone {host.name}")
            self._inside[self._machine[-1]] = box.machine_rate if box else None
            nic = box.rate if box else host.rate
            self._cap(f"out {host.name}", host.egress)
            self._cap(f"in {host.name}", host.ingress)
            self._cap(f"out {self._machine[-1]}", nic)
            self._cap(f"in {self._machine[-1]}", nic)
            above = [box.switch if box else str(host.switch)]
            while (parent := switches[above[-1]].parent) is not None:
                above.append(parent)
            self._above.append(above)
        for switch in topology.switch:
            self._cap(f"out {switch.name}", switch.up)
            self._cap(f"in {switch.name}", switch.down_bps)
        size = len(self.names)
        self.hops: Ints = np.array([[self._hops(i, j) for j in range(size)] for i in range(size)])

    def _cap(self, name: str, rate_bps: float | None) -> None:
        if rate_bps is not None:
            self.links[name] = rate_bps

    def _hops(self, source: int, target: int) -> int:
        if source == target:
            return 0
        if self._machine[source] == self._machine[target]:
            return 1
        up, down = self._above[source], self._above[target]
        meet = next(switch for switch in up if switch in down)
        return up.index(meet) + down.index(meet) + 2

    def path(self, source: int, target: int) -> list[str]:
        """Names of the links a pair crosses, unlimited ones included."""
        if self._machine[source] == self._machine[target]:
            return []
        up, down = self._above[source], self._above[target]
        switches = [f"out {s}" for s in up if s not in down] + [f"in {s}" for s in down if s not in up]
        ends = [f"out {self.names[source]}", f"out {self._machine[source]}"]
        return [*ends, *switches, f"in {self._machine[target]}", f"in {self.names[target]}"]

    def rates(self, pairs: Sequence[Pair]) -> Floats:
        """Max-min fair wire rates by progressive filling, bit/s."""
        left = dict(self.links)
        paths = []
        for pair in pairs:
            own = f"pair {pair}"
            inside = self._inside[self._machine[pair[0]]] if not self.path(*pair) else None
            limit = self.pair_bps.get(pair, inside or 20e9)
            left[own] = limit
            paths.append([*(link for link in self.path(*pair) if link in left), own])
        rate = np.zeros(len(pairs))
        active = set(range(len(pairs)))
        while active:
            load = Counter(link for i in active for link in paths[i])
            step = min(left[link] / count for link, count in load.items())
            for i in active:
                rate[i] += step
            for link, count in load.items():
                left[link] -= step * count
            active = {i for i in active if all(left[link] > 1.0 for link in paths[i])}
        return rate

    def carry(self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way) -> dict[Pair, Series]:
        """See `gavotte.measure.adapt.carrier.Carrier`."""
        self.asked += 1
        pairs = [pair for group in groups for pair in group]
        bins = int(HOLD_S / BIN_S)
        goodput = self.rates(pairs) * GOODPUT_PER_WIRE
        self.bytes_sent += int(goodput.sum() / 8 * HOLD_S)
        return {
            pair: Series(
                self._rng.uniform(0, 0.02),
                BIN_S,
                rate * BIN_S * np.array([1 + self._rng.gauss(0, self._noise) for _ in range(bins)]) * self._slip(),
            )
            for pair, rate in zip(pairs, goodput, strict=True)
        }

    def gone(self) -> Set[int]:
        """See `gavotte.measure.adapt.carrier.Carrier`."""
        return frozenset()

    def _slip(self) -> float:
        """Return the factor by which one whole measurement is off."""
        return 1 + self._rng.gauss(0, self._noise / 3)

    def history(self) -> History:
        """Return the rates of all pairs alone."""
        size = len(self.names)
        beta = np.full((1, size, size), np.nan)
        for i in range(size):
            for j in range(size):
                if i != j:
                    beta[0, i, j] = self.rates([(i, j)])[0] * GOODPUT_PER_WIRE / 8 * self._slip()
        return builders.history(beta, hosts=self.names, hops=self.hops, cpus=np.ones(size), method="oracle")
