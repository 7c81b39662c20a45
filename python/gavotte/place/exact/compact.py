"""The compact exact model of the placement problem, as clauses and linear constraints for CP-SAT.

`at[u][m]`: unit u (tasks that move as one) runs on host m. For each transfer and each link that it may load, one
literal is forced true if it does. With E transfers and M hosts these are O(E M) literals for the hose model, not the
O(J^2 M^2) products of Choreo's Appendix. The pipe model has one literal for each transfer and ordered pair.

Times are whole ticks, rounded down, so the model is a relaxation by less than one tick a transfer. A bound that it
proves is a true lower bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gavotte.place.columns import UNLIMITED_BYTES, Instance
from gavotte.place.exact.columns import host_columns
from gavotte.place.exact.links import Limited, Trigger, limited_links, load_on, machines
from gavotte.place.exact.stars import Edge, must_leave
from gavotte.place.exact.text import Literal, Model, negated

TICKS = 1 << 24
"""Ticks in the time to beat. A sum over a hundred transfers is then known to 6 in a million."""

PRICE_TICKS = 1 << 40
"""Parts of the maximum price. Each amount is rounded down by less than one."""

_CUT_UNITS = 1 << 20
"""Cuts count bytes in this many parts of all that a task sends."""


@dataclass(frozen=True)
class Built:
    """A CP-SAT model with the meaning of its variables.

    Attributes:
        model: the model.
        at: for each unit, host to the literal that puts it there.
        tick_s: seconds of one tick of the objective.
        partitioned: whether the model has columns (see `columns`), which make its linear relaxation useful.
    """

    model: Model
    at: list[dict[int, Literal]]
    tick_s: float
    partitioned: bool

    def units_on(self, solution: Sequence[int]) -> list[int]:
        """Return the host of each unit in a solution."""
        return [next(host for host, literal in places.items() if solution[literal]) for places in self.at]


Priced = tuple[float, int]
"""The price in seconds of a unit of a variable."""


def build(
    instance: Instance, *, cap_s: float, bound_s: float, hint: Sequence[int] | None, partition: bool = False
) -> Built:
    """Build the model of all placements that take at most `cap_s` seconds, the price of broken rules included.

    Args:
        instance: what to place.
        cap_s: time that a placement must not exceed, above zero.
        bound_s: a proven lower bound on the completion time.
        hint: the host of each unit in a known placement, which may take longer.
        partition: add columns (see `columns`), if they are not too many.
    """
    builder = _Builder(instance, cap_s, bound_s)
    times = [builder.phase(phase) for phase in range(len(instance.phases))]
    partitioned = partition and builder.columns(times)
    model = builder.model
    least = math.floor(bound_s / builder.tick_s * (1 - 1e-12))
    paid = [(min(math.floor(price_s / builder.tick_s), TICKS + 1), variable) for price_s, variable in builder.prices]
    total = [*((1, time) for time in times), *((ticks, variable) for ticks, variable in paid if ticks)]
    model.linear(total, least=least, most=TICKS)
    model.minimize(total)
    for unit, host in enumerate(hint or ()):
        for other, literal in builder.at[unit].items():
            model.hint(literal, int(other == host))
    return Built(model, builder.at, builder.tick_s, partitioned)


def places(instance: Instance, model: Model) -> list[dict[int, Literal]]:
    """Return, for each unit, a new literal for each allowed host that is large enough for it when empty."""
    compact = instance.core.compact()
    every = range(len(instance.hosts))
    return [
        {
            host: model.boolean()
            for host in (every if allowed is None else allowed)
            if compact.nano_cores[unit] <= compact.host_nano_cores[host]
            and compact.memory_bytes[unit] <= compact.host_memory_bytes[host]
            and compact.storage_bytes[unit] <= compact.host_storage_bytes[host]
        }
        for unit, allowed in enumerate(compact.allowed)
    ]


def keep_room(instance: Instance, model: Model, at: Sequence[dict[int, Literal]]) -> None:
    """Add constraints: no host exceeds its cores, memory and storage, and no link exceeds its quota."""
    compact = instance.core.compact()
    resources = (
        (compact.nano_cores, compact.host_nano_cores),
        (compact.memory_bytes, compact.host_memory_bytes),
        (compact.storage_bytes, compact.host_storage_bytes),
    )
    for needs, offers in resources:
        step = math.gcd(*needs) or 1
        for host, offered in enumerate(offers):
            terms = [(need // step, at[unit][host]) for unit, need in enumerate(needs) if need and host in at[unit]]
            if offered != UNLIMITED_BYTES and sum(need for need, _ in terms) > offered // step:
                model.linear(terms, most=offered // step)
    for zoning, rows, mosts, least, price_s in compact.quotas:
        if price_s is None:
            for zone, terms in enumerate(quota_terms(at, compact.zonings[zoning], len(mosts), rows)):
                if least > 0 and not terms:  # no unit can reach the zone
                    model.clause([])
                elif least > 0 or sum(need for need, _ in terms) > mosts[zone]:
                    model.linear(terms, least=least, most=mosts[zone])


def quota_terms(
    at: Sequence[dict[int, Literal]], zone_of: Sequence[int | None], zones: int, needs: Sequence[tuple[int, int]]
) -> list[list[tuple[int, Literal]]]:
    """Return, for each zone, terms whose sum is the need of all units on its hosts."""
    terms: list[list[tuple[int, Literal]]] = [[] for _ in range(zones)]
    for unit, need in needs:
        for host, literal in at[unit].items():
            zone = zone_of[host]
            if zone is not None:
                terms[zone].append((need, literal))
    return terms


def keep_rules(instance: Instance, model: Model, at: Sequence[dict[int, Literal]]) -> list[Priced]:
    """Add constraints that keep units apart, latencies and the number of hosts low, and the price in its bound.

    Returns:
        Variables that count how often rules with a price are broken, each with its price.
    """
    compact = instance.core.compact()
    priced: list[Priced] = []
    for one, other in compact.apart:
        for host in sorted(at[one].keys() & at[other].keys()):
            model.clause(sorted({negated(at[one][host]), negated(at[other][host])}))
    for one, other, seconds, price_s in compact.latencies:
        broken = [] if price_s is None else [model.boolean()]
        priced.extend((price_s or 0.0, literal) for literal in broken)
        for m, near in at[one].items():
            for n, far in at[other].items():
                if m != n and not instance.network.latency_s(m, n) <= seconds:
                    model.clause([negated(near), negated(far), *broken])
    for units, most, zoning, price_s in compact.limits:
        zone_of = list(range(len(instance.hosts))) if zoning is None else compact.zonings[zoning]
        used = {zone: model.boolean() for zone in dict.fromkeys(zone_of)}
        for unit in units:
            for host, literal in at[unit].items():
                model.clause([negated(literal), used[zone_of[host]]])
        more = [] if price_s is None else [model.integer(0, len(used))]
        priced.extend((price_s or 0.0, variable) for variable in more)
        model.linear([*((1, literal) for literal in used.values()), *((-1, variable) for variable in more)], most=most)
    for zoning, needs, mosts, _, price_s in compact.quotas:
        if price_s is None:
            continue
        for zone, terms in enumerate(quota_terms(at, compact.zonings[zoning], len(mosts), needs)):
            whole = sum(need for _, need in needs)
            if terms and sum(need for need, _ in terms) > mosts[zone]:
                excess = model.integer(0, whole)
                priced.append((price_s, excess))
                model.linear([*terms, (-1, excess)], most=mosts[zone])
    if instance.max_price is not None:
        model.linear(price_terms(instance, model, at, instance.max_price), most=PRICE_TICKS)
    return priced


def price_terms(
    instance: Instance, model: Model, at: Sequence[dict[int, Literal]], max_price: tuple[list[float], Any, float]
) -> list[tuple[int, int]]:
    """Return terms whose sum is the price of a placement; `PRICE_TICKS` is the maximum price.

    A host's price counts if the host is used. A transfer's price depends on both ends. For a sender on host m, it is a
    linear function of the receiver's place; that constraint holds only if the sender is on m.
    """
    hosts, per_byte, most = max_price

    def ticks(price: float) -> int:
        return math.floor(min(price / most if most > 0 else price * math.inf if price else 0.0, 4.0) * PRICE_TICKS)

    terms: list[tuple[int, int]] = []
    for host, price in enumerate(hosts):
        if price > 0:
            used = model.boolean()
            terms.append((ticks(price), used))
            for literals in at:
                if host in literals:
                    model.clause([negated(literals[host]), used])
    sizes: Counter[tuple[int, int]] = Counter()
    for source, target, size, _ in instance.core.compact().edges:
        sizes[source, target] += size
    for (source, target), size in sizes.items():
        costs = {(m, n): ticks(size * per_byte[m, n]) for m in at[source] for n in at[target] if m != n}
        largest = max(costs.values(), default=0)
        if largest == 0:
            continue
        paid = model.integer(0, largest)
        terms.append((1, paid))
        for m, here in at[source].items():
            prices_by_target = [(-costs[m, n], literal) for n, literal in at[target].items() if m != n and costs[m, n]]
            model.linear([(1, paid), *prices_by_target] if prices_by_target else [], least=0, only_if=here)
    return terms


class _Builder:
    def __init__(self, instance: Instance, cap_s: float, bound_s: float) -> None:
        self.instance = instance
        self.cap_s, self.bound_s = cap_s, bound_s
        self.tick_s = cap_s / TICKS
        self.model = Model()
        self.at = places(instance, self.model)
        self.compact = instance.core.compact()
        self.links = list(limited_links(instance))
        self.mates = machines(instance)
        for literals in self.at:
            self.model.exactly_one(literals.values())
        keep_room(instance, self.model, self.at)
        self.prices = keep_rules(instance, self.model, self.at)

    def phase(self, phase: int) -> int:
        """Add the links of one phase; return a variable, in ticks, that no link's time in this phase exceeds."""
        time = self.model.integer(0, TICKS)
        edges = [(s, t, size) for s, t, size, number in self.compact.edges if number == phase]
        total = sum(size for _, _, size in edges)
        load = load_on(self.instance, phase)
        # With one phase and no prices, a link that stays below the bound even under all bytes decides nothing.
        idle_s = self.bound_s if len(self.instance.phases) == 1 and not self.instance.priced else 0.0
        leaving: dict[tuple[int, int, bool], list[tuple[int, Literal]]] = {}
        for link in self.links:
            if 8 * (total + load[link.key]) / link.rate_bps <= idle_s:
                continue
            crossing = self._link(time, edges, link, load[link.key])
            if link.key[0] in ("out", "in"):
                for (source, target, size), literal in crossing:
                    unit, host, sends = (source if link.key[0] == "out" else target), link.key[1], link.key[0] == "out"
                    leaving.setdefault((unit, host, sends), []).append((size, literal))
        self._cuts(edges, leaving)
        return time

    def columns(self, times: Sequence[int]) -> bool:
        """Add constraints that give each host one set of units; return False, with none added, if sets are too many."""
        columns = host_columns(self.instance, self.cap_s)
        if columns is None:
            return False
        chosen: list[list[Literal]] = [[self.model.boolean()] for _ in self.instance.hosts]  # the first: empty
        members: dict[tuple[int, int], list[Literal]] = {}
        loads: list[list[list[tuple[int, Literal]]]] = [[[] for _ in times] for _ in self.instance.hosts]
        for column in columns:
            literal = self.model.boolean()
            chosen[column.host].append(literal)
            for unit in column.units:
                members.setdefault((unit, column.host), []).append(literal)
            for terms, least_s in zip(loads[column.host], column.least_s, strict=True):
                ticks = math.floor(least_s / self.tick_s * (1 - 1e-12))
                if ticks:
                    terms.append((ticks, literal))
        for host, literals in enumerate(chosen):
            self.model.exactly_one(literals)
            for time, terms in zip(times, loads[host], strict=True):
                self.model.linear([*terms, (-1, time)], most=0)
        for unit, places_ in enumerate(self.at):
            for host, at in places_.items():
                within = [(1, literal) for literal in members.get((unit, host), ())]
                self.model.linear([*within, (-1, at)], least=0, most=0)
        return True

    def _link(self, time: int, edges: Sequence[Edge], link: Limited, load: int) -> list[tuple[Edge, Literal]]:
        """Bound the time of one link; return each transfer that may load the link, with a literal that is true then."""
        terms: list[tuple[int, Literal]] = []
        crossing = []
        used = self.model.boolean() if load else None
        if used is not None:
            terms.append((self._ticks(load, link), used))
        for edge in edges:
            clauses = [clause for clause in (self._clause(edge, trigger) for trigger in link.triggers) if clause]
            if not clauses:
                continue
            if 8 * (edge[2] + load) / link.rate_bps > self.cap_s * (1 + 1e-9):
                for clause in clauses:
                    self.model.clause(clause)
                continue
            crosses = self.model.boolean()
            for clause in clauses:
                self.model.clause([*clause, crosses])
            if used is not None:
                self.model.clause([negated(crosses), used])
            terms.append((self._ticks(edge[2], link), crosses))
            crossing.append((edge, crosses))
        if crossing:
            self.model.linear([*terms, (-1, time)], most=0)
        return crossing

    def _ticks(self, size: int, link: Limited) -> int:
        return math.floor(8 * size / link.rate_bps / self.tick_s)

    def _clause(self, edge: Edge, trigger: Trigger) -> list[Literal] | None:
        """Return a clause that is true unless the transfer loads the link; None if the transfer never loads it."""
        near, far = (self.at[edge[0]], self.at[edge[1]]) if trigger.sends else (self.at[edge[1]], self.at[edge[0]])
        if trigger.host not in near:
            return None
        spared = [literal for host, literal in far.items() if host in trigger.spared]
        if len(spared) == len(far):
            return None
        others = [literal for host, literal in far.items() if host not in trigger.spared]
        away = [negated(near[trigger.host])]
        # If only one host of the other end loads the link, its negation is a shorter clause.
        return [*away, negated(others[0])] if len(others) == 1 else [*away, *spared]

    def _cuts(self, edges: Sequence[Edge], leaving: dict[tuple[int, int, bool], list[tuple[int, Literal]]]) -> None:
        """Star-knapsack cuts: a task on a host sends away at least the bytes whose ends do not fit next to it."""
        for (unit, host, sends), size in must_leave(self.compact, edges, self.mates).items():
            if size == 0 or host not in self.at[unit]:
                continue
            at = self.at[unit][host]
            network = self.instance.network
            rate_bps = network.egress_bps(host) if sends else network.ingress_bps(host)
            if network.sharing != "pipe" and 8 * size / rate_bps > self.cap_s * (1 + 1e-9):
                self.model.clause([negated(at)])
                continue
            terms = leaving.get((unit, host, sends), [])
            whole = sum(bytes_ for bytes_, _ in terms)
            if whole >= size:
                step = max(whole // _CUT_UNITS, 1)
                cut = [(-(-bytes_ // step), literal) for bytes_, literal in terms]
                self.model.linear([*cut, (-(size // step), at)], least=0)
