"""Networks of many hosts whose truth is known, and agents that answer as if they were in one.

A cloud is a tree of hosts, racks and pods. Links are numbered, so that the rates of thousands of pairs come from a few
operations on arrays: `tests/measure/oracle.py` visits each pair. A world may also have a limit of each pair and no tree.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
from tests.agents.played import PlayedFleet
from tests.measure.oracle import Oracle
from tests.measure.played_network import GLANCE_PACKETS, PlayedNetwork

from gavotte.agents import agent_pb2 as pb
from gavotte.formats.history import Floats, Ints
from gavotte.terms import Pair

RACK_HOSTS = (16, 48)
POD_RACKS = (2, 8)
OVERSUBSCRIBED = (1.0, 8.0)
JITTER_S = (10e-6, 40e-6)
DEAD = 0.01
"""Share of hosts whose agents never answer."""

TWINS = 0.1
"""Share of machines that have two hosts."""

THREE_TIERS = 0.5
"""Share of clouds whose racks are in pods."""

RECEIVING = 0.5
"""Share of clouds in which hosts' caps also limit what they receive."""

CAPS_BPS = (100e6, 200e6, 300e6, 400e6)
UNLIKE = 0.03
"""Most by which a host's cap differs from that of its kind."""

MACHINE_S, RACK_S, POD_S, CORE_S = 15e-6, 30e-6, 55e-6, 85e-6
"""Round trips within a machine, within a rack, within a pod (or between racks that are in none), and between pods."""

HOST_S = 1e-6
"""Most that a host adds to each of its round trips."""

FEWEST_HOSTS = 100
"""With fewer, a cloud might have two racks, whose uplinks nothing could distinguish."""

FULL_BPS = 1.0
"""A link with less than this left is full."""


RANK, FACTOR, NOISE = 3, 0.3, 0.01
"""Rank of a world that favours matrix completion, and deviations of the logarithms of hosts' factors and of noise."""

MIDDLE_BPS, LEAST_BPS = 150e6, 10e6
"""A usual rate of worlds in which only pairs have limits, and the least one."""

FAR_S = 200e-6
"""Round trip that a side of the square of a plane adds."""


@dataclass(frozen=True)
class Rack:
    """Hosts behind one uplink and one downlink of the same rate: a rack, or a pod of racks.

    Attributes:
        hosts: members by index, dead ones included.
        rate_bps: wire rate of each of the two links.
    """

    hosts: tuple[int, ...]
    rate_bps: float


