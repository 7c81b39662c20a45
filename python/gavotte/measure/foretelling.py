"""Plays a whole measurement beforehand, on what is known of a network: what it will send, and for how long.

What costs most, in a network with racks, is what a measurement decides on its way: which pairs go apart, which links it
fills. So the same decisions are taken, on answers as agents would give them.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median

from gavotte import _core
from gavotte.agents import Fleet, Reach
from gavotte.agents import agent_pb2 as pb
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.measure.cost import Cost, CostLimits, Most
from gavotte.measure.methods import PINGPONG_BYTES, SETUP_S, TRAIN_FILL_BYTES, TRAIN_MAX_S, Method
from gavotte.measure.pilot import Pilot
from gavotte.measure.planning import SCHEDULE_S, MeasurementPlan
from gavotte.measure.results import Results
from gavotte.measure.sharing.learning import foreseen
from gavotte.measure.sharing.playing import PlayedCarrier, shares
from gavotte.measure.underway import Underway
from gavotte.terms import Pair
from gavotte.terms.goodput import GOODPUT_PER_WIRE

UNSTEADY = 0.6
"""Of trains beside others on a full link, so many find no rate, and then go on for all their time."""

LOST = 0.98
"""Who carries less than this share of what he does alone lost to others."""

NEVER = Most(bytes=2.0**62, seconds=math.inf)

BURST_NOISE = 0.025
"""Of what Choreo's trains read: 94 to 103 Mbit/s where 96 was true, so that some paths are measured twice."""

GLANCE_S = 0.002
"""Of two small packets."""


def expected_cost(
    plan: MeasurementPlan, inventory: Inventory, known: Network | None, limits: CostLimits | None = None
) -> Cost:
    """Says what a measurement costs by what an earlier Network tells, if there is one.

    Where groups' links are limited, the measurement is played: it will find out on its way what the Network leaves
    untold, and measure again whom others disturbed. Reckoned, 11 hosts behind slow racks were said to take half their
    time.

    Args:
        plan: what is to be measured.
        inventory: the hosts.
        known: the Network.
        limits: what it may cost, of which only the bytes are heeded.
    """
    reckoned = plan.cost(price_per_gb=0.0 if limits is None else limits.price_per_gb)
    if known is None or not known.any_rate or not set(plan.names) <= set(known.names):
        return reckoned
    caps_bps = [bps for group in known.groups for bps in (group.up_bps, group.down_bps) if bps]
    if not caps_bps:
        return reckoned
    unknown = {link for told in known.verdicts if told.verdict == "unknown" for link in told.link.split(", ")}
    # Links of which experiments told nothing are like the others as a rule.
    usual_bps = median(caps_bps)
    groups = [
        group.model_copy(
            update={
                "up_bps": group.up_bps or (usual_bps if f"out of {group.name}" in unknown else None),
                "down_bps": group.down_bps or (usual_bps if f"into {group.name}" in unknown else None),
            }
        )
        for group in known.groups
    ]
    alike = known.model_copy(update={"groups": groups}).of_hosts([known.names.index(name) for name in plan.names])
    # What is said ends the run, not what is played; but for a budget.
    most = NEVER if limits is None or limits.bytes is None else None
    return foretell(plan, Pilot(inventory, alike.cautious(), foreseen(plan.names, known).hops), limits, most)


def foretell(plan: MeasurementPlan, pilot: Pilot, limits: CostLimits | None = None, most: Most | None = None) -> Cost:
    """Says what a measurement costs, by playing it.

    Args:
        plan: what is to be measured, of the hosts that answered the pilot.
        pilot: what it will meet.
        limits: what it may cost, of which only the bytes are heeded.
        most: when it ends, whether it is done or not; None = as a measurement without a Network will.
    """
    limits = replace(limits or CostLimits(), seconds=None)
    size, seconds = _play(replace(plan, count=1), pilot, limits, most)
    if plan.count > 1:
        # Later ones know which links are full.
        two_bytes, two_s = _play(replace(plan, count=2), pilot, limits, most)
        size, seconds = size + (plan.count - 1) * (two_bytes - size), seconds + (plan.count - 1) * (two_s - seconds)
        seconds = max(seconds, (plan.count - 1) * plan.every_s + seconds / plan.count)
    planned = plan.cost(price_per_gb=limits.price_per_gb)
    return Cost(
        bytes=size,
        max_bytes=max(planned.max_bytes, size),
        seconds=seconds,
        max_seconds=max(planned.max_seconds, seconds),
        money=size / 1e9 * limits.price_per_gb,
    )


def _play(plan: MeasurementPlan, pilot: Pilot, limits: CostLimits, most: Most | None) -> tuple[int, float]:
    """Bytes and seconds of some snapshots, one right after the other."""
    fleet = PlayedFleet(plan.method, pilot, seed=plan.seed)
    carrier = PlayedCarrier(pilot.network, trains=plan.method.name == "train")
    results = Results(pilot.inventory, plan.method.name, plan.count, plan.only)
    underway = Underway(fleet, replace(plan, every_s=0.0), limits, results, None, None, most=most, carrier=carrier)
    underway.run(again=True, enough=None)
    return underway.bytes_sent, fleet.seconds + carrier.seconds


