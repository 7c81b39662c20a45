"""A Network and Apps as the columns that the compiled `Problem` takes.

None becomes infinity in rates, NaN in latencies, and "not limited" in the memory of a host of unknown size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place.merge import task_key, task_keys
from gavotte.place.running import Running, loads, room_taken

UNLIMITED_MEMORY = 2**64 - 1
"""Memory of a host of unknown size."""

_Floats = npt.NDArray[np.float64]
_Bytes = npt.NDArray[np.uint64]
_Indices = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class _Tasks:
    names: list[str]
    cpus: _Floats
    memory_bytes: _Bytes
    allowed: dict[int, list[int]]


@dataclass(frozen=True)
class _Transfers:
    source: _Indices
    target: _Indices
    bytes: _Bytes
    phase: _Indices


@dataclass(frozen=True)
class _Hosts:
    names: list[str]
    cpus: _Floats
    memory_bytes: _Bytes
    machine: _Indices
    egress_bps: _Floats
    ingress_bps: _Floats


@dataclass(frozen=True)
class _Group:
    name: str
    members: list[int]
    up_bps: float
    down_bps: float
    parent: int | None


@dataclass(frozen=True)
class _Rules:
    apart: list[list[int]]
    together: list[list[int]]
    max_latency: list[tuple[int, int, float]]
    max_hosts: list[tuple[list[int], int]]
    latency_s: _Floats
    max_price: tuple[list[float], _Floats, float] | None


@dataclass(frozen=True)
class _Loads:
    source: _Indices
    target: _Indices
    bytes: _Bytes
    phase: _Indices


@dataclass(frozen=True)
class Instance:
    """What there is to place, as numbers.

    Attributes:
        core: the compiled problem; its tasks come in the order of `tasks`.
        tasks: J task keys.
        hosts: N host names.
        rate_bps: (N, N), row = source; inf = unlimited.
        latency_s: (N, N); NaN = unknown.
        egress_bps: (N,) cap on what leaves for other machines.
        ingress_bps: (N,) cap on what comes from other machines.
        machine: (N,) hosts with the same number share a machine.
        groups: for each shared link its hosts (those of groups below too), rate out and rate in.
        sharing: `hose`, `pipe` or `groups`.
        loads: what is under way: source host, target host, bytes, phase.
        phases: the phases that occur, ascending.
        max_price: prices in USD of using each host, of a byte (N, N), and the most of all together; None = no bound.
    """

    core: _core.Problem
    tasks: list[str]
    hosts: list[str]
    rate_bps: _Floats
    latency_s: _Floats
    egress_bps: _Floats
    ingress_bps: _Floats
    machine: _Indices
    groups: list[tuple[frozenset[int], float, float]]
    sharing: str
    loads: list[tuple[int, int, int, int]]
    phases: list[int]
    max_price: tuple[list[float], _Floats, float] | None = None


@dataclass(frozen=True)
class Limits:
    """Bounds on a whole placement, whatever its applications ask for.

    Attributes:
        max_hosts: hosts used at most.
        max_price_usd: price of hosts and bytes, at most.
    """

    max_hosts: int | None = None
    max_price_usd: float | None = None


NO_LIMITS = Limits()


def build_instance(
    network: Network,
    apps: Sequence[App],
    sharing: str,
    *,
    allowed: Mapping[str, Sequence[str]] | None = None,
    running: Sequence[Running] = (),
    limits: Limits = NO_LIMITS,
) -> Instance:
    """Builds the compiled problem.

    Transfers of one phase run together, whichever application they belong to. Those from a task to itself cross no
    network and are left out.

    Args:
        network: what is believed of the network.
        apps: at least one.
        sharing: `hose`, `pipe` or `groups`.
        allowed: task key to the only hosts it may use, besides pins.
        running: applications already there; they take room, and their transfers load links.
        limits: bounds on the whole placement.

    Raises:
        GavotteError: when a pin or an allowed host is none of the network, or an amount is beyond what can be counted.
    """
    names = list(task_keys(apps))
    task_at = {name: index for index, name in enumerate(names)}
    hosts = _hosts(network, running)
    groups = _groups(network)
    rate_bps = np.array([[_rate(rate) for rate in row] for row in network.rate_bps], dtype=np.float64)
    latency_s = np.array(
        [[math.nan if value is None else value for value in row] for row in network.latency_s], dtype=np.float64
    )
    rows = loads(network, running)
    transfers = _transfers(apps, task_at)
    rules = _rules(apps, task_at, latency_s, limits, prices(network, limits))
    try:
        core = _core.Problem(
            _tasks(network, apps, names, task_at, allowed or {}),
            transfers,
            hosts,
            rate_bps,
            groups,
            sharing,
            rules,
            _Loads(
                source=np.array([row[0] for row in rows], dtype=np.uint32),
                target=np.array([row[1] for row in rows], dtype=np.uint32),
                bytes=np.array([row[2] for row in rows], dtype=np.uint64),
                phase=np.array([row[3] for row in rows], dtype=np.uint32),
            ),
        )
    except ValueError as error:
        raise GavotteError(str(error)) from None
    return Instance(
        core=core,
        tasks=names,
        hosts=network.names,
        rate_bps=rate_bps,
        latency_s=latency_s,
        egress_bps=hosts.egress_bps,
        ingress_bps=hosts.ingress_bps,
        machine=hosts.machine,
        groups=[(_inside(groups, index), group.up_bps, group.down_bps) for index, group in enumerate(groups)],
        sharing=sharing,
        loads=rows,
        phases=sorted({int(phase) for phase in transfers.phase}),
        max_price=rules.max_price,
    )


def prices(network: Network, limits: Limits) -> tuple[list[float], _Floats, float] | None:
    """Prices in USD of using each host and of a byte from host to host (N, N), with the bound; None without one."""
    if limits.max_price_usd is None:
        return None
    return *price_list(network), limits.max_price_usd


def price_list(network: Network) -> tuple[list[float], _Floats]:
    """Prices in USD of using each host, and of a byte from host to host, (N, N)."""
    size = len(network.hosts)
    rows = network.price_usd_per_gb or [[None] * size for _ in range(size)]
    per_byte = np.array([[(price or 0.0) / 1e9 for price in row] for row in rows], dtype=np.float64)
    return [host.price_usd for host in network.hosts], per_byte


def _inside(groups: Sequence[_Group], index: int) -> frozenset[int]:
    below = [other for other, group in enumerate(groups) if group.parent == index]
    return frozenset(groups[index].members).union(*(_inside(groups, other) for other in below))


def _rules(
    apps: Sequence[App],
    task_at: Mapping[str, int],
    latency_s: _Floats,
    limits: Limits,
    max_price: tuple[list[float], _Floats, float] | None,
) -> _Rules:
    rules = _Rules([], [], [], [], latency_s, max_price)
    if limits.max_hosts is not None:
        rules.max_hosts.append((list(task_at.values()), limits.max_hosts))
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
            raise GavotteError(f"hosts are allowed to task `{task}`, which no application has")
        for host in hosts:
            if host not in host_at:
                raise GavotteError(f"task `{task}` is allowed on `{host}`, which is no host of the network")
        if not hosts:
            raise GavotteError(f"task `{task}` is allowed on no host", hint="allow one at least")
        allowed[task_at[task]] = sorted({host_at[host] for host in hosts})
    for app in apps:
        for task, host in app.constraints.pin.items():
            if host not in host_at:
                raise GavotteError(
                    f"application `{app.name}` pins task `{task}` to `{host}`, which is no host of the network",
                    hint=f"its hosts are {_listed(network.names)}",
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
    return _Transfers(
        source=np.array([row[0] for row in rows], dtype=np.uint32),
        target=np.array([row[1] for row in rows], dtype=np.uint32),
        bytes=np.array([row[2] for row in rows], dtype=np.uint64),
        phase=np.array([row[3] for row in rows], dtype=np.uint32),
    )


def _hosts(network: Network, running: Sequence[Running]) -> _Hosts:
    hosts = network.hosts
    taken_cpus, taken_bytes = room_taken(network, running)
    # A host without a machine is alone on one: it gets a key that no name can equal.
    machines = [host.machine if host.machine is not None else index for index, host in enumerate(hosts)]
    number: dict[str | int, int] = {}
    for machine in machines:
        number.setdefault(machine, len(number))
    return _Hosts(
        names=network.names,
        cpus=np.array([max(host.cpus - taken, 0.0) for host, taken in zip(hosts, taken_cpus, strict=True)]),
        memory_bytes=np.array(
            [
                max(host.memory_bytes - taken, 0) if host.memory_bytes else UNLIMITED_MEMORY
                for host, taken in zip(hosts, taken_bytes, strict=True)
            ],
            dtype=np.uint64,
        ),
        machine=np.array([number[machine] for machine in machines], dtype=np.uint32),
        egress_bps=np.array([_rate(host.egress_bps) for host in hosts], dtype=np.float64),
        ingress_bps=np.array([_rate(host.ingress_bps) for host in hosts], dtype=np.float64),
    )


def _groups(network: Network) -> list[_Group]:
    host_at = {name: index for index, name in enumerate(network.names)}
    group_at = {group.name: index for index, group in enumerate(network.groups)}
    return [
        _Group(
            name=group.name,
            members=[host_at[member] for member in group.members],
            up_bps=_rate(group.up_bps),
            down_bps=_rate(group.down_bps),
            parent=None if group.parent is None else group_at[group.parent],
        )
        for group in network.groups
    ]


def _rate(rate_bps: float | None) -> float:
    return math.inf if rate_bps is None else rate_bps


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
