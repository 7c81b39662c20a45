"""Adds to a History what its pairs share: path lengths if they are unknown, then experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gavotte.agents import Budget, enrolled
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.measure.carry.paths import trace_paths
from gavotte.measure.plan.cost import CostLimits
from gavotte.measure.sharing.experiments import SharingResult, cost_of_sharing, measure_sharing
from gavotte.terms import Progress

TRACE_S = 10.0
"""Time for the traces of hosts whose routers answer."""


def learn_sharing(
    inventory: Inventory,
    history: History,
    *,
    seed: int = 0,
    trace: bool = False,
    limits: CostLimits | None = None,
    progress: Progress | None = None,
    take_over: bool = False,
) -> tuple[History, SharingResult]:
    """Find which pairs of a History slow each other down (Choreo section 3.3).

    Args:
        inventory: holds the History's hosts.
        history: rates of pairs; the experiments are compared with them.
        seed: seed of the choice of pairs.
        trace: trace all paths, not only where the History lacks lengths.
        limits: refuse in advance what would cost more, and end what does.
        progress: called for each experiment that is done.
        take_over: as in `measure`.

    Returns:
        the History with path lengths and, if traced, router addresses, and the cost of the experiments. New evidence
        replaces the old; if hosts were lost or the experiments ended early, old evidence on untried links is kept.

    Raises:
        GavotteError: when a host is not in the inventory, or the budget is too small.
        AgentError: when fewer than three agents can be used, or the experiments ended without any result.
    """
    by_name = {host.name: host for host in inventory.host}
    strangers = [name for name in history.hosts if name not in by_name]
    if strangers:
        raise GavotteError(
            f"`{strangers[0]}` is in the History but not in the inventory", hint="use the hosts that were measured"
        )
    limits = limits or CostLimits()
    cost = cost_of_sharing(history, seed=seed, price_per_gb=limits.price_per_gb)
    limits.check(cost)
    mine = inventory.model_copy(update={"host": [by_name[name] for name in history.hosts]})
    budget = Budget(
        max_bytes=0 if limits.bytes is None else limits.bytes // len(history.hosts),
        max_seconds=4 * (cost.seconds + TRACE_S) + 120.0,
    )
    with enrolled(mine, budget, purpose="measure sharing", take_over=take_over) as fleet:
        if len(fleet.hosts) < 3:
            raise AgentError(f"only {len(fleet.hosts)} agents can be used, but the experiments need three hosts")
        unknown = (history.hops == 0) & ~np.eye(len(history.hosts), dtype=bool)
        if trace or unknown.any():
            traced = trace_paths(fleet, history.hosts, seed=seed)
            hops = np.where(history.hops > 0, history.hops, np.maximum(traced.hops, traced.hops.T))
            history = replace(history, hops=hops, hop_addresses=traced.addresses)
        result = measure_sharing(fleet, history, seed=seed, limits=limits, progress=progress)
        result = replace(result, beside=fleet.beside())
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
