"""Derive the switch tree from path lengths, and the links that each path loads (Choreo section 3.3.1).

A data centre's paths are 1 hop long within a machine, 2 within a rack, and 4 or 6 above it. Hosts at most h hops apart
therefore are a cluster, and clusters of growing h nest. Measurements are planned by this tree, and models use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Group
from gavotte.formats.parts.lengths import Component, Lengths

Hops = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]

MACHINE_HOPS = 1
RACK_HOPS = 2
_KINDS = {MACHINE_HOPS: "machine", RACK_HOPS: "rack", 3: "pod", 4: "pod"}
"""Smallest unit that two hosts share, by the hops between them; at more hops, it is an `area`."""


@dataclass(frozen=True)
class Cluster:
    """Two or more hosts that are closer to each other than to all other hosts.

    Attributes:
        name: `machine-0`, `rack-1`, `pod-0`, counted in host order; machines of one host count, too.
        kind: machine, rack, pod or area.
        members: host indices, ascending.
        parent: index of the next larger cluster around it; None if the root is above it.
    """

    name: str
    kind: str
    members: tuple[int, ...]
    parent: int | None


class Others(Set[int]):
    """All hosts but a few. A set of all hosts for each host would take 100 million entries for 10,000 hosts."""

    __slots__ = ("_few", "_size")

    def __init__(self, size: int, few: frozenset[int]) -> None:
        """Leave out a few.

        Args:
            size: number of all hosts.
            few: hosts that are left out.
        """
        self._size = size
        self._few = few

    def __contains__(self, host: object) -> bool:
        """Return whether a host is not left out."""
        return isinstance(host, int) and 0 <= host < self._size and host not in self._few

    def __iter__(self) -> Iterator[int]:
        """Return the hosts in ascending order."""
        return (host for host in range(self._size) if host not in self._few)

    def __len__(self) -> int:
        """Return how many they are."""
        return self._size - len(self._few)

    @classmethod
    def _from_iterable(cls, hosts: Iterable[int]) -> frozenset[int]:  # type: ignore[override]
        return frozenset(hosts)


@dataclass(frozen=True)
class Link:
    """One or more links of the tree that exactly the same paths cross, so that measurements cannot distinguish them.

    For example, the same paths cross the uplink of a rack with one host and the uplink of that host.

    Attributes:
        sources: hosts whose traffic may cross it.
        targets: hosts that receive this traffic.
        out_of: nodes whose uplink it is.
        into: nodes whose downlink it is.
    """

    sources: Set[int]
    targets: Set[int]
    out_of: tuple[int, ...]
    into: tuple[int, ...]


@dataclass(frozen=True)
class Hierarchy:
    """Tree of hosts and clusters, whose nodes are numbered: node i < N is host i, node N + c is cluster c.

    Attributes:
        names: names of the N hosts.
        machine: (N,) number of each host's machine; hosts that share one are one hop apart.
        clusters: all clusters, outer before inner.
        notes: contradictions and gaps of the path lengths, in one line each.
    """

    names: tuple[str, ...]
    machine: tuple[int, ...]
    clusters: tuple[Cluster, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def size(self) -> int:
        """Number of hosts, N."""
        return len(self.names)

    def name(self, node: int) -> str:
        """Return the name of the host or cluster that a node is."""
        return self.names[node] if node < self.size else self.clusters[node - self.size].name

    def kind(self, node: int) -> str:
        """Return the kind of a node: `host`, or the cluster's kind."""
        return "host" if node < self.size else self.clusters[node - self.size].kind

    def label(self, link: int) -> str:
        """Return a readable name of a link: `out of rack-0`, or several such names if the link stands for several."""
        it = self.links[link]
        return ", ".join([f"out of {self.name(n)}" for n in it.out_of] + [f"into {self.name(n)}" for n in it.into])

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """Return the links that the path between two hosts crosses, as indices of `links`; none inside a machine."""
        if self.machine[source] == self.machine[target]:
            return ()
        up, down = self._ancestors[source], self._ancestors[target]
        steps = [self.up[n] for n in up if n not in down] + [self.down[n] for n in down if n not in up]
        return tuple(dict.fromkeys(steps))

    def paths(self, source: Indices, target: Indices) -> Indices:
        """Return the links that the paths of many pairs cross, each once, in any order.

        Args:
            source: (P,) sending hosts.
            target: (P,) receiving hosts, each on another machine.

        Returns:
            (P, K) indices of `links`; `len(links)` fills the rows of shorter paths.
        """
        nothing = len(self.links)
        inner = np.full(self.size, -1)
        for number, cluster in enumerate(self.clusters):  # outer before inner
            inner[list(cluster.members)] = number
        # Pairs of the same two clusters differ only in the links of their hosts.
        ways = np.stack([inner[source], inner[target]], axis=1)
        _, first, of = np.unique(ways, axis=0, return_index=True, return_inverse=True)
        up, down = np.array(self.up), np.array(self.down)
        between = []
        for at in first:
            ends = {int(up[source[at]]), int(down[target[at]])}
            between.append([link for link in self.path(int(source[at]), int(target[at])) if link not in ends])
        padded = np.full((len(between), max(map(len, between), default=0)), nothing, dtype=np.intp)
        for row, links in zip(padded, between, strict=True):
            row[: len(links)] = links
        paths = np.concatenate([up[source, None], down[target, None], padded[of.reshape(-1)]], axis=1)
        paths[paths[:, 0] == paths[:, 1], 1] = nothing
        return np.asarray(paths, dtype=np.intp)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All links of the tree, those of hosts first."""
        return self._wired[0]

    @property
    def up(self) -> Sequence[int]:
        """The uplink of each node, as an index of `links`."""
        return self._wired[1]

    @property
    def down(self) -> Sequence[int]:
        """The downlink of each node, as an index of `links`."""
        return self._wired[2]

    @cached_property
    def _ancestors(self) -> list[list[int]]:
        """Nodes on each host's way to the root: the host and the clusters around it, inner first."""
        nodes = [[host] for host in range(self.size)]
        for number in reversed(range(len(self.clusters))):
            for member in self.clusters[number].members:
                nodes[member].append(self.size + number)
        return nodes

    @cached_property
    def _sets(self) -> list[frozenset[int]]:
        return [frozenset(cluster.members) for cluster in self.clusters]

    @cached_property
    def _wired(self) -> tuple[tuple[Link, ...], list[int], list[int]]:
        inside = [frozenset((host,)) for host in range(self.size)] + self._sets
        # Each link is named by its side without host 0, which is small, and by whether traffic comes from there.
        ends: dict[tuple[frozenset[int], bool], tuple[list[int], list[int]]] = {}
        for node, members in enumerate(inside):
            side = frozenset(Others(self.size, members)) if 0 in members else members
            ends.setdefault((side, 0 not in members), ([], []))[0].append(node)
            ends.setdefault((side, 0 in members), ([], []))[1].append(node)
        links = []
        for (side, out), (out_of, into) in ends.items():
            rest = Others(self.size, side)
            sources, targets = (side, rest) if out else (rest, side)
            links.append(Link(sources, targets, tuple(out_of), tuple(into)))
        up, down = [0] * len(inside), [0] * len(inside)
        for number, link in enumerate(links):
            for node in link.out_of:
                up[node] = number
            for node in link.into:
                down[node] = number
        return tuple(links), up, down


