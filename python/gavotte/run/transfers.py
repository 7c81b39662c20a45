"""The transfers between hosts, by application and phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.placement import Placement
from gavotte.terms.unfolding import unfold


@dataclass(frozen=True)
class HostTransfer:
    """One transfer of an application, with its sending and receiving host.

    Attributes:
        id: unique among all.
        app: index of the application.
        phase: rank of the phase among the application's phases, from 0.
        source_task: key of the sending task.
        target_task: key of the receiving task.
        source: sending host.
        target: receiving host.
        bytes: payload.
    """

    id: int
    app: int
    phase: int
    source_task: str
    target_task: str
    source: str
    target: str
    bytes: int


@dataclass(frozen=True)
class HostTransfers:
    """All transfers of all applications, with their hosts.

    Attributes:
        transfers: in file order.
        phases: number of phases of each application.
        arrivals_s: when each application starts, from the first one's start.
        tasks: task keys of each application.
    """

    transfers: tuple[HostTransfer, ...]
    phases: tuple[int, ...]
    arrivals_s: tuple[float, ...]
    tasks: tuple[tuple[str, ...], ...]

    @property
    def hosts(self) -> list[str]:
        """Hosts that send or receive, in order of first use."""
        return list(dict.fromkeys(host for each in self.transfers for host in (each.source, each.target)))

    def bytes_sent(self, host: str) -> int:
        """Return the payload bytes that one host sends in total."""
        return sum(each.bytes for each in self.transfers if each.source == host)


def host_transfers(placement: Placement, apps: Sequence[App]) -> HostTransfers:
    """Return the hosts of each transfer. The state of a moving task is a transfer too, as `unfold` defines it.

    Args:
        placement: must assign every task of every application.
        apps: the applications it was made for, in any order.

    Raises:
        GavotteError: when they do not belong together.
    """
    apps, placement = unfold(apps, placement)
    ordered = placement.in_order(apps)
    transfers: list[HostTransfer] = []
    tasks: list[tuple[str, ...]] = []
    phases: list[int] = []
    for number, app in enumerate(ordered):
        prefix = f"{app.name}/" if len(ordered) > 1 else ""
        keys = tuple(prefix + task.name for task in app.task)
        for key in keys:
            if key not in placement.assignment:
                raise GavotteError(f"the placement has no host for task `{key}`", hint="place the application again")
        tasks.append(keys)
        rank = {phase: i for i, phase in enumerate(sorted({t.phase for t in app.transfer}))}
        phases.append(len(rank))
        for transfer in app.transfer:
            source, target = prefix + transfer.source, prefix + transfer.target
            if transfer.bytes > 0:
                transfers.append(
                    HostTransfer(
                        id=len(transfers),
                        app=number,
                        phase=rank[transfer.phase],
                        source_task=source,
                        target_task=target,
                        source=placement.assignment[source],
                        target=placement.assignment[target],
                        bytes=transfer.bytes,
                    )
                )
    first = min(app.arrival_s for app in ordered)
    return HostTransfers(
        transfers=tuple(transfers),
        phases=tuple(phases),
        arrivals_s=tuple(app.arrival_s - first for app in ordered),
        tasks=tuple(tasks),
    )
