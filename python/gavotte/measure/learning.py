"""Completes a History by what its pairs share: path lengths where they are unknown, then experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gavotte.agents import Budget, enrolled
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.measure.paths import trace_paths
from gavotte.measure.plan import Cost, Limits
from gavotte.measure.sharing import Progress, SharingResult, measure_sharing, sharing_cost

TRACE_S = 10.0
"""For the traces of hosts whose routers answer."""


def cost_of_sharing(history: History, *, seed: int = 0, price_per_gb: float = 0.0) -> Cost:
    """Says beforehand what `learn_sharing` will cost. See `Cost`."""
    cost = sharing_cost(history, seed=seed)
    # Typical: all but few experiments end with the second try.
    typical = cost.bytes // 2
    return Cost(bytes=typical, max_bytes=cost.bytes, seconds=cost.seconds, money=typical / 1e9 * price_per_gb)


def learn_sharing(
    inventory: Inventory,
    history: History,
    *,
    seed: int = 0,
    trace: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> tuple[History, SharingResult]:
    """Finds which pairs of a History take from each other (Choreo section 3.3).

    Args:
        inventory: holds the History's hosts.
        history: rates of pairs; the experiments are compared with them.
        seed: of the choice of pairs.
        trace: trace all paths, not only where the History lacks lengths.
        limits: refuse beforehand what would cost more.
        progress: told of each experiment that is done.

    Returns:
        the History with path lengths, router addresses where traced, and this evidence in place of any before; and what
        the experiments cost.

    Raises:
        GavotteError: when a host is not in the inventory, or the budget is too small.
        AgentError: when no agent, or fewer than three, can be used.
    """
    by_name = {host.name: host for host in inventory.host}
    strangers = [name for name in history.hosts if name not in by_name]
    if strangers:
        raise GavotteError(
            f"{strangers[0]!r} is in the History but not in the inventory", hint="name the hosts that were measured"
        )
    limits = limits or Limits()
    cost = cost_of_sharing(history, seed=seed, price_per_gb=limits.price_per_gb)
    limits.check(cost)
    mine = inventory.model_copy(update={"host": [by_name[name] for name in history.hosts]})
    budget = Budget(
        max_bytes=0 if limits.bytes is None else limits.bytes // len(history.hosts),
        max_seconds=4 * (cost.seconds + TRACE_S) + 120.0,
    )
    with enrolled(mine, budget) as fleet:
        if len(fleet.hosts) < 3:
            raise AgentError(f"only {len(fleet.hosts)} agents can be used; two pairs need three hosts")
        unknown = (history.hops == 0) & ~np.eye(len(history.hosts), dtype=bool)
        if trace or unknown.any():
            found = trace_paths(fleet, history.hosts, seed=seed)
            hops = np.where(history.hops > 0, history.hops, np.maximum(found.hops, found.hops.T))
            history = replace(history, hops=hops, hop_addresses=found.addresses)
        result = measure_sharing(fleet, history, seed=seed, progress=progress)
    return replace(history, evidence=result.evidence), result
