"""Conversion of a Network and Apps to the columns of numbers that the compiled `Problem` takes.

Unknown memory or storage of a host becomes unlimited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.app_transfers import TransferColumns
from gavotte.formats.parts.names import known_as, meant
from gavotte.place.limits import NO_LIMITS, PlacementLimits
from gavotte.place.merge import by_name, task_key, task_keys
from gavotte.place.rule_columns import build_rules, labelled_hosts
from gavotte.place.running import Running, loads, room_taken, without_own

UNLIMITED_BYTES = 2**64 - 1
"""Memory or storage of a host of unknown size."""

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
class Transfers:
    """Transfers between different tasks, or hosts: indices of source and target, bytes and phase, each (F,)."""

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
class Instance:
    """A placement problem in numbers, with the names of its tasks and hosts.

    Attributes:
        core: the compiled problem; its tasks come in the order of `tasks`.
        tasks: J task keys.
        hosts: N host names.
        network: the compiled network.
        transfers: transfers between different tasks, whose indices are those in `tasks`.
        loads: transfers of running applications: source host, target host, bytes, phase.
        phases: the phases that occur, ascending.
        even: builds the same problem with equal rates on all hosts; its solution groups tasks, as a starting point.
        strict: builds the same problem in which no rule may be broken, whatever its price. Raises InfeasibleError.
        over: builds the same problem over another network of the same hosts.
        max_price: prices in USD of using each host and of a byte (N, N), and the maximum total; None = no bound.
        priced: whether any rule has a price, so that it may be broken.
    """

    core: _core.Problem
    tasks: list[str]
    hosts: list[str]
    network: _core.Network
    transfers: Transfers
    loads: list[tuple[int, int, int, int]]
    phases: list[int]
    even: Callable[[], _core.Problem]
    strict: Callable[[], _core.Problem]
    over: Callable[[Network], _core.Problem]
    max_price: tuple[list[float], _Floats, float] | None = None
    priced: bool = False

    def total_s(self, hosts: _Indices) -> float:
        """Return what placing minimises: completion time and price of all broken rules, in seconds."""
        completion = self.core.evaluate(hosts)
        return completion.seconds + completion.penalty_s


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
    rules = build_rules(network, apps, task_at, limits=limits, running=running)
    tasks, room = _tasks(network, apps, names, task_at, allowed or {}), _room(network, running)

    def even() -> _core.Problem:
        alike = [host.model_copy(update={"egress_bps": EVEN_BPS, "ingress_bps": EVEN_BPS}) for host in network.hosts]
        flat = network.model_copy(update={"hosts": alike, "rate_bps": [], "groups": []})
        return _core.Problem(_core.Network(flat, "hose"), tasks, transfers, room, rules, _columns([]))

    def strict() -> _core.Problem:
        others = [app.model_copy(update={"constraints": app.constraints.strict()}) for app in apps]
        kept = build_rules(network, others, task_at, limits=limits, running=running)
        placed = _tasks(network, others, names, task_at, allowed or {})
        return _core.Problem(compiled, placed, transfers, room, kept, _columns(rows))

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
        transfers=transfers,
        loads=rows,
        even=even,
        strict=strict,
        over=over,
        phases=sorted({int(phase) for phase in transfers.phase}),
        max_price=rules.max_price,
        priced=any(app.constraints.priced for app in apps),
    )


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
        for task, (labelled, rule) in labelled_hosts(network, app).items():
            index = task_at[task_key(app, task, apps)]
            hosts_left = {host_at[host] for host in labelled} & set(allowed.get(index, host_at.values()))
            if not hosts_left:
                raise InfeasibleError(
                    f"no placement exists: `{rule}` of application `{app.name}` leaves no host for task `{task}`",
                    hint="accept other values of the label, or label more hosts",
                )
            allowed[index] = sorted(hosts_left)
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


def _transfers(apps: Sequence[App], task_at: Mapping[str, int]) -> Transfers:
    parts: list[tuple[npt.NDArray[np.int64], ...]] = []
    for app in apps:
        at = by_name(task_at, app, apps)
        sent = app.transfer
        if isinstance(sent, TransferColumns):
            index = np.array([at[name] for name in sent.names], dtype=np.int64)
            parts.append((index[sent.source], index[sent.target], sent.bytes, sent.phase))
            continue
        # Column by column: there may be millions.
        ends = (map(at.__getitem__, map(attrgetter(end), sent)) for end in ("source", "target"))
        amounts = (map(attrgetter(amount), sent) for amount in ("bytes", "phase"))
        parts.append(tuple(np.fromiter(each, np.int64, len(sent)) for each in (*ends, *amounts)))
    source, target, size, phase = (np.concatenate(column) for column in zip(*parts, strict=True))
    between = source != target
    return Transfers(
        source=source[between].astype(np.uint32),
        target=target[between].astype(np.uint32),
        bytes=size[between].astype(np.uint64),
        phase=phase[between].astype(np.uint32),
    )


def _columns(rows: Sequence[tuple[int, int, int, int]]) -> Transfers:
    return Transfers(
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
        cpus=np.array([max(cpus - taken, 0.0) for cpus, taken in zip(network.offered_cpus, taken_cpus, strict=True)]),
        memory_bytes=left([host.memory_bytes for host in hosts], taken_memory),
        storage_bytes=left([host.storage_bytes for host in hosts], taken_storage),
    )