def hierarchy_of(names: Sequence[str], hops: Hops | Lengths) -> Hierarchy:
    """Return the tree of machines, racks, pods and areas that fits the path lengths.

    In a tree of even depth, being near is transitive. Hosts that short paths connect therefore become a cluster only if
    no path between any two of them is longer. Otherwise the cluster is left out, and a note says so. Paths whose
    two directions have different lengths are left out in the same way.

    Args:
        names: names of the N hosts.
        hops: (N, N) path lengths (routers + 1), 0 = unknown; one direction suffices. Or the same as clusters.
    """
    size = len(names)
    notes: list[str] = []
    lengths = hops if isinstance(hops, Lengths) else _Matrix(hops)
    if isinstance(lengths, _Matrix) and lengths.odd:
        pairs = "1 pair of hosts has" if lengths.odd == 1 else f"{lengths.odd} pairs of hosts have"
        notes.append(f"{pairs} paths of unlike length there and back; they were left out")
    levels = lengths.kinds
    if not levels:
        notes.append("no path length is known, so machines and racks cannot be distinguished")
    if levels == [MACHINE_HOPS] and size > 2:
        notes.append(
            "every path is one hop long: the network hides its routers, so machines and racks cannot be distinguished"
        )
        levels = []
    machine = list(range(size))
    clusters: dict[tuple[int, ...], str] = {}
    for level in levels:
        kind = _KINDS.get(level, "area")
        for part in lengths.components(level):
            members = part.hosts
            if not (1 < len(members) < size or (level == MACHINE_HOPS and len(members) > 1)):
                continue
            if part.torn:
                some = ", ".join(names[m] for m in members[:3])
                notes.append(f"path lengths around {some} contradict a {kind} of hosts at most {level} hops apart")
                continue
            if level == MACHINE_HOPS:
                for member in members:
                    machine[member] = members[0]
            if len(members) < size:
                clusters.setdefault(members, kind)
    numbered = {first: number for number, first in enumerate(dict.fromkeys(machine))}
    return Hierarchy(
        names=tuple(names),
        machine=tuple(numbered[first] for first in machine),
        clusters=_nested(clusters, [numbered[first] for first in machine]),
        notes=tuple(notes),
    )


