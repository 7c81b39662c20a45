"""Conversion of constraints and limits to the columns of numbers that the compiled `Problem` takes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.formats.app import App, Labelled, Spread
from gavotte.formats.network import Network
from gavotte.place.limits import PlacementLimits, Quota
from gavotte.place.merge import by_name, task_key
from gavotte.place.running import Running, resources_taken
from gavotte.place.zones import zones_by

MOST_PRICED = 8192
"""Most hosts with prices per byte. Prices of all pairs then take 0.5 GB, and as much again in the search."""

_Floats = npt.NDArray[np.float64]

QuotaRow = tuple[int, list[tuple[int, int]], list[int], int, float | None, str | None]
"""Zones, needs of tasks, the most and the least in each zone, the price of more in seconds, and a resource's name."""


@dataclass(frozen=True)
class Rules:
    """Constraints other than cores, memory and storage. Tasks, hosts and zones are indices; prices are in seconds.

    Attributes:
        apart: groups of tasks, no two of which may share a host.
        together: groups of tasks that must share a host.
        max_latency: source, target, seconds and price of each bound on a latency.
        max_hosts: tasks, most hosts or zones, zones (None = hosts) and price of each bound on their number.
        max_price: prices in USD of each host and of a byte (N, N), and the maximum total.
        zonings: the zone of each host, for each division of hosts into zones.
        quotas: bounds on the needs of tasks in each zone.
    """

    apart: list[list[int]] = field(default_factory=list)
    together: list[list[int]] = field(default_factory=list)
    max_latency: list[tuple[int, int, float, float | None]] = field(default_factory=list)
    max_hosts: list[tuple[list[int], int, int | None, float | None]] = field(default_factory=list)
    max_price: tuple[list[float], _Floats, float] | None = None
    zonings: list[list[int | None]] = field(default_factory=list)
    quotas: list[QuotaRow] = field(default_factory=list)


def build_rules(
    network: Network,
    apps: Sequence[App],
    task_at: Mapping[str, int],
    *,
    limits: PlacementLimits,
    running: Sequence[Running] = (),
) -> Rules:
    """Return the constraints of the applications and the limits on the whole placement as columns.

    Pins and labels without a price are missing: they decide which hosts a task may use.

    Raises:
        GavotteError: when hosts lack a label by which a constraint counts tasks.
    """
    rules = Rules(max_price=prices(network, limits))
    zones = _Zones(network, rules.zonings)
    if limits.max_hosts is not None:
        rules.max_hosts.append((list(task_at.values()), limits.max_hosts, None, None))
    if limits.max_latency_s is not None:
        ways = {(task_key(app, t.source, apps), task_key(app, t.target, apps)) for app in apps for t in app.transfer}
        rules.max_latency.extend(
            sorted((task_at[a], task_at[b], limits.max_latency_s, None) for a, b in ways if a != b)
        )
    for app in apps:
        _add_rules(rules, app, by_name(task_at, app, apps), zones)
    rules.quotas.extend(_resources(network, apps, running, zones))
    rules.quotas.extend(_quotas(network, list(task_at), limits.quotas, zones))
    return rules


class _Zones:
    """Divisions of hosts into zones, each listed once."""

    def __init__(self, network: Network, zonings: list[list[int | None]]) -> None:
        self._network, self._zonings = network, zonings
        self._at: dict[tuple[int | None, ...], int] = {}
        self._by: dict[str, tuple[int, int]] = {}

    def by(self, by: str) -> tuple[int, int]:
        """Return the index of the zones that a constraint names, and their number."""
        if by not in self._by:
            number: dict[str, int] = {}
            zones = [number.setdefault(name, len(number)) for name in zones_by(self._network, by)]
            self._by[by] = self.of(zones), len(number)
        return self._by[by]

    def of(self, zones: Sequence[int | None]) -> int:
        """Return the index of the division in which each host has this zone."""
        key = tuple(zones)
        if key not in self._at:
            self._at[key] = len(self._zonings)
            self._zonings.append(list(key))
        return self._at[key]

    def without_label(self, labelled: Labelled) -> int:
        """Return the index of the division in which hosts whose label has no accepted value are zone 0."""
        hosts = self._network.hosts
        return self.of([None if host.labels.get(labelled.key) in labelled.values else 0 for host in hosts])


