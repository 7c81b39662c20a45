"""Keep the ring of reachable hosts. Each tick measures its pairs: one out of and one into each host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, cycle

import numpy as np

from gavotte.watch.detect import Change, Edge, EdgeCusum
from gavotte.watch.expecting import Expected

SILENT_TICKS = 2
"""Ticks in a row that a host may miss before it counts as gone."""

MOST_ALL_PAIRS = 32
"""Most hosts whose pairs are all tried when no host is reachable. With more, a tick would take minutes."""


class Ring:
    """Hosts in a circle of random order, which is drawn again whenever a host comes or goes.

    Attributes:
        hosts: all listed hosts.
        gone: those that do not answer.
        edges: the circle's pairs that have an expected time.
    """

    def __init__(self, expected: Expected, width: float, seed: int) -> None:
        self.hosts = sorted({host for edge in expected.seconds for host in edge})
        self.gone: set[str] = set()
        self.edges: list[Edge] = []
        self._expected = expected
        self._width = width
        self._rng = np.random.default_rng(seed)
        self._silent: dict[str, int] = {}
        self._answered: set[str] = set()
        self._cusum: EdgeCusum | None = None
        self.draw()

    @property
    def here(self) -> list[str]:
        """Listed hosts that are not gone."""
        return [host for host in self.hosts if host not in self.gone]

    @property
    def heard(self) -> list[str]:
        """Listed hosts, not gone, that answered when last asked."""
        if self._expected.measure is None:  # no host is asked; operations show which hosts are reachable
            return self.here
        return [host for host in self.here if host in self._answered]

    def draw(self) -> None:
        """Draw a circle of all reachable hosts, with expected times."""
        here = self.here
        self._silent = {}
        order = [here[number] for number in self._rng.permutation(len(here))]
        edges = list(zip(order, order[1:] + order[:1], strict=True)) if len(order) > 1 else []
        self.edges = [edge for edge in edges if edge in self._expected.seconds]
        seconds = np.array([self._expected.seconds[edge] for edge in self.edges])
        self._cusum = EdgeCusum(self.edges, seconds, self._width) if self.edges else None

    def changes(self, times: Mapping[Edge, float]) -> list[Change]:
        """Add the times of one tick to the CUSUM, and return the edges that seem to have changed."""
        observed = np.array([times.get(edge, np.nan) for edge in self.edges])
        return self._cusum.observe(observed) if self._cusum is not None else []

    def expect(self, edges: Collection[Edge]) -> None:
        """Restart the CUSUM of the given pairs that are in the circle, with their expected times."""
        for edge in edges:
            if self._cusum is not None and edge in self.edges:
                self._cusum.expect(*edge, self._expected.seconds[edge])

    def silenced(self, times: Mapping[Edge, float]) -> set[str]:
        """Count silent ticks. Return hosts that were silent for too long and answer no other host either."""
        heard = {host for edge in times for host in edge}
        for host in self.here:
            self._silent[host] = 0 if host in heard else self._silent.get(host, 0) + 1
        silent = [host for host in self.here if self._silent[host] >= SILENT_TICKS]
        # A live host is silent if both its neighbours in the ring are dead.
        alive = self._answering(silent, sorted(heard)) if silent else set()
        self._silent.update(dict.fromkeys(alive & set(silent), 0))
        self._answered = heard | alive
        return set(silent) - alive

    def back(self) -> list[str]:
        """Ask the hosts that are gone. Return those that answer."""
        if self._expected.measure is None:
            return []
        here = self.here
        # A single host is in no ring, so its state is unknown.
        heard = self._answering(sorted(self.gone), here) if len(here) > 1 else self._answering(self.hosts, [])
        return sorted(self.gone & heard)

    def keep(self, hosts: Collection[str]) -> set[str]:
        """Keep only these hosts. Return reachable hosts that are no longer listed."""
        left = set(self.here) - set(hosts)
        self.leave(left)
        self.hosts = sorted(set(self.hosts) & set(hosts))
        self.gone &= set(self.hosts)
        return left

    def leave(self, lost: Collection[str]) -> None:
        """Take hosts out of the circle and count them as gone."""
        if lost:
            self.gone |= set(lost)
            self.draw()

    def welcome(self, hosts: Collection[str]) -> None:
        """Count hosts that were gone, and have answered, as present."""
        self.gone -= set(hosts)
        self._answered |= set(hosts)

    def list_gone(self, hosts: Sequence[str]) -> None:
        """Add hosts that are new or back to the list. They count as gone until they answer."""
        self.hosts = sorted({*self.hosts, *hosts})
        self.gone |= set(hosts)

    def _answering(self, hosts: Sequence[str], here: Sequence[str]) -> set[str]:
        """Return those of `hosts` that answer a reachable host or, if none is reachable, each other.

        In the second case one measurement tries all pairs. A pair with a dead agent costs nothing, and any two live
        hosts find each other. With many hosts it tries random pairs, drawn again each time.
        """
        assert self._expected.measure is not None
        # Each asks a random reachable host, so that one host without a route does not keep another out for good.
        near = cycle([here[number] for number in self._rng.permutation(len(here))])
        pairs = list(zip(hosts, near, strict=False)) if here else self._some_pairs(hosts)
        return {host for edge in self._expected.measure(pairs) for host in edge} if pairs else set()

    def _some_pairs(self, hosts: Sequence[str]) -> list[Edge]:
        if len(hosts) <= MOST_ALL_PAIRS:
            return list(combinations(hosts, 2))
        order = [hosts[number] for number in self._rng.permutation(len(hosts))]
        return [(order[i], order[i - step]) for step in range(1, MOST_ALL_PAIRS // 2) for i in range(len(order))]