@dataclass(frozen=True)
class World:
    """A network. All rates are wire rates.

    Attributes:
        egress_bps: (N,) most that each host sends.
        ingress_bps: (N,) most that it receives.
        racks: racks of hosts, all hosts together; empty = one switch without limits.
        pods: pods of racks, or empty.
        machine: (N,) number of each host's machine.
        own_s: (N,) what each host adds to its round trips.
        jitter_s: mean wait of a ping.
        dead: hosts, by index, whose agents never answer.
        inside_bps: rate between two hosts of a machine; None = their caps apply, as between others.
        pair_bps: (N, N) limit of each pair; None = pairs have none of their own.
        base_s: (N, N) round trips; None = those of the tree.
    """

    egress_bps: Floats
    ingress_bps: Floats
    racks: tuple[Rack, ...]
    pods: tuple[Rack, ...]
    machine: Ints
    own_s: Floats
    jitter_s: float
    dead: frozenset[int] = frozenset()
    inside_bps: float | None = None
    pair_bps: Floats | None = None
    base_s: Floats | None = None

    @property
    def size(self) -> int:
        """Number of hosts, N."""
        return len(self.egress_bps)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the hosts."""
        return tuple(f"h{host}" for host in range(self.size))

    @cached_property
    def alive(self) -> Ints:
        """Hosts that answer, by index."""
        return np.array([host for host in range(self.size) if host not in self.dead])

    @cached_property
    def rack(self) -> Ints:
        """(N,) rack of each host; 0 if there are no racks."""
        return _place(self.racks, self.size)

    @cached_property
    def pod(self) -> Ints:
        """(N,) pod of each host; 0 if there are no pods."""
        return _place(self.pods, self.size)

    @cached_property
    def _caps_bps(self) -> Floats:
        """Rates of all links: hosts out and in, racks out and in, pods out and in; the last one has no limit."""
        racks, pods = ([each.rate_bps for each in tier] for tier in (self.racks, self.pods))
        return np.concatenate([self.egress_bps, self.ingress_bps, racks, racks, pods, pods, [np.inf]])

    def links(self, sources: Ints, targets: Ints) -> Ints:
        """Return the (M, 6) numbers of the links that M pairs cross."""
        hosts, racks, pods = self.size, len(self.racks), len(self.pods)
        none = np.full(len(sources), len(self._caps_bps) - 1)
        columns = [sources, hosts + targets]
        for start, count, place in ((2 * hosts, racks, self.rack), (2 * (hosts + racks), pods, self.pod)):
            apart = (place[sources] != place[targets]) if count else np.zeros(len(sources), dtype=np.bool_)
            columns += [
                np.where(apart, start + place[sources], none),
                np.where(apart, start + count + place[targets], none),
            ]
        crossed = np.stack(columns, axis=1)
        if self.inside_bps is not None:
            crossed[self.machine[sources] == self.machine[targets]] = none[0] if len(none) else 0
        return crossed

    def limits_bps(self, sources: Ints, targets: Ints) -> Floats:
        """Return the (M,) limits that M pairs share with no other."""
        own_bps = np.full(len(sources), np.inf) if self.pair_bps is None else self.pair_bps[sources, targets]
        if self.inside_bps is not None:
            own_bps = np.where(self.machine[sources] == self.machine[targets], self.inside_bps, own_bps)
        return np.asarray(own_bps)

    def rates_bps(self, sources: Ints, targets: Ints) -> Floats:
        """Return the (M,) rates of M pairs, each of which sends alone."""
        crossed_bps = self._caps_bps[self.links(sources, targets)].min(axis=1)
        return np.asarray(np.minimum(crossed_bps, self.limits_bps(sources, targets)))

    def shares_bps(self, sources: Ints, targets: Ints) -> Floats:
        """Return the (M,) rates of M pairs that send together: max-min fair shares by progressive filling."""
        own_bps = self.limits_bps(sources, targets)
        left = np.concatenate([self._caps_bps, own_bps])
        own = len(self._caps_bps) + np.arange(len(sources))
        links = np.concatenate([self.links(sources, targets), own[:, None]], axis=1)
        rates = np.zeros(len(sources))
        active = np.arange(len(sources))
        while active.size:
            load = np.bincount(links[active].ravel(), minlength=len(left))
            step = float((left[load > 0] / load[load > 0]).min())
            rates[active] += step
            left = left - step * load
            active = active[~(left[links[active]] <= FULL_BPS).any(axis=1)]
        return rates

    def trip_s(self, source: int, target: int) -> float:
        """Return a round trip without waits."""
        if self.base_s is not None:
            tier_s = float(self.base_s[source, target])
        elif self.machine[source] == self.machine[target]:
            tier_s = MACHINE_S
        elif self.rack[source] == self.rack[target]:
            tier_s = RACK_S
        else:
            tier_s = POD_S if self.pod[source] == self.pod[target] else CORE_S
        return tier_s + float(self.own_s[source] + self.own_s[target])


def _place(groups: Sequence[Rack], size: int) -> Ints:
    place = np.zeros(size, dtype=np.int64)
    for number, group in enumerate(groups):
        place[list(group.hosts)] = number
    return place


def drawn_cloud(
    hosts: int, seed: int, inside_bps: float | None = None, *, steep: bool = False, receiving: bool | None = None
) -> World:
    """Draw a cloud of racks of 16 to 48 hosts, in pods or not; hosts of a rack are not next to each other.

    Args:
        hosts: number of hosts, at least `FEWEST_HOSTS`.
        seed: seed of the cloud.
        inside_bps: as in `World`.
        steep: whether each tier is oversubscribed 1 to 8 times, so that both together may be 64 times.
        receiving: whether a host's cap also limits what it receives; None = in half of the clouds.
    """
    rng = np.random.default_rng([hosts, seed])
    order = rng.permutation(hosts)
    members = np.split(order, np.cumsum(_parts(hosts, RACK_HOSTS, rng))[:-1])
    kinds_bps = rng.choice(CAPS_BPS, hosts) * (1 + rng.uniform(-UNLIKE, UNLIKE, hosts))
    offered_bps = [float(kinds_bps[each].sum()) for each in members]
    parts: list[Ints] = []
    fewest, most = POD_RACKS
    if rng.random() < THREE_TIERS and len(members) >= 2 * fewest:
        counts = _parts(len(members), (fewest, min(most, len(members) // 2)), rng)
        parts = np.split(np.arange(len(members)), np.cumsum(counts)[:-1])
    over = rng.uniform(*OVERSUBSCRIBED, len(members))
    pods_over = rng.uniform(*OVERSUBSCRIBED, len(parts))
    if not steep:
        # Racks carry a part of what their pods are oversubscribed in all.
        for part, pod_over in zip(parts, pods_over, strict=True):
            over[part] = pod_over ** rng.uniform(0, 1, len(part))
    racks = [
        Rack(tuple(int(host) for host in each), offered / times)
        for each, offered, times in zip(members, offered_bps, over, strict=True)
    ]
    pods = []
    for part, pod_over in zip(parts, pods_over, strict=True):
        inside = [racks[at] for at in part]
        below_bps = sum(rack.rate_bps for rack in inside) if steep else sum(offered_bps[at] for at in part)
        pods.append(Rack(tuple(host for rack in inside for host in rack.hosts), below_bps / pod_over))
    machine = np.arange(hosts)
    for rack in racks:
        for host, other in zip(rack.hosts[::2], rack.hosts[1::2], strict=False):
            # Of two hosts in a row, the share of pairs that gives `TWINS` of machines.
            if rng.random() < 2 * TWINS / (1 + TWINS):
                machine[other] = machine[host]
    dead = rng.choice(hosts, max(1, round(DEAD * hosts)), replace=False)
    if receiving is None:
        receiving = bool(rng.random() < RECEIVING)
    return World(
        egress_bps=kinds_bps,
        ingress_bps=kinds_bps if receiving else np.full(hosts, np.inf),
        racks=tuple(racks),
        pods=tuple(pods),
        machine=machine,
        own_s=rng.uniform(0, HOST_S, hosts),
        jitter_s=float(rng.uniform(*JITTER_S)),
        dead=frozenset(int(host) for host in dead),
        inside_bps=inside_bps,
    )


def _parts(total: int, sizes: tuple[int, int], rng: np.random.Generator) -> list[int]:
    """Split a number into random parts within these sizes."""
    least, most = sizes
    parts: list[int] = []
    while sum(parts) < total:
        parts.append(int(rng.integers(least, most + 1)))
    # What the last part has too many, random ones lose.
    while sum(parts) > total:
        larger = [at for at, size in enumerate(parts) if size > least]
        if not larger:
            del parts[-1]
            return [*parts[:-1], parts[-1] + total - sum(parts)] if parts else [total]
        parts[int(rng.choice(larger))] -= 1
    return parts


class _Tree(Oracle):
    """Rates of a world, for agents that play it. Routers are hidden: every path looks one hop long."""

    def __init__(self, world: World) -> None:
        # The oracle's own matrices are filled pair by pair, which takes minutes for 10,000 hosts.
        self.world = world
        self.names = world.names
        self.hops = np.broadcast_to(np.int64(1), (world.size, world.size))

    def path(self, source: int, target: int) -> list[str]:
        """Return no links: others' traffic fills none of them."""
        del source, target
        return []

    def rates(self, pairs: Sequence[Pair]) -> Floats:
        """Return the max-min fair wire rates of pairs that send together, bit/s."""
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return self.world.shares_bps(ends[:, 0], ends[:, 1])


