"""`gavotte measure --dry-run --pilot`: estimate the cost of measuring hosts that no Network covers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gavotte.cli.output import note
from gavotte.formats.counting import counted
from gavotte.formats.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.formats.inventory import Inventory
    from gavotte.measure import Cost, CostLimits, MeasurementPlan

ALIKE = 1.02
"""Rates that differ by at most this factor are printed as one."""


def pilot_cost(
    inventory: Inventory, plan: MeasurementPlan, limits: CostLimits, *, sharing: bool, take_over: bool
) -> tuple[MeasurementPlan, Cost, dict[str, object]]:
    """Send a pilot, and estimate the cost of a measurement from it.

    Args:
        inventory: the hosts.
        plan: what is to be measured.
        limits: most that both may cost.
        sharing: whether to include the experiments.
        take_over: as in `measure`.

    Returns:
        the plan for the hosts that answered, its cost, and the pilot's results as a document.
    """
    from gavotte.measure import predict_cost, take_pilot
    from gavotte.measure.sharing import cost_of_sharing, foreseen

    pilot = take_pilot(inventory, seed=plan.seed, most_bytes=limits.bytes, take_over=take_over)
    for host, reason in pilot.missing.items():
        note(f"warning: {host}: {reason}")
    sends = {host.name: host.egress_bps for host in pilot.network.hosts}
    known_bps = sorted(bps for bps in sends.values() if bps is not None)
    rates = " to ".join(format_rate(bps) for bps in (known_bps[:1] + known_bps[-1:])) or "at unknown rates"
    if known_bps and known_bps[-1] <= ALIKE * known_bps[0]:
        rates = format_rate(known_bps[0])
    full = "the pilot filled no shared link"
    if pilot.shared:
        link, bps = min(pilot.shared.items(), key=lambda shared: shared[1])
        full = f"{counted(len(pilot.shared), 'shared link')} filled, for example {link} at {format_rate(bps)}"
    if pilot.untested:
        full += f", {len(pilot.untested)} not tested within the budget"
    note(f"pilot: {format_bytes(pilot.bytes_sent)} sent in {pilot.seconds:.1f} s; hosts send {rates}; {full}")
    todo = _of(plan.within(limits), pilot.inventory)
    cost = predict_cost(todo, pilot, limits)
    if sharing:
        expected = foreseen(pilot.inventory.names, pilot.network, method=plan.method.name)
        cost += cost_of_sharing(
            replace(expected, hops=pilot.lengths),
            seed=plan.seed,
            price_per_gb=limits.price_per_gb,
            known=pilot.network,
        )
    return (
        todo,
        cost,
        {
            "bytes_sent": pilot.bytes_sent,
            "measure_s": pilot.seconds,
            "egress_bps": sends,
            "shared": [{"link": link, "rate_bps": bps} for link, bps in pilot.shared.items()],
            "untested": pilot.untested,
            "missing": pilot.missing,
        },
    )


def _of(plan: MeasurementPlan, inventory: Inventory) -> MeasurementPlan:
    """Return the same plan for the hosts of an inventory."""
    here = {plan.names.index(name): at for at, name in enumerate(inventory.names)}
    only = plan.only
    if only is not None:
        only = frozenset((here[i], here[j]) for i, j in only if i in here and j in here)
    return replace(plan, names=tuple(inventory.names), only=only)
