"""Simulate flows over a network: compute finish times and link loads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.simulate.conditions import ALONE, Conditions
from gavotte.simulate.flows import Floats, Flows
from gavotte.simulate.lossy import capped_by_loss
from gavotte.simulate.platform import build_platform, check_pairs, unmodelled
from gavotte.simulate.roundtrips import tcp_weights
from gavotte.simulate.usage import capped_by_connection, used_by
from gavotte.tables import Tabular


@dataclass(frozen=True)
class LinkUse:
    """Load of one link during a simulation.

    Attributes:
        name: the link in words.
        rate_bps: the link's rate, bit/s.
        bytes: bytes that crossed the link.
        busy_s: time during which the link was full and limited flows, in seconds.
        utilisation: mean share of the link's rate that was used from time 0 to the end, 0 to 1.
    """

    name: str
    rate_bps: float
    bytes: float
    busy_s: float
    utilisation: float


@dataclass(frozen=True)
class Simulation(Tabular):
    """Result of a simulation of F flows.

    Attributes:
        start_s: (F,) time at which each flow was due and the flows before it were done; NaN = never.
        finish_s: (F,) time at which each flow's last byte was sent; NaN = not before the end.
        bottleneck: (F,) int64 index in `links` of the link that limited each flow when it finished; -1 = none.
        links: load of every limited link that any flow crossed.
        end_s: time at which the last flow finished, or the requested end.
        events: number of starts and ends of flows, background included.
        seed: seed of all random choices.
        warnings: reasons why the times may be wrong, one line each.
    """

    start_s: Floats
    finish_s: Floats
    bottleneck: npt.NDArray[np.int64]
    links: list[LinkUse]
    end_s: float
    events: int
    seed: int
    warnings: list[str] = field(default_factory=list)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per flow, with start_s, finish_s and the name of its bottleneck or None."""
        names = [link.name for link in self.links]
        return [
            {"start_s": start_s, "finish_s": finish_s, "bottleneck": names[link] if link >= 0 else None}
            for start_s, finish_s, link in zip(self.start_s, self.finish_s, self.bottleneck, strict=True)
        ]

    @property
    def unfinished(self) -> int:
        """Number of flows that did not finish before the end."""
        return int(np.isnan(self.finish_s).sum())

    @property
    def makespan_s(self) -> float:
        """Seconds from the first flow's start to the last one's finish; NaN if one is unfinished, 0 without flows."""
        return float(self.finish_s.max() - self.start_s.min()) if len(self.finish_s) else 0.0

    @property
    def durations_s(self) -> Floats:
        """(F,) Seconds from each flow's start to its finish; NaN = unfinished."""
        return self.finish_s - self.start_s


def simulate(
    network: Topology | Network,
    flows: Flows,
    conditions: Conditions = ALONE,
    *,
    edges: npt.ArrayLike | None = None,
    phase: npt.ArrayLike | None = None,
) -> Simulation:
    """Simulate flows over a network that they share max-min fairly.

    A flow starts when it is due and the flows that it waits for are done. It waits for the latency, and then has its
    fair share of all links on its way. Shares are computed again whenever a flow starts or ends. The simulation has no
    packets and no queues, so it fits long flows. On a lossy path a flow gets at most what one CUBIC connection does.

    On a Network, each flow is one TCP connection: it gets at most the pair's `rate_bps`, and all flows of the pair get
    at most `several_bps`. A host with a credit has its average rate over all bytes that it sends.

    Args:
        network: hosts and the links between them.
        flows: the flows to send.
        conditions: background traffic, latency, shares of TCP, and when to stop.
        edges: (E, 2) row numbers of flows: the second of each pair waits for the first.
        phase: (F,) phase of each flow, instead of `edges`. Flows of a phase run together, one phase after the other.

    Raises:
        GavotteError: for an invalid argument; the message names it.
    """
    payload_share, seed = conditions.payload_share, conditions.seed
    if conditions.alpha_s > 0:
        own_s = 0.0 if flows.startup_s is None else flows.startup_s
        flows = replace(flows, startup_s=np.full(len(flows), conditions.alpha_s) + own_s)
    if conditions.tcp:
        flows = replace(flows, weight=tcp_weights(network, flows, payload_share=payload_share, seed=seed))
    check_pairs(network, flows.pairs)
    check_pairs(network, ((each.source, each.target) for each in conditions.background))
    if isinstance(network, Network):
        network, flows = used_by(network, flows)
    platform = build_platform(network, payload_share, seed)
    if isinstance(network, Topology):
        flows = capped_by_loss(network, flows, platform)
    try:
        done = platform.simulate(
            flows,
            edges=_indices(edges),
            phase=_indices(phase),
            background=list(conditions.background),
            until_s=conditions.until_s,
            seed=seed,
            accuracy=conditions.accuracy,
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise GavotteError(str(error)) from None
    return simulation_of(done, seed, unmodelled(network))


def simulation_of(done: _core.Simulated, seed: int, warnings: list[str]) -> Simulation:
    """Convert the compiled simulator's result to a Simulation.

    Args:
        done: result of the compiled simulator.
        seed: seed of the simulation.
        warnings: warnings about the network.
    """
    columns = zip(
        done.link_names, done.link_rate_bps.tolist(), done.link_bytes.tolist(), done.link_busy_s.tolist(), strict=True
    )
    end_s = done.end_s
    links = [
        LinkUse(name, rate, carried, busy, 8 * carried / (rate * end_s) if end_s > 0 else 0.0)
        for name, rate, carried, busy in columns
    ]
    return Simulation(
        start_s=done.start_s,
        finish_s=done.finish_s,
        bottleneck=done.holder,
        links=links,
        end_s=end_s,
        events=done.events,
        seed=seed,
        warnings=warnings,
    )


def rates(network: Topology | Network, flows: Flows, *, payload_share: float = 1.0, seed: int = 0) -> Floats:
    """Return the max-min fair rate of each flow in bit/s if all are active at once; inf if nothing limits a flow.

    Args:
        network: hosts and the links between them.
        flows: flows to compute rates for; sizes and starts are ignored.
        payload_share: as in `simulate`.
        seed: decides which of several equal paths a flow takes.

    Raises:
        GavotteError: for invalid flows or an invalid network; the message names the problem.
    """
    check_pairs(network, flows.pairs)
    if isinstance(network, Network):
        network, flows = capped_by_connection(network, flows)
    platform = build_platform(network, payload_share, seed)
    if isinstance(network, Topology):
        flows = capped_by_loss(network, flows, platform)
    try:
        return platform.rates(flows)
    except ValueError as error:
        raise GavotteError(str(error)) from None


def _indices(values: npt.ArrayLike | None) -> npt.NDArray[Any] | None:
    return None if values is None else np.ascontiguousarray(values, dtype=np.uint32)
