"""Lengths of the paths between all pairs of hosts, as clusters: N numbers for each length instead of an N x N matrix.

In a tree of switches, hosts at most h hops apart are a cluster. The length between two hosts is then the least one at
which they are in one cluster. Single pairs whose length differs from that are kept one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

Ints = npt.NDArray[np.int64]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Component:
    """Hosts that paths of at most some length connect.

    Attributes:
        hosts: their indices, ascending.
        torn: whether two of them are known to be farther from each other, as in no tree of even depth.
    """

    hosts: tuple[int, ...]
    torn: bool


class Lengths:
    """Path lengths (routers + 1) of N hosts, the same in both directions; 0 = unknown.

    Attributes:
        size: number of hosts, N.
    """

    def __init__(self, size: int) -> None:
        """Create lengths of which none is known."""
        self.size = size
        self._clusters: dict[int, Ints] = {}
        self._single: dict[int, dict[int, int]] = {}
        self._open: dict[int, int] = {}

    @classmethod
    def of_matrix(cls, matrix: Ints) -> Self:
        """Return the lengths of an (N, N) matrix; of two directions, the longer one."""
        lengths = cls(len(matrix))
        both = np.triu(np.maximum(matrix, matrix.T), 1)
        for i, j in np.argwhere(both).tolist():
            lengths.note((i, j), int(both[i, j]))
        return lengths

    @classmethod
    def of_clusters(cls, size: int, clusters: Mapping[int, Ints]) -> Self:
        """Return lengths of which only clusters are known, in the form of `clusters`."""
        lengths = cls(size)
        lengths._clusters = {length: np.array(clusters[length], dtype=np.int64) for length in sorted(clusters)}
        return lengths

    def __getitem__(self, pair: Pair) -> int:
        """Return the length between two hosts; 0 = unknown."""
        i, j = (int(host) for host in pair)
        if i == j:
            return 0
        if length := self.noted((i, j)):
            return length
        length = self._together(i, j)
        return 0 if length <= max(self._open.get(i, 0), self._open.get(j, 0)) else length

    @property
    def clusters(self) -> dict[int, Ints]:
        """Per length, from the least: (N,) a number for each host, the same for hosts of one cluster."""
        return dict(self._clusters)

    @property
    def single(self) -> dict[Pair, int]:
        """Lengths of single pairs, the lower index first, that clusters do not show."""
        return {(i, j): length for i, row in sorted(self._single.items()) for j, length in row.items() if i < j}

    @property
    def kinds(self) -> list[int]:
        """All lengths that some pair may have, ascending."""
        grouped = {length for length, numbers in self._clusters.items() if len(np.unique(numbers)) < self.size}
        return sorted(grouped | {length for row in self._single.values() for length in row.values()})

    def noted(self, pair: Pair) -> int:
        """Return the length of a pair that was noted as a single pair and not dropped; 0 = it was not."""
        return self._single.get(pair[0], {}).get(pair[1], 0)

    def note(self, pair: Pair, length: int) -> None:
        """Note the length of one pair."""
        for i, j in (pair, pair[::-1]):
            self._single.setdefault(i, {})[j] = length

    def join(self, hosts: Sequence[int], length: int) -> None:
        """Note that no two of these hosts are farther from each other than this."""
        if length not in self._clusters:
            self._clusters[length] = np.arange(self.size)
            self._clusters = dict(sorted(self._clusters.items()))
        numbers = self._clusters[length]
        merged = np.unique(numbers[np.asarray(hosts)])
        if len(merged) > 1:
            numbers[np.isin(numbers, merged)] = merged[0]

    def leave_open(self, host: int, other: int) -> None:
        """Note that it is unknown where a host is in the smallest cluster that contains it and another one."""
        self._open[host] = max(self._together(host, other), self._open.get(host, 0))

    def drop_shown(self, pairs: Iterable[Pair]) -> None:
        """Forget the lengths of single pairs that clusters show."""
        for i, j in pairs:
            length = self.noted((i, j))
            if length and self._together(i, j) == length and not self._open.keys() & {i, j}:
                for one, other in ((i, j), (j, i)):
                    del self._single[one][other]
                    if not self._single[one]:
                        del self._single[one]

    def settle(self) -> None:
        """Turn single pairs into clusters, where these say the same of all pairs."""
        for length in sorted({length for row in self._single.values() for length in row.values()}):
            for part in self.components(length):
                if len(part.hosts) > 1 and not part.torn and any(host in self._single for host in part.hosts):
                    self.join(part.hosts, length)
        self.drop_shown(self.single)

    def is_known(self, host: int) -> bool:
        """Return whether the length of any of a host's paths is known."""
        return bool(self._single.get(host)) or bool(self.row(host).any())

    def row(self, host: int) -> Ints:
        """Return the (N,) lengths between a host and all others."""
        row = np.zeros(self.size, dtype=np.int64)
        for length, numbers in reversed(self._clusters.items()):
            row[numbers == numbers[host]] = length
        most = np.full(self.size, self._open.get(host, 0))
        for other, length in self._open.items():
            most[other] = max(most[other], length)
        row[row <= most] = 0
        for other, length in self._single.get(host, {}).items():
            row[other] = length
        row[host] = 0
        return row

    def matrix(self) -> Ints:
        """Return the (N, N) lengths."""
        rows = np.zeros((self.size, self.size), dtype=np.int64)
        for host in range(self.size):
            rows[host] = self.row(host)
        return rows

    def components(self, length: int) -> list[Component]:
        """Return the hosts that paths of at most this length connect, in the order of their first hosts."""
        numbers = self._merged(length, singles=False)
        connected = self._merged(length, singles=True) if self._single else numbers
        order = np.argsort(connected, kind="stable")
        ends = np.flatnonzero(np.diff(connected[order])) + 1
        parts = [tuple(part.tolist()) for part in np.split(order, ends)] if self.size else []
        return [Component(hosts, self._torn(hosts, length, numbers)) for hosts in sorted(parts)]

    def _torn(self, hosts: tuple[int, ...], length: int, numbers: Ints) -> bool:
        """Return whether two of a component's hosts are farther from each other; `numbers` are without single pairs."""
        inside, near = set(hosts), Counter[Pair]()
        for i in hosts if self._single else ():
            for j, each in self._single.get(i, {}).items():
                if j in inside and each > length:
                    return True
                if j in inside and i < j:
                    ends = int(numbers[i]), int(numbers[j])
                    near[min(ends), max(ends)] += 1
        if len(near) == 0 or not any(each > length for each in self._clusters):
            return False
        parts = defaultdict[int, list[int]](list)
        for host in hosts:
            parts[int(numbers[host])].append(host)
        # Single pairs connect these clusters. If not all pairs do, the others are as far as larger clusters say.
        known = [(number, part) for number, part in sorted(parts.items())]
        return any(
            near[number, beside] < len(part) * len(others) and self._together(part[0], others[0]) > length
            for at, (number, part) in enumerate(known)
            for beside, others in known[at + 1 :]
        )

    def _together(self, i: int, j: int) -> int:
        """Return the least length at which two hosts are in one cluster; 0 = they are in none."""
        return next((length for length, numbers in self._clusters.items() if numbers[i] == numbers[j]), 0)

    def _merged(self, length: int, *, singles: bool) -> Ints:
        """Return (N,) the lowest host that paths of at most this length connect with each host."""
        root = list(range(self.size))

        def find(host: int) -> int:
            while root[host] != host:
                root[host] = host = root[root[host]]
            return host

        for each, numbers in self._clusters.items():
            if each <= length:
                first: dict[int, int] = {}
                for host, number in enumerate(numbers.tolist()):
                    one, other = find(host), find(first.setdefault(number, host))
                    root[max(one, other)] = min(one, other)
        for i, row in self._single.items() if singles else ():
            for j, each in row.items():
                if each <= length:
                    one, other = find(i), find(j)
                    root[max(one, other)] = min(one, other)
        return np.array([find(host) for host in range(self.size)], dtype=np.int64)
