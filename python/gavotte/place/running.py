"""Applications that run already: they take room on hosts, and their transfers are on the links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement


@dataclass(frozen=True)
class Running:
    """Applications with the Placement that they run under.

    Attributes:
        apps: as they were when placed, in any order.
        placement: where their tasks are.
        share: how much of their transfers is still to come, from 0 to 1.
    """

    apps: Sequence[App]
    placement: Placement
    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuses a share that is none.

        Raises:
            GavotteError: when `share` is not from 0 to 1.
        """
        if not 0.0 <= self.share <= 1.0:
            raise GavotteError(f"the share of the transfers still to come is {self.share}", hint="use 0 to 1")

    def host(self, app: App, task: str) -> str:
        """Where a task of one of `apps` runs.

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
    """What is under way between hosts: (source, target, bytes, phase), hosts by their index.

    Raises:
        GavotteError: when a task runs on a host that the network does not have.
    """
    at = {name: index for index, name in enumerate(network.names)}
    rows = []
    for one in running:
        for app in one.apps:
            for transfer in app.transfer:
                source, target = (_index(at, one.host(app, task)) for task in (transfer.source, transfer.target))
                size = round(transfer.bytes * one.share)
                if source != target and size > 0:
                    rows.append((source, target, size, transfer.phase))
    return rows


def room_taken(network: Network, running: Sequence[Running]) -> tuple[list[float], list[int]]:
    """Cores and bytes of memory that running tasks hold on each host.

    Raises:
        GavotteError: when a task runs on a host that the network does not have.
    """
    at = {name: index for index, name in enumerate(network.names)}
    cpus, memory_bytes = [0.0] * len(at), [0] * len(at)
    for one in running:
        for app in one.apps:
            for task in app.task:
                host = _index(at, one.host(app, task.name))
                cpus[host] += task.cpus
                memory_bytes[host] += task.memory_bytes
    return cpus, memory_bytes


def _index(at: dict[str, int], host: str) -> int:
    if host not in at:
        raise GavotteError(f"a running task is on `{host}`, which is not a host of the network")
    return at[host]
