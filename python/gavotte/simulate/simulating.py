"""The front door: a network and flows in, finish times and loads out."""

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
    """What a link carried.

    Attributes:
        name: the link in words.
        rate_bps: its rate.
        bytes: what crossed it.
        busy_s: for how long it was full and held flows back.
        utilisation: mean share of its rate that was used from time 0 to the end.
    """

    name: str
    rate_bps: float
    bytes: float
    busy_s: float
    utilisation: float


@dataclass(frozen=True)
class Simulation(Tabular):
    """What a simulation tells.

    Attributes:
        start_s: (F,) when each flow was due and the flows before it were done; NaN = never.
        finish_s: (F,) when its last byte was sent; NaN = not before the end.
        bottleneck: (F,) int64, the place in `links` of the link that held it back when it finished; -1 = none.
        links: every limited link that anything crossed.
        end_s: when the last flow finished, or the end asked for.
        events: starts and ends of flows, background included.
        seed: decided every random choice.
        warnings: what may make the times wrong, one line each.
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
        """One row a flow: start_s, finish_s, and the name of its bottleneck or None."""
        names = [link.name for link in self.links]
        return [
            {"start_s": start_s, "finish_s": finish_s, "bottleneck": names[link] if link >= 0 else None}
            for start_s, finish_s, link in zip(self.start_s, self.finish_s, self.bottleneck, strict=True)
        ]

    @property
    def unfinished(self) -> int:
        """Flows that did not finish before the end."""
        return int(np.isnan(self.finish_s).sum())

    @property
    def makespan_s(self) -> float:
        """From the first flow's start to the last one's finish; NaN while one is unfinished, 0 without flows."""
        return float(self.finish_s.max() - self.start_s.min()) if len(self.finish_s) else 0.0

    @property
    def durations_s(self) -> Floats:
        """(F,) From start to finish; NaN = unfinished."""
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
        conditions: traffic of others, latency, shares of TCP, and when to stop.
        edges: (E, 2) flows: the second of each row waits for the first.
        phase: (F,) flows of a phase run together, one phase after the other; instead of `edges`.

    Raises:
        GavotteError: naming what makes no sense.
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
        done: the finished run.
        seed: that of the run.
        warnings: those about the network.
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
    """The max-min fair rate of each flow in bit/s if all are there at once; inf if nothing limits it.

    Args:
        network: hosts and what joins them.
        flows: who sends to whom; sizes and starts are not looked at.
        payload_share: as in `simulate`.
        seed: decides which of several equal paths a flow takes.

    Raises:
        GavotteError: naming what makes no sense.
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
