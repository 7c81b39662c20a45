"""Running transfers of the controller: what a policy may know about each, and the paces that it gets."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.orders import pace_word
from gavotte.agents.replaying import CONNECT_S, Replay
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copied, Copies, Transfer
from gavotte.transfer.broadcasting import send
from gavotte.transfer.carrying import CONGESTION
from gavotte.transfer.orders import Coflow
from gavotte.transfer.planning import CORNETS, MECHANISMS, BroadcastPlan
from gavotte.transfer.promising import paced_due_s
from gavotte.transfer.question import BroadcastQuestion, BroadcastSession, output_paths
from gavotte.transfer.shuffling import Flow

REPORT_S = 0.1
"""Time between two reports of an agent on the bytes that have moved."""

CHANGE = 0.02
"""Smaller relative changes of a pace are not sent."""

MOST_S = 86_400.0
"""A transfer that has not ended by then has failed."""


PACED = tuple(name for name in MECHANISMS if name not in CORNETS)
"""Mechanisms whose flows the controller can distinguish and pace. A Cornet's receivers choose their own."""


def differs(pace_bps: float, last_bps: float) -> bool:
    """Return whether a pace differs enough from the last one to be sent. Any differs from an infinite one."""
    return pace_bps != last_bps and (math.isinf(last_bps) or abs(pace_bps - last_bps) > CHANGE * last_bps)


def due_s(transfer: Transfer, at_s: float) -> float:
    """Return the seconds in which a transfer is paced to end; inf without a deadline, negative after it.

    Args:
        transfer: the transfer.
        at_s: Unix time.
    """
    if transfer.deadline_s is None:
        return math.inf
    return paced_due_s(transfer.submitted_s + transfer.deadline_s - at_s)


class UnderWay:
    """One running transfer.

    Attributes:
        transfer: as it was queued.
        moved: bytes of each of its flows that have been sent.
        started: whether its rates can be set.
        cancelled: whether it is to end.
        suspended: whether it waits again after that, with what it has moved.
        complete: whether all of it has moved.
    """

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.moved = list(transfer.moved or [0] * len(transfer.flows))
        self.started = False
        self.cancelled = False
        self.suspended = False
        self.complete = False
        self.thread: threading.Thread | None = None
        self.warnings: list[str] = []

    def now(self) -> Transfer:
        """Return its current state."""
        return replace(self.transfer, moved=tuple(self.moved))

    def coflow(self, at_s: float) -> Coflow:
        """Return what a policy may know about it.

        Args:
            at_s: Unix time.
        """
        now = self.now()
        return Coflow(
            now.submitted_s,
            self.flows(),
            now.priority_class,
            now.weight,
            sent_bytes=float(now.moved_bytes),
            due_s=due_s(now, at_s),
            guaranteed=now.guaranteed,
        )

    def flows(self) -> Sequence[Flow]:
        """Return source, target and bytes left of each flow that can be paced now."""
        raise NotImplementedError

    def pace(self, rates_bps: Sequence[float]) -> None:
        """Set the rate of each of the newest `flows`. Does not wait."""
        raise NotImplementedError

    def cancel(self) -> None:
        """End it. Does not wait."""
        self.cancelled = True

    def suspend(self) -> None:
        """End it for now, since others go first. Does not wait."""
        self.suspended = True
        self.cancel()

    def carry(self, inventory: Inventory, network: Network, changed: threading.Condition) -> None:
        """Carry it out, in a thread of its own.

        Args:
            inventory: all hosts.
            network: the Network between them, for plans.
            changed: guards what other threads read. It is notified when new rates are needed.

        Raises:
            GavotteError: when it fails.
        """
        raise NotImplementedError


def check_copies(copies: Copies, flows: Sequence[HostBytes]) -> None:
    """Refuse a broadcast that cannot be carried out, or paced.

    Raises:
        GavotteError: naming the part.
    """
    if copies.mechanism not in PACED:
        raise GavotteError(
            f"the controller cannot pace a broadcast by `{copies.mechanism}`", hint=f"use {', '.join(PACED)}"
        )
    if not copies.path.startswith("/"):
        raise GavotteError(f"`{copies.path}` is not an absolute path", hint="give the whole path at the source")
    targets = [flow.target for flow in flows]
    if copies.source in targets or any(flow.source != copies.source for flow in flows):
        raise GavotteError("a broadcast has one source, which cannot be a receiver", hint="name only receivers")
    if len(set(targets)) < len(targets):
        raise GavotteError("a receiver is named twice", hint="name each once")
    output_paths(copies.output, targets)


