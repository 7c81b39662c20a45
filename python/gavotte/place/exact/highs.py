"""The program of Choreo's Appendix, corrected and solved by HiGHS, for comparison with the compact model.

As printed, the program has rows for single paths only and merges the two directions of a pair of tasks. It needs a
binary for each pair of tasks and of hosts. Here `z[e, m, n]` is the part of a directed transfer e from host m to host
n. Its sums over n and over m are the places of the two tasks, so it is an integer if those are. Every link of the
sharing model (pair, egress, ingress, groups) has a row.
"""

from __future__ import annotations

import math

import numpy as np

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.place.columns import UNLIMITED_BYTES, Instance
from gavotte.place.exact.compact import quota_terms
from gavotte.place.exact.installed import HIGHS
from gavotte.place.exact.links import limited_links, load_on
from gavotte.place.exact.solution import Solution
from gavotte.place.exact.solver import Solver

CHILD = HIGHS

MOST_COLUMNS = 400_000
"""Most columns. A larger program takes minutes to build, and is not solved in hours."""

Row = tuple[float, float, list[tuple[int, float]]]
"""Minimum and maximum of a sum, and its terms (column, coefficient)."""


def solve_ilp(instance: Instance, *, limit_s: float, seed: int) -> Solution:
    """Solve a placement problem by the integer program of Choreo's Appendix, corrected, with HiGHS.

    Raises:
        InfeasibleError: when no placement exists.
        GavotteError: when the program is too large, the solver fails, or time runs out before any placement is found.
    """
    program = _Program(instance)
    request = {
        "cost": program.cost,
        "upper": program.upper,
        "binaries": program.binaries,
        "rows": program.rows,
        "limit_s": limit_s,
        "seed": seed % (2**31 - 1),
    }
    with Solver(CHILD) as solver:
        answer = solver.ask(request, limit_s)
    if answer["status"] == "infeasible":
        raise InfeasibleError(
            "no placement keeps all constraints", hint="use --method optimal to see which contradict each other"
        )
    if not answer["solution"]:
        raise GavotteError(
            f"ilp found no placement within {limit_s:.3g} s", hint="raise --time-limit, or use --method optimal"
        )
    values = answer["solution"]
    hosts = [max(at, key=lambda host, at=at: values[at[host]]) for at in program.at]  # type: ignore[misc]
    placed = np.array([hosts[unit] for unit in instance.core.compact().unit_of], dtype=np.uint32)
    return Solution(placed, max(float(answer["bound"]) * program.scale_s, 0.0), answer["status"] != "optimal", "ilp")


