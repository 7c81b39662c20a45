"""Simulate the transfers of a Placement, to estimate its completion time more closely than the Placement itself does.

The simulated time lies between the time that the Placement predicts and the time that a run measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.placement import Placement
from gavotte.formats.topology import Topology
from gavotte.simulate.conditions import ALONE, Conditions
from gavotte.simulate.flows import Flows
from gavotte.simulate.platform import build_platform, host_names
from gavotte.simulate.roundtrips import tcp_weights
from gavotte.simulate.simulating import Simulation, simulate
from gavotte.terms.goodput import topology_goodput
from gavotte.terms.loss import with_loss
from gavotte.terms.ramp import starts_s
from gavotte.terms.unfolding import unfold
from gavotte.terms.usage import starts_slowly


@dataclass(frozen=True)
class PlacementSimulation:
    """Result of simulating a Placement's transfers. All times are in seconds.

    Attributes:
        completion_s: time from the first application's arrival to the last one's end, as `run` counts it.
        apps: completion time of each application by name, from its arrival.
        flows: the transfers in file order, with ids `SOURCE>TARGET`, and `.PHASE` where there are several phases;
            after them one flow without bytes between each two phases.
        simulation: result for these flows; time 0 is the first application's arrival.
        transfers: number of flows that are transfers.
    """

    completion_s: float
    apps: dict[str, float]
    flows: Flows
    simulation: Simulation
    transfers: int


def simulate_placement(network: Topology | Network, apps: Sequence[App], placement: Placement) -> float:
    """Return the completion time of a placement in the fluid model, in seconds.

    It lies between `Placement.completion_s`, which looks at one link at a time, and what `run` measures.

    Args:
        network: network to simulate; a Topology's rates are taken as wire rates that carry TCP.
        apps: the placed applications, in any order.
        placement: host of each task.

    Raises:
        GavotteError: when network, applications and placement do not belong together.
    """
    share = topology_goodput(network) if isinstance(network, Topology) else 1.0
    return replay_placement(network, apps, placement, Conditions(payload_share=share)).completion_s


def replay_placement(
    network: Topology | Network, apps: Sequence[App], placement: Placement, conditions: Conditions = ALONE
) -> PlacementSimulation:
    """Simulate the transfers of a placement in the order in which `run` sends them.

    Each application starts at its arrival; the transfers of one phase start together, and the next phase when all
    are done. On a Network, each transfer first waits for as long as its connection needs to start. Bytes between tasks
    on one host take no time. `unfold` describes how the state of moving tasks is sent.

    Args:
        network: network to simulate.
        apps: the placed applications, in any order.
        placement: host of each task.
        conditions: as in `simulate`. Times are from the first application's arrival; `tcp` applies to each phase
            separately.

    Raises:
        GavotteError: when network, applications and placement do not belong together.
    """
    apps, placement = unfold(apps, placement)
    ordered = placement.in_order(apps)
    todo = _Schedule(ordered, placement, host_names(network))
    flows = _waiting(todo.flows, todo.messages, network, ordered, conditions)
    if conditions.tcp:
        payload_share, seed = conditions.payload_share, conditions.seed
        weight = np.ones(len(flows))
        for rows in todo.together:
            part = Flows(flows.source[rows], flows.target[rows], flows.bytes[rows], flows.start_s[rows])
            weight[rows] = tcp_weights(network, part, payload_share=payload_share, seed=seed)
        flows, conditions = replace(flows, weight=weight), replace(conditions, tcp=False)
    done = simulate(network, flows, conditions, edges=todo.edges or None)
    ends_s = [
        float(done.finish_s[rows].max()) if rows else arrival_s
        for rows, arrival_s in zip(todo.rows, todo.arrivals_s, strict=True)
    ]
    return PlacementSimulation(
        # As in a run: without any bytes there is nothing to wait for, not even for an arrival.
        completion_s=float(np.max(ends_s)) if todo.transfers else 0.0,
        apps={app.name: end_s - at_s for app, end_s, at_s in zip(ordered, ends_s, todo.arrivals_s, strict=True)},
        flows=flows,
        simulation=done,
        transfers=todo.transfers,
    )


def _waiting(
    flows: Flows, messages: Sequence[int], network: Topology | Network, apps: Sequence[App], conditions: Conditions
) -> Flows:
    """Return the flows with start-up times that cover their messages and, on a Network, slow starts of connections.

    The start-up time is the longer of two: messages wait for each other, one latency each, of which the network adds
    the first one; and on a Network a connection needs time to start.
    """
    slow = isinstance(network, Network) and starts_slowly(with_loss(network), apps)
    if not any(messages) and not slow:
        return flows
    platform = build_platform(network, conditions.payload_share, conditions.seed)
    latencies_s = np.array([platform.latency_s(m, n) for m, n in flows.pairs])
    waits_s = np.maximum(np.array(messages) - 1, 0) * latencies_s
    if slow and isinstance(network, Network):
        slow_s = starts_s(with_loss(network), flows.bytes, (flows.source, flows.target))
        waits_s = np.maximum(waits_s, slow_s - latencies_s)
    return replace(flows, startup_s=waits_s)


class _Schedule:
    """The transfers of all applications as flows, with the order in which they must run.

    A *gate* is a flow without bytes between two phases of an application. It waits for each transfer of the first
    phase, and each transfer of the second phase waits for it. Direct edges between all transfers of two phases would be
    as many as the product of their numbers.

    Attributes:
        flows: the transfers in file order, then the gates.
        messages: number of messages in each flow that wait for each other; 0 = a stream.
        edges: pairs of flows; the second waits for the first.
        transfers: number of flows that are transfers.
        arrivals_s: start of each application, in seconds from the first one's start.
        rows: for each application, the rows of its transfers in `flows`.
        together: the rows of all applications' first phases, then those of their second phases, and so on.
    """

    def __init__(self, apps: Sequence[App], placement: Placement, hosts: Sequence[str]) -> None:
        self._host_at = {name: index for index, name in enumerate(hosts)}
        first_s = min((app.arrival_s for app in apps), default=0.0)
        self.arrivals_s = [app.arrival_s - first_s for app in apps]
        self.edges: list[tuple[int, int]] = []
        self.rows: list[list[int]] = []
        self.messages: list[int] = []
        ids: list[str] = []
        columns: list[tuple[int, int, int, float]] = []
        phases: list[dict[int, list[int]]] = []
        for app, arrival_s in zip(apps, self.arrivals_s, strict=True):
            prefix = f"{app.name}/" if len(apps) > 1 else ""
            at = {task.name: self._host(placement, prefix + task.name) for task in app.task}
            sent = [transfer for transfer in app.transfer if transfer.bytes > 0]
            self.rows.append(list(range(len(ids), len(ids) + len(sent))))
            phases.append({phase: [] for phase in sorted({transfer.phase for transfer in sent})})
            for transfer in sent:
                phases[-1][transfer.phase].append(len(ids))
                suffix = f".{transfer.phase}" if len(phases[-1]) > 1 else ""
                ids.append(f"{prefix}{transfer.source}>{prefix}{transfer.target}{suffix}")
                columns.append((at[transfer.source], at[transfer.target], transfer.bytes, arrival_s))
            self.messages += [transfer.messages or 0 for transfer in sent]
        self.transfers = len(ids)
        ranks = zip_longest(*(of_app.values() for of_app in phases), fillvalue=[])
        self.together = [[row for rows in rank for row in rows] for rank in ranks]
        for of_app, arrival_s in zip(phases, self.arrivals_s, strict=True):
            for (phase, before), (_, after) in pairwise(of_app.items()):
                gate = len(ids)
                ids.append(f"end of phase {phase}")
                columns.append((0, 0, 0, arrival_s))
                self.edges += [(row, gate) for row in before]
                self.edges += [(gate, row) for row in after]
        self.messages += [0] * (len(ids) - self.transfers)
        source, target, sizes, starts = zip(*columns, strict=True) if columns else ((), (), (), ())
        self.flows = Flows(
            np.array(source, np.uint32),
            np.array(target, np.uint32),
            np.array(sizes, np.uint64),
            np.array(starts, np.float64),
            ids=ids,
        )

    def _host(self, placement: Placement, key: str) -> int:
        host = placement.assignment.get(key)
        if host is None:
            raise GavotteError(f"the placement has no host for task `{key}`", hint="place the application again")
        host = known_as(host, self._host_at)
        if host not in self._host_at:
            raise GavotteError(
                f"task `{key}` is placed on `{host}`, which is not a host of the network",
                hint=meant(host, self._host_at),
            )
        return self._host_at[host]
