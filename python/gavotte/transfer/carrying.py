"""Run shuffles over the agents: real bytes, at the rates of weighted shuffle scheduling."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gavotte.agents import Budget, Fleet, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.replaying import CONNECT_S, Replay
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes, spelled_as
from gavotte.formats.parts.names import unknown_host
from gavotte.tables import Tabular
from gavotte.terms import Progress
from gavotte.transfer.planning import FAR_S
from gavotte.transfer.shuffling import (
    credited,
    early,
    round_trips_s,
    slowest_flows,
    spread_s,
    wss_bound,
    wss_rates,
)
from gavotte.transfer.slack import SLACK, Slack

logger = logging.getLogger(__name__)

MODES = ("paced", "connections", "standard")
"""Mechanisms by which a shuffle reaches its rates.

`paced`: each flow at its rate, over as many connections as fill a long path from the first round trip on.
`connections`: as the paper enforces it, by numbers of connections in proportion to the bytes. `standard`: one plain TCP
connection per pair.
"""

CONGESTION = "cubic"
"""Set on every socket and recorded, because hosts have different defaults."""

MOST_CONNECTIONS = 32
"""Most connections of one pair: many small windows in one shallow queue lose more than they gain."""

FAR_SLACK = 1.0
"""Share of the slack on far paths. Acknowledgements of the opposite direction already make a queue grow there, and a
lost packet costs several round trips."""

PAUSES = 10.0
"""Pause between two changes of paces, as a multiple of the time that a change takes."""

MOST_DISTINGUISHED = 300
"""Most flows of which those on the slowest link are distinguished, in some hundredths of a second."""

LOOK_S = 1.0
"""Time between two looks at which link is the slowest."""

REPORT_S = 0.2
"""Time between two reports of an agent, and the shortest time between two changes of paces."""


@dataclass(frozen=True)
class FlowResult:
    """Measured result of one flow of a shuffle.

    Attributes:
        source: sending host.
        target: receiving host.
        bytes: payload.
        finish_s: when its last byte was confirmed, from the start of the shuffle.
        retransmits: TCP segments sent again.
    """

    source: str
    target: str
    bytes: int
    finish_s: float
    retransmits: int


@dataclass(frozen=True)
class ShuffleResult(Tabular):
    """Duration of a shuffle, with its lower bound.

    Attributes:
        flows: in the requested order.
        mode: one of `MODES`, by which it was carried out.
        bound_s: lower bound by the Network; 0 = nothing that is known limits it.
        bottleneck: the link that decides the bound, in words; None = nothing that is known limits it.
        elapsed_s: from the start to the last confirmation.
        congestion: TCP congestion control of every connection.
        warnings: what may have made it slow, one line each.
        encrypted: whether the bytes were encrypted between hosts.
    """

    flows: list[FlowResult]
    mode: str
    bound_s: float
    bottleneck: str | None
    elapsed_s: float
    congestion: str = CONGESTION
    warnings: list[str] = field(default_factory=list)
    encrypted: bool = False

    @property
    def bytes(self) -> int:
        """Payload of all flows."""
        return sum(flow.bytes for flow in self.flows)

    @property
    def ratio(self) -> float:
        """Elapsed time divided by the bound; NaN without a bound."""
        return self.elapsed_s / self.bound_s if self.bound_s > 0 else math.nan

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per flow."""
        return [vars(flow) for flow in self.flows]


