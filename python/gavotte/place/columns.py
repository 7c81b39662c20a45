"""Conversion of a Network and Apps to the columns of numbers that the compiled `Problem` takes.

Unknown memory or storage of a host becomes unlimited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, meant
from gavotte.place.merge import task_key, task_keys
from gavotte.place.running import Running, loads, room_taken, without_own

UNLIMITED_BYTES = 2**64 - 1
"""Memory or storage of a host of unknown size."""

MOST_PRICED = 8192
"""Most hosts with prices per byte. Prices of all pairs then take 0.5 GB, and as much again in the search."""

EVEN_BPS = 1e9
"""Rate of every host in the `even` problem, where only which tasks share a host counts."""

_Floats = npt.NDArray[np.float64]
_Bytes = npt.NDArray[np.uint64]
_Indices = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class _Tasks:
    names: list[str]
    cpus: _Floats
    memory_bytes: _Bytes
    storage_bytes: _Bytes
    allowed: dict[int, list[int]]


@dataclass(frozen=True)
class _Transfers:
    source: _Indices
    target: _Indices
    bytes: _Bytes
    phase: _Indices


@dataclass(frozen=True)
class _Room:
    cpus: _Floats
    memory_bytes: _Bytes
    storage_bytes: _Bytes


@dataclass(frozen=True)
class _Rules:
    apart: list[list[int]]
    together: list[list[int]]
    max_latency: list[tuple[int, int, float]]
    max_hosts: list[tuple[list[int], int]]
    max_price: tuple[list[float], _Floats, float] | None
    quotas: list[tuple[list[int], list[int], int]]


@dataclass(frozen=True)
class Instance:
    """A placement problem in numbers, with the names of its tasks and hosts.

    Attributes:
        core: the compiled problem; its tasks come in the order of `tasks`.
        tasks: J task keys.
        hosts: N host names.
        network: the compiled network.
        loads: transfers of running applications: source host, target host, bytes, phase.
        phases: the phases that occur, ascending.
        even: builds the same problem with equal rates on all hosts; its solution groups tasks, as a starting point.
        over: builds the same problem over another network of the same hosts.
        max_price: prices in USD of using each host and of a byte (N, N), and the maximum total; None = no bound.
    """

    core: _core.Problem
    tasks: list[str]
    hosts: list[str]
    network: _core.Network
    loads: list[tuple[int, int, int, int]]
    phases: list[int]
    even: Callable[[], _core.Problem]
    over: Callable[[Network], _core.Problem]
    max_price: tuple[list[float], _Floats, float] | None = None


@dataclass(frozen=True)
class Quota:
    """A bound on the rate that all tasks on some hosts may need of one link together.

    Attributes:
        link: in words: `egress of vm3`, `up link of rack1`.
        hosts: names of the hosts that the link serves.
        needs_bps: task key to the rate that the task needs of the link; other tasks need nothing.
        most_bps: the rate that the link has for all tasks.
        sends: whether the hosts send over the link; otherwise they receive over it.
    """

    link: str
    hosts: Sequence[str]
    needs_bps: Mapping[str, float]
    most_bps: float
    sends: bool


@dataclass(frozen=True)
class PlacementLimits:
    """Bounds on a whole placement, in addition to the constraints of its applications.

    Attributes:
        max_hosts: maximum number of hosts used.
        max_price_usd: maximum price of hosts and bytes.
        max_latency_s: maximum one-way latency between tasks that exchange bytes; an unknown latency breaks any bound.
        quotas: bounds on the rates that tasks may need of links.
    """

    max_hosts: int | None = None
    max_price_usd: float | None = None
    max_latency_s: float | None = None
    quotas: tuple[Quota, ...] = ()


NO_LIMITS = PlacementLimits()


def build_instance(
    network: Network,
    apps: Sequence[App],
    sharing: str,
    *,
    allowed: Mapping[str, Sequence[str]] | None = None,
    running: Sequence[Running] = (),
    limits: PlacementLimits = NO_LIMITS,
) -> Instance:
    """Build the compiled placement problem from a Network and Apps.

    Transfers of one phase run together, whichever application they belong to. Those from a task to itself cross no
    network and are left out.

    Args:
        network: the network as it is known.
        apps: at least one.
        sharing: `hose`, `pipe` or `groups`.
        allowed: task key to the only hosts it may use, in addition to pins.
        running: applications that run already; they take room, and their transfers load links.
        limits: bounds on the whole placement.

    Raises:
        GavotteError: when a pin or an allowed host is not in the network, or an amount is too large to be counted.
    """
    names = list(task_keys(apps))
    task_at = {name: index for index, name in enumerate(names)}
    rows = loads(network, running)
    transfers = _transfers(apps, task_at)
    rules = _rules(apps, task_at, limits, prices(network, limits))
    rules.quotas.extend(_quotas(network, names, limits.quotas))
    tasks, room = _tasks(network, apps, names, task_at, allowed or {}), _room(network, running)

    def even() -> _core.Problem:
        alike = [host.model_copy(update={"egress_bps": EVEN_BPS, "ingress_bps": EVEN_BPS}) for host in network.hosts]
        flat = network.model_copy(update={"hosts": alike, "rate_bps": [], "groups": []})
        return _core.Problem(_core.Network(flat, "hose"), tasks, transfers, room, rules, _columns([]))

    def over(other: Network) -> _core.Problem:
        compiled = _core.Network(without_own(other, running, sharing).cautious(), sharing)
        return core.over(compiled)

    try:
        compiled = _core.Network(without_own(network, running, sharing).cautious(), sharing)
        core = _core.Problem(compiled, tasks, transfers, room, rules, _columns(rows))
    except ValueError as error:
        raise GavotteError(str(error)) from None
    return Instance(
        core=core,
        tasks=names,
        hosts=network.names,
        network=compiled,
        loads=rows,
        even=even,
        over=over,
        phases=sorted({int(phase) for phase in transfers.phase}),
        max_price=rules.max_price,
    )


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


def _rules(
    apps: Sequence[App],
    task_at: Mapping[str, int],
    limits: PlacementLimits,
    max_price: tuple[list[float], _Floats, float] | None,
) -> _Rules:
    rules = _Rules([], [], [], [], max_price, [])
    if limits.max_hosts is not None:
        rules.max_hosts.append((list(task_at.values()), limits.max_hosts))
    if limits.max_latency_s is not None:
        ways = {(task_key(app, t.source, apps), task_key(app, t.target, apps)) for app in apps for t in app.transfer}
        rules.max_latency.extend(sorted((task_at[a], task_at[b], limits.max_latency_s) for a, b in ways if a != b))
    for app in apps:
        given = app.constraints
        for kept, groups in ((rules.apart, given.apart), (rules.together, given.together)):
            kept.extend([task_at[task_key(app, task, apps)] for task in group] for group in groups)
        for bound in given.max_latency:
            source, target = (task_at[task_key(app, task, apps)] for task in (bound.source, bound.target))
            rules.max_latency.append((source, target, bound.seconds))
        if given.max_hosts is not None:
            tasks = [task_at[task_key(app, task.name, apps)] for task in app.task]
            rules.max_hosts.append((tasks, given.max_hosts))
    return rules


def _quotas(
    network: Network, names: Sequence[str], quotas: Sequence[Quota]
) -> Iterator[tuple[list[int], list[int], int]]:
    """Yield each quota's hosts, the needs of all tasks in bit/s, rounded up, and its maximum, rounded down."""
    host_at = {name: index for index, name in enumerate(network.names)}
    for quota in quotas:
        needs = [math.ceil(quota.needs_bps.get(name, 0.0)) for name in names]
        yield [host_at[host] for host in quota.hosts], needs, math.floor(quota.most_bps)


