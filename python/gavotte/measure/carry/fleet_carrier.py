"""Let several pairs send at the same time, and return the bytes that each receiver got."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.losses import Losses
from gavotte.agents.replaying import replay
from gavotte.agents.schedule import Answer, Step, carry_out
from gavotte.agents.witnesses import drop_lost
from gavotte.errors import AgentError
from gavotte.measure.adapt.overlap import Series
from gavotte.measure.adapt.withheld import find_gap
from gavotte.measure.plan.holds import (
    BIN_S,
    LONG_HOLD_S,
    START_TRIPS,
    TRAIN_HOLD_S,
    TRAIN_MORE,
    TRAIN_PAUSE_S,
    TRAIN_SETTLE_S,
    hold_of_transfers,
    is_far,
)
from gavotte.measure.plan.methods.train import goodput_share
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.measure.plan.trials import Way
from gavotte.terms import Pair

STEADY, COMMON = "bbr", "cubic"
"""Congestion controls of the experiments: the preferred one, and the one for hosts without it.

With BBR the sum of several sources of one full link varies by 1 %. With CUBIC, whose windows halve, 14 % were seen.
"""

FLOWS = 4
"""Connections of a pair that are made before any sends.

A single one that waits 0.2 s for a lost segment leaves half of a short time unused: 29 instead of 144 Mbit/s was seen.
If pairs start without waiting for each other, more connections would delay the later ones.
"""

FAR_PACE = 1.1
"""Pace of a far pair as a multiple of what it carries alone."""

DEADLINE_S = 30.0

CLOCKS_S = 0.1
"""If receivers' clocks put concurrent trains further apart than their schedule does, some clock is wrong.

