"""Request of a measurement, and the settings of its run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from gavotte.agents import Reach
from gavotte.errors import GavotteError
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.measure.plan.cost import CostLimits
from gavotte.measure.plan.labelled import rack_labels
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS, Method
from gavotte.measure.plan.path_plan import PathPlan, Scale, check_request, plan_paths
from gavotte.terms import Progress

Enough = Callable[[History], bool]

MOST_SUSTAINED_S = 86_400.0
"""Longest time for which hosts may send without a pause: a day."""


@dataclass(frozen=True)
class MeasureQuestion:
    """Request of a measurement: the paths, the method and the limits of cost.

    Attributes:
        inventory: the hosts.
        method: a key of `METHODS`, or a method of one's own, as `bulk(flows=4)`.
        count: number of snapshots.
        every_s: seconds from the start of one snapshot to the start of the next.
        seed: seed of the order of rounds; snapshot k uses seed + k.
        again: measure doubtful paths again, alone, and learn from them which links are shared.
        limits: refuse in advance what would cost more.
        known: an earlier Network, whose shared links two probes never fill at once.
        assumed_bps: rate to assume for paths that no Network covers, for the estimate that ends the measurement; None =
            it is unknown, and the estimate assumes `ASSUMED_RATE_BPS`.
        pairs: the only (source, target) pairs to measure; None = as `scale` says.
        scale: `pairs` measures all. `structure` measures few that show the limits of hosts and links. `auto` measures
            few of more than 24 hosts, and of more than 8 as soon as racks' links turn out to limit their hosts.
        sharing: whether experiments on shared links will follow, so that the plan has their cost.
        sustain_s: time for which each host then sends without a pause, to see credits that run out; 0 = it does not.
    """

    inventory: Inventory
    method: str | Method = "train"
    count: int = 1
    every_s: float = 0.0
    seed: int = 0
    again: bool = True
    limits: CostLimits = field(default_factory=CostLimits)
    known: Network | None = None
    assumed_bps: float | None = None
    pairs: Collection[tuple[str, str]] | None = None
    scale: Scale = "auto"
    sharing: bool = False
    sustain_s: float = 0.0

    @property
    def doubt(self) -> str:
        """Unknown facts that may put the estimate off by more than a factor of two; empty = there are none.

        1. Only a Network with rates of all hosts, or a rate that the user gives, predicts the paths' cost.
        2. Racks cost up to twice as much as hosts without racks. Their experiments (`sharing`) may cost several times
           as much, since each limited link is tried again.
        """
        known = self.known
        if known is not None and known.any_rate and set(self.inventory.names) <= set(known.names):
            return ""
        if self.assumed_bps is None:
            return "no rate of a path is known"
        return "it is unknown which hosts share a rack" if self.sharing else ""

    def check(self) -> None:
        """Refuse what cannot be planned.

        Raises:
            GavotteError: for a bad field, too small a budget, or fewer than two hosts.
        """
        _ = self.paths

    def check_fields(self) -> None:
        """Refuse fields that make no sense with any hosts, as can be seen before a host is reached.

        Raises:
            GavotteError: for a bad field.
        """
        if not 0 <= self.sustain_s <= MOST_SUSTAINED_S:
            raise GavotteError(f"hosts cannot send for {self.sustain_s:g} s", hint="use 0 to 86400, which is a day")
        if self.scale == "structure" and self.pairs is not None:
            raise GavotteError("the scale `structure` chooses pairs itself", hint="name no pairs")
        if self.sustain_s and not self.again:
            raise GavotteError("a credit that runs out needs repeated probes", hint="measure doubtful paths again")
        check_request(
            self.method, count=self.count, every_s=self.every_s, assumed_bps=self._assumed_bps, pairs=self._pairs
        )

    @property
    def _assumed_bps(self) -> float:
        return ASSUMED_RATE_BPS if self.assumed_bps is None else self.assumed_bps

    @property
    def _pairs(self) -> Collection[tuple[str, str]] | Scale:
        if self.pairs is not None:
            return self.pairs
        # Experiments compare the rates of all pairs.
        return "pairs" if self.scale == "auto" and self.sharing else self.scale

    @cached_property
    def paths(self) -> PathPlan:
        """The rounds of all paths, within the limits.

        Raises:
            GavotteError: for a bad field, too small a budget, or fewer than two hosts.
        """
        self.check_fields()
        plan = plan_paths(
            self.inventory.names,
            self.method,
            count=self.count,
            every_s=self.every_s,
            seed=self.seed,
            known=self.known,
            assumed_bps=self._assumed_bps,
            pairs=self._pairs,
        )
        labels = rack_labels(self.inventory.host)
        return replace(plan, sustain_s=self.sustain_s, labels=labels).within(self.limits)


@dataclass(frozen=True)
class ProbeSession:
    """Settings of any run in which agents send probes.

    Attributes:
        progress: called for each path, or experiment, that is done.
        take_over: end another measurement of the same user that holds agents, instead of waiting for it.
    """

    progress: Progress | None = None
    take_over: bool = False


@dataclass(frozen=True)
class MeasureSession(ProbeSession):
    """Settings of the run of a measurement of paths.

    Attributes:
        progress: called for each path that is done.
        take_over: end another measurement of the same user that holds agents, instead of waiting for it.
        journal: file for answers until all have arrived.
        resume: continue from the journal of an interrupted measurement.
        enough: called after each snapshot with all so far; true ends the measurement before `count`.
        reach: open connections to the agents, for repeated measurements; None = they are opened and closed.
        heard: called with each rate that a path shows, in bit/s of TCP goodput.
    """

    journal: Path | None = None
    resume: bool = False
    enough: Enough | None = None
    reach: Reach | None = None
    heard: Callable[[float], None] | None = None
