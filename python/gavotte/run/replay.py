"""Replays a schedule over the agents, phase by phase."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gavotte.agents import Budget, Fleet, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.app import App
from gavotte.formats.inventory import Inventory
from gavotte.formats.placement import Placement
from gavotte.formats.record import Record
from gavotte.run.schedule import Move, Schedule, schedule

CONGESTION = "cubic"
"""Pinned on every socket and recorded: hosts differ in their default."""

CONNECT_S = 30.0
"""How long the transfers of one phase may take to connect."""

Progress = Callable[[int, int], None]
"""Called with (bytes confirmed, bytes in all)."""


@dataclass(frozen=True)
class TransferResult:
    """One transfer as it went.

    Attributes:
        move: what was sent.
        start_s: seconds since its phase began.
        finish_s: seconds since its phase began, when the last byte was confirmed.
        retransmits: TCP segments sent again.
    """

    move: Move
    start_s: float
    finish_s: float
    retransmits: int


@dataclass
class RunResult:
    """What a run measured. All times in seconds.

    Attributes:
        completion_s: from the first application's start to the last one's end.
        apps: application to its own completion time, from its arrival; phases add up.
        tasks: task key to when its last transfer, in or out, was done, from its application's arrival.
        transfers: in order of completion.
        bytes: payload bytes confirmed.
        congestion: TCP congestion control of every connection.
        time_s: Unix time of the start.
    """

    completion_s: float = 0.0
    apps: dict[str, float] = field(default_factory=dict)
    tasks: dict[str, float] = field(default_factory=dict)
    transfers: list[TransferResult] = field(default_factory=list)
    bytes: int = 0
    congestion: str = CONGESTION
    time_s: float = 0.0

    def records(self, placement: Placement) -> list[Record]:
        """The run as samples: the whole, each application, each task."""
        labels: dict[str, str | int | float | bool | None] = {
            "method": placement.method,
            "seed": placement.seed,
            "predicted_s": placement.completion_s,
            "congestion": self.congestion,
        }
        samples: list[tuple[str, float, dict[str, str]]] = [("completion_s", self.completion_s, {})]
        samples += [("app_completion_s", value, {"app": app}) for app, value in self.apps.items()]
        samples += [("task_completion_s", value, {"task": task}) for task, value in self.tasks.items()]
        return [
            Record(kind="run", metric=metric, value=value, time_s=self.time_s, labels=labels | extra)
            for metric, value, extra in samples
        ]


def run(
    placement: Placement,
    apps: Sequence[App],
    inventory: Inventory,
    *,
    max_seconds: float = 600.0,
    progress: Progress | None = None,
) -> RunResult:
    """Sends every transfer of the applications between the hosts of a placement, with real TCP connections.

    Each application starts at its arrival; the transfers of one phase start together, and the next phase when
    all are confirmed. Bytes between tasks on one host cross its loopback.

    Args:
        placement: task to host.
        apps: the applications placed.
        inventory: where the hosts are.
        max_seconds: when to give up a phase.
        progress: told of confirmed bytes.

    Raises:
        GavotteError: when placement, applications and inventory do not belong together.
        AgentError: when a host fails before all bytes arrived.
    """
    todo = schedule(placement, apps)
    known = {host.name: host for host in inventory.host}
    for key, host in placement.assignment.items():
        if host not in known:
            raise GavotteError(f"task {key!r} is placed on {host!r}, which is no host of the inventory")
    result = RunResult(time_s=time.time(), tasks={key: 0.0 for keys in todo.tasks for key in keys})
    if not todo.moves:
        result.apps = dict.fromkeys(placement.apps, 0.0)
        return result
    used = inventory.model_copy(update={"host": [known[name] for name in todo.hosts]})
    # The margin covers rounding at the agents, never a second copy of the data.
    budget = Budget(
        max_bytes=max(todo.bytes_sent(host) for host in todo.hosts) + (1 << 20),
        max_seconds=max(todo.arrivals_s) + sum(todo.phases) * (max_seconds + CONNECT_S),
    )
    with enrolled(used, budget) as fleet:
        if fleet.missing:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"host {name} of the placement cannot be used: {reason}")
        _Replay(fleet, todo, placement.apps, result, max_seconds, progress).run()
    return result


class _Replay:
    """One run in progress: a thread an application, since they overlap in time."""

    def __init__(
        self,
        fleet: Fleet,
        todo: Schedule,
        names: Sequence[str],
        result: RunResult,
        max_seconds: float,
        progress: Progress | None,
    ) -> None:
        self._fleet = fleet
        self._todo = todo
        self._names = names
        self._result = result
        self._max_seconds = max_seconds
        self._progress = progress
        self._total = sum(move.bytes for move in todo.moves)
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._stop = threading.Event()

    def run(self) -> None:
        if len(self._names) == 1:
            self._app(0)
        else:
            threads = [
                threading.Thread(target=self._guarded, args=(number,), daemon=True)
                for number in range(len(self._names))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if self._errors:
            raise self._errors[0]
        self._result.completion_s = max(
            arrival + self._result.apps[name] for arrival, name in zip(self._todo.arrivals_s, self._names, strict=True)
        )
        self._result.apps = {name: self._result.apps[name] for name in self._names}

    def _guarded(self, number: int) -> None:
        try:
            self._app(number)
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def _app(self, number: int) -> None:
        if self._stop.wait(self._todo.arrivals_s[number]):
            return
        elapsed_s = 0.0
        for phase in range(self._todo.phases[number]):
            moves = [m for m in self._todo.moves if m.app == number and m.phase == phase]
            if not moves or self._stop.is_set():
                continue
            done = self._phase(f"{number}-{phase}", moves)
            with self._lock:
                for transfer in done:
                    for key in (transfer.move.source_task, transfer.move.target_task):
                        finish_s = elapsed_s + transfer.finish_s
                        self._result.tasks[key] = max(self._result.tasks[key], finish_s)
            elapsed_s += max(transfer.finish_s for transfer in done)
        self._result.apps[self._names[number]] = elapsed_s

    def _phase(self, replay_id: str, moves: list[Move]) -> list[TransferResult]:
        by_source: dict[str, list[Move]] = defaultdict(list)
        for move in moves:
            by_source[move.source].append(move)
        by_id = {move.id: move for move in moves}
        requests = {
            source: pb.ReplayRequest(
                run_id=self._fleet.run_id,
                replay_id=replay_id,
                transfers=[pb.Transfer(id=m.id, target=m.target, bytes=m.bytes) for m in own],
                congestion=CONGESTION,
                max_seconds=self._max_seconds,
            )
            for source, own in by_source.items()
        }
        waiting = set(by_source)
        done: list[TransferResult] = []
        for source, reply in self._fleet.replay(requests, deadline_s=self._max_seconds + CONNECT_S):
            if isinstance(reply, AgentError):
                raise reply
            if reply.HasField("ready"):
                waiting.discard(source)
                if not waiting:
                    self._fleet.start(by_source, replay_id)
                continue
            move = by_id.pop(reply.done.id)
            if reply.done.error:
                raise AgentError(
                    f"transfer {move.source_task} to {move.target_task} ({move.source} to {move.target}) failed: "
                    f"{reply.done.error}"
                )
            done.append(TransferResult(move, reply.done.start_s, reply.done.finish_s, reply.done.retransmits))
            self._count(done[-1])
        if by_id:
            raise AgentError(f"{len(by_id)} of {len(moves)} transfers were never confirmed")
        return done

    def _count(self, transfer: TransferResult) -> None:
        with self._lock:
            self._result.transfers.append(transfer)
            self._result.bytes += transfer.move.bytes
            if self._progress is not None:
                self._progress(self._result.bytes, self._total)