def _flows_left(transfer: Transfer) -> list[Flow]:
    return [(flow.source, flow.target, float(left)) for flow, left in zip(transfer.flows, transfer.left(), strict=True)]


def under_way(transfer: Transfer) -> UnderWay:
    """Return the kind of running transfer that suits a transfer."""
    return ShuffleUnderWay(transfer) if transfer.copies is None else BroadcastUnderWay(transfer, transfer.copies)


class ShuffleUnderWay(UnderWay):
    """A shuffle, in which each flow is a connection between two agents."""

    def __init__(self, transfer: Transfer) -> None:
        super().__init__(transfer)
        self._replay: Replay | None = None
        self._sent_bps: dict[int, float] = {}
        self._wanted: dict[str, dict[int, float]] = {}
        self._wake = threading.Event()

    def flows(self) -> Sequence[Flow]:
        """Return all requested flows."""
        return _flows_left(self.now())

    def pace(self, rates_bps: Sequence[float]) -> None:
        """Pass changes on to `_pace`."""
        paces: dict[str, dict[int, float]] = defaultdict(dict)
        for number, (flow, rate_bps) in enumerate(zip(self.transfer.flows, rates_bps, strict=True)):
            # No faster than links are: 2 % more would fill their queues, and losses of a small flow cost it timeouts.
            if differs(rate_bps, self._sent_bps.get(number, 0.0)):
                self._sent_bps[number] = rate_bps
                paces[flow.source][number] = rate_bps
        for source, wanted in paces.items():
            self._wanted.setdefault(source, {}).update(wanted)
        if paces:
            self._wake.set()

    def cancel(self) -> None:
        """End it. Its agents' streams are closed, since an agent that hangs would say nothing more."""
        super().cancel()
        self._wake.set()
        if self._replay is not None:
            self._replay.stop()

    def carry(self, inventory: Inventory, network: Network, changed: threading.Condition) -> None:  # noqa: ARG002
        """Carry it out. All flows are held until they are paced."""
        transfer = self.now()
        asked: dict[str, list[pb.Transfer]] = defaultdict(list)
        for number, (flow, size) in enumerate(zip(transfer.flows, transfer.left(), strict=True)):
            if size > 0:
                held = pb.Transfer(
                    id=number, target=flow.target, bytes=size, pace_bps=pace_word(0.0), encrypt=transfer.encrypt
                )
                asked[flow.source].append(held)
        if not asked:
            self.complete = True
            return
        used = {end for flow in transfer.flows for end in (flow.source, flow.target)}
        most = max(sum(each.bytes for each in own) for own in asked.values())
        budget = Budget(max_bytes=most + (1 << 20), max_seconds=MOST_S)
        mine = inventory.model_copy(update={"host": [host for host in inventory.host if host.name in used]})
        purpose = f"transfer {transfer.id} {transfer.name}".strip()
        before = list(self.moved)
        with enrolled(mine, budget, purpose=purpose, shared=True) as fleet:
            self.warnings = fleet.warnings
            if fleet.missing:
                name, reason = next(iter(fleet.missing.items()))
                raise AgentError(f"host {name} cannot be used: {reason}")
            replay = Replay(fleet, asked, congestion=CONGESTION, max_seconds=MOST_S - CONNECT_S, report_s=REPORT_S)
            self._replay = replay
            if self.cancelled:
                return
            threading.Thread(target=self._pace, daemon=True, name=f"pace-{transfer.id}").start()
            for _, event in replay.events():
                if self.cancelled:
                    return
                if isinstance(event, AgentError):
                    raise event
                with changed:
                    self._heard(event, before, changed)
            self.complete = True

    def _heard(self, event: pb.Moved | pb.TransferDone, before: list[int], changed: threading.Condition) -> None:
        if isinstance(event, pb.Moved):
            for number, moved in zip(event.ids, event.bytes, strict=True):
                self.moved[number] = before[number] + moved
        elif event.error:
            flow = self.transfer.flows[event.id]
            raise AgentError(f"{flow.source} to {flow.target}: {event.error}", failure=event.failure)
        else:
            self.moved[event.id] = self.transfer.flows[event.id].bytes
        if not self.started or isinstance(event, pb.TransferDone):
            self.started = True
            changed.notify_all()

    def _pace(self) -> None:
        """Send agents their newest paces, in a thread of its own, since an agent that is gone keeps it waiting."""
        while not self.cancelled:
            self._wake.wait()
            self._wake.clear()
            wanted, self._wanted = self._wanted, {}
            if wanted and self._replay is not None and not self.cancelled:
                try:
                    self._replay.pace(wanted)
                except ValueError:
                    # gRPC: the channels are closed, because the run has ended meanwhile.
                    return


