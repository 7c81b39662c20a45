"""Network: what placement believes about the network between the hosts (`*.network.json`).

Version 1 has matrices with one row and one column per host. Version 2 is for many hosts: it has latencies of hosts and
groups, and a list of the pairs that differ. Up to `MOST_IN_MATRICES` hosts, reading a file makes matrices of them.

Rates are what a bulk TCP connection achieves (goodput, bit/s). Row = source. None = unknown for a pair, unlimited or
unknown for a cap; the diagonal is None (within a host). Traffic between hosts of one `machine` loads only the pair's
own rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from gavotte.errors import GavotteError
from gavotte.formats.files.reading import Emitted, check_ending, parse_json, problem, read_noun, validate, write_text
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.names import (
    MOST_HOSTS,
    check_known,
    check_tree,
    check_unique,
    check_unique_hosts,
    known_as,
    unknown_host,
)
from gavotte.formats.parts.network_parts import MAX_CPUS as MAX_CPUS
from gavotte.formats.parts.network_parts import MAX_MEMORY_BYTES as MAX_MEMORY_BYTES
from gavotte.formats.parts.network_parts import Checked as Checked
from gavotte.formats.parts.network_parts import Connections, MtuBytes, NotNegative, RateBps, Seconds, Share
from gavotte.formats.parts.network_parts import Group as Group
from gavotte.formats.parts.network_parts import Host as Host
from gavotte.formats.parts.network_parts import LinkVerdict as LinkVerdict
from gavotte.formats.parts.network_parts import PairException as PairException
from gavotte.formats.parts.network_parts import Sharing as Sharing
from gavotte.tables import Tabular, html_rows, matrix, nullable

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

FORMAT = "gavotte/network/1"
COMPACT = "gavotte/network/2"

MOST_IN_MATRICES = 256
"""Most hosts of a Network of version 2 that is read into matrices, and most of one that is written as version 1."""

Doubt = Literal["guessed", "earlier"]
"""Why a rate is not a measurement.

