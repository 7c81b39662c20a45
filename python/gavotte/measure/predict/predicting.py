"""Simulate a whole measurement in advance, on the known rates of a network, to predict its bytes and its duration.

In a network with racks, decisions during the measurement cost most: which pairs to separate, which links to fill. The
player therefore runs the same decisions, on answers like those of agents.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from gavotte import _core
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.pivots import count_by_pivots
from gavotte.agents.routers import count_routers
from gavotte.agents.schedule import Answer, Schedule
from gavotte.agents.tiers import Tiers
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.lengths import Lengths
from gavotte.measure.adapt.carrier import Carrier
from gavotte.measure.adapt.events import Counted, Experiment, Moment, Tiered
from gavotte.measure.adapt.results import Results
from gavotte.measure.adapt.underway import Underway
from gavotte.measure.carry.runner import Runner
from gavotte.measure.plan.cost import Cost, CostLimits, Most
from gavotte.measure.plan.methods import METHODS
from gavotte.measure.plan.methods.method import SETUP_S, Method, Play
from gavotte.measure.plan.path_plan import SCHEDULE_S, PathPlan
from gavotte.measure.plan.round_trips import PROBE_TRIPS
from gavotte.measure.predict.foreseen import foreseen
from gavotte.measure.predict.pilot import Pilot
from gavotte.measure.predict.playing import PlayedCarrier, shares
from gavotte.terms import Pair
from gavotte.terms.goodput import MTU_BYTES, path_goodput, udp_payload_bytes, wire_bytes

NEVER = Most(bytes=2.0**62, seconds=math.inf)

GLANCE_S = 0.002
"""Time of two small packets."""


def expected_cost(
    plan: PathPlan, inventory: Inventory, known: Network | None, limits: CostLimits | None = None
) -> Cost:
    """Return the cost of a measurement, predicted from an earlier Network if there is one.

    1. If groups' links are limited, the measurement is played: it will find out on its way what the Network does not
       have, and measure disturbed pairs again. A formula predicted half the real time for 11 hosts behind slow racks.
    2. Otherwise the formula of `PathPlan.cost` predicts. For 100 hosts it takes 0.1 to 0.3 s. Playing takes 1 to 3 s,
       but predicts no better. On 24 simulated networks of 6 to 20 hosts, trains and bulk TCP took the same bytes by
       either. Their seconds were 14 % and 6 % off in the median by the formula, and 15 % and 7 % if played. Seconds of
       Choreo's trains were 12 % off by the formula and 42 % if played, because played trains scatter, which leads to
       repeats. Trains on those networks did not scatter. `make bench-playing` prints these figures.
    3. If no Network is known, it is unknown which hosts share a rack, so the test of racks' links cannot be played, and
       its seconds would be missing. The formula adds half of the probes that shared links would repeat.

    Args:
        plan: plan of the measurement.
        inventory: the hosts.
        known: the Network.
        limits: limits of its cost, of which only the bytes are used.
    """
    planned = plan.cost(price_per_gb=0.0 if limits is None else limits.price_per_gb)
    if known is None or not known.any_rate or not set(plan.names) <= set(known.names):
        return planned
    caps_bps = [bps for group in known.groups for bps in (group.up_bps, group.down_bps) if bps]
    if not caps_bps:
        return planned
    unknown = {link for verdict in known.verdicts if verdict.verdict == "unknown" for link in verdict.link.split(", ")}
    # Links without results of experiments are usually like the others.
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
    # The prediction decides when the run ends, not the played run; except for a budget.
    most = NEVER if limits is None or limits.bytes is None else None
    return predict_cost(
        plan, Pilot(inventory, alike.cautious(), Lengths.of_matrix(foreseen(plan.names, known).hops)), limits, most
    )


def predict_cost(plan: PathPlan, pilot: Pilot, limits: CostLimits | None = None, most: Most | None = None) -> Cost:
    """Predict the cost of a measurement by playing it.

    Args:
        plan: plan of the measurement, with the hosts that answered the pilot.
        pilot: the network that it will meet.
        limits: limits of its cost, of which only the bytes are used.
        most: cost at which it ends, even if it is not finished; None = the bytes of a measurement without a Network.
            The plan's seconds end nothing then. They include no round trips, so a far host would end the run before
            its first probe.
    """
    limits = replace(limits or CostLimits(), seconds=None)
    most = most or replace(plan.most(limits), seconds=math.inf)
    size, seconds = _play(replace(plan, count=1), pilot, limits, most)
    if plan.count > 1:
        # Later snapshots know which links are full.
        two_bytes, two_s = _play(replace(plan, count=2), pilot, limits, most)
        size, seconds = size + (plan.count - 1) * (two_bytes - size), seconds + (plan.count - 1) * (two_s - seconds)
        seconds = max(seconds, (plan.count - 1) * plan.every_s + seconds / plan.count)
    planned = plan.cost(price_per_gb=limits.price_per_gb)
    return Cost(
        bytes=size,
        max_bytes=max(planned.usual_max_bytes, size) + planned.fast_bytes,
        seconds=seconds,
        max_seconds=max(planned.max_seconds, seconds),
        money=size / 1e9 * limits.price_per_gb,
        fast_bytes=planned.fast_bytes,
    )


def _play(plan: PathPlan, pilot: Pilot, limits: CostLimits, most: Most | None) -> tuple[int, float]:
    """Return the bytes and seconds of some snapshots, one right after the other."""
    agents = PlayedAgents(plan.method, pilot, seed=plan.seed)
    results = Results(pilot.inventory, plan.method.name, plan.count, plan.only, plan.held_out)
    underway = Underway(replace(plan, every_s=0.0), limits, results, most=most)
    Runner(underway, agents).run()
    return underway.bytes_sent, agents.seconds


class PlayedAgents:
    """Agents that send nothing and answer at once; see `Agents`. Links give max-min fair shares."""

    def __init__(self, method: Method, pilot: Pilot, *, seed: int) -> None:
        """Create agents that have not been asked anything.

        Args:
            method: gives the cost of a path of some rate.
            pilot: rates of paths, and sizes and times of trains.
            seed: decides which trains find no rate with others.
        """
        self._sent_s = 0.0
        self._names = pilot.inventory.names
        self._hosts = frozenset(self._names)
        self._method = method
        self._pilot = pilot
        self._carrier = PlayedCarrier(pilot.network, trains=method.can_pause)
        self._platform = _core.Platform.network(_core.Network(pilot.network))
        self._machine = [host.machine for host in pilot.network.hosts]
        self._index = {name: i for i, name in enumerate(self._names)}
        self._rng = random.Random(f"played {seed}")
        self._kinds = {each.kind: each for each in (*METHODS.values(), method)}

    @property
    def seconds(self) -> float:
        """Time that all probes and experiments would have taken."""
        return self._sent_s + self._carrier.seconds

    def moment(self) -> Moment:
        """Return what is known now."""
        return Moment(self.seconds, self.seconds, self._hosts)

    def wait(self, until_s: float) -> None:
        """Return at once: the time between snapshots costs nothing."""

    def rejoin(self) -> None:
        """Return at once: no host is ever lost."""

    def carrier(self, experiment: Experiment) -> Carrier:
        """Return the carrier of all experiments."""
        del experiment
        return self._carrier

    def count_routers(self, seed: int, *, few: bool = False) -> Counted:
        """Count the routers between any two hosts."""
        routers = (count_by_pivots if few else count_routers)(self.send, self._names, self._names, seed=seed)
        return Counted(self.moment(), routers.lengths, routers.round_trips_s)

    def find_tiers(self, seed: int) -> Tiered:
        """Find nothing: racks are known or not before, and pings take no time in comparison with trains."""
        del seed
        return Tiered(self.moment(), Tiers(Lengths(len(self._names))))

    def send(self, schedule: Schedule, round_s: float) -> Iterator[Answer]:
        """Answer a schedule, round by round."""
        del round_s
        self._sent_s += SCHEDULE_S
        started_s = 0.0
        # The order in which agents are asked: it decides which trains find no rate.
        order = {name: None for steps in schedule for step in steps for name in (step.source, step.target)}
        place = {name: number for number, name in enumerate(order)}
        for number, each in enumerate(schedule):
            steps = sorted(each, key=lambda step: place[step.source])
            pairs = [(self._index[step.source], self._index[step.target]) for step in steps]
            if not pairs:
                continue
            longest_s = 0.0
            for step, pair, bps in zip(steps, pairs, shares(self._platform, pairs), strict=True):
                reply = self._answer(step.probe, pair, float(bps))
                reply.round, reply.peer, reply.started_s = number, step.target, started_s
                reply.hops = self._pilot.lengths[pair]
                reply.rtt_s = 2 * (self._pilot.network.pair_latency_s(*pair) or 0.0)
                longest_s = max(longest_s, reply.seconds + max(0.0, PROBE_TRIPS * reply.rtt_s - SETUP_S))
                yield Answer(number, step.source, step.target, reply, reply.error, reply.failure)
            started_s += SETUP_S + longest_s
            self._sent_s += SETUP_S + longest_s

    def _answer(self, probe: pb.Probe, pair: Pair, share_bps: float) -> pb.ProbeReply:
        """Return an agent's answer to one probe."""
        if probe.HasField("burst_train") and probe.burst_train != self._method.probe.burst_train:
            return pb.ProbeReply(seconds=GLANCE_S, bytes_sent=128, burst_train=pb.BurstTrainResult(sent=2, received=2))
        network, near = self._pilot.network, self._machine[pair[0]] == self._machine[pair[1]]
        mtu_bytes = network.pair_mtu_bytes(*pair) or MTU_BYTES
        play = Play(
            probe,
            share_bps,
            float(shares(self._platform, [pair])[0]),
            self._method.typical,
            self._pilot.near if near else self._pilot.far,
            path_goodput(network, *pair),
            mtu_bytes,
            udp_payload_bytes(mtu_bytes, ipv6=network.hosts[pair[1]].ipv6),
            wire_bytes(mtu_bytes),
            self._rng,
        )
        return self._kinds[probe.WhichOneof("kind") or ""].play(play)