class _Trips:
    """Round trips of a world, computed when they are read: a matrix of 10,000 hosts has 800 MB."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getitem__(self, pair: Pair) -> float:
        return self._world.trip_s(*pair)


class PlayedWorld(PlayedNetwork):
    """The agents of a world, which count small packets apart from probes.

    Attributes:
        world: the network.
        pinged: pairs that pinged each other, smaller index first.
        glanced: pairs between which routers were counted.
        ping_rounds: rounds of pings.
        glance_rounds: rounds in which routers were counted.
        playing_s: seconds that the simulation took, in which the controller waited.
    """

    def __init__(self, world: World, *, seed: int) -> None:
        super().__init__(_Tree(world), seed=seed)
        self.world = world
        self.trips_s = cast("Floats", _Trips(world))
        self.jitter_s = world.jitter_s
        self.pinged: set[Pair] = set()
        self.glanced: set[Pair] = set()
        self.ping_rounds = self.glance_rounds = 0
        self.playing_s = 0.0
        self._jitter_rng = np.random.default_rng([seed, world.size])

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the hosts that never answer."""
        return tuple(self.world.names[host] for host in sorted(self.world.dead))

    def fleet(self) -> PlayedFleet:
        """Return the agents that answer."""
        fleet = PlayedFleet(self.world.names, self.say)
        fleet.hosts = [host for host in fleet.hosts if host.name not in self.missing]
        return fleet

    def say(self, requests: Mapping[str, pb.MeasureRequest]) -> Iterator[tuple[str, pb.ProbeReply]]:
        """Answer schedules round by round."""
        small = all(_is_small(probe) for part in requests.values() for probe in part.probes)
        answers = self._small(requests) if small else super().say(requests)
        while True:
            begin_s = time.perf_counter()
            answer = next(answers, None)
            self.playing_s += time.perf_counter() - begin_s
            if answer is None:
                return
            yield answer

    def _small(self, requests: Mapping[str, pb.MeasureRequest]) -> Iterator[tuple[str, pb.ProbeReply]]:
        """Answer small packets, which fill no link."""
        rounds: dict[int, list[tuple[str, pb.Probe]]] = defaultdict(list)
        for name, part in requests.items():
            for probe in part.probes:
                rounds[probe.round].append((name, probe))
        for number, probes in sorted(rounds.items()):
            pings = probes[0][1].HasField("ping_pong")
            self.ping_rounds += pings
            self.glance_rounds += not pings
            for name, probe in probes:
                i, j = self.index[name], self.index[probe.peer]
                (self.pinged if pings else self.glanced).add((min(i, j), max(i, j)))
                trip_s = self.world.trip_s(i, j)
                reply = pb.ProbeReply(round=number, peer=probe.peer, seconds=0.002, started_s=number, hops=1)
                reply.rtt_s = trip_s
                if pings:
                    waits_s = self._jitter_rng.exponential(self.jitter_s, probe.ping_pong.repetitions)
                    reply.bytes_sent = probe.ping_pong.repetitions
                    reply.ping_pong.sizes.add(bytes=1, seconds=(trip_s + waits_s).tolist())
                else:
                    reply.bytes_sent = 128
                    reply.burst_train.sent = reply.burst_train.received = GLANCE_PACKETS
                self.sent += reply.bytes_sent
                yield name, reply