`guessed`: from the rates of the pair's hosts with others. `earlier`: measured only before one of the hosts moved.
"""

UNKNOWN_SHARE = 0.5
"""Share of the slowest known rate that is assumed for a pair of unknown rate, so that any other is better."""

MATRICES = (
    "rate_bps",
    "latency_s",
    "rate_low_bps",
    "price_usd_per_gb",
    "excess",
    "doubt",
    "cross",
    "mtu_bytes",
    "several_bps",
    "connections",
    "policed",
    "loss",
)
"""Keys of a Network with one row and one column per host. Each may be empty."""


class Network(Emitted, Tabular):
    """All that is believed about a network. Matrices are N x N in the order of `hosts`, or empty: no pair has a value.

    Without `rate_bps`, only hosts' caps and groups limit, and memory grows with hosts, not with pairs.

    Attributes:
        rate_low_bps: lower ends of the intervals of `rate_bps` (None = `rate_bps` is exact).
        price_usd_per_gb: price of 10^9 bytes from a host to another (None = nothing).
        excess: the slow-down that `rate_bps` expects. The undisturbed rate is `rate_bps` x (1 + `excess`) (None =
            none).
        band: standard deviation of the logarithm of undisturbed transfer times (None = unknown).
        doubt: why a rate is not a measurement (None = it is one).
        cross: measured traffic of others, as a number of bulk connections (None = not measured). `rate_bps` is without
            them, and a new connection gets `rate_bps` / (`cross` + 1) (Choreo section 3.2).
        mtu_bytes: the largest IP packet that a path carries in one piece (None = unknown).
        several_bps: total rate of `connections` parallel connections of a pair, where `rate_bps` is the rate of one
            (None = not tried).
        connections: number of connections of `several_bps` (None = not tried).
        policed: whether a path drops packets above its rate instead of letting them wait (None = unknown).
        loss: share of packets that a path loses at random, not because a queue is full (None = none seen).
        beside: applications of one's own that ran while rates were measured. The rates already include their traffic.
        cross_beside: the same, while cross traffic was measured.
        exceptions: pairs that differ from what their hosts and groups say. Only version 2 has them, and no matrices.
        checked: how well the measured pairs predicted others; None = this was not tried.
    """

    format: Literal["gavotte/network/1", "gavotte/network/2"]
    hosts: Annotated[list[Host], Field(min_length=1, max_length=MOST_HOSTS)]
    rate_bps: list[list[RateBps | None]] = []
    latency_s: list[list[Seconds | None]] = []
    groups: list[Group] = []
    sharing: Sharing = "hose"
    verdicts: list[LinkVerdict] = []
    notes: list[str] = []
    rate_low_bps: list[list[RateBps | None]] = []
    price_usd_per_gb: list[list[NotNegative | None]] = []
    excess: list[list[NotNegative | None]] = []
    band: NotNegative | None = None
    doubt: list[list[Doubt | None]] = []
    cross: list[list[Connections | None]] = []
    beside: list[str] = []
    cross_beside: list[str] = []
    mtu_bytes: list[list[MtuBytes | None]] = []
    several_bps: list[list[RateBps | None]] = []
    connections: list[list[Annotated[int, Field(ge=1, le=64)] | None]] = []
    policed: list[list[bool | None]] = []
    loss: list[list[Share | None]] = []
    exceptions: Annotated[list[PairException], Field(exclude_if=lambda value: not value)] = []
    checked: Annotated[Checked | None, Field(exclude_if=lambda value: value is None)] = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_unique_hosts("hosts", [h.name for h in self.hosts], field="name")
        self._check_version()
        size = len(self.hosts)
        for key in MATRICES:
            matrix: Sequence[Sequence[float | str | None]] = getattr(self, key)
            if not matrix:
                continue
            if len(matrix) != size:
                raise problem(f"has {len(matrix)} rows for {size} hosts", "give one row a host", field=key)
            for i, row in enumerate(matrix):
                if len(row) != size:
                    raise problem(
                        f"has {len(row)} entries for {size} hosts", "give one entry a host", field=f"{key}[{i}]"
                    )
        names = {h.name for h in self.hosts}
        group_names = {g.name for g in self.groups}
        check_unique("groups", [g.name for g in self.groups], field="name")
        for i, group in enumerate(self.groups):
            for j, member in enumerate(group.members):
                check_known(member, names, field=f"groups[{i}].members[{j}]", what="host")
            if group.parent is not None:
                check_known(group.parent, group_names, field=f"groups[{i}].parent", what="group")
        check_tree("groups", {g.name: g.parent for g in self.groups}, single_root=False)
        seen: set[tuple[str, str]] = set()
        for i, each in enumerate(self.exceptions):
            for end in ("source", "target"):
                check_known(getattr(each, end), names, field=f"exceptions[{i}].{end}", what="host")
            if each.source == each.target or (each.source, each.target) in seen:
                what = "is within a host" if each.source == each.target else "is the second of its pair"
                raise problem(what, "remove it", field=f"exceptions[{i}]")
            seen.add((each.source, each.target))
        return self

    def _check_version(self) -> None:
        """Refuse what belongs to the other version."""
        if self.compact:
            if key := next((key for key in MATRICES if getattr(self, key)), None):
                raise problem(f"is a matrix, which {COMPACT} does not have", f"remove it, or use {FORMAT}", field=key)
            return
        listed: list[tuple[str, Sequence[Host | Group]]] = [("hosts", self.hosts), ("groups", self.groups)]
        known = [
            f"{key}[{i}].latency_s"
            for key, parts in listed
            for i, part in enumerate(parts)
            if part.latency_s is not None
        ]
        if field := next(iter(["exceptions"] * bool(self.exceptions) + known), None):
            raise problem(f"belongs to {COMPACT}", f"use that format, and no matrices; or remove {field}", field=field)

    @property
    def compact(self) -> bool:
        """Whether it is of version 2."""
        return self.format == COMPACT

    @property
    def absent(self) -> frozenset[str]:
        """Keys that its version does not have."""
        return frozenset(MATRICES) if self.compact else frozenset()

    def __repr__(self) -> str:
        """Return what it is in one line."""
        groups = f", {counted(len(self.groups), 'group')}" * bool(self.groups)
        return f"<Network: {counted(len(self.hosts), 'host')}{groups}, {self.sharing}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the rates of pairs as notebooks show them, or for many hosts those of hosts."""
        from gavotte.formats.parts.rate_matrix import MOST_IN_MATRIX, rate_matrix

        if not self.any_rate or len(self.hosts) > MOST_IN_MATRIX:
            rows = [[host.name, host.egress_bps, host.ingress_bps] for host in self.hosts]
            return html_rows(str(self).strip("<>"), ["host", "egress_bps", "ingress_bps"], rows)
        return rate_matrix(str(self).strip("<>"), self.names, self.rate_bps)

    def pair_bps(self, source: int, target: int) -> float | None:
        """Return the rate of a pair; None = unknown, or the pair has none of its own."""
        if self.exceptions:
            known = self._exception_of(source, target)
            return None if known is None else known.rate_bps
        return self.rate_bps[source][target] if self.rate_bps else None

    def _exception_of(self, source: int, target: int) -> PairException | None:
        # Listed once. A copy with other exceptions lists them again.
        listed: tuple[list[PairException], dict[tuple[str, str], PairException]] | None
        listed = self.__dict__.get("_listed")
        if listed is None or listed[0] is not self.exceptions:
            listed = self.exceptions, {(each.source, each.target): each for each in self.exceptions}
            self.__dict__["_listed"] = listed
        return listed[1].get((self.hosts[source].name, self.hosts[target].name))

    def pair_several_bps(self, source: int, target: int) -> float | None:
        """Return the rate of several connections of a pair, never below that of one; None = unknown."""
        one_bps = self.pair_bps(source, target)
        several_bps = self.several_bps[source][target] if self.several_bps else None
        return one_bps if one_bps is None or several_bps is None else max(one_bps, several_bps)

    @property
    def several_differ(self) -> bool:
        """Whether several connections of any pair carry more than one."""
        size = range(len(self.hosts) if self.several_bps else 0)
        return any(m != n and self.pair_several_bps(m, n) != self.pair_bps(m, n) for m in size for n in size)

    def at_several(self) -> Self:
        """Return the Network whose pairs have the rates of several connections, for transfers that open as many."""
        size = range(len(self.hosts) if self.several_differ else 0)
        return self.with_rates({(m, n): rate for m in size for n in size if (rate := self.pair_several_bps(m, n))})

    def with_rates(self, rates_bps: Mapping[tuple[int, int], float]) -> Self:
        """Return the Network with other rates of some pairs."""
        if not rates_bps:
            return self
        rows = [[rates_bps.get((m, n), rate) for n, rate in enumerate(row)] for m, row in enumerate(self.rate_bps)]
        return self.model_copy(update={"rate_bps": rows})

    def pair_latency_s(self, source: int, target: int) -> float | None:
        """Return the latency of a pair, one way; None = unknown."""
        if not self.compact or source == target:
            return self.latency_s[source][target] if self.latency_s else None
        known = self._exception_of(source, target)
        if known is not None and known.latency_s is not None:
            return known.latency_s
        ends = [self.hosts[end] for end in (source, target)]
        left = self._around(ends[0].name) - self._around(ends[1].name)
        parts = [*(host.latency_s for host in ends), *(group.latency_s for group in self.groups if group.name in left)]
        known_s = [each for each in parts if each is not None]
        return sum(known_s) if len(known_s) == len(parts) else None

    @property
    def knows_latency(self) -> bool:
        """Whether the latency of any pair is known."""
        if not self.compact:
            return any(known for m, row in enumerate(self.latency_s) for n, known in enumerate(row) if m != n)
        known_hosts = sum(host.latency_s is not None for host in self.hosts)
        return known_hosts > 1 or any(each.latency_s is not None for each in self.exceptions)

    def in_matrices(self) -> Self:
        """Return the same Network as version 1: each pair has the rate and the latency that version 2 says."""
        if not self.compact:
            return self
        from gavotte.formats.parts.tree import Tree, every_pair, known_limits_bps, latencies_s

        tree, pairs = Tree(self.hosts, self.groups, self.exceptions, self.sharing), every_pair(len(self.hosts))
        changes: dict[str, object] = {"format": FORMAT, "exceptions": []}
        if self.knows_latency:
            changes["latency_s"] = nullable(latencies_s(tree, *pairs))
        if any(each.rate_bps for each in self.exceptions):
            changes["rate_bps"] = nullable(known_limits_bps(tree, *pairs))
        for key in ("hosts", "groups"):
            changes[key] = [part.model_copy(update={"latency_s": None}) for part in getattr(self, key)]
        return self.model_copy(update=changes)

    def pair_loss(self, source: int, target: int) -> float | None:
        """Return the share of packets that a pair's path loses at random; None = none seen."""
        return self.loss[source][target] if self.loss else None

    def undisturbed_bps(self, source: int, target: int) -> float | None:
        """Return a pair's undisturbed rate: `rate_bps` x (1 + `excess`); None = unlimited or unknown."""
        rate_bps = self.pair_bps(source, target)
        excess = self.excess[source][target] if self.excess else None
        return rate_bps if rate_bps is None or excess is None else rate_bps * (1 + excess)

    def pair_mtu_bytes(self, source: int, target: int) -> int | None:
        """Return the MTU of a pair; None = unknown."""
        return self.mtu_bytes[source][target] if self.mtu_bytes else None

    def mtus_of(self, names: Sequence[str]) -> list[list[int | None]]:
        """Return the MTU of each pair of these hosts, None where it is unknown; empty = no MTU is known."""
        at = {name: place for place, name in enumerate(self.names)}
        places = [at.get(name) for name in names]
        return (
            [[None if m is None or n is None else self.pair_mtu_bytes(m, n) for n in places] for m in places]
            if self.mtu_bytes
            else []
        )

    @property
    def unknown_pairs(self) -> int:
        """Number of pairs without a rate if others have one. If none has one, only caps limit, and it is 0."""
        pairs = [rate for i, row in enumerate(self.rate_bps) for j, rate in enumerate(row) if i != j]
        return pairs.count(None) if any(pairs) else 0

    def pair(self, source: str, target: str) -> tuple[int, int]:
        """Return the indices of two hosts.

        Raises:
            GavotteError: when there is no such host.
        """
        at = {name: index for index, name in enumerate(self.names)}
        source, target = known_as(source, at), known_as(target, at)
        for name in (source, target):
            if name not in at:
                raise unknown_host(name, at, "the network")
        return at[source], at[target]

    def with_cross(self, source: str, target: str, connections: float, *, beside: Sequence[str] = ()) -> Self:
        """Return the Network with the cross traffic that was measured on a path.

        Args:
            source: sending host.
            target: receiving host.
            connections: number of bulk connections of others.
            beside: applications of one's own that ran meanwhile.

        Raises:
            GavotteError: when there is no such host.
        """
        m, n = self.pair(source, target)
        cross = [list(row) for row in self.cross] or [[None] * len(self.hosts) for _ in self.hosts]
        cross[m][n] = connections
        return self.model_copy(update={"cross": cross, "cross_beside": sorted({*self.cross_beside, *beside})})

    def shared(self) -> Self:
        """Return the Network in which each pair has a new connection's rate: rate / (c + 1) (Choreo section 3.2)."""
        if not self.cross:
            return self
        return self.model_copy(
            update={
                key: [
                    [rate if rate is None or c is None else rate / (c + 1) for rate, c in zip(row, others, strict=True)]
                    for row, others in zip(getattr(self, key), self.cross, strict=True)
                ]
                for key in ("rate_bps", "rate_low_bps")
                if getattr(self, key)
            }
            | {"cross": []}
        )

    @property
    def any_rate(self) -> bool:
        """Whether any pair of hosts has a rate."""
        return any(rate for i, row in enumerate(self.rate_bps) for j, rate in enumerate(row) if i != j)

    def cautious(self) -> Self:
        """Return the Network to plan with: `shared`, and `UNKNOWN_SHARE` of the slowest rate for unknown pairs."""
        if self.cross:
            return self.shared().cautious()
        if not self.unknown_pairs:
            return self
        slowest = min(rate for i, row in enumerate(self.rate_bps) for j, rate in enumerate(row) if rate and i != j)
        planned = UNKNOWN_SHARE * slowest
        rates = [
            [rate if i == j else rate or planned for j, rate in enumerate(row)] for i, row in enumerate(self.rate_bps)
        ]
        return self.model_copy(update={"rate_bps": rates})

    def check_pairs(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Refuse pairs whose rate nothing is known to limit: an unknown rate must not count as a fast one.

        If any pair has a rate, `cautious` gives one to all. A Network without `rate_bps` limits by its caps and groups,
        except under `pipe`, where they do not count. Hosts of one machine communicate through its memory.

        Args:
            pairs: indices in `hosts` of sender and receiver.

        Raises:
            GavotteError: naming the first of them.
        """
        if self.any_rate or not (self.rate_bps or self.sharing == "pipe"):
            return
        size = len(self.hosts)
        for source, target in dict.fromkeys(pairs):
            if source != target and max(source, target) < size and not self._limited(source, target):
                names = self.names
                raise GavotteError(
                    f"the network does not say how fast {names[source]} sends to {names[target]}",
                    hint="measure that pair, or set its rate_bps",
                )

    def _limited(self, source: int, target: int) -> bool:
        """Return whether the pair, a cap of a host or a group has a rate, or both are on one machine."""
        sender, receiver = self.hosts[source], self.hosts[target]
        if self.exceptions and self.pair_bps(source, target):
            return True
        if self.sharing == "pipe":
            return False
        if sender.machine is not None and sender.machine == receiver.machine:
            return True
        if sender.egress_bps or receiver.ingress_bps or self.sharing == "hose":
            return bool(sender.egress_bps or receiver.ingress_bps)
        left, entered = self._around(sender.name), self._around(receiver.name)
        return any(
            (group.up_bps and group.name in left - entered) or (group.down_bps and group.name in entered - left)
            for group in self.groups
        )

    def _around(self, host: str) -> set[str]:
        """Return the names of the groups that contain a host, one within another."""
        parent = {group.name: group.parent for group in self.groups}
        groups: set[str] = set()
        for group in self.groups:
            name: str | None = group.name if host in group.members else None
            while name is not None and name not in groups:
                groups.add(name)
                name = parent[name]
        return groups

    def of_hosts(self, chosen: Sequence[int]) -> Self:
        """Return the Network of some of its hosts, in the given order. Groups that keep no member are removed."""
        names = {self.hosts[i].name for i in chosen}
        changes: dict[str, object] = {
            key: [[matrix[i][j] for j in chosen] for i in chosen] for key in MATRICES if (matrix := getattr(self, key))
        }
        changes["hosts"] = [self.hosts[i] for i in chosen]
        changes["groups"] = [
            group.model_copy(update={"members": members})
            for group in self.groups
            if (members := [name for name in group.members if name in names])
        ]
        changes["exceptions"] = [each for each in self.exceptions if {each.source, each.target} <= names]
        return self.model_copy(update=changes)

    @classmethod
    def from_numpy(
        cls,
        names: Sequence[str],
        rate_bps: npt.ArrayLike,
        latency_s: npt.ArrayLike | None = None,
        *,
        sharing: Sharing = "pipe",
    ) -> Network:
        """Return the Network of (N, N) rates of pairs in bit/s and, if known, latencies in seconds, row = source.

        Args:
            names: the hosts.
            rate_bps: TCP goodput of each pair; NaN = unknown. The diagonal does not count.
            latency_s: round trips without load; NaN = unknown.
            sharing: what transfers share: `pipe` = nothing, each pair has a path of its own.

        Raises:
            GavotteError: naming the field.
        """
        from gavotte.formats.parts.convert import MATRIX, network_of_matrices

        content = network_of_matrices(names, rate_bps, latency_s, sharing)
        return validate(Network, {"format": FORMAT} | content, MATRIX)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, sharing: Sharing = "pipe") -> Network:
        """Return the Network of a table with the columns source, target, rate_bps and, if known, latency_s.

        Raises:
            GavotteError: naming the column.
        """
        from gavotte.formats.parts.convert import ROWS, network_of_rows, rows_of

        return validate(Network, {"format": FORMAT} | network_of_rows(rows_of(frame), sharing), ROWS)

    @classmethod
    def from_networkx(cls, graph: nx.Graph) -> Network:
        """Return the Network of a graph: hosts are nodes, pairs are edges with `rate_bps` and, if known, `latency_s`.

        Attributes of nodes are the fields of a Host. An edge without a direction counts for both. `sharing` and
        `groups` are attributes of the graph; the default sharing is `pipe`.

        Raises:
            GavotteError: naming the field.
        """
        from gavotte.formats.parts.convert import GRAPH, network_of_graph

        return validate(Network, {"format": FORMAT} | network_of_graph(graph), GRAPH)

    def to_networkx(self) -> nx.DiGraph:
        """Return hosts as nodes, and pairs with a known rate as edges with `rate_bps` and, if known, `latency_s`.

        Raises:
            UnsupportedError: without networkx.
        """
        from gavotte.formats.parts.convert import graph_of

        return graph_of(
            ((host.name, host.model_dump(exclude={"name"}, exclude_defaults=True)) for host in self.hosts),
            (
                (row.pop("source"), row.pop("target"), {key: value for key, value in row.items() if value is not None})
                for row in self.to_records()
                if row["rate_bps"] is not None
            ),
            several=False,
            sharing=self.sharing,
            groups=[group.model_dump() for group in self.groups],
        )

    def to_numpy(self, key: str = "rate_bps") -> npt.NDArray[np.float64]:
        """Return one of `MATRICES` as an (N, N) array, NaN where it has None or is empty."""
        rows: Sequence[Sequence[float | None]] = getattr(self, key)
        return matrix(rows or [[None] * len(self.hosts)] * len(self.hosts))

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per pair of hosts: source, target, rate_bps, latency_s; None = unlimited or unknown."""
        return [
            {"source": s, "target": t, "rate_bps": self.pair_bps(i, j), "latency_s": self.pair_latency_s(i, j)}
            for i, s in enumerate(self.names)
            for j, t in enumerate(self.names)
            if i != j
        ]

    @property
    def names(self) -> list[str]:
        """Host names in order."""
        return [host.name for host in self.hosts]

    @property
    def offered_cpus(self) -> list[float]:
        """Cores of speed 1 that each host offers."""
        return [host.cpus * host.core_speed for host in self.hosts]


def read_network(path: str | Path) -> Network:
    """Read a `*.network.json` of version 1 or 2; up to `MOST_IN_MATRICES` hosts, as version 1.

    Raises:
        FormatError: naming file, field and remedy.
    """
    network = read_noun(Network, path, parse_json)
    return network.in_matrices() if len(network.hosts) <= MOST_IN_MATRICES else network


def write_network(path: str | Path, network: Network) -> None:
    """Write a `*.network.json`, whole or not at all.

    Raises:
        FormatError: for a name with another format's ending, or a file that cannot be written.
    """
    check_ending(path, "a Network")
    write_text(path, network.model_dump_json(exclude=set(network.absent)) + "\n")
