"""Find the links that a History's pairs share, and add path lengths (if unknown) and experiments to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gavotte.agents import Budget, enrolled
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.measure.carry.paths import trace_paths
from gavotte.measure.plan.cost import Cost, CostLimits
from gavotte.measure.question import ProbeSession
from gavotte.measure.sharing.experiments import SharingResult, cost_of_sharing, measure_sharing

TRACE_S = 10.0
"""Time for the traces of hosts whose routers answer."""


@dataclass(frozen=True)
class SharingQuestion:
    """Request of an experiment on shared links: the hosts, their History and the limits of cost.

    Attributes:
        inventory: holds the History's hosts.
        history: rates of pairs; the experiments are compared with them.
        seed: seed of the choice of pairs.
        trace: trace all paths, not only where the History lacks lengths.
        limits: refuse in advance what would cost more, and end what does.
    """

    inventory: Inventory
    history: History
    seed: int = 0
    trace: bool = False
    limits: CostLimits = field(default_factory=CostLimits)


@dataclass(frozen=True)
class SharingPlan:
    """Plan of experiments on shared links, with their expected cost.

    Attributes:
        question: the request.
        hosts: the History's hosts, in its order.
        cost: expected cost of the experiments, by the rates and round trips that the History has.
    """

    question: SharingQuestion
    hosts: Inventory
    cost: Cost

    @property
    def budget(self) -> Budget:
        """Most bytes and seconds that each agent may spend."""
        limits = self.question.limits
        return Budget(
            max_bytes=0 if limits.bytes is None else limits.bytes // len(self.hosts.host),
            max_seconds=4 * (self.cost.seconds + TRACE_S) + 120.0,
        )

    def check(self) -> None:
        """Refuse a plan that costs more than the limits of its question.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        self.question.limits.check(self.cost)


def plan_sharing(question: SharingQuestion) -> SharingPlan:
    """Predict the cost of experiments.

    Raises:
        GavotteError: when a host is not in the inventory.
    """
    inventory, history = question.inventory, question.history
    by_name = {host.name: host for host in inventory.host}
    strangers = [name for name in history.hosts if name not in by_name]
    if strangers:
        raise GavotteError(
            f"`{strangers[0]}` is in the History but not in the inventory", hint="use the hosts that were measured"
        )
    hosts = inventory.model_copy(update={"host": [by_name[name] for name in history.hosts]})
    price = question.limits.price_per_gb
    return SharingPlan(question, hosts, cost_of_sharing(history, seed=question.seed, price_per_gb=price))


def learn_sharing(
    inventory: Inventory, history: History, *, seed: int = 0, limits: CostLimits | None = None
) -> tuple[History, SharingResult]:
    """Find which pairs of a History slow each other down (Choreo section 3.3), as `carry_out` does.

    Args:
        inventory: holds the History's hosts.
        history: rates of pairs; the experiments are compared with them.
        seed: seed of the choice of pairs.
        limits: refuse in advance what would cost more, and end what does.

    Raises:
        GavotteError: when a host is not in the inventory, or the budget is too small.
        AgentError: as in `carry_out`.
    """
    return carry_out(plan_sharing(SharingQuestion(inventory, history, seed, limits=limits or CostLimits())))


def carry_out(plan: SharingPlan, session: ProbeSession | None = None) -> tuple[History, SharingResult]:
    """Run the experiments of a plan.

    Args:
        plan: plan of the run, with its expected cost.
        session: settings of the run.

    Returns:
        the History with path lengths and, if traced, router addresses, and the cost of the experiments. New evidence
        replaces the old; if hosts were lost or the experiments ended early, old evidence on untried links is kept.

    Raises:
        GavotteError: when the budget is too small.
        AgentError: when fewer than three agents can be used, or the experiments ended without any result.
    """
    session = session or ProbeSession()
    question, history = plan.question, plan.question.history
    plan.check()
    with enrolled(plan.hosts, plan.budget, purpose="measure sharing", take_over=session.take_over) as fleet:
        if len(fleet.hosts) < 3:
            raise AgentError(f"only {len(fleet.hosts)} agents can be used, but the experiments need three hosts")
        unknown = (history.hops == 0) & ~np.eye(len(history.hosts), dtype=bool)
        cost: Cost | None = plan.cost
        if question.trace or unknown.any():
            traced = trace_paths(fleet, history.hosts, seed=question.seed)
            hops = np.where(history.hops > 0, history.hops, np.maximum(traced.hops, traced.hops.T))
            history = replace(history, hops=hops, hop_addresses=traced.addresses)
            # The lengths decide what is tried.
            cost = None
        result = measure_sharing(
            fleet, history, seed=question.seed, limits=question.limits, cost=cost, progress=session.progress
        )
        result = replace(result, beside=fleet.beside(), guaranteed_bps=fleet.guaranteed_bps())
    if not result.lost and not result.stopped:
        return replace(history, evidence=result.evidence), result
    if not result.evidence and not result.lost:
        raise AgentError(
            f"no experiment came to an end: {result.stopped}",
            hint="measure again, so that the History tells what pairs carry now",
        )
    if not result.evidence:
        name, reason = next(iter(result.lost.items()))
        raise AgentError(
            f"no experiment came to an end; lost {len(result.lost)} of {len(history.hosts)} hosts, {name}: {reason}"
        )
    tried = {record.subject for record in result.evidence}
    before = tuple(record for record in history.evidence if record.subject not in tried)
    return replace(history, evidence=before + result.evidence), result
