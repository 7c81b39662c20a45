"""Compute when flows finish that share the links of a Topology or Network max-min fairly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.simulate.advancing import Advance, Underway
    from gavotte.simulate.background import parse_on_off, parse_poisson
    from gavotte.simulate.collectives import CollectiveReplay
    from gavotte.simulate.conditions import Conditions
    from gavotte.simulate.flows import Background, Flows, read_flows, write_finish
    from gavotte.simulate.guarded import PROTECTIONS, GuardedSimulation, HostGuard, PairGuard, Queues, simulate_guarded
    from gavotte.simulate.jobs import JobReplay, JobTime, MessageCosts
    from gavotte.simulate.placement import PlacementSimulation, replay_placement, simulate_placement
    from gavotte.simulate.platform import host_names, read_platform
    from gavotte.simulate.roundtrips import tcp_weights
    from gavotte.simulate.simulating import LinkUse, Simulation, rates, simulate

__all__ = [
    "PROTECTIONS",
    "Advance",
    "Background",
    "CollectiveReplay",
    "Conditions",
    "Flows",
    "GuardedSimulation",
    "HostGuard",
    "JobReplay",
    "JobTime",
    "LinkUse",
    "MessageCosts",
    "PairGuard",
    "PlacementSimulation",
    "Queues",
    "Simulation",
    "Underway",
    "host_names",
    "parse_on_off",
    "parse_poisson",
    "rates",
    "read_flows",
    "read_platform",
    "replay_placement",
    "simulate",
    "simulate_guarded",
    "simulate_placement",
    "tcp_weights",
    "write_finish",
]

load_on_first_use(
    __name__,
    {
        "advancing": ("Advance", "Underway"),
        "background": ("parse_on_off", "parse_poisson"),
        "collectives": ("CollectiveReplay",),
        "conditions": ("Conditions",),
        "flows": ("Background", "Flows", "read_flows", "write_finish"),
        "guarded": ("PROTECTIONS", "GuardedSimulation", "HostGuard", "PairGuard", "Queues", "simulate_guarded"),
        "jobs": ("JobReplay", "JobTime", "MessageCosts"),
        "placement": ("PlacementSimulation", "replay_placement", "simulate_placement"),
        "platform": ("host_names", "read_platform"),
        "roundtrips": ("tcp_weights",),
        "simulating": ("LinkUse", "Simulation", "rates", "simulate"),
    },
)