def shuffle(
    flows: Sequence[HostBytes],
    inventory: Inventory,
    network: Network | None,
    *,
    mode: str = "paced",
    max_seconds: float = 3600.0,
    progress: Progress | None = None,
    encrypt: bool = False,
) -> ShuffleResult:
    """Move a matrix of bytes between hosts, with real TCP connections that all start together.

    Args:
        flows: bytes from host to host. Bytes within a host cross its loopback.
        inventory: the hosts' addresses and agents.
        network: the Network between the hosts, for the rates and the bound. None = no rate is known: `paced` then
            becomes `standard`, and there is no bound. This is right alongside guarantees, whose limits follow demand.
        mode: one of `MODES`.
        max_seconds: when to give up.
        progress: receives the number of bytes that have moved.
        encrypt: whether the bytes are encrypted between hosts.

    Raises:
        GavotteError: for an unknown mode, or a host that Network or inventory do not have.
        AgentError: when a host fails before all bytes arrived.
    """
    if mode not in MODES:
        raise GavotteError(f"unknown mode `{mode}`", hint=f"use {', '.join(MODES)}")
    by_name = {host.name: host for host in inventory.host}
    flows = spelled_as(flows, by_name)
    used = list(dict.fromkeys(name for flow in flows for name in (flow.source, flow.target)))
    for name in used:
        if name not in by_name:
            raise unknown_host(name, by_name, "the inventory")
    bound_s, bottleneck = 0.0, None
    if network is not None:
        network = credited(network, _left(flows))
        bound_s, bottleneck = wss_bound(network, _left(flows))
    elif mode == "paced":
        mode = "standard"
    sent: dict[str, int] = defaultdict(int)
    for flow in flows:
        sent[flow.source] += flow.bytes
    budget = Budget(max_bytes=max(sent.values(), default=0) + (1 << 20), max_seconds=max_seconds + CONNECT_S)
    mine = inventory.model_copy(update={"host": [by_name[name] for name in used]})
    with enrolled(mine, budget, purpose="shuffle", shared=True) as fleet:
        if fleet.missing:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"host {name} of the shuffle cannot be used: {reason}")
        results = _Shuffle(fleet, flows, network, mode, progress, encrypt=encrypt).run(max_seconds)
    elapsed_s = max((flow.finish_s for flow in results), default=0.0)
    return ShuffleResult(results, mode, bound_s, bottleneck, elapsed_s, warnings=fleet.warnings, encrypted=encrypt)


def numbers_of_connections(flows: Sequence[HostBytes]) -> list[int]:
    """Return each flow's connections in proportion to its bytes, 1 for the smallest, at most `MOST_CONNECTIONS`."""
    sizes = [flow.bytes for flow in flows if flow.bytes > 0]
    if not sizes:
        return [1] * len(flows)
    unit = max(min(sizes), max(sizes) / MOST_CONNECTIONS)
    return [max(1, round(flow.bytes / unit)) for flow in flows]


def _left(flows: Sequence[HostBytes]) -> list[tuple[str, str, float]]:
    return [(flow.source, flow.target, float(flow.bytes)) for flow in flows]


