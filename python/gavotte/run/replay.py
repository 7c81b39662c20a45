"""Replay the transfers of a placement over the agents, phase by phase."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gavotte.agents import Budget, Fleet, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.neighbours import REPLAYING
from gavotte.agents.replaying import CONNECT_S, replay
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.app import App
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.names import meant
from gavotte.formats.placement import Placement
from gavotte.formats.record import Record
from gavotte.run.transfers import HostTransfer, HostTransfers, host_transfers
from gavotte.tables import Tabular
from gavotte.terms import Progress
from gavotte.terms.unfolding import unfold

CONGESTION = "cubic"
"""Set on every socket and recorded, because hosts have different defaults."""


@dataclass(frozen=True)
class TransferResult:
    """Measured result of one transfer.

    Attributes:
        transfer: what was sent.
        start_s: seconds since its phase began.
        finish_s: seconds since its phase began, when the last byte was confirmed.
        retransmits: TCP segments sent again.
    """

    transfer: HostTransfer
    start_s: float
    finish_s: float
    retransmits: int


@dataclass
class RunResult(Tabular):
    """Measured results of a run. All times are in seconds.

    Attributes:
        completion_s: from the first application's start to the last one's end.
        apps: application to its own completion time, from its arrival; phases add up.
        tasks: task key to the time when its last transfer, in or out, was done, from its application's arrival.
        transfers: in order of completion.
        bytes: payload bytes confirmed.
        congestion: TCP congestion control of every connection.
        time_s: Unix time of the start.
        warnings: what may have made it slow, one line each.
    """

    completion_s: float = 0.0
    apps: dict[str, float] = field(default_factory=dict)
    tasks: dict[str, float] = field(default_factory=dict)
    transfers: list[TransferResult] = field(default_factory=list)
    bytes: int = 0
    congestion: str = CONGESTION
    time_s: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per transfer."""
        return [
            {
                "source": done.transfer.source_task,
                "target": done.transfer.target_task,
                "source_host": done.transfer.source,
                "target_host": done.transfer.target,
                "bytes": done.transfer.bytes,
                "start_s": done.start_s,
                "finish_s": done.finish_s,
                "retransmits": done.retransmits,
            }
            for done in self.transfers
        ]

    def records(self, placement: Placement) -> list[Record]:
        """Return the run as samples: the whole, each application, each task."""
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
    """Send every transfer of the applications between the hosts of a placement, with real TCP connections.

    Each application starts at its arrival. The transfers of one phase start together, and the next phase when all are
    confirmed. Bytes between tasks on one host cross its loopback. Tasks that move between phases send their state to
    their new host.

    Args:
        placement: task to host.
        apps: the applications placed.
        inventory: the hosts' addresses and agents.
        max_seconds: when to give up a phase.
        progress: receives the number of confirmed bytes.

    Raises:
        GavotteError: when placement, applications and inventory do not belong together.
        AgentError: when a host fails before all bytes arrived.
    """
    hosts = {host.name: host for host in inventory.host}
    placement = placement.spelled_as(hosts)
    todo = host_transfers(placement, apps)
    _, whole = unfold(apps, placement)
    for key, host in whole.assignment.items():
        if host not in hosts:
            problem = f"task `{key}` is placed on `{host}`, which is not a host of the inventory"
            raise GavotteError(problem, hint=meant(host, hosts))
    result = RunResult(time_s=time.time(), tasks={key: 0.0 for keys in todo.tasks for key in keys})
    if not todo.transfers:
        result.apps = dict.fromkeys(placement.apps, 0.0)
        return result
    used = inventory.model_copy(update={"host": [hosts[name] for name in todo.hosts]})
    # The margin covers rounding at the agents, never a second copy of the data.
    budget = Budget(
        max_bytes=max(todo.bytes_sent(host) for host in todo.hosts) + (1 << 20),
        max_seconds=max(todo.arrivals_s) + sum(todo.phases) * (max_seconds + CONNECT_S),
    )
    purpose = REPLAYING + ", ".join(placement.apps)
    with enrolled(used, budget, purpose=purpose, shared=True) as fleet:
        if fleet.missing:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"host {name} of the placement cannot be used: {reason}")
        result.warnings = fleet.warnings
        _Replay(fleet, todo, placement.apps, result, max_seconds, progress).run()
    return result


class _Replay:
    """One run in progress, with a thread per application, since applications overlap in time."""

    def __init__(
        self,
        fleet: Fleet,
        todo: HostTransfers,
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
        self._total = sum(each.bytes for each in todo.transfers)
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
            todo = [each for each in self._todo.transfers if each.app == number and each.phase == phase]
            if not todo or self._stop.is_set():
                continue
            done = self._phase(todo)
            with self._lock:
                for result in done:
                    for key in (result.transfer.source_task, result.transfer.target_task):
                        finish_s = elapsed_s + result.finish_s
                        self._result.tasks[key] = max(self._result.tasks[key], finish_s)
            elapsed_s += max(result.finish_s for result in done)
        self._result.apps[self._names[number]] = elapsed_s

    def _phase(self, todo: list[HostTransfer]) -> list[TransferResult]:
        asked: dict[str, list[pb.Transfer]] = defaultdict(list)
        for each in todo:
            asked[each.source].append(pb.Transfer(id=each.id, target=each.target, bytes=each.bytes))
        by_id = {each.id: each for each in todo}
        results: list[TransferResult] = []
        for _, done in replay(self._fleet, asked, congestion=CONGESTION, max_seconds=self._max_seconds):
            if isinstance(done, AgentError):
                raise done
            transfer = by_id[done.id]
            if done.error:
                tasks = f"{transfer.source_task} to {transfer.target_task}"
                hosts = f"{transfer.source} to {transfer.target}"
                raise AgentError(f"transfer {tasks} ({hosts}) failed: {done.error}", failure=done.failure)
            results.append(TransferResult(transfer, done.start_s, done.finish_s, done.retransmits))
            self._count(results[-1])
        return results

    def _count(self, result: TransferResult) -> None:
        with self._lock:
            self._result.transfers.append(result)
            self._result.bytes += result.transfer.bytes
            if self._progress is not None:
                self._progress(self._result.bytes, self._total)
