"""Conversion of a sequence with migrations to applications and a Placement, for `run` and `simulate` to replay.

A Placement gives each task one host. So a task that migrates becomes several, one for each host it has had: the first
sends what the projection says was sent before the review, then its state goes to the second, then that one sends the
rest. These are phases of the application, which thus pauses while its tasks move; other applications continue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gavotte.formats.app import App, Constraints, Transfer
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place.merge import task_key
from gavotte.place.sequence.sequencing import InSequence

StateBytes = Callable[[str, str], int]
"""Function from a source and a target host to the bytes of a moving task's state."""


def state_of(network: Network, migration_s: float) -> StateBytes:
    """Return a function for the size of a state: the bytes that the path between two hosts carries in `migration_s`."""

    def size(source: str, target: str) -> int:
        m, n = network.names.index(source), network.names.index(target)
        one, other = network.hosts[m], network.hosts[n]
        limits = [network.pair_bps(m, n)]
        if network.sharing != "pipe" and (one.machine is None or one.machine != other.machine):
            limits += [one.egress_bps, other.ingress_bps]
        return max(int(min((rate for rate in limits if rate), default=0.0) * migration_s / 8), 1)

    return size


@dataclass(frozen=True)
class _Stay:
    """Period of an application between two migrations: hosts of its tasks, and bytes that each transfer sends in it."""

    places: Mapping[str, str]
    sent: Sequence[int]


def unfold(apps: Sequence[App], done: InSequence, state_bytes: StateBytes) -> tuple[list[App], Placement]:
    """Return a sequence as applications and a Placement, with each migration as a transfer of the task's state.

    The projection decides what was sent before a migration. A replay that is slower than the projection therefore
    migrates later, and a faster one earlier. A task that has moved is called `task@2`, `task@3`, ...; states move
    one by one, as `sequence` counts them. Constraints are dropped: the Placement keeps them already.

    Args:
        apps: as given to `sequence`.
        done: what `sequence` returned.
        state_bytes: size of a moving task's state, at least 1; see `state_of`.

    Returns:
        The applications, with their arrivals, and the Placement of their tasks, with the projection's completion time.
    """
    unfolded, assignment = [], {}
    for app in apps:
        own, places = _unfolded(app, _stays(app, done), state_bytes)
        unfolded.append(own)
        assignment.update({task_key(app, task, apps): host for task, host in places.items()})
    first_s = min(app.arrival_s for app in apps)
    last_s = max(app.arrival_s - first_s + done.running_s[app.name] for app in apps)
    return unfolded, done.placement.model_copy(update={"assignment": assignment, "completion_s": last_s})


def _stays(app: App, done: InSequence) -> list[_Stay]:
    """Return the periods between an application's migrations, in order of time."""
    places = next(one.placement.assignment for one in done.arrivals if one.app == app.name)
    left = [transfer.bytes for transfer in app.transfer]
    stays = []
    for review in done.reviews:
        moved = {move.task: move.target for move in review.decision.moves if move.app == app.name}
        if not moved:
            continue
        stood = next(one for one in review.live if one.app.name == app.name)
        still = _left_of(app, stood.app)
        stays.append(_Stay(places, [before - after for before, after in zip(left, still, strict=True)]))
        places, left = {**places, **moved}, still
    return [*stays, _Stay(places, left)]


def _left_of(app: App, later: App) -> list[int]:
    """Return the bytes of each transfer still to come. Of several between the same tasks, the last ones have them."""
    sums: defaultdict[tuple[str, str], int] = defaultdict(int)
    for transfer in later.transfer:
        sums[transfer.source, transfer.target] += transfer.bytes
    left = [0] * len(app.transfer)
    for index in sorted(range(len(left)), key=lambda index: (-app.transfer[index].phase, -index)):
        transfer = app.transfer[index]
        left[index] = min(transfer.bytes, sums[transfer.source, transfer.target])
        sums[transfer.source, transfer.target] -= left[index]
    return left


def _unfolded(app: App, stays: Sequence[_Stay], state_bytes: StateBytes) -> tuple[App, dict[str, str]]:
    name = {task.name: task.name for task in app.task}
    tasks = list(app.task)
    places = dict(stays[0].places)
    transfers: list[Transfer] = []
    phase = 0
    for number, stay in enumerate(stays):
        for task in app.task if number else ():
            source, target = stays[number - 1].places[task.name], stay.places[task.name]
            if source == target:
                continue
            moved = f"{task.name}@{number + 1}"
            size = state_bytes(source, target)
            transfers.append(Transfer(source=name[task.name], target=moved, bytes=size, phase=phase))
            tasks.append(task.model_copy(update={"name": moved}))
            name[task.name], places[moved] = moved, target
            phase += 1
        phases = sorted({t.phase for t, size in zip(app.transfer, stay.sent, strict=True) if size > 0})
        transfers += [
            Transfer(source=name[t.source], target=name[t.target], bytes=size, phase=phase + phases.index(t.phase))
            for t, size in zip(app.transfer, stay.sent, strict=True)
            if size > 0
        ]
        phase += len(phases)
    own = app.model_copy(update={"task": tasks, "transfer": transfers, "constraints": Constraints()})
    return own, places