class _Matrix:
    """Path lengths as a matrix, with what a tree needs of them; see `Lengths`.

    Attributes:
        odd: number of pairs whose directions differ. They count as unknown.
    """

    def __init__(self, hops: Hops) -> None:
        both = (hops > 0) & (hops.T > 0)
        self.odd = int(np.triu(both & (hops != hops.T), 1).sum())
        self._length = np.where(both & (hops != hops.T), 0, np.maximum(hops, hops.T))
        np.fill_diagonal(self._length, 0)

    @property
    def kinds(self) -> list[int]:
        """All lengths that some pair has, ascending."""
        return sorted(int(length) for length in np.unique(self._length[self._length > 0]))

    def components(self, length: int) -> Iterator[Component]:
        """Yield the hosts that paths of at most this length connect, in the order of their first hosts."""
        near = (self._length > 0) & (self._length <= length)
        left = set(range(len(near)))
        while left:
            stack, part = [min(left)], set[int]()
            while stack:
                at = stack.pop()
                if at not in part:
                    part.add(at)
                    stack.extend(int(other) for other in np.flatnonzero(near[at]) if int(other) not in part)
            left -= part
            hosts = tuple(sorted(part))
            yield Component(hosts, torn=bool((self._length[np.ix_(hosts, hosts)] > length).any()))


def limited_groups(tree: Hierarchy, up_bps: Mapping[int, float], down_bps: Mapping[int, float]) -> tuple[Group, ...]:
    """Return the clusters as groups of a Network, without machines whose links do not limit any host.

    Args:
        tree: tree of all hosts.
        up_bps: by node, the limit of its uplink, if it has one.
        down_bps: by node, the limit of its downlink, if it has one.
    """
    return tuple(
        Group(
            name=cluster.name,
            members=[tree.names[member] for member in cluster.members],
            up_bps=up_bps.get(node),
            down_bps=down_bps.get(node),
            parent=None if cluster.parent is None else tree.clusters[cluster.parent].name,
        )
        for node, cluster in enumerate(tree.clusters, start=tree.size)
        if cluster.kind != "machine" or node in up_bps or node in down_bps
    )


def _nested(sets: Mapping[tuple[int, ...], str], machine: Sequence[int]) -> tuple[Cluster, ...]:
    """Return clusters with names and parents, outer before inner.

    Args:
        sets: hosts of each cluster, and its kind.
        machine: number of each host's machine.
    """
    counts: dict[str, int] = {}
    named = []
    for members, kind in sorted(sets.items(), key=lambda item: item[0][0]):
        number = machine[members[0]] if kind == "machine" else counts.setdefault(kind, 0)
        counts[kind] = number + 1
        named.append((f"{kind}-{number}", kind, members))
    named.sort(key=lambda item: -len(item[2]))
    clusters: list[Cluster] = []
    around: dict[int, list[tuple[int, frozenset[int]]]] = {}
    for name, kind, members in named:
        inside = frozenset(members)
        # The smallest one comes last. Of those around the first host, it need not contain the others.
        parents = [number for number, outer in around.get(members[0], []) if inside < outer]
        for member in members:
            around.setdefault(member, []).append((len(clusters), inside))
        clusters.append(Cluster(name, kind, members, parents[-1] if parents else None))
    return tuple(clusters)
