"""Lets several pairs send at the same time, and tells what each receiver got."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Protocol

import numpy as np

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.losses import Losses
from gavotte.agents.replaying import replay
from gavotte.agents.schedule import Step, carry_out
from gavotte.agents.witnesses import drop_lost
from gavotte.errors import AgentError
from gavotte.measure.sharing.overlap import Series
from gavotte.measure.sharing.trials import Way
from gavotte.terms import Pair
from gavotte.terms.goodput import GOODPUT_PER_WIRE

STEADY, COMMON = "bbr", "cubic"
"""Several sources of one full link sum up to 1 % with BBR; with CUBIC, whose windows halve, 14 % were seen. Hosts that
do not have BBR send by CUBIC."""

FLOWS = 4
"""Connections of a pair that are made before any sends. One that waits 0.2 s for a lost segment leaves half of a short
time unused: 29 instead of 144 Mbit/s was seen. Where pairs start as they can, more would start the later ones later."""

TRAIN_HOLD_S = 0.2
TRAIN_PAUSE_S = 0.2
"""Trains start so long after their round's beginning: handshakes of later ones would wait for up to 0.2 s in the queue
that the earlier ones fill."""

TRAIN_MORE = 1.25
"""Trains end at the latest after so many times that."""

TRAIN_SETTLE_S = 0.06
"""How long trains go together, and when their buckets are empty and their pace is found."""

HOLD_S = 0.4
"""How long transfers take that start together; at 1 ms of round trip, TCP's start costs a hundredth of it."""

SLOW_BYTES, SLOW_HOLD_S = 6e6, 1.2
"""Where a host sends less than so much in that time, they take longer, up to so long: of a few hundred packets, those
that wait for a lost one are several percent."""

LONG_HOLD_S = 0.7
"""How long TCP sends that starts as it can: the later ones' pings wait in the queue that the earlier ones fill, up to
0.5 s, and a first loss is mended slowly by a single connection."""

BIN_S = 0.01
DEADLINE_S = 30.0


def hold_of_ways(*, trains: bool) -> dict[Way, float]:
    """How long a `FleetCarrier` sends, by the way it does, in seconds."""
    return {"disjoint": TRAIN_HOLD_S if trains else LONG_HOLD_S, "fan-in": LONG_HOLD_S, "fan-out": HOLD_S}


def hold_of_transfers(groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float]) -> float:
    """How long each of some pairs would send alone whose transfers start together, in seconds."""
    slowest_bps = min(max(expect_bps[pair] for pair in group) for group in groups)
    return max(HOLD_S, min(8 * SLOW_BYTES / slowest_bps, SLOW_HOLD_S))


class Carrier(Protocol):
    """A network that can be asked what pairs carry at once.

    Attributes:
        bytes_sent: payload so far.
    """

    bytes_sent: int

    def carry(self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way) -> dict[Pair, Series]:
        """Sends on all pairs at the same time.

        Args:
            groups: (source, target) host indices, each once; groups share no link.
            expect_bps: TCP goodput of each pair alone, as far as known.
            way: how to send, the same for an experiment and for its parts.

        Returns:
            what arrived, for the pairs that answered.
        """

    def gone(self) -> Set[int]:
        """Hosts that have vanished since, as indices."""


