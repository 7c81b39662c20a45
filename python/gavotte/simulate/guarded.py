"""Simulate flows between hosts with bandwidth guarantees.

The model has TCP windows, queues that mark and drop packets, and the rate limiters of the agents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.guarantee import Guarantee, HostGuarantee, Tenant
from gavotte.formats.network import Network
from gavotte.formats.parts.names import unknown_host
from gavotte.formats.topology import Topology
from gavotte.simulate.conditions import ALONE, Conditions
from gavotte.simulate.flows import Floats, Flows
from gavotte.simulate.platform import build_platform, check_pairs, host_names, unmodelled
from gavotte.simulate.simulating import Simulation, simulation_of
from gavotte.tables import Tabular
from gavotte.terms.goodput import MTU_BYTES, network_goodput, path_goodput, topology_mtu_bytes

PROTECTIONS = tuple(_core.protections())
"""Names of the ways to protect hosts from each other. Gavotte's own are `auto`, `ecn` and `loss`, the modes of a
Guarantee."""

STEP_S = 0.001
WINDOW_S = 0.2

QUEUE_S = 0.004

WHY = {
    "lost": "packets are lost on the way",
    "marked": "a link on the way is full",
    "waited": "packets wait too long on the way",
    "holding": "it waits after congestion",
    "growing": "its flows send less than they may",
    "unused": "its flows send less than they may",
    "ceiling": "it has the most that it may have",
    "silent": "its receiver is silent",
    "": "nothing limits others",
}
"""Reason why a pair did not get its guarantee, in words, by `PairGuard.held`."""


@dataclass(frozen=True)
class Queues:
    """Queues of switches, for simulations with guarantees.

    Attributes:
        marks: whether switches mark packets by phantom queues; None = as the protection assumes. Of Gavotte's own,
            `ecn` assumes marks, and `auto` and `loss` assume none, as in most clouds.
        buffer_s: capacity of the queue before a link, in seconds of the link's rate.
        step_s: length of a time step, in seconds.
    """

    marks: bool | None = None
    buffer_s: float = QUEUE_S
    step_s: float = STEP_S

    def __post_init__(self) -> None:
        """Check the capacity."""
        if not 0 < self.buffer_s <= 10:
            raise GavotteError(f"a queue of {self.buffer_s:g} s", hint="use more than 0 and at most 10 s")


USUAL = Queues()


@dataclass(frozen=True)
class PairGuard(Tabular):
    """Guaranteed and achieved rates of one directed pair of hosts, in wire bit/s.

    Attributes:
        source: sending host.
        target: receiving host.
        guarantee_bps: mean guarantee while the pair had bytes to send; 0 = none.
        limit_bps: mean limit; inf = none.
        rate_bps: mean rate that arrived.
        met: share of windows, 0 to 1, in which the pair had 95 % of its guarantee, or of its sending rate if that is
            less. Only windows in which it had bytes to send all the time count. NaN = no such window, or no guarantee.
        marks: share of the pair's bytes that was marked, 0 to 1.
        lost_bytes: bytes that were lost on the way.
        held: reason for the pair's last limit: lost, marked, waited, holding, growing, unused, ceiling, silent;
            empty = no limiter.
        rates_bps: (W,) rate that arrived in each window from time 0 on.
    """

    source: str
    target: str
    guarantee_bps: float
    limit_bps: float
    rate_bps: float
    met: float
    marks: float
    lost_bytes: float
    held: str
    rates_bps: Floats

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per window, with source, target and rate_bps."""
        return [{"source": self.source, "target": self.target, "rate_bps": float(rate)} for rate in self.rates_bps]


@dataclass(frozen=True)
class HostGuard:
    """Report of how far one host got its guaranteed bandwidth.

    Attributes:
        host: the host's name.
        met: smallest `PairGuard.met` of the host's pairs; NaN = no pair had bytes to send for a whole window.
        why: if `met` is below 1, the pair that fell short and the reason; else empty.
    """

    host: str
    met: float
    why: str


@dataclass(frozen=True)
class GuardedSimulation:
    """Result of a simulation with bandwidth guarantees.

    Attributes:
        simulation: result as without guarantees; bytes and rates of its links count as the flows' bytes do.
        pairs: one report for each pair of hosts that ever sent, by source and target.
        hosts: one report for each host with a guarantee.
        protection: name of the protection that was simulated, one of `PROTECTIONS`.
        window_s: length of the windows over which guarantees are judged, in seconds.
    """

    simulation: Simulation
    pairs: list[PairGuard]
    hosts: list[HostGuard]
    protection: str
    window_s: float


