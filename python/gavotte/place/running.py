"""Applications that already run: the room that they take on hosts, and the load of their transfers on links.

Applications that ran while the network was measured are part of the measurement, and must not count twice:

- In measured rates (`Network.beside`): their bytes are not counted again.
- In measured cross traffic (`Network.cross_beside`): their connections are subtracted, since their bytes say more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.placement import Placement


@dataclass(frozen=True)
class Running:
    """Applications that already run, and the Placement that they run under.

    Attributes:
        apps: as they were when placed, in any order.
        placement: where their tasks are.
        share: share of their transfers' bytes that is still to come, from 0 to 1.
    """

    apps: Sequence[App]
    placement: Placement
    share: float = 1.0

    def __post_init__(self) -> None:
        """Check the share.

        Raises:
            GavotteError: when `share` is not from 0 to 1.
        """
        if not 0.0 <= self.share <= 1.0:
            raise GavotteError(f"the share of the transfers still to come is {self.share}", hint="use 0 to 1")

    def host(self, app: App, task: str) -> str:
        """Return the host on which a task of one of `apps` runs.

        Raises:
            GavotteError: when the Placement has no such task.
        """
        key = task if len(self.placement.apps) == 1 else f"{app.name}/{task}"
        if key not in self.placement.assignment:
            raise GavotteError(
                f"the placement of running applications has no host for task `{key}`",
                hint="use an App and a Placement that belong together",
            )
        return self.placement.assignment[key]


def loads(network: Network, running: Sequence[Running]) -> list[tuple[int, int, int, int]]:
    """Return the running transfers between hosts: (source, target, bytes, phase), hosts by their index.

    Applications that ran while the rates were measured are left out: the rates already contain their traffic.

    Raises:
        GavotteError: when a task runs on a host that the network does not have.
    """
    at = {name: index for index, name in enumerate(network.names)}
    rows = []
    for one, app in _each(running):
        if app.name in network.beside:
            continue
        for transfer in app.transfer:
            source, target = (_index(at, one.host(app, task)) for task in (transfer.source, transfer.target))
            size = round(transfer.bytes * one.share)
            if source != target and size > 0:
                rows.append((source, target, size, transfer.phase))
    return rows


def without_own(network: Network, running: Sequence[Running], sharing: str) -> Network:
    """Return the network with cross traffic of other applications only.

    Cross traffic that was measured while these applications ran contains their connections. Their bytes are counted, so
    the connections are subtracted: the most that they have at a time on the path and on paths that share a cap with it.

    Args:
        network: the current Network.
        running: applications that already hold room and load links.
        sharing: which links transfers share.

    Raises:
        GavotteError: when a task runs on a host that the network does not have.
    """
    contained = [(one, app) for one, app in _each(running) if app.name in network.cross_beside]
    if not network.cross or not contained:
        return network
    at = {name: index for index, name in enumerate(network.names)}
    cross = [list(row) for row in network.cross]
    own: Counter[tuple[int, int]] = Counter()
    for one, app in contained:
        in_phases: dict[int, Counter[tuple[int, int]]] = {}
        for transfer in app.transfer:
            source, target = (_index(at, one.host(app, task)) for task in (transfer.source, transfer.target))
            if source != target and transfer.bytes > 0:
                in_phases.setdefault(transfer.phase, Counter())[source, target] += 1
        for path in {path for counts in in_phases.values() for path in counts}:
            own[path] += max(counts[path] for counts in in_phases.values())
    for m, row in enumerate(cross):
        for n, connections in enumerate(row):
            if connections:
                mine = sum(count for path, count in own.items() if _meet(network, sharing, (m, n), path))
                row[n] = max(0.0, connections - mine)
    return network.model_copy(update={"cross": cross})


def _meet(network: Network, sharing: str, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two paths are the same or share a limited link."""
    if one == other:
        return True
    return not _limits(network, sharing, *one).isdisjoint(_limits(network, sharing, *other))


def _limits(network: Network, sharing: str, m: int, n: int) -> set[tuple[str, str]]:
    """Return the limited links on a pair's path that other pairs use too, as (kind, host or group)."""
    source, target = network.hosts[m], network.hosts[n]
    if sharing == "pipe" or (source.machine is not None and source.machine == target.machine):
        return set()
    limited = {("out of", source.name)} if source.egress_bps else set()
    limited |= {("into", target.name)} if target.ingress_bps else set()
    if sharing == "groups":
        for group in network.groups:
            inside = [name in group.members for name in (source.name, target.name)]
            limited |= {("up", group.name)} if inside == [True, False] and group.up_bps else set()
            limited |= {("down", group.name)} if inside == [False, True] and group.down_bps else set()
    return limited


def twice_counted(network: Network, running: Sequence[Running]) -> list[str]:
    """Return applications whose bytes may count twice: measured cross traffic may contain them."""
    if not network.cross:
        return []
    known = {*network.beside, *network.cross_beside}
    return sorted({app.name for _, app in _each(running)} - known)


def _each(running: Sequence[Running]) -> Iterator[tuple[Running, App]]:
    return ((one, app) for one in running for app in one.apps)


def room_taken(network: Network, running: Sequence[Running]) -> tuple[list[float], list[int], list[int]]:
    """Return the cores, bytes of memory and bytes of storage that running tasks hold on each host.

    Raises:
        GavotteError: when a task runs on a host that the network does not have.
    """
    at = {name: index for index, name in enumerate(network.names)}
    cpus, memory_bytes, storage_bytes = [0.0] * len(at), [0] * len(at), [0] * len(at)
    for one, app in _each(running):
        for task in app.task:
            host = _index(at, one.host(app, task.name))
            cpus[host] += task.cpus
            memory_bytes[host] += task.memory_bytes
            storage_bytes[host] += task.storage_bytes
    return cpus, memory_bytes, storage_bytes


def resources_taken(network: Network, running: Sequence[Running]) -> list[Counter[str]]:
    """Return the pieces of counted resources that running tasks hold on each host, by the resource's name.

    Raises:
        GavotteError: when a task runs on a host that the network does not have.
    """
    at = {name: index for index, name in enumerate(network.names)}
    taken: list[Counter[str]] = [Counter() for _ in at]
    for one, app in _each(running):
        for task in app.task:
            if task.resources:
                taken[_index(at, one.host(app, task.name))].update(task.resources)
    return taken


def _index(at: dict[str, int], host: str) -> int:
    host = known_as(host, at)
    if host not in at:
        raise GavotteError(f"a running task is on `{host}`, which is not a host of the network", hint=meant(host, at))
    return at[host]