def _tasks(
    network: Network,
    apps: Sequence[App],
    names: list[str],
    task_at: Mapping[str, int],
    only: Mapping[str, Sequence[str]],
) -> _Tasks:
    host_at = {name: index for index, name in enumerate(network.names)}
    allowed: dict[int, list[int]] = {}
    for task, hosts in only.items():
        if task not in task_at:
            raise GavotteError(f"hosts are allowed for task `{task}`, which no application has")
        hosts = [known_as(host, host_at) for host in hosts]
        for host in hosts:
            if host not in host_at:
                raise GavotteError(
                    f"task `{task}` is allowed on `{host}`, which is not a host of the network",
                    hint=meant(host, host_at),
                )
        if not hosts:
            raise GavotteError(f"task `{task}` is not allowed on any host", hint="allow at least one")
        allowed[task_at[task]] = sorted({host_at[host] for host in hosts})
    for app in apps:
        for task, pinned in app.constraints.pin.items():
            host = known_as(pinned, host_at)
            if host not in host_at:
                raise GavotteError(
                    f"application `{app.name}` pins task `{task}` to `{host}`, which is not a host of the network",
                    hint=meant(host, host_at),
                )
            index = task_at[task_key(app, task, apps)]
            if host_at[host] not in allowed.get(index, [host_at[host]]):
                raise InfeasibleError(
                    f"application `{app.name}` pins task `{task}` to `{host}`, where it is not allowed",
                    hint="correct the pin or the allowed hosts",
                )
            allowed[index] = [host_at[host]]
    tasks = [task for app in apps for task in app.task]
    return _Tasks(
        names=names,
        cpus=np.array([task.cpus for task in tasks], dtype=np.float64),
        memory_bytes=np.array([task.memory_bytes for task in tasks], dtype=np.uint64),
        storage_bytes=np.array([task.storage_bytes for task in tasks], dtype=np.uint64),
        allowed=allowed,
    )


def _transfers(apps: Sequence[App], task_at: Mapping[str, int]) -> _Transfers:
    rows = [
        (
            task_at[task_key(app, transfer.source, apps)],
            task_at[task_key(app, transfer.target, apps)],
            transfer.bytes,
            transfer.phase,
        )
        for app in apps
        for transfer in app.transfer
        if transfer.source != transfer.target
    ]
    return _columns(rows)


def _columns(rows: Sequence[tuple[int, int, int, int]]) -> _Transfers:
    return _Transfers(
        source=np.array([row[0] for row in rows], dtype=np.uint32),
        target=np.array([row[1] for row in rows], dtype=np.uint32),
        bytes=np.array([row[2] for row in rows], dtype=np.uint64),
        phase=np.array([row[3] for row in rows], dtype=np.uint32),
    )


def _room(network: Network, running: Sequence[Running]) -> _Room:
    hosts = network.hosts
    taken_cpus, taken_memory, taken_storage = room_taken(network, running)

    def left(offered: list[int], taken: list[int]) -> _Bytes:
        free = [max(o - t, 0) if o else UNLIMITED_BYTES for o, t in zip(offered, taken, strict=True)]
        return np.array(free, dtype=np.uint64)

    return _Room(
        cpus=np.array([max(host.cpus - taken, 0.0) for host, taken in zip(hosts, taken_cpus, strict=True)]),
        memory_bytes=left([host.memory_bytes for host in hosts], taken_memory),
        storage_bytes=left([host.storage_bytes for host in hosts], taken_storage),
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