def simulate_guarded(
    network: Topology | Network,
    flows: Flows,
    guarantee: Guarantee,
    conditions: Conditions = ALONE,
    *,
    protection: str | None = None,
    parameters: Mapping[str, float] | None = None,
    queues: Queues = USUAL,
    window_s: float = WINDOW_S,
) -> GuardedSimulation:
    """Simulate flows over a network whose hosts have bandwidth guarantees, in small time steps.

    Each pair of hosts sends through a rate limiter. The agents' own code adjusts it every 15 ms from the bytes that the
    receiver counted. TCP flows have windows that grow and shrink as CUBIC's do. Queues drop packets. Where switches
    mark, phantom queues mark packets.

    Args:
        network: hosts and the links between them.
        flows: flows to send; their caps are the highest rates of the applications.
        guarantee: hoses of hosts, tenants and the mode.
        conditions: when to stop, the seed and the `payload_share`: guarantees are wire rates, of which the flows' bytes
            have this share. In a Network, whose rates are goodput, each path has its own share, by its MTU and its
            receiver's addresses. The other conditions do not apply.
        protection: one of `PROTECTIONS`; None = the Guarantee's mode.
        parameters: constants of partitioning and allocation to change, by their names in crate `limiter`.
        queues: the switches' queues, and the time step.
        window_s: length of the windows over which guarantees are judged, in seconds.

    Raises:
        GavotteError: for an invalid argument; the message names it.
    """
    payload_share, seed = conditions.payload_share, conditions.seed
    if conditions.background or conditions.alpha_s or conditions.tcp or conditions.accuracy:
        raise GavotteError(
            "guarantees are simulated with TCP and round trips of their own",
            hint="leave out `background`, `alpha_s`, `tcp` and `accuracy`",
        )
    names = host_names(network)
    at = {name: place for place, name in enumerate(names)}
    guarantee = guarantee.spelled_as(at)
    for host in guarantee.hosts:
        if host not in at:
            raise unknown_host(host, names, "the network")
    layers = _Layers(network, payload_share)
    none = (0.0, 0.0, math.inf, math.inf)
    own = {entry.host: _hose(entry, *layers.of_ends([entry.host])) for entry in guarantee.guarantee}
    tenants = [
        ([at[host] for host in tenant.hosts], _tenant(guarantee, tenant, *layers.of_ends(tenant.hosts)))
        for tenant in guarantee.tenant
    ]
    chosen = guarantee.mode if protection is None else protection
    check_pairs(network, flows.pairs)
    platform = build_platform(network, payload_share, seed)
    try:
        done = _core.simulate_guarded(
            platform,
            flows,
            hoses=[own.get(name, none) for name in names],
            tenants=tenants,
            protection=chosen,
            parameters=dict(parameters or {}),
            udp=flows.udp,
            until_s=conditions.until_s,
            seed=seed,
            step_s=queues.step_s,
            window_s=window_s,
            marks=queues.marks,
            buffer_s=queues.buffer_s,
            packet_bytes=layers.packet_bytes(set(zip(flows.source.tolist(), flows.target.tolist(), strict=True))),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise GavotteError(str(error)) from None
    pairs = [
        PairGuard(
            source=names[done.source[row]],
            target=names[done.target[row]],
            guarantee_bps=done.guarantee_bps[row] / share,
            limit_bps=done.limit_bps[row] / share,
            rate_bps=done.rate_bps[row] / share,
            met=done.met[row] / done.windows[row] if done.windows[row] and done.guarantee_bps[row] else math.nan,
            marks=done.marks[row],
            lost_bytes=done.lost_bytes[row],
            held=done.held[row],
            rates_bps=done.rates_bps[row] / share,
        )
        for row, share in enumerate(map(layers.of_path, done.source, done.target))
    ]
    return GuardedSimulation(
        simulation=simulation_of(done.simulated, seed, unmodelled(network, guarded=True)),
        pairs=pairs,
        hosts=[_judged(host, pairs) for host in guarantee.hosts],
        protection=chosen,
        window_s=window_s,
    )


class _Layers:
    """Conversion between wire rates and rates of the flows' bytes, and packet sizes, for each path of a network."""

    def __init__(self, network: Topology | Network, payload_share: float) -> None:
        self._network = network
        self._payload_share = payload_share

    def of_path(self, source: int, target: int) -> float:
        """Return the share of a wire rate from host to host that the flows' bytes have."""
        if isinstance(self._network, Topology) or source == target:
            return self._payload_share
        return path_goodput(self._network, source, target)

    def of_ends(self, hosts: Sequence[str]) -> tuple[float, float]:
        """Return the same share of all that these hosts send, and of all that they receive."""
        network = self._network
        if isinstance(network, Topology):
            return self._payload_share, self._payload_share
        return network_goodput(network, hosts, network.names), network_goodput(network, network.names, hosts)

    def packet_bytes(self, pairs: Iterable[tuple[int, int]]) -> float:
        """Return the size of a full packet: the smallest MTU on the paths of these pairs."""
        if isinstance(self._network, Topology):
            return float(topology_mtu_bytes(self._network))
        return float(min((self._network.pair_mtu_bytes(*pair) or MTU_BYTES for pair in pairs), default=MTU_BYTES))


def _hose(entry: HostGuarantee, out: float, into: float) -> tuple[float, float, float, float]:
    least = ((entry.egress or 0.0) * out, (entry.ingress or 0.0) * into)
    return (*least, (entry.egress_limit or math.inf) * out, (entry.ingress_limit or math.inf) * into)


def _tenant(guarantee: Guarantee, tenant: Tenant, out: float, into: float) -> tuple[float, float, float, float]:
    egress, ingress = (
        (guarantee.sum_bps(direction, tenant.hosts) if total is None else total) * share
        for direction, total, share in (("egress", tenant.egress, out), ("ingress", tenant.ingress, into))
    )
    return (egress, ingress, (tenant.egress_limit or math.inf) * out, (tenant.ingress_limit or math.inf) * into)


def _judged(host: str, pairs: list[PairGuard]) -> HostGuard:
    own = [
        pair for pair in pairs if host in (pair.source, pair.target) and pair.guarantee_bps and not math.isnan(pair.met)
    ]
    if not own:
        return HostGuard(host, math.nan, "")
    worst = min(own, key=lambda pair: pair.met)
    why = f"{worst.source} to {worst.target}: {WHY[worst.held]}" if worst.met < 1 else ""
    return HostGuard(host, worst.met, why)
