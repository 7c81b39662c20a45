"""The controller of transfers: how much of the network each gets, told to the agents as paces (Orchestra, 6.4)."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.fleet import pace_word
from gavotte.agents.replaying import CONNECT_S, Replay
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.byte_matrix import HostBytes
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.transfer import Transfer, TransferQueue, checked
from gavotte.transfer.carrying import CONGESTION, SLACK
from gavotte.transfer.orders import Coflow, order_rates

logger = logging.getLogger(__name__)

AT_ONCE = 16
"""Transfers under way at one time: an agent takes 64 holds, and others want some."""

REPORT_S = 0.1
"""How often agents tell what has moved."""

TICK_S = 0.25
"""Transfers are ordered anew at each arrival and end, and so often at least: unknown sizes show in what was sent."""

SAVE_S = 1.0
"""How often what has moved is kept, so that a controller that is killed goes on from there."""

CHANGE = 0.02
"""Paces that change by less are left."""

MOST_S = 86_400.0
"""A transfer that has not ended by then has failed."""


@dataclass
class _Live:
    """A transfer that agents carry out."""

    transfer: Transfer
    moved: list[int]
    thread: threading.Thread | None = None
    replay: Replay | None = None
    started: bool = False
    cancelled: bool = False
    told_bps: dict[int, float] = field(default_factory=dict)
    wanted: dict[str, dict[int, float]] = field(default_factory=dict)
    wake: threading.Event = field(default_factory=threading.Event)


class Controller:
    """Carries out transfers over the agents of an inventory, in the order that a policy says.

    Args:
        inventory: the hosts.
        network: what is believed of what joins them.
        queue: where transfers are kept. What another controller left unfinished there is taken up again.
        policy: one of `POLICIES`.
        clock: Unix time.
    """

    def __init__(
        self,
        inventory: Inventory,
        network: Network,
        queue: TransferQueue,
        policy: str = "fifo+",
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        order_rates(network, policy, [])
        self.policy = policy
        self._hosts = {host.name: host for host in inventory.host}
        self._inventory = inventory
        self._network = network
        self._queue = queue
        self._clock = clock
        self._changed = threading.Condition()
        self._transfers = {transfer.id: transfer for transfer in queue.all()}
        self._live: dict[int, _Live] = {}

    def submit(
        self,
        flows: Sequence[HostBytes],
        *,
        name: str = "",
        user: str = "",
        priority_class: int = 0,
        weight: float = 1.0,
    ) -> Transfer:
        """Queues a transfer.

        Args:
            flows: who sends how much to whom.
            name: for people.
            user: whose it is.
            priority_class: 0 = the highest.
            weight: its share where weights count.

        Raises:
            GavotteError: for hosts that the inventory or the Network does not have, and numbers out of range.
        """
        checked(flows, weight=weight, priority_class=priority_class)
        for host in (end for flow in flows for end in (flow.source, flow.target)):
            if host not in self._hosts or host not in self._network.names:
                raise GavotteError(f"`{host}` is not a host of inventory and Network", hint="check its spelling")
        new = Transfer(0, name, user, priority_class, weight, tuple(flows), submitted_s=self._clock())
        with self._changed:
            kept = self._queue.add(new)
            self._transfers[kept.id] = kept
            self._changed.notify_all()
        return kept

    def list(self) -> list[Transfer]:
        """All, by number."""
        with self._changed:
            return [self._now(transfer) for transfer in self._transfers.values()]

    def get(self, number: int) -> Transfer:
        """One of them.

        Raises:
            GavotteError: when there is none of that number.
        """
        with self._changed:
            if number not in self._transfers:
                raise GavotteError(f"there is no transfer {number}", hint="`gavotte transfers list` shows all")
            return self._now(self._transfers[number])

    def cancel(self, number: int) -> Transfer:
        """Ends a transfer that is not over.

        Raises:
            GavotteError: when there is none of that number.
        """
        found = self.get(number)
        with self._changed:
            live = self._live.get(number)
            if live is not None:
                live.cancelled = True
                live.wake.set()
            elif not found.over:
                self._end(found, "cancelled", "")
        return self.get(number) if live is None else self.wait(number, 10.0)

    def wait(self, number: int, seconds: float) -> Transfer:
        """Returns when a transfer is over or the time is up.

        Raises:
            GavotteError: when there is none of that number.
        """
        self.get(number)
        with self._changed:
            self._changed.wait_for(lambda: self._transfers[number].over, seconds)
        return self.get(number)

    def run(self, stop: threading.Event) -> None:
        """Carries transfers out until told to stop. What is under way then is taken up by the next controller."""
        saved_s = 0.0
        try:
            while not stop.is_set():
                with self._changed:
                    self._begin()
                    self._order()
                    if time.monotonic() - saved_s > SAVE_S:
                        saved_s = time.monotonic()
                        for live in self._live.values():
                            self._queue.save(self._now(live.transfer))
                    self._changed.wait(TICK_S)
        finally:
            with self._changed:
                under_way = list(self._live.values())
                for live in under_way:
                    self._queue.save(replace(self._now(live.transfer), state="queued"))
                    live.cancelled = True
                    live.wake.set()
            for live in under_way:
                if live.thread is not None:
                    live.thread.join(10.0)

    def _now(self, transfer: Transfer) -> Transfer:
        live = self._live.get(transfer.id)
        return transfer if live is None else replace(transfer, moved=tuple(live.moved))

    def _begin(self) -> None:
        """Starts those that wait, in order of arrival."""
        for number, transfer in self._transfers.items():
            if len(self._live) >= AT_ONCE:
                return
            if transfer.over or number in self._live:
                continue
            started_s = transfer.started_s if transfer.started_s is not None else self._clock()
            running = replace(transfer, state="running", started_s=started_s)
            self._transfers[number] = running
            self._queue.save(running)
            live = _Live(running, list(running.moved or [0] * len(running.flows)))
            self._live[number] = live
            live.thread = threading.Thread(target=self._carry, args=(live,), daemon=True, name=f"transfer-{number}")
            live.thread.start()

    def _order(self) -> None:
        """Gives each flow the rate that the policy says."""
        ready = [live for live in self._live.values() if live.started and not live.cancelled]
        if not ready:
            return
        found = order_rates(self._network, self.policy, [_coflow(self._now(live.transfer)) for live in ready])
        for live, own in zip(ready, found.rates_bps, strict=True):
            paces: dict[str, dict[int, float]] = defaultdict(dict)
            for number, (flow, rate_bps) in enumerate(zip(live.transfer.flows, own.tolist(), strict=True)):
                pace_bps, told_bps = SLACK * rate_bps, live.told_bps.get(number, 0.0)
                if abs(pace_bps - told_bps) > CHANGE * told_bps and pace_bps != told_bps:
                    live.told_bps[number] = pace_bps
                    paces[flow.source][number] = pace_bps
            for source, wanted in paces.items():
                live.wanted.setdefault(source, {}).update(wanted)
            if paces:
                live.wake.set()

    def _end(self, transfer: Transfer, state: str, error: str) -> None:
        ended = replace(self._now(transfer), state=state, error=error, finished_s=self._clock())  # type: ignore[arg-type]
        self._live.pop(transfer.id, None)
        self._transfers[transfer.id] = ended
        self._queue.save(ended)
        self._changed.notify_all()

    def _carry(self, live: _Live) -> None:
        """One transfer, from its holds to its end, in a thread of its own."""
        state, error = "failed", ""
        try:
            self._replay(live)
            state = "cancelled" if live.cancelled else "done"
        except GavotteError as failure:
            error = str(failure)
        except Exception as failure:
            logger.exception("transfer %d", live.transfer.id)
            error = f"{type(failure).__name__}: {failure}"
        with self._changed:
            live.cancelled = True
            live.wake.set()
            self._end(live.transfer, state, error)

    def _replay(self, live: _Live) -> None:
        transfer = live.transfer
        left = transfer.left()
        asked: dict[str, list[pb.Transfer]] = defaultdict(list)
        for number, (flow, size) in enumerate(zip(transfer.flows, left, strict=True)):
            if size > 0:
                held = pb.Transfer(id=number, target=flow.target, bytes=size, pace_bps=pace_word(0.0))
                asked[flow.source].append(held)
        if not asked:
            return
        used = dict.fromkeys(end for flow in transfer.flows for end in (flow.source, flow.target))
        most = max(sum(each.bytes for each in own) for own in asked.values())
        budget = Budget(max_bytes=most + (1 << 20), max_seconds=MOST_S)
        inventory = self._inventory.model_copy(update={"host": [self._hosts[name] for name in used]})
        purpose = f"transfer {transfer.id} {transfer.name}".strip()
        before = list(live.moved)
        with enrolled(inventory, budget, purpose=purpose, shared=True) as fleet:
            if fleet.missing:
                name, reason = next(iter(fleet.missing.items()))
                raise AgentError(f"host {name} cannot be used: {reason}")
            replay = Replay(fleet, asked, congestion=CONGESTION, max_seconds=MOST_S - CONNECT_S, report_s=REPORT_S)
            live.replay = replay
            pacer = threading.Thread(target=_pace, args=(live,), daemon=True, name=f"pace-{transfer.id}")
            pacer.start()
            for _, event in replay.events():
                if live.cancelled:
                    return
                if isinstance(event, AgentError):
                    raise event
                with self._changed:
                    if isinstance(event, pb.Moved):
                        for number, moved in zip(event.ids, event.bytes, strict=True):
                            live.moved[number] = before[number] + moved
                    elif event.error:
                        flow = transfer.flows[event.id]
                        raise AgentError(f"{flow.source} to {flow.target}: {event.error}", failure=event.failure)
                    else:
                        live.moved[event.id] = transfer.flows[event.id].bytes
                    if not live.started or isinstance(event, pb.TransferDone):
                        live.started = True
                        self._changed.notify_all()


def _coflow(transfer: Transfer) -> Coflow:
    flows = [
        (flow.source, flow.target, float(left)) for flow, left in zip(transfer.flows, transfer.left(), strict=True)
    ]
    return Coflow(
        transfer.submitted_s, flows, transfer.priority_class, transfer.weight, sent_bytes=float(transfer.moved_bytes)
    )


def _pace(live: _Live) -> None:
    """Tells agents their newest paces: in a thread of its own, since one that is gone keeps it waiting."""
    while not live.cancelled:
        live.wake.wait()
        live.wake.clear()
        wanted, live.wanted = live.wanted, {}
        if wanted and live.replay is not None and not live.cancelled:
            live.replay.pace(wanted)