def _is_small(probe: pb.Probe) -> bool:
    return probe.HasField("ping_pong") or probe.burst_train.packets == GLANCE_PACKETS


def pairs_of(world: World, most: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return sources and targets of all pairs of hosts that answer, or of this many random ones if they are more."""
    alive = world.alive
    count = len(alive)
    every = count * (count - 1)
    at = np.arange(every) if every <= most else np.random.default_rng(seed).integers(every, size=most)
    sources, targets = np.divmod(at, count - 1)
    # A host is no target of its own: later ones move up by one.
    return alive[sources], alive[targets + (targets >= sources)]


def _pairs_alone(rates_bps: Floats, base_s: Floats, own_s: Floats, jitter_s: float) -> World:
    """Return a world without hosts' caps and racks, in which only pairs have limits."""
    hosts = len(rates_bps)
    return World(
        egress_bps=np.full(hosts, np.inf),
        ingress_bps=np.full(hosts, np.inf),
        racks=(),
        pods=(),
        machine=np.arange(hosts),
        own_s=own_s,
        jitter_s=jitter_s,
        pair_bps=rates_bps,
        base_s=base_s,
    )


def low_rank_world(hosts: int, seed: int) -> World:
    """Draw a world of rank 3, which favours matrix completion.

    A rate is the product of a sender's factor, a receiver's factor and how well their mixtures of three kinds agree, and
    1 % of noise. All round trips are alike.
    """
    rng = np.random.default_rng([hosts, seed, RANK])
    senders, receivers = (
        np.exp(rng.normal(0, FACTOR, hosts))[:, None] * rng.dirichlet(np.ones(RANK), hosts) for _ in range(2)
    )
    products = senders @ receivers.T
    rates_bps = MIDDLE_BPS * products / np.median(products) * np.exp(rng.normal(0, NOISE, products.shape))
    base_s = np.full(products.shape, CORE_S)
    return _pairs_alone(
        np.maximum(rates_bps, LEAST_BPS), base_s, rng.uniform(0, HOST_S, hosts), float(rng.uniform(*JITTER_S))
    )


def plane_world(hosts: int, seed: int) -> World:
    """Draw a world in a plane, which favours coordinates: rates fall and round trips rise with the distance.

    Hosts are in a square with sides of 1. A rate is `MIDDLE_BPS` / (1/4 + distance), with 1 % of noise.
    """
    rng = np.random.default_rng([hosts, seed, 2])
    places = rng.uniform(0, 1, (hosts, 2))
    apart = np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))
    rates_bps = MIDDLE_BPS / (0.25 + apart) * np.exp(rng.normal(0, NOISE, apart.shape))
    base_s = RACK_S + apart * FAR_S
    return _pairs_alone(rates_bps, base_s, rng.uniform(0, HOST_S, hosts), float(rng.uniform(*JITTER_S)))
