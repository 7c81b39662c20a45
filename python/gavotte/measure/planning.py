"""The plan of a measurement with its price, known before the first packet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gavotte.measure.plan.cost import Cost
from gavotte.measure.plan.path_plan import PathPlan
from gavotte.measure.predict.foreseen import foreseen
from gavotte.measure.predict.pilot import Pilot
from gavotte.measure.predict.predicting import expected_cost, predict_cost
from gavotte.measure.question import MeasureQuestion
from gavotte.measure.sharing.experiments import cost_of_sharing


@dataclass(frozen=True)
class MeasurementPlan:
    """Plan of a measurement, with its expected cost.

    `gavotte measure --dry-run` prints it, and `carry_out` carries it out.

    Attributes:
        question: the request.
        paths: the rounds of all paths.
        cost: expected cost of the paths. Without a budget the measurement ends when it far exceeds this.
        experiments: expected cost of the experiments that follow; None = none were asked for.
    """

    question: MeasureQuestion
    paths: PathPlan
    cost: Cost
    experiments: Cost | None = None

    @property
    def total(self) -> Cost:
        """Expected cost of the paths and of the experiments."""
        return self.cost if self.experiments is None else self.cost + self.experiments

    def check(self) -> None:
        """Refuse a plan that costs more than the limits of its question.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        self.question.limits.check(self.total)


def plan_measurement(question: MeasureQuestion, pilot: Pilot | None = None) -> MeasurementPlan:
    """Plan a measurement and predict its cost.

    Args:
        question: the request.
        pilot: results of a pilot, for hosts that no Network covers. The plan is then one for the hosts that answered.

    Raises:
        GavotteError: for a bad field, too small a budget, or fewer than two hosts.
    """
    paths, limits, known = question.paths, question.limits, question.known
    if pilot is None:
        cost = expected_cost(paths, question.inventory, known, limits)
        history = foreseen(paths.names, known, assumed_bps=question.assumed_bps, method=paths.method.name)
    else:
        known = pilot.network
        paths = paths.of_hosts(pilot.inventory.names)
        cost = predict_cost(paths, pilot, limits)
        history = replace(foreseen(paths.names, known, method=paths.method.name), hops=pilot.lengths)
    if not question.sharing:
        return MeasurementPlan(question, paths, cost)
    return MeasurementPlan(
        question,
        paths,
        cost,
        cost_of_sharing(history, seed=question.seed, price_per_gb=limits.price_per_gb, known=known),
    )