class BroadcastUnderWay(UnderWay):
    """A broadcast. Each flow is a subscription, and subscriptions may change. It is the `Pacing` of its broadcast."""

    def __init__(self, transfer: Transfer, copies: Copies) -> None:
        super().__init__(transfer)
        self._copies = copies
        self._newcomers: list[tuple[str, str]] = []
        self._begun = self._ended = False
        self._flows: list[Flow] = []
        self._paces_bps: dict[tuple[str, str], float] = {}
        self._wanted: dict[tuple[str, str], float] = {}
        self._guard = threading.Condition()

    def flows(self) -> Sequence[Flow]:
        """Return the current subscriptions; before the first, what each receiver lacks, as sent by the source."""
        return self._flows if self.started else _flows_left(self.now())

    def pace(self, rates_bps: Sequence[float]) -> None:
        """Keep changes for `limits`."""
        for (parent, child, _), rate_bps in zip(self._flows, rates_bps, strict=True):
            pace_bps = self._paces_bps.get((parent, child))
            if pace_bps is None or differs(rate_bps, pace_bps):
                self._paces_bps[parent, child] = self._wanted[parent, child] = rate_bps

    def carry(self, inventory: Inventory, network: Network, changed: threading.Condition) -> None:
        """Carry it out. All subscriptions are held until they are paced."""
        self._guard = changed
        with changed:
            transfer, copies, self._begun = self.transfer, self._copies, True
            # Receivers whose copy has a path of its own join as newcomers.
            self._newcomers = list(copies.elsewhere.items())
            targets = [flow.target for flow in transfer.flows if flow.target not in copies.elsewhere]

        def planned(plan: BroadcastPlan) -> None:
            with changed:
                sized = tuple(HostBytes(flow.source, flow.target, plan.bytes) for flow in self.transfer.flows)
                self.transfer = replace(self.transfer, flows=sized)

        def watch(receiver: str, held: int, _: int) -> None:
            at = next(number for number, flow in enumerate(self.transfer.flows) if flow.target == receiver)
            self.moved[at] = held

        question = BroadcastQuestion(
            copies.path,
            inventory,
            copies.source,
            copies.output,
            targets,
            network,
            copies.mechanism,  # type: ignore[arg-type]
            max_seconds=MOST_S,
            seed=transfer.id,
            encrypt=transfer.encrypt,
        )
        result = send(question, BroadcastSession(planned, watch, pacing=self))
        self.warnings = result.warnings
        self.complete = not result.lost
        became = (Copied(each.host, each.finish_s, each.ok, each.error, each.joined_s) for each in result.receivers)
        with changed:
            self.transfer = replace(self.transfer, receivers=tuple(became))
        if result.lost and not self.cancelled:
            raise AgentError(result.loss_message(copies.output), hint=result.remedy(copies.output))

    def join(self, joined: Transfer) -> None:
        """Add the newest receiver of the transfer. The caller holds the `changed` of `carry`.

        Raises:
            GavotteError: when it is too late.
        """
        if self._ended or self.cancelled or joined.copies is None:
            raise GavotteError(f"transfer {joined.id} is just ending", hint="submit a new broadcast to the host")
        self.transfer, self._copies = joined, joined.copies
        self.moved.append(0)
        host = joined.flows[-1].target
        if self._begun:
            where = output_paths(joined.copies.output, [host]) | joined.copies.elsewhere
            self._newcomers.append((host, where[host]))

    def newcomers(self, *, ending: bool) -> Sequence[tuple[str, str]]:
        """Return the hosts added since the last call; see `Pacing.newcomers`."""
        with self._guard:
            came, self._newcomers = self._newcomers, []
            self._ended |= ending and not came
        return came

    def under_way(self, flows: Sequence[Flow]) -> None:
        """Accept the active subscriptions of the broadcast; see `Pacing.under_way`."""
        with self._guard:
            new = {flow[:2] for flow in flows} != {flow[:2] for flow in self._flows}
            self._flows = list(flows)
            if new or not self.started:
                self.started = True
                self._guard.notify_all()

    def limits(self) -> Mapping[tuple[str, str], float]:
        """Return the limits that changed since the last call; see `Pacing.limits`."""
        with self._guard:
            wanted, self._wanted = self._wanted, {}
        return wanted

    def stopped(self) -> bool:
        """Return whether the broadcast is cancelled; see `Pacing.stopped`."""
        return self.cancelled
