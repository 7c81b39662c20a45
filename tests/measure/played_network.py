"""Simulated agents on a described network: max-min fair shares within a round, and disturbed trains.

A train next to others on a full link may find no steady rate, and then sends for all its time. It may also read
something between its share and its rate alone, since trains start and end at different times. Both were seen in labs.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

import numpy as np
from tests.agents.played import PlayedFleet, inventory
from tests.measure.oracle import Oracle

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.formats.inventory import Inventory
from gavotte.measure import measuring
from gavotte.measure.predict import pilot
from gavotte.terms import Pair
from gavotte.terms.goodput import UDP_PAYLOAD_BYTES

TRAIN_S, TRAIN_BYTES, SLOW_TRAIN_S = 0.06, 1_000_000, 0.16
"""Least time of trains. Slow ones take until that many bytes have arrived, at most for the last time."""

UNSTEADY = 0.6
"""Share of disturbed trains that find no rate."""

NOISE = 0.002
BIN_S = 0.01
BULK_NOISE = 0.02
BURST_NOISE = 0.02
GLANCE_PACKETS = 2
"""Probes of at most this many bytes only find the path's length."""


class PlayedNetwork:
    """The answers of a network's agents.

    Attributes:
        oracle: the network.
        sent: payload bytes so far.
        rounds: how often pairs were sent together.
        busy: links that others fill: no train that crosses one finds a steady rate; bulk TCP finds many.
        late: whether a train cannot connect while another fills a link of its way, unless both start once all have.
        slow: pairs that are late by this many seconds even then.
        refusing: pairs on which every train is unsteady, though bulk TCP finds the rate.
        stalled: trains, by number, whose receiver lost a time slice and read a fifth less.
        crowded: rounds by their number of pairs.
        trips_s: (N, N) round trips without waits.
        jitter_s: mean wait of a ping.
    """

    def __init__(
        self,
        oracle: Oracle,
        *,
        seed: int = 0,
        busy: Collection[str] = (),
        late: bool = False,
        slow: Mapping[Pair, float] | None = None,
        stalled: Collection[int] = (),
    ) -> None:
        self.oracle = oracle
        self.index = {name: i for i, name in enumerate(oracle.names)}
        self.sent = 0
        self.rounds: list[list[Pair]] = []
        self.busy = set(busy)
        self.late = late
        self.slow = slow or {}
        self.stalled = set(stalled)
        self.refusing: set[Pair] = set()
        self.trips_s = np.full((len(oracle.names),) * 2, 1e-3)
        self.jitter_s = 0.0
        self._trains = 0
        self._rng = random.Random(seed)

    @property
    def inventory(self) -> Inventory:
        """Its hosts."""
        return inventory(self.oracle.names)

    @contextmanager
    def held(self, missing: Collection[str] = ()) -> Iterator[None]:
        """Make `measure` and pilots use these agents, except for the missing ones."""

        @contextmanager
        def enrolled(*_: object, **__: object) -> Iterator[Fleet]:
            fleet = PlayedFleet(self.oracle.names, self.say)
            fleet.hosts = [host for host in fleet.hosts if host.name not in missing]
            fleet.missing |= dict.fromkeys(missing, "no agent")
            yield fleet

        with mock.patch.object(measuring, "enrolled", enrolled), mock.patch.object(pilot, "enrolled", enrolled):
            yield

    def say(self, requests: Mapping[str, pb.MeasureRequest]) -> Iterator[tuple[str, pb.ProbeReply]]:
        """Answer schedules round by round."""
        rounds: dict[int, list[tuple[str, pb.Probe]]] = defaultdict(list)
        for name, part in requests.items():
            for probe in part.probes:
                rounds[probe.round].append((name, probe))
        for number, probes in sorted(rounds.items()):
            pairs = [(self.index[name], self.index[probe.peer]) for name, probe in probes]
            if probes[0][1].burst_train.packets != GLANCE_PACKETS and not probes[0][1].HasField("ping_pong"):
                self.rounds.append(pairs)
            together = self.oracle.rates(pairs)
            ends: dict[Pair, float] = {}
            for (name, probe), pair, share_bps in zip(probes, pairs, together.tolist(), strict=True):
                before_s = self._waits(probe, pair, ends)
                reply = self._answer(probe, pair, share_bps if not before_s else float(self.oracle.rates([pair])[0]))
                reply.seconds += before_s
                ends[pair] = reply.seconds
                reply.round, reply.peer, reply.started_s = number, probe.peer, number * 1.0
                reply.hops, reply.rtt_s = int(self.oracle.hops[pair]), float(self.trips_s[pair])
                self.sent += reply.bytes_sent
                yield name, reply

    def _waits(self, probe: pb.Probe, pair: Pair, ends: Mapping[Pair, float]) -> float:
        """How long a train waits for the first ones."""
        train = probe.gated_train
        if not self.late or probe.WhichOneof("kind") != "gated_train" or train.hold_s >= TRAIN_S:
            return 0.0
        if train.pause_s:
            return self.slow.get(pair, 0.0)

        def meets(other: Pair) -> bool:
            present = (float(self.oracle.rates([other, way]).sum()) for way in (pair, pair[::-1]))
            alone = float(self.oracle.rates([other])[0]) + float(self.oracle.rates([pair])[0])
            return min(present) < 0.98 * alone

        return max((end_s for other, end_s in ends.items() if meets(other)), default=0.0)

    def _answer(self, probe: pb.Probe, pair: Pair, share_bps: float) -> pb.ProbeReply:
        kind = probe.WhichOneof("kind")
        if kind == "ping_pong":
            reply = pb.ProbeReply(seconds=0.002, bytes_sent=probe.ping_pong.repetitions)
            waits_s = (
                self._rng.expovariate(1 / self.jitter_s) if self.jitter_s else 0.0 for _ in range(reply.bytes_sent)
            )
            reply.ping_pong.sizes.add(bytes=1, seconds=[float(self.trips_s[pair]) + wait_s for wait_s in waits_s])
            return reply
        if kind == "burst_train" and probe.burst_train.packets > GLANCE_PACKETS:
            asked = probe.burst_train
            size = asked.bursts * asked.packets * asked.payload_bytes
            result = pb.BurstTrainResult(sent=1, received=1, rate_bps=share_bps * (1 + self._rng.gauss(0, BURST_NOISE)))
            sent_s = asked.bursts * (asked.packets / 150e3 + asked.gap_s)
            # A packet that finds a queue of 50 ms full is lost, after a short wait.
            return pb.ProbeReply(seconds=min(8 * size / share_bps, sent_s + 0.08), bytes_sent=size, burst_train=result)
        if kind == "burst_train":
            return pb.ProbeReply(seconds=0.002, bytes_sent=128, burst_train=pb.BurstTrainResult(sent=2, received=2))
        alone_bps = float(self.oracle.rates([pair])[0])
        lost = share_bps < 0.98 * alone_bps
        busy = not self.busy.isdisjoint(self.oracle.path(*pair))
        if kind == "bulk":
            bps = share_bps * (1 + self._rng.gauss(0, BULK_NOISE))
            if busy:
                bps *= self._rng.uniform(0.2, 0.8)
            seconds = min(probe.bulk.seconds, 8 * (probe.bulk.max_bytes or sys.maxsize) / bps)
            size = int(bps * seconds / 8)
            bins = max(1, int(seconds / probe.bulk.bin_s))
            flow = pb.FlowResult(bytes=size, seconds=seconds, bin_bytes=[size // bins] * bins)
            return pb.ProbeReply(seconds=seconds, bytes_sent=size, bulk=pb.BulkResult(goodput_bps=bps, flows=[flow]))
        unsteady = busy or pair in self.refusing
        return self._train(probe.gated_train, alone_bps, share_bps, lost=lost, busy=unsteady)

    def _train(
        self, asked: pb.GatedTrain, alone_bps: float, share_bps: float, *, lost: bool, busy: bool
    ) -> pb.ProbeReply:
        wrong = (1 + self._rng.gauss(0, NOISE)) * (0.8 if self._trains in self.stalled else 1.0)
        self._trains += 1
        longest_s = asked.max_seconds or 1.0
        result = pb.GatedTrainResult(payload_bytes=UDP_PAYLOAD_BYTES, wire_bytes=1514)
        if busy or (lost and self._rng.random() < UNSTEADY):
            seconds = min(longest_s, 8 * (asked.max_bytes or sys.maxsize) / alone_bps)
            result.refusal, result.refused = "the rate is unsteady", pb.GATED_REFUSAL_UNSTEADY
        else:
            slow_s = min(8 * TRAIN_BYTES / (share_bps if lost else alone_bps), SLOW_TRAIN_S)
            seconds = max(TRAIN_S, slow_s, asked.hold_s)
            result.verdict = pb.VERDICT_PATH_LIMITED
            level = self._rng.uniform(share_bps, alone_bps) if lost else alone_bps
            result.rate_bps = level * wrong
            result.low_bps, result.high_bps = 0.999 * result.rate_bps, 1.001 * result.rate_bps
        result.seconds = seconds
        if asked.hold_s:
            result.bin_s, result.first_unix_ns = BIN_S, int(1e18)
            level = share_bps * wrong / 8 * BIN_S
            result.bin_bytes.extend(int(level * (1 + self._rng.gauss(0, 0.02))) for _ in range(round(seconds / BIN_S)))
        # Bytes that a full link drops were sent, too.
        sent = int((0.5 * (share_bps + alone_bps) if lost else alone_bps) / 8 * seconds)
        return pb.ProbeReply(
            seconds=asked.pause_s + seconds + 0.003,
            bytes_sent=sent,
            gated_train=result,
            error=f"the train was refused: {result.refusal}" if result.refusal else "",
            failure=pb.FAILURE_NO_RATE if result.refusal else pb.FAILURE_UNSPECIFIED,
        )