class PlayedFleet(Fleet):
    """Agents that send nothing and answer at once: links give max-min fair shares.

    Attributes:
        seconds: that their probes would have taken.
    """

    def __init__(self, method: Method, pilot: Pilot, *, seed: int) -> None:
        """Has been asked nothing yet.

        Args:
            method: that tells what a path of some rate costs.
            pilot: what paths carry, and what trains take.
            seed: of which trains find no rate beside others.
        """
        super().__init__(pilot.inventory, Reach(pilot.inventory))
        self.hosts = list(pilot.inventory.host)
        self.seconds = 0.0
        self._method = method
        self._pilot = pilot
        self._platform = _core.Platform.network(_core.Network(pilot.network))
        self._machine = [host.machine for host in pilot.network.hosts]
        self._index = {name: i for i, name in enumerate(pilot.inventory.names)}
        self._rng = random.Random(f"played {seed}")

    def measure(
        self, requests: Mapping[str, pb.MeasureRequest], *, deadline_s: float, silence_s: float
    ) -> Iterator[tuple[str, pb.ProbeReply]]:
        """Answers a schedule, round by round."""
        del deadline_s, silence_s
        rounds: dict[int, list[tuple[str, pb.Probe]]] = defaultdict(list)
        for name, part in requests.items():
            for probe in part.probes:
                rounds[probe.round].append((name, probe))
        started_s = 0.0
        self.seconds += SCHEDULE_S
        for _, probes in sorted(rounds.items()):
            pairs = [(self._index[name], self._index[probe.peer]) for name, probe in probes]
            longest_s = 0.0
            for (name, probe), pair, bps in zip(probes, pairs, shares(self._platform, pairs), strict=True):
                reply = self._answer(probe, pair, float(bps))
                reply.round, reply.peer, reply.started_s = probe.round, probe.peer, started_s
                reply.hops = int(self._pilot.lengths[pair])
                longest_s = max(longest_s, reply.seconds)
                yield name, reply
            started_s += SETUP_S + longest_s
            self.seconds += SETUP_S + longest_s

    def _answer(self, probe: pb.Probe, pair: Pair, share_bps: float) -> pb.ProbeReply:
        """What an agent says of one probe."""
        if probe.HasField("burst_train") and probe.burst_train != self._method.probe.burst_train:
            return pb.ProbeReply(seconds=GLANCE_S, bytes_sent=128, burst_train=pb.BurstTrainResult(sent=2, received=2))
        if probe.HasField("gated_train"):
            return self._train(probe.gated_train, pair, share_bps)
        size, seconds = self._method.typical(share_bps)
        reply = pb.ProbeReply(seconds=seconds - SETUP_S, bytes_sent=int(size))
        if probe.HasField("burst_train"):
            reply.burst_train.rate_bps = share_bps * (1 + self._rng.gauss(0, BURST_NOISE))
        elif probe.HasField("bulk"):
            reply.bulk.goodput_bps = share_bps
            reply.bulk.flows.add(bytes=int(size), seconds=seconds)
        else:
            for message in PINGPONG_BYTES:
                reply.ping_pong.sizes.add(bytes=message, seconds=[8 * message / share_bps])
        return reply

    def _train(self, asked: pb.GatedTrain, pair: Pair, share_bps: float) -> pb.ProbeReply:
        alone_bps = float(shares(self._platform, [pair])[0])
        lost = share_bps < LOST * alone_bps
        train = pb.GatedTrainResult()
        if lost and self._rng.random() < UNSTEADY:
            seconds = asked.max_seconds or TRAIN_MAX_S
            size = TRAIN_FILL_BYTES + alone_bps / 8 * seconds
            train.refusal, train.refused = "the rate is unsteady", pb.GATED_REFUSAL_UNSTEADY
        else:
            level_bps = self._rng.uniform(share_bps, alone_bps) if lost else alone_bps
            size, seconds = self._method.typical(level_bps)
            near = self._machine[pair[0]] == self._machine[pair[1]]
            taken = self._pilot.near if near else self._pilot.far
            size, seconds = taken.bytes * size, taken.seconds * (seconds - SETUP_S)
            train.verdict = pb.VERDICT_PATH_LIMITED
            train.rate_bps = train.low_bps = train.high_bps = level_bps / GOODPUT_PER_WIRE
        train.seconds = seconds
        return pb.ProbeReply(
            seconds=asked.pause_s + seconds,
            bytes_sent=min(int(size), asked.max_bytes or int(size)),
            gated_train=train,
            error=train.refusal,
            failure=pb.FAILURE_NO_RATE if train.refusal else pb.FAILURE_UNSPECIFIED,
        )
