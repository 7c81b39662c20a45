"""Random clouds and workloads of long flows, to compare the simulator with real transfers."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gavotte.formats.app import FORMAT as APP
from gavotte.formats.app import App
from gavotte.formats.parts.rate_fields import parse_rate
from gavotte.formats.placement import Placement
from gavotte.formats.topology import FORMAT as TOPOLOGY
from gavotte.formats.topology import Host, Topology
from gavotte.simulate import Conditions, Flows, Simulation, rates, simulate, tcp_weights
from gavotte.terms.goodput import GOODPUT_PER_WIRE, WIRE_BYTES

HOSTS = (6, 10)
FLOWS = (10, 30)
CAP_MBIT = (50, 300)
"""Egress and ingress of each host."""
UPLINK_MBIT = (150, 500)
LEAST_S = 5.0
"""Predicted time of the shortest flow, unless given: shorter ones are TCP's start-up, which the model leaves out."""
QUEUE_S = 0.010
"""Depth of each queue, as time at its rate.

Cubic evens its shares out over many round trips, so deep queues need longer flows.
"""
LAB_QUEUE_S = 0.05
"""The lab's own depth."""
SPREAD = 3.0
"""Largest size of a flow over the least, for equal rates."""
MOST_BPS = 1.0e9
"""Payload of all flows together at the start; with more, a small machine's processors become the bottleneck."""


_STILL = Host.model_validate(
    {"name": "still", "switch": "core", "egress": "10mbit", "queue": f"{8 * WIRE_BYTES}b", "cpus": 1.0}
)
"""A rate that carries no flow, but with a queue so short that no host of the lab sends over four frames at once.

A shaper accepts or drops the 16 kB of a super-packet as one, which no wire does, and shares become less even.
"""


@dataclass(frozen=True)
class Workload:
    """A cloud and the flows in it, all started together.

    Attributes:
        seed: makes it again.
        topology: the cloud.
        flows: between its hosts.
        queue_s: delay of a full queue.
    """

    seed: int
    topology: Topology
    flows: Flows
    queue_s: float

    def simulated(self) -> Simulation:
        """Finish times by equal shares, with no input but the description."""
        return simulate(self.topology, self.flows, Conditions(payload_share=GOODPUT_PER_WIRE))

    def simulated_tcp(self) -> Simulation:
        """Finish times by shares in inverse proportion to round trips, also with no input but the description."""
        weight = tcp_weights(self.topology, self.flows, queue_s=self.queue_s, payload_share=GOODPUT_PER_WIRE)
        return simulate(self.topology, replace(self.flows, weight=weight), Conditions(payload_share=GOODPUT_PER_WIRE))

    def app(self) -> App:
        """One task for each host, one transfer for each flow, in order."""
        pairs = zip(self.flows.source.tolist(), self.flows.target.tolist(), self.flows.bytes.tolist(), strict=True)
        names = [host.name for host in self.topology.host]
        return App.model_validate(
            {
                "format": APP,
                "name": "flows",
                "task": [{"name": name} for name in names],
                "transfer": [{"source": names[s], "target": names[t], "bytes": size} for s, t, size in pairs],
            }
        )

    def placement(self) -> Placement:
        """Each task on the host of its name."""
        return Placement(
            apps=["flows"],
            method="given",
            assignment={host.name: host.name for host in self.topology.host},
            completion_s=0,
            bound_s=0,
            optimal=False,
            bottleneck="",
            elapsed_s=0,
            seed=self.seed,
        )


def draw(
    seed: int, *, least_s: float = LEAST_S, queue_s: float | None = QUEUE_S, frames: bool = True, ingress: bool = False
) -> Workload:
    """Draw a cloud and flows; the same for the same arguments on any machine.

    Args:
        seed: of everything.
        least_s: predicted time of the shortest flow.
        queue_s: depth of the queue before each cap and uplink, as time at its rate; None = the lab's own choice.
        frames: send frames, at most four at once, rather than super-packets.
        ingress: cap the received traffic of half of the hosts, too.
    """
    rng = random.Random(seed)
    topology = _cloud(rng, queue_s, ingress)
    count = len(topology.host)
    if frames:
        topology = topology.model_copy(update={"host": [*topology.host, _STILL]})
    while True:
        pairs = [rng.sample(range(count), 2) for _ in range(rng.randint(*FLOWS))]
        source, target = (np.array(column) for column in zip(*pairs, strict=True))
        none = Flows(source, target, np.zeros(len(pairs), np.uint64), np.zeros(len(pairs)))
        first_bps = rates(topology, none, payload_share=GOODPUT_PER_WIRE)
        if first_bps.sum() <= MOST_BPS:
            break
    sizes = first_bps / 8 * np.array([rng.uniform(1, SPREAD) for _ in pairs])
    # After the first event rates only grow, or flows end before it: one scale makes the shortest flow `least_s`.
    flows = Flows(source, target, sizes.astype(np.uint64), np.zeros(len(pairs)))
    shortest = float(simulate(topology, flows, Conditions(payload_share=GOODPUT_PER_WIRE)).finish_s.min())
    scaled = (sizes * least_s / shortest).astype(np.uint64)
    return Workload(seed, topology, Flows(source, target, scaled, np.zeros(len(pairs))), queue_s or LAB_QUEUE_S)


def _cloud(rng: random.Random, queue_s: float | None, ingress: bool) -> Topology:
    """Draw two or three racks, half of them with a limited uplink; about a third of the hosts share a machine."""

    def mbit(least: int, most: int) -> str:
        return f"{rng.randint(least // 10, most // 10) * 10}mbit"

    def queue(rates: Iterable[str]) -> dict[str, str]:
        # One depth serves both ways: a queue made for the faster would delay acknowledgements for long at the slower.
        slower_bps = min((parse_rate(rate) for rate in rates), default=0.0)
        return {} if queue_s is None or not slower_bps else {"queue": f"{int(slower_bps / 8 * queue_s)}b"}

    racks = [f"tor{r}" for r in range(rng.randint(2, 3))]
    switches: list[dict[str, Any]] = [{"name": "core"}]
    for rack in racks:
        uplink = {"up": mbit(*UPLINK_MBIT), "down": mbit(*UPLINK_MBIT)} if rng.random() < 0.5 else {}
        switches.append({"name": rack, "parent": "core", **uplink, **queue(uplink.values())})
    hosts: list[dict[str, Any]] = []
    machines: list[dict[str, Any]] = []
    left = rng.randint(*HOSTS)
    while left:
        together = 2 if left >= 2 and rng.random() < 0.2 else 1
        caps = [{"egress": mbit(*CAP_MBIT)} for _ in range(together)]
        for cap in caps:
            if rng.random() < 0.5 and ingress:
                cap["ingress"] = mbit(*CAP_MBIT)
            cap |= queue(cap.values())
        where = {"switch": rng.choice(racks)}
        if together > 1:
            machines.append(
                {"name": f"pm{len(machines)}", **where, "rate": "1gbit", "machine_rate": mbit(*UPLINK_MBIT)}
            )
            where = {"machine": machines[-1]["name"]}
        hosts += [{"name": f"vm{len(hosts) + i}", "cpus": 4.0, **where, **cap} for i, cap in enumerate(caps)]
        left -= together
    return Topology.model_validate({"format": TOPOLOGY, "switch": switches, "machine": machines, "host": hosts})