class FleetCarrier:
    """Carries trains and TCP between the hosts of a fleet.

    A host takes part in one train at a time, and sends one probe a round. So pairs without a common host are told by
    trains (or by TCP), several sources of one target by TCP, several targets of one source by transfers.

    Attributes:
        bytes_sent: payload so far.
        errors: pairs that did not answer, with the last reason.
    """

    def __init__(self, fleet: Fleet, names: Sequence[str], *, trains: bool) -> None:
        """Has sent nothing yet.

        Args:
            fleet: enrolled agents.
            names: hosts in matrix order.
            trains: pairs without a common host send trains, not TCP.
        """
        self._fleet = fleet
        self._names = names
        self._index = {name: i for i, name in enumerate(names)}
        self._trains = trains
        self._losses = Losses()
        self._congestion = STEADY if all(STEADY in h.congestion_available for h in fleet.health.values()) else COMMON
        self.bytes_sent = 0
        self.errors: dict[Pair, AgentError] = {}

    def carry(self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way) -> dict[Pair, Series]:
        """See `Carrier`.

        A host that vanishes costs one round its waiting time; later rounds go without its experiments.
        """
        gone = self.gone()
        # Whom a transfer could not reach costs all others its waiting time of 10 s: no second one tries.
        apart = {pair for pair, error in self.errors.items() if error.failure == pb.FAILURE_UNREACHABLE}
        groups = [
            group
            for group in groups
            if not gone & {host for pair in group for host in pair} and not apart.intersection(group)
        ]
        if not groups:
            return {}
        if way == "fan-out":
            return self._replay(groups, expect_bps, hold_of_transfers(groups, expect_bps))
        pairs = [pair for group in groups for pair in group]
        if way == "disjoint" and self._trains:
            # Beside others a train may never be steady, and would go on as long as it may.
            most_s = TRAIN_MORE * TRAIN_HOLD_S
            train = pb.GatedTrain(pause_s=TRAIN_PAUSE_S, hold_s=TRAIN_HOLD_S, max_seconds=most_s)
            return self._probe(pairs, pb.Probe(gated_train=train), TRAIN_PAUSE_S + most_s)
        bulk = pb.Bulk(seconds=LONG_HOLD_S, flows=1, congestion=self._congestion, bin_s=BIN_S)
        found = self._probe(pairs, pb.Probe(bulk=bulk), LONG_HOLD_S)
        if self._congestion == STEADY and any(
            pair in self.errors and self.errors[pair].failure == pb.FAILURE_CONGESTION for pair in pairs
        ):
            # There, but not allowed to this user.
            self._congestion = COMMON
            return self.carry(groups, expect_bps, way)
        return found

    def gone(self) -> Set[int]:
        """See `Carrier`."""
        return {self._index[name] for name in self._fleet.away if name in self._index}

    def _probe(self, pairs: Sequence[Pair], kind: pb.Probe, hold_s: float) -> dict[Pair, Series]:
        """One schedule of one round: within a longer one, pairs that are done would run ahead."""
        steps = [Step(self._names[source], self._names[target], kind) for source, target in pairs]
        found: dict[Pair, Series] = {}
        for answer in carry_out(self._fleet, [steps], round_s=DEADLINE_S + hold_s, losses=self._losses):
            pair = self._index[answer.source], self._index[answer.target]
            self.bytes_sent += answer.bytes_sent
            series = None if answer.reply is None else _series(answer.reply)
            if series is None:
                self.errors[pair] = AgentError(answer.error or "nothing arrived", failure=answer.failure)
            else:
                found[pair] = series
        return found

    def _replay(
        self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], hold_s: float
    ) -> dict[Pair, Series]:
        """Transfers all connect before the first starts, and a host may have many."""
        pairs = [pair for group in groups for pair in group]
        sizes = [max(FLOWS, int(expect_bps[pair] / 8 * hold_s)) for pair in pairs]
        transfers: dict[str, list[pb.Transfer]] = defaultdict(list)
        for number, (source, target) in enumerate(pairs):
            transfers[self._names[source]] += [
                pb.Transfer(
                    id=FLOWS * number + flow,
                    target=self._names[target],
                    bytes=sizes[number] // FLOWS,
                    bin_s=BIN_S,
                )
                for flow in range(FLOWS)
            ]
        flows: dict[Pair, list[pb.TransferDone]] = defaultdict(list)
        for name, done in replay(self._fleet, transfers, congestion=COMMON, max_seconds=DEADLINE_S):
            if isinstance(done, AgentError):
                self.errors |= {pair: done for pair in pairs if self._names[pair[0]] == name}
                continue
            pair = pairs[done.id // FLOWS]
            if done.error:
                self.errors[pair] = AgentError(done.error, failure=done.failure)
                if done.failure == pb.FAILURE_UNREACHABLE:
                    self._losses.missed(name, self._names[pair[1]], done.error)
                continue
            self._losses.met(name, self._names[pair[1]])
            self.bytes_sent += done.bytes
            flows[pair].append(done)
        drop_lost(self._fleet, self._losses)
        return {
            pair: _of_transfers(flows[pair])
            for group in groups
            if all(len(flows[pair]) == FLOWS and all(each.bin_bytes for each in flows[pair]) for pair in group)
            for pair in group
        }


def _series(reply: pb.ProbeReply) -> Series | None:
    """What a probe's receiver got, or None."""
    train = reply.gated_train
    if train.bin_bytes:
        bits = 8.0 * GOODPUT_PER_WIRE * np.array(train.bin_bytes, dtype=np.float64)
        steady = train.verdict == pb.VERDICT_PATH_LIMITED
        steady_bps = GOODPUT_PER_WIRE * train.rate_bps if steady else math.nan
        # A queue that is never empty but gives changing rates is shared.
        filled = steady or train.refused == pb.GATED_REFUSAL_UNSTEADY
        # The receivers' clocks: hosts of one cloud agree to a millisecond or so.
        return Series(train.first_unix_ns / 1e9, train.bin_s, bits, TRAIN_SETTLE_S, steady_bps, filled)
    if reply.error:
        return None
    if not reply.bulk.flows or not reply.bulk.flows[0].bin_bytes:
        return None
    flow = reply.bulk.flows[0]
    # Agents hear of a round at the same time, and a probe is done when its last byte is confirmed.
    start_s = reply.started_s + reply.seconds - flow.seconds
    return Series(start_s, BIN_S, 8.0 * np.array(flow.bin_bytes, dtype=np.float64))


def _of_transfers(flows: Sequence[pb.TransferDone]) -> Series:
    """What one pair's receiver got by several connections that started together.

    Each counts from its own first byte, which may wait in the queue that the others fill: by up to 0.1 s, which made
    18 % more or less of 0.8 s at 20 Mbit/s. So their ends are laid side by side.
    """
    begin_s = min(flow.start_s for flow in flows)
    first = [max(0, round((flow.finish_s - begin_s) / BIN_S) - len(flow.bin_bytes)) for flow in flows]
    bits = np.zeros(max(at + len(flow.bin_bytes) for at, flow in zip(first, flows, strict=True)))
    for at, flow in zip(first, flows, strict=True):
        bits[at : at + len(flow.bin_bytes)] += 8.0 * np.array(flow.bin_bytes, dtype=np.float64)
    # One bin more: the last bin of a series is taken for an incomplete one.
    return Series(begin_s, BIN_S, np.append(bits, 0.0))
