"""The estimate of `gavotte measure`: the plan and its cost, printed before the first packet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gavotte.cli.output import emit_json, note
from gavotte.cli.pilot import PilotTerms, pilot_document, pilot_of
from gavotte.cli.progress import progress
from gavotte.formats.parts.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.measure import Cost, MeasurementPlan, MeasureQuestion


def plan_with(question: MeasureQuestion, terms: PilotTerms | None) -> MeasurementPlan:
    """Plan a measurement, print what it will do and cost, and refuse what is over the budget.

    Args:
        question: the measurement.
        terms: how to take a pilot first; None = take none.

    Raises:
        GavotteError: when the plan costs more than the budget.
    """
    from gavotte.measure import CostLimits, plan_measurement

    pilot = None
    if terms is not None:
        # Only a pilot shows whether the budget suffices.
        replace(question, limits=CostLimits()).check()
        pilot = pilot_of(question, terms)
        if pilot is not None and not terms.dry_run:
            question = replace(question, limits=question.limits.less(pilot.bytes_sent, pilot.seconds))
    with progress("planning"):
        plan = plan_measurement(question, pilot)
    _announce(plan)
    plan.check()
    return plan


def _announce(plan: MeasurementPlan) -> None:
    """Print what a measurement will do and cost."""
    from gavotte.measure.plan.fast_paths import FAST_BPS
    from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS

    count, limits, cost = plan.question.count, plan.question.limits, plan.total
    what = f"{count} snapshot{'s' * (count > 1)}{' and experiments' * plan.question.sharing}"
    money = f", about {cost.money:.2f} in money" if limits.price_per_gb else ""
    most_bytes = min(cost.usual_max_bytes, limits.bytes or cost.max_bytes)
    slow = "" if plan.pilot is not None else " where paths are slow and share links"
    assumed = f" (each path assumed to carry {format_rate(ASSUMED_RATE_BPS)})"
    note(
        f"{plan.reachable.paths} paths in {len(plan.reachable.first)} rounds, {what}: "
        f"about {format_bytes(cost.bytes)}, at most {format_bytes(most_bytes)}, about {cost.seconds:.1f} s and "
        f"at most {cost.max_seconds:.1f} s{slow}{money}, seed {plan.question.seed}"
        f"{assumed if plan.pilot is None and plan.question.assumed_bps is None and plan.question.doubt else ''}"
    )
    if cost.fast_bytes and limits.bytes is None:
        note(
            f"up to {format_bytes(cost.fast_bytes)} more, only if paths turn out to be faster than trains can measure "
            f"(from {format_rate(FAST_BPS)} on)"
        )


def show_plan(plan: MeasurementPlan, *, as_json: bool) -> None:
    """Print the plan of a dry run as JSON, and how its estimate could be better."""
    question, cost = plan.question, plan.total
    if question.doubt and plan.pilot is None:
        remedy = "give your rate with --assumed-rate, or " if question.assumed_bps is None else ""
        note(f"the estimate may be off by more than a factor of two: {question.doubt}; {remedy}let --pilot find out")
    if as_json:
        emit_json(
            {
                "paths": plan.reachable.paths,
                "rounds": len(plan.reachable.first),
                "snapshots": question.count,
                "bytes": cost.bytes,
                "max_bytes": cost.max_bytes,
                "fast_bytes": cost.fast_bytes,
                "seconds": cost.seconds,
                "max_seconds": cost.max_seconds,
                "money": cost.money,
                "seed": question.seed,
                "pilot": pilot_document(plan.pilot),
            }
        )


def estimate_document(plan: MeasurementPlan) -> dict[str, object]:
    """Return the predicted cost of the paths, and of the experiments, as `--json` prints it after the run."""

    def document_of(cost: Cost) -> dict[str, float]:
        return {"bytes": cost.bytes, "max_bytes": cost.max_bytes, "seconds": cost.seconds}

    experiments = None if plan.experiments is None else document_of(plan.experiments)
    return document_of(plan.cost) | {"experiments": experiments}