def _add_rules(rules: Rules, app: App, at: Mapping[str, int], zones: _Zones) -> None:
    given = app.constraints
    for group in given.groups_apart:
        tasks = [at[task] for task in group.tasks]
        if group.by == "host" and group.price_s is None:
            rules.apart.append(tasks)
        else:
            rules.quotas.append(_most(tasks, *zones.by(group.by), 1, group.price_s))
    for group in given.groups_together:
        tasks = [at[task] for task in group.tasks]
        if group.by == "host" and group.price_s is None:
            rules.together.append(tasks)
        else:
            zoning = None if group.by == "host" else zones.by(group.by)[0]
            rules.max_hosts.append((tasks, 1, zoning, group.price_s))
    for bound in given.max_latency:
        rules.max_latency.append((at[bound.source], at[bound.target], bound.seconds, bound.price_s))
    if given.max_hosts is not None:
        rules.max_hosts.append((list(at.values()), given.max_hosts, None, None))
    for spread in given.spread:
        tasks = [at[task] for task in spread.tasks or at]
        zoning, count = zones.by(spread.by)
        least, most = bounds_of(spread, len(tasks), count)
        zoning, needs, mosts, _, price_s, room = _most(tasks, zoning, count, most, spread.price_s)
        rules.quotas.append((zoning, needs, mosts, least, price_s, room))
    for labelled in given.labels:
        if labelled.price_s is not None:
            tasks = [at[task] for task in labelled.tasks or at]
            rules.quotas.append(_most(tasks, zones.without_label(labelled), 1, 0, labelled.price_s))


def bounds_of(spread: Spread, tasks: int, zones: int) -> tuple[int, int]:
    """Return the least and the most tasks that a zone may have."""
    if spread.most is not None:
        return 0, spread.most
    return (0 if spread.price_s is not None else tasks // zones), -(-tasks // zones)


def _most(tasks: Sequence[int], zoning: int, zones: int, most: int, price_s: float | None) -> QuotaRow:
    return zoning, [(task, 1) for task in tasks], [most] * zones, 0, price_s, None


def _resources(network: Network, apps: Sequence[App], running: Sequence[Running], zones: _Zones) -> Iterator[QuotaRow]:
    """Yield the counted resources that tasks need, each with what hosts have left of it."""
    tasks = [task for app in apps for task in app.task]
    taken = resources_taken(network, running)
    for name in sorted({name for task in tasks for name in task.resources}):
        needs = [(index, need) for index, task in enumerate(tasks) if (need := task.resources.get(name, 0))]
        left = [max(host.resources.get(name, 0) - taken[m][name], 0) for m, host in enumerate(network.hosts)]
        yield zones.by("host")[0], needs, left, 0, None, name


def _quotas(network: Network, names: Sequence[str], quotas: Sequence[Quota], zones: _Zones) -> Iterator[QuotaRow]:
    """Yield the quotas as zones: those with equal needs whose hosts differ share one row.

    Needs are in bit/s, rounded up, and maxima are rounded down.
    """
    at = {name: index for index, name in enumerate(network.names)}
    rows: list[tuple[list[tuple[int, int]], dict[int, int], list[int]]] = []
    for quota in quotas:
        needs = [(task, need) for task, name in enumerate(names) if (need := math.ceil(quota.needs_bps.get(name, 0.0)))]
        hosts = [at[host] for host in quota.hosts]
        free = (row for row in rows if row[0] == needs and not any(host in row[1] for host in hosts))
        row = next(free, None)
        if row is None:
            row = (needs, {}, [])
            rows.append(row)
        row[1].update(dict.fromkeys(hosts, len(row[2])))
        row[2].append(math.floor(quota.most_bps))
    for needs, zone_of, most in rows:
        yield zones.of([zone_of.get(host) for host in range(len(at))]), needs, most, 0, None, ""


def labelled_hosts(network: Network, app: App) -> dict[str, tuple[set[str], str]]:
    """Return the hosts that labels without a price leave to each task, by task name, and the name of the constraint."""
    left: dict[str, tuple[set[str], str]] = {}
    for i, labelled in enumerate(app.constraints.labels):
        if labelled.price_s is None:
            hosts = {host.name for host in network.hosts if host.labels.get(labelled.key) in labelled.values}
            for task in labelled.tasks or [task.name for task in app.task]:
                before = left.get(task)
                left[task] = (hosts if before is None else hosts & before[0], f"labels[{i}]")
    return left


def prices(network: Network, limits: PlacementLimits) -> tuple[list[float], _Floats, float] | None:
    """Return prices in USD of each host and of a byte between hosts (N, N), with the bound; None without a bound."""
    if limits.max_price_usd is None:
        return None
    return *price_list(network), limits.max_price_usd


def price_list(network: Network) -> tuple[list[float], _Floats]:
    """Return the prices in USD of using each host, and of a byte from host to host, (N, N).

    Raises:
        GavotteError: for more than `MOST_PRICED` hosts.
    """
    size = len(network.hosts)
    if size > MOST_PRICED:
        raise GavotteError(
            f"{size} hosts are more than the {MOST_PRICED} whose prices are compared",
            hint="leave hosts out, or the price",
        )
    if not network.price_usd_per_gb:
        return [host.price_usd for host in network.hosts], np.zeros((size, size))
    rows = network.price_usd_per_gb
    per_byte = np.array([[(price or 0.0) / 1e9 for price in row] for row in rows], dtype=np.float64)
    return [host.price_usd for host in network.hosts], per_byte


def zone_counts(zone_of: Mapping[str, str], hosts: Sequence[str]) -> Counter[str]:
    """Return how many of these hosts, which may repeat, are in each zone; zones without any have 0."""
    counts = Counter(dict.fromkeys(zone_of.values(), 0))
    counts.update(zone_of[host] for host in hosts)
    return counts