Agents get a schedule within some milliseconds of each other.
"""


class FleetCarrier:
    """A `Carrier` that sends trains and TCP between the hosts of a fleet.

    A host takes part in one train at a time, and sends one probe per round. The kind of probe therefore depends on the
    pairs:

    - Pairs without a common host send trains (or TCP).
    - Several sources of one target send TCP.
    - Several targets of one source get transfers. So do all pairs on far paths that would send TCP.

    Attributes:
        bytes_sent: payload so far.
        errors: pairs that did not answer, with the last reason.
    """

    def __init__(
        self, fleet: Fleet, names: Sequence[str], *, trains: bool, round_trips: RoundTrips | None = None
    ) -> None:
        """Create a carrier that has sent nothing yet.

        Args:
            fleet: enrolled agents.
            names: hosts in matrix order.
            trains: whether pairs without a common host send trains, not TCP.
            round_trips: round trips known so far, by which far pairs get more time.
        """
        self._fleet = fleet
        self._names = names
        self._index = {name: i for i, name in enumerate(names)}
        self._trains = trains
        self._round_trips = round_trips or RoundTrips({})
        self._losses = Losses()
        self._congestion = STEADY if all(STEADY in h.congestion_available for h in fleet.health.values()) else COMMON
        self.bytes_sent = 0
        self.errors: dict[Pair, AgentError] = {}

    def carry(self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way) -> dict[Pair, Series]:
        """Send on all pairs at the same time; see `Carrier`.

        A host that vanishes costs one round its waiting time. Later rounds leave out its experiments.
        """
        gone = self.gone()
        # A host that a transfer could not reach costs all others its waiting time of 10 s: no second one tries it.
        apart = {pair for pair, error in self.errors.items() if error.failure == pb.FAILURE_UNREACHABLE}
        groups = [
            group
            for group in groups
            if not gone & {host for pair in group for host in pair} and not apart.intersection(group)
        ]
        if not groups:
            return {}
        pairs = [pair for group in groups for pair in group]
        round_trip_s = self._round_trips.slowest_s(pairs)
        by_trains = way == "disjoint" and self._trains
        if way == "fan-out" or (is_far(round_trip_s) and not by_trains):
            arrived = _started(self._replay(groups, expect_bps, round_trip_s), START_TRIPS * round_trip_s)
            return self.carry(groups, expect_bps, way) if self._refused(pairs) else arrived
        if by_trains:
            # With other probes a train may never be steady, and would continue for its longest time.
            most_s = TRAIN_MORE * TRAIN_HOLD_S
            pause_s = max(TRAIN_PAUSE_S, self._round_trips.ready_s(pairs))
            train = pb.GatedTrain(pause_s=pause_s, hold_s=TRAIN_HOLD_S, max_seconds=most_s)
            arrived = self._probe(pairs, pb.Probe(gated_train=train), pause_s + most_s)
            errors = [self.errors.get(pair) for pair in pairs if pair not in arrived]
            if not any(error is not None and error.failure == pb.FAILURE_NO_UDP for error in errors):
                return arrived
            # UDP is blocked somewhere. Later experiments use TCP at once, so that compared readings come from the same
            # kind.
            self._trains = False
            return self.carry(groups, expect_bps, way)
        start_s = START_TRIPS * round_trip_s
        hold_s = LONG_HOLD_S + start_s
        bulk = pb.Bulk(seconds=hold_s, flows=1, congestion=self._congestion, bin_s=BIN_S)
        arrived = _started(self._probe(pairs, pb.Probe(bulk=bulk), hold_s), start_s)
        return self.carry(groups, expect_bps, way) if self._refused(pairs) else arrived

    def gone(self) -> Set[int]:
        """Return hosts that have vanished; see `Carrier`."""
        return {self._index[name] for name in self._fleet.away if name in self._index}

    def _refused(self, pairs: Iterable[Pair]) -> bool:
        """Return whether BBR is present, but this user may not use it; later experiments then do without it."""
        refused = any(pair in self.errors and self.errors[pair].failure == pb.FAILURE_CONGESTION for pair in pairs)
        steady, self._congestion = self._congestion == STEADY, COMMON if refused else self._congestion
        return refused and steady

    def _probe(self, pairs: Sequence[Pair], kind: pb.Probe, hold_s: float) -> dict[Pair, Series]:
        """Run one schedule of one round. Within a longer one, pairs that are done would run ahead."""
        steps = [Step(self._names[source], self._names[target], kind) for source, target in pairs]
        arrived: dict[Pair, Series] = {}
        begun_s: dict[Pair, float] = {}
        for answer in carry_out(self._fleet, [steps], round_s=DEADLINE_S + hold_s, losses=self._losses):
            pair = self._index[answer.source], self._index[answer.target]
            self.bytes_sent += answer.bytes_sent
            series = None if answer.reply is None else _series(answer)
            if series is None:
                self.errors[pair] = AgentError(answer.error or "nothing arrived", failure=answer.failure)
            else:
                arrived[pair] = series
                begun_s[pair] = (answer.reply.started_s if answer.reply else 0.0) + kind.gated_train.pause_s
        return on_one_clock(arrived, begun_s) if kind.HasField("gated_train") else arrived

    def _replay(
        self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], round_trip_s: float
    ) -> dict[Pair, Series]:
        """Run transfers: all connect before the first starts, and a host may have many."""
        pairs = [pair for group in groups for pair in group]
        hold_s = hold_of_transfers(groups, expect_bps, round_trip_s)
        far = is_far(round_trip_s)
        congestion = self._congestion if far else COMMON
        transfers: dict[str, list[pb.Transfer]] = defaultdict(list)
        for number, pair in enumerate(pairs):
            flow_bps = expect_bps[pair] / FLOWS
            # Several pairs of one host would each have the pace of the whole port, and lose half of what they send.
            paced = far and sum(source == pair[0] for source, _ in pairs) == 1
            transfers[self._names[pair[0]]] += [
                pb.Transfer(
                    id=FLOWS * number + flow,
                    target=self._names[pair[1]],
                    bytes=max(1, int(flow_bps / 8 * hold_s)),
                    pace_bps=int(FAR_PACE * flow_bps) if paced else 0,
                    bin_s=BIN_S,
                )
                for flow in range(FLOWS)
            ]
        flows: dict[Pair, list[pb.TransferDone]] = defaultdict(list)
        for name, done in replay(self._fleet, transfers, congestion=congestion, max_seconds=DEADLINE_S):
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


def _started(arrived: Mapping[Pair, Series], start_s: float) -> dict[Pair, Series]:
    """Return what arrived by TCP, without the time in which it did not fill the paths yet."""
    return {pair: series if series.settle_s else replace(series, startup_s=start_s) for pair, series in arrived.items()}


def on_one_clock(series: Mapping[Pair, Series], begun_s: Mapping[Pair, float]) -> dict[Pair, Series]:
    """Return trains' series on a clock that all receivers share: their own clocks, unless one of them is wrong.

    Args:
        series: by the clock of each receiver.
        begun_s: when each train was to begin, in seconds since its agent received the schedule.
    """
    ahead_s = [each.start_s - begun_s[pair] for pair, each in series.items()]
    if not ahead_s or max(ahead_s) - min(ahead_s) <= CLOCKS_S:
        return dict(series)
    return {pair: replace(each, start_s=begun_s[pair]) for pair, each in series.items()}


def _series(answer: Answer) -> Series | None:
    """Return what a probe's receiver got, or None."""
    reply = answer.reply or pb.ProbeReply()
    train = reply.gated_train
    proven = train.verdict == pb.VERDICT_PATH_LIMITED
    gap = str(find_gap(answer.source, answer.target, reply, "host-limited") or "")
    if train.bin_bytes:
        share = goodput_share(reply)
        bits = 8.0 * share * np.array(train.bin_bytes, dtype=np.float64)
        steady_bps = share * train.rate_bps if proven else math.nan
        # A queue that is never empty but gives changing rates is shared.
        filled = proven or train.refused == pb.GATED_REFUSAL_UNSTEADY
        return Series(train.first_unix_ns / 1e9, train.bin_s, bits, TRAIN_SETTLE_S, steady_bps, filled, gap=gap)
    if reply.error:
        return None
    if not reply.bulk.flows or not reply.bulk.flows[0].bin_bytes:
        return None
    flow = reply.bulk.flows[0]
    # All agents get a round at the same time, and a probe is done when its last byte is confirmed.
    start_s = reply.started_s + reply.seconds - flow.seconds
    return Series(start_s, BIN_S, 8.0 * np.array(flow.bin_bytes, dtype=np.float64), gap=gap)


def _of_transfers(flows: Sequence[pb.TransferDone]) -> Series:
    """Return what one pair's receiver got by several connections that started together.

    Each connection counts from its own first byte, which may wait up to 0.1 s in the queue that the others fill. This
    made 18 % more or less of 0.8 s at 20 Mbit/s. The ends of the connections are therefore aligned.
    """
    begin_s = min(flow.start_s for flow in flows)
    first = [max(0, round((flow.finish_s - begin_s) / BIN_S) - len(flow.bin_bytes)) for flow in flows]
    bits = np.zeros(max(at + len(flow.bin_bytes) for at, flow in zip(first, flows, strict=True)))
    for at, flow in zip(first, flows, strict=True):
        bits[at : at + len(flow.bin_bytes)] += 8.0 * np.array(flow.bin_bytes, dtype=np.float64)
    # One more bin, because the last bin of a series counts as incomplete.
    return Series(begin_s, BIN_S, np.append(bits, 0.0))
