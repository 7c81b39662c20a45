"""Bounds on a whole placement, in addition to the constraints of its applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Quota:
    """A bound on the rate that all tasks on some hosts may need of one link together.

    Attributes:
        link: in words: `egress of vm3`, `up link of rack1`.
        hosts: names of the hosts that the link serves.
        needs_bps: task key to the rate that the task needs of the link; other tasks need nothing.
        most_bps: the rate that the link has for all tasks.
        sends: whether the hosts send over the link; otherwise they receive over it.
    """

    link: str
    hosts: Sequence[str]
    needs_bps: Mapping[str, float]
    most_bps: float
    sends: bool


@dataclass(frozen=True)
class PlacementLimits:
    """Bounds on a whole placement, in addition to the constraints of its applications.

    Attributes:
        max_hosts: maximum number of hosts used.
        max_price_usd: maximum price of hosts and bytes.
        max_latency_s: maximum one-way latency between tasks that exchange bytes; an unknown latency breaks any bound.
        quotas: bounds on the rates that tasks may need of links.
    """

    max_hosts: int | None = None
    max_price_usd: float | None = None
    max_latency_s: float | None = None
    quotas: tuple[Quota, ...] = ()


NO_LIMITS = PlacementLimits()