class _Program:
    """Columns and rows of the integer program.

    Times are in units of `scale_s`, and so near 1, for the solver's tolerances.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance, self.compact = instance, instance.core.compact()
        self.cost: list[float] = []
        self.upper: list[float] = []
        self.rows: list[Row] = []
        hosts = len(instance.hosts)
        if len(self.compact.edges) * hosts * hosts > MOST_COLUMNS:
            raise GavotteError(
                f"{len(self.compact.edges)} transfers on {hosts} hosts are too many for ilp",
                hint="use --method optimal",
            )
        self.links = list(limited_links(instance))
        total = max((size for _, _, size, _ in self.compact.edges), default=1)
        self.scale_s = 8 * total / min((link.rate_bps for link in self.links), default=8.0 * total)
        self.at = [self._places(unit) for unit in range(len(self.compact.members))]
        self.binaries = len(self.cost)
        if instance.priced:
            prices_s = (
                price_s
                for rules in (self.compact.latencies, self.compact.limits, self.compact.quotas)
                for *_, price_s in rules
                if price_s is not None
            )
            self.scale_s = max([self.scale_s, *prices_s]) if not self.compact.edges else self.scale_s
        self._room()
        self._rules()
        self.paid: list[tuple[int, float]] = []
        for phase in range(len(instance.phases)):
            self._phase(phase)
        if instance.max_price is not None:
            self._price(*instance.max_price)

    def _column(self, cost: float = 0.0, upper: float = 1.0) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        return len(self.cost) - 1

    def _places(self, unit: int) -> dict[int, int]:
        allowed = self.compact.allowed[unit]
        hosts = range(len(self.instance.hosts)) if allowed is None else allowed
        at = {host: self._column() for host in hosts}
        self.rows.append((1.0, 1.0, [(column, 1.0) for column in at.values()]))
        return at

    def _room(self) -> None:
        compact = self.compact
        resources = (
            (compact.nano_cores, compact.host_nano_cores),
            (compact.memory_bytes, compact.host_memory_bytes),
            (compact.storage_bytes, compact.host_storage_bytes),
        )
        for needs, offers in resources:
            for host, offered in enumerate(offers):
                # Needs are shares of the host: small amounts would be lost in the solver's tolerances.
                whole = max(offered, 1)
                wanted = [
                    (self.at[unit][host], need) for unit, need in enumerate(needs) if need and host in self.at[unit]
                ]
                if wanted and offered != UNLIMITED_BYTES:
                    self.rows.append((-math.inf, offered / whole, [(column, need / whole) for column, need in wanted]))
        for zoning, rows, mosts, least, price_s in compact.quotas:
            for most, in_zone in zip(
                mosts, quota_terms(self.at, compact.zonings[zoning], len(mosts), rows), strict=True
            ):
                whole = max(most, 1)
                terms = [(column, need / whole) for need, column in in_zone]
                if price_s is not None:
                    terms.append((self._column(cost=price_s / self.scale_s * whole, upper=math.inf), -1.0))
                if in_zone or least:
                    self.rows.append((least / whole if least else -math.inf, most / whole, terms or [(0, 0.0)]))

    def _rules(self) -> None:
        compact, at = self.compact, self.at
        for one, other in compact.apart:
            for host in sorted(at[one].keys() & at[other].keys()):
                terms = [(at[one][host], 1.0), (at[other][host], 1.0)] if one != other else [(at[one][host], 2.0)]
                self.rows.append((-math.inf, 1.0, terms))
        for one, other, seconds, price_s in compact.latencies:
            broken = [] if price_s is None else [(self._column(cost=price_s / self.scale_s), -1.0)]
            for m, near in at[one].items():
                for n, far in at[other].items():
                    if m != n and not self.instance.network.latency_s(m, n) <= seconds:
                        self.rows.append((-math.inf, 1.0, [(near, 1.0), (far, 1.0), *broken]))
        for units, most, zoning, price_s in compact.limits:
            zone_of = list(range(len(self.instance.hosts))) if zoning is None else compact.zonings[zoning]
            used = {zone: self._column() for zone in dict.fromkeys(zone_of)}
            for unit in units:
                for host, column in at[unit].items():
                    self.rows.append((-math.inf, 0.0, [(column, 1.0), (used[zone_of[host]], -1.0)]))
            terms = [(column, 1.0) for column in used.values()]
            if price_s is not None:
                terms.append((self._column(cost=price_s / self.scale_s, upper=math.inf), -1.0))
            self.rows.append((-math.inf, float(most), terms))

    def _phase(self, phase: int) -> None:
        time = self._column(cost=1.0, upper=math.inf)
        load = load_on(self.instance, phase)
        edges = [edge for edge in self.compact.edges if edge[3] == phase]
        parts = [self._parts(source, target) for source, target, _, _ in edges]
        if self.instance.max_price is not None:
            per_byte = self.instance.max_price[1]
            self.paid.extend(
                (column, float(per_byte[m, n]) * size)
                for (_, _, size, _), columns in zip(edges, parts, strict=True)
                for (m, n), column in columns.items()
                if m != n and per_byte[m, n] > 0
            )
        for link in self.links:
            terms: dict[int, float] = {}
            for (_, _, size, _), columns in zip(edges, parts, strict=True):
                for (m, n), column in columns.items():
                    for trigger in link.triggers:
                        near, far = (m, n) if trigger.sends else (n, m)
                        if near == trigger.host and far not in trigger.spared:
                            terms[column] = 8 * size / link.rate_bps / self.scale_s
            if not terms:
                continue
            row = [*terms.items(), (time, -1.0)]
            if load[link.key]:
                used = self._column()
                row.append((used, 8 * load[link.key] / link.rate_bps / self.scale_s))
                self.rows.extend((-math.inf, 0.0, [(column, 1.0), (used, -1.0)]) for column in terms)
            self.rows.append((-math.inf, 0.0, row))

    def _price(self, hosts: list[float], _: object, most: float) -> None:
        """Add the row that bounds the price of hosts and bytes together.

        Prices are shares of the bound, for the solver's tolerances.
        """
        terms = [*self.paid]
        for host, price in enumerate(hosts):
            if price:
                used = self._column()
                terms.append((used, price))
                self.rows.extend((-math.inf, 0.0, [(at[host], 1.0), (used, -1.0)]) for at in self.at if host in at)
        whole = most or 1.0
        if terms:
            self.rows.append((-math.inf, most / whole, [(column, price / whole) for column, price in terms]))

    def _parts(self, source: int, target: int) -> dict[tuple[int, int], int]:
        """Add and return the columns z of one transfer, with rows that make their sums the places of its ends."""
        sources, targets = self.at[source], self.at[target]
        columns = {(m, n): self._column() for m in sources for n in targets}
        for m, place in sources.items():
            self.rows.append((0.0, 0.0, [*((columns[m, n], 1.0) for n in targets), (place, -1.0)]))
        for n, place in targets.items():
            self.rows.append((0.0, 0.0, [*((columns[m, n], 1.0) for m in sources), (place, -1.0)]))
        return columns
