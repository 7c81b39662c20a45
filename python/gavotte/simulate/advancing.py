"""Simulate running applications for some seconds: compute the bytes left in each and when it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.topology import Topology
from gavotte.simulate.flows import Flows
from gavotte.simulate.platform import build_platform, host_names

_DONE_BYTES = 1e-6
"""Transfers with fewer bytes left are done. Transfers that end together differ by the rounding of their rates."""


@dataclass(frozen=True)
class Underway:
    """Progress of several applications at one moment.

    Attributes:
        apps: the given applications, each transfer with the bytes that are still to send, rounded up.
        finish_s: end of each application, in seconds from the start; inf = still running.
    """

    apps: list[App]
    finish_s: list[float]


class Advance:
    """Simulator that advances applications in time on one network, which they share max-min fairly.

    It is the fluid model of `simulate` without start-up latencies, and can stop and resume at any time. Rates depend
    only on which transfers are active, so the bytes that are left are the whole state.
    """

    def __init__(self, network: Topology | Network, *, payload_share: float = 1.0, seed: int = 0) -> None:
        """Convert the network for the compiled simulator once, for all later calls.

        Args:
            network: hosts and the links between them.
            payload_share: as in `simulate`.
            seed: decides which of several equal paths a transfer takes.

        Raises:
            GavotteError: when the network is invalid.
        """
        self._platform = build_platform(network, payload_share, seed)
        self._host_at = {name: index for index, name in enumerate(host_names(network))}

    def __call__(
        self,
        apps: Sequence[App],
        assignments: Sequence[Mapping[str, str]],
        *,
        pause_s: Sequence[float] = (),
        for_s: float = math.inf,
    ) -> Underway:
        """Run applications for a given time and return their progress.

        The transfers of an application's lowest phase that has bytes left run together, then the next phase. Arrival
        times are ignored: all applications are present from the start. Bytes within a host take no time.

        Args:
            apps: applications whose transfers have the bytes that are still to send.
            assignments: host of each task, one mapping per application.
            pause_s: initial pause of each application, in seconds; empty = 0 for all.
            for_s: simulated time, in seconds.

        Raises:
            GavotteError: when a task has no host, or one that the network does not have.
        """
        todo = _Todo(apps, assignments, self._host_at)
        pauses_s = np.array(pause_s or [0.0] * len(apps), dtype=np.float64)
        finish_s = np.where(todo.waiting(), math.inf, 0.0)
        now_s = 0.0
        while np.isinf(finish_s).any():
            rows = todo.active(pauses_s <= now_s)
            rates_bps = self._platform.rates(todo.flows(rows)) if len(rows) else np.zeros(0)
            ends_s = 8 * todo.left[rows] / rates_bps
            wakes_s = pauses_s[(pauses_s > now_s) & np.isinf(finish_s)] - now_s
            step_s = min(ends_s.min(initial=math.inf), wakes_s.min(initial=math.inf))
            last = now_s + step_s > for_s
            step_s = for_s - now_s if last else step_s
            with np.errstate(invalid="ignore"):  # inf * 0: unlimited transfers end at once
                sent = np.where(ends_s <= step_s, todo.left[rows], rates_bps * step_s / 8)
            todo.left[rows] -= sent
            todo.left[todo.left < _DONE_BYTES] = 0.0
            now_s = for_s if last else now_s + step_s
            finish_s[np.isinf(finish_s) & ~todo.waiting()] = now_s
            if last:
                break
        return Underway(todo.apps_left(), finish_s.tolist())


class _Todo:
    """Table of the transfers between hosts, with the bytes left in each."""

    def __init__(
        self, apps: Sequence[App], assignments: Sequence[Mapping[str, str]], host_at: Mapping[str, int]
    ) -> None:
        self._apps = apps
        rows: list[tuple[int, int, int, int, int, int]] = []
        for number, (app, assignment) in enumerate(zip(apps, assignments, strict=True)):
            at = {task.name: _host(app, task.name, assignment, host_at) for task in app.task}
            rows += [
                (number, index, transfer.phase, at[transfer.source], at[transfer.target], transfer.bytes)
                for index, transfer in enumerate(app.transfer)
            ]
        table = np.array(rows, dtype=np.int64).reshape(-1, 6)
        self._app, self._index, self._phase = table[:, 0], table[:, 1], table[:, 2]
        self._source, self._target = table[:, 3].astype(np.uint32), table[:, 4].astype(np.uint32)
        self.left = table[:, 5].astype(np.float64)

    def waiting(self) -> npt.NDArray[np.bool_]:
        """Return for each application whether it has bytes left."""
        waiting = np.zeros(len(self._apps), dtype=np.bool_)
        waiting[self._app[self.left > 0]] = True
        return waiting

    def active(self, running: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the row numbers of the transfers that are active now.

        Args:
            running: for each application, whether its initial pause is over.
        """
        open_ = (self.left > 0) & running[self._app]
        lowest = np.full(len(self._apps), np.iinfo(np.int64).max)
        np.minimum.at(lowest, self._app[open_], self._phase[open_])
        return np.flatnonzero(open_ & (self._phase == lowest[self._app]))

    def flows(self, rows: npt.NDArray[np.int64]) -> Flows:
        """Return the transfers in these rows as flows of 1 byte, for computing rates."""
        none = np.zeros(len(rows))
        return Flows(self._source[rows], self._target[rows], np.ones(len(rows), np.uint64), none)

    def apps_left(self) -> list[App]:
        """Return the applications with the bytes that are left in each transfer, rounded up."""
        left: list[dict[int, int]] = [{} for _ in self._apps]
        for app, index, size in zip(self._app.tolist(), self._index.tolist(), np.ceil(self.left), strict=True):
            left[app][index] = int(size)
        return [
            app.model_copy(
                update={
                    "transfer": [
                        transfer.model_copy(update={"bytes": of_app[index]})
                        for index, transfer in enumerate(app.transfer)
                    ]
                }
            )
            for app, of_app in zip(self._apps, left, strict=True)
        ]


def _host(app: App, task: str, assignment: Mapping[str, str], host_at: Mapping[str, int]) -> int:
    host = assignment.get(task)
    if host is None:
        raise GavotteError(f"task `{task}` of `{app.name}` has no host", hint="assign every task")
    host = known_as(host, host_at)
    if host not in host_at:
        raise GavotteError(
            f"task `{task}` of `{app.name}` is on `{host}`, which is not a host of the network",
            hint=meant(host, host_at),
        )
    return host_at[host]