class _Shuffle:
    """A shuffle in progress. A connection is a transfer of the agents; a flow has one or several."""

    def __init__(
        self,
        fleet: Fleet,
        flows: Sequence[HostBytes],
        network: Network | None,
        mode: str,
        progress: Progress | None,
        *,
        encrypt: bool,
    ) -> None:
        self._fleet = fleet
        self._encrypt = encrypt
        self._flows = flows
        # Only paces need a Network.
        self._network = network if mode == "paced" else None
        self._progress = progress
        counts = numbers_of_connections(flows) if mode == "connections" else [1] * len(flows)
        self._flow_of = [number for number, count in enumerate(counts) for _ in range(count)]
        self._bytes = [
            flows[number].bytes // count + (part < flows[number].bytes % count)
            for number, count in enumerate(counts)
            for part in range(count)
        ]
        self._moved = [0] * len(self._bytes)
        self._heard_s = [0.0] * len(self._bytes)
        self._pace_bps = [0.0] * len(self._bytes)
        self._finish_s = [0.0] * len(flows)
        self._retransmits = [0] * len(flows)
        self._paced_s = self._pacing_s = 0.0
        self._slack = Slack()
        self._slowest: frozenset[int] = frozenset()
        self._looked_s = 0.0
        self._spread_s: list[float] = []
        self._slacks: list[float] = []
        if self._network is not None:
            self._spread_s = spread_s(self._network, _left(flows))
            trips_s = round_trips_s(self._network, _left(flows))
            self._slacks = [1.0 if each < FAR_S else FAR_SLACK / SLACK for each in trips_s]

    def run(self, max_seconds: float) -> list[FlowResult]:
        asked: dict[str, list[pb.Transfer]] = defaultdict(list)
        paces = None if self._network is None else wss_rates(self._network, early(_left(self._flows)))[0]
        for number, (flow, size) in enumerate(zip(self._flow_of, self._bytes, strict=True)):
            transfer = pb.Transfer(id=number, target=self._flows[flow].target, bytes=size, encrypt=self._encrypt)
            if paces is not None and math.isfinite(paces[flow]):
                # A flow of pace 0 waits until others leave it some, and a pace of 1 is the word for that.
                pace_bps = self._slack.factor * self._slacks[flow] * paces[flow]
                transfer.pace_bps, transfer.spread = max(1, round(pace_bps)), True
                self._pace_bps[number] = pace_bps
                transfer.round_trip_s = self._spread_s[flow]
            asked[self._flows[flow].source].append(transfer)
        began_s = time.monotonic()
        self._heard_s = [began_s] * len(self._bytes)
        replay = Replay(self._fleet, asked, congestion=CONGESTION, max_seconds=max_seconds, report_s=REPORT_S)
        for _, event in replay.events():
            if isinstance(event, AgentError):
                raise event
            if isinstance(event, pb.Moved):
                for number, moved in zip(event.ids, event.bytes, strict=True):
                    self._moved[number], self._heard_s[number] = moved, time.monotonic()
                self._report()
                self._steer(replay)
                continue
            if event.error:
                ends = self._flows[self._flow_of[event.id]]
                if "timed out" in event.error and time.monotonic() - began_s >= 0.9 * max_seconds:
                    raise AgentError(
                        f"{ends.source} to {ends.target}: not done within {max_seconds:g} s",
                        hint="give the shuffle more time with --max-seconds",
                        failure=event.failure,
                    )
                raise AgentError(f"{ends.source} to {ends.target}: {event.error}", failure=event.failure)
            self._done(event)
            self._steer(replay)
        return [
            FlowResult(flow.source, flow.target, flow.bytes, finish_s, retransmits)
            for flow, finish_s, retransmits in zip(self._flows, self._finish_s, self._retransmits, strict=True)
        ]

    def _done(self, done: pb.TransferDone) -> None:
        flow = self._flow_of[done.id]
        self._moved[done.id] = self._bytes[done.id]
        self._finish_s[flow] = max(self._finish_s[flow], done.finish_s)
        self._retransmits[flow] += done.retransmits
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(sum(self._moved), sum(self._bytes))

    def _steer(self, replay: Replay) -> None:
        """Pace all flows by what is left of each, if the last paces are old enough."""
        now_s = time.monotonic()
        if self._network is not None and now_s > self._paced_s + max(REPORT_S, PAUSES * self._pacing_s):
            self._pace(replay, self._network, now_s)
            self._paced_s = time.monotonic()
            self._pacing_s = self._paced_s - now_s

    def _pace(self, replay: Replay, network: Network, now_s: float) -> None:
        """Give flows that lag behind higher rates, and all what ended or slower flows leave.

        A paced flow is one transfer. Since its last report it has probably moved on at its pace. Next to reports of
        0.2 s ago, the first of the newest ones looked far ahead, and its flow was slowed down shortly before its end.
        """
        left = [
            (flow.source, flow.target, max(0.0, flow.bytes - moved - pace_bps / 8 * (now_s - heard_s)))
            for flow, moved, heard_s, pace_bps in zip(
                self._flows, self._moved, self._heard_s, self._pace_bps, strict=True
            )
        ]
        paces: dict[str, dict[int, float]] = defaultdict(dict)
        rates_bps = wss_rates(network, early(left))[0].tolist()
        self._look(network, left, now_s)
        moved_bytes = sum(self._moved[number] for number in self._slowest)
        self._slack.observe(now_s, moved_bytes, sum(rates_bps[number] for number in self._slowest))
        logger.debug("paces are %.2f times the rates", self._slack.factor)
        for number, rate_bps in enumerate(rates_bps):
            if rate_bps > 0:
                factor = self._slack.factor if number in self._slowest else SLACK
                pace_bps = factor * self._slacks[number] * rate_bps
                self._pace_bps[number] = pace_bps
                paces[self._flows[number].source][number] = pace_bps
        replay.pace(paces)

    def _look(self, network: Network, left: Sequence[tuple[str, str, float]], now_s: float) -> None:
        """Find out from time to time which flows cross the slowest link."""
        if len(left) > MOST_DISTINGUISHED or now_s < self._looked_s + LOOK_S:
            return
        slowest, self._looked_s = slowest_flows(network, left), now_s
        # A flow that has ended decides no more, but what it has moved counts.
        if slowest - self._slowest or any(left[number][2] > 0 for number in self._slowest - slowest):
            self._slowest = slowest
            self._slack.restart()
