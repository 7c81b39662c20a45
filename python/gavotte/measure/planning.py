"""The plan of a measurement with its price, known before the first packet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gavotte.measure.plan.cost import Cost, Most
from gavotte.measure.plan.fast_paths import FAST_BPS
from gavotte.measure.plan.labelled import with_labels
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS
from gavotte.measure.plan.path_plan import PathPlan
from gavotte.measure.plan.sparse import sparse_pairs_of
from gavotte.measure.predict.foreseen import foreseen
from gavotte.measure.predict.pilot import Pilot
from gavotte.measure.predict.predicting import expected_cost, predict_cost
from gavotte.measure.question import MeasureQuestion
from gavotte.measure.sharing.experiments import cost_of_sharing
from gavotte.terms.hierarchy import hierarchy_of

NEAR = 2.0
"""A measurement costs at most this multiple of a pilot's estimate, or ends."""

SLACK_S = 10.0
"""Seconds beyond that for the time slices that a busy machine takes, which count most in short measurements."""


@dataclass(frozen=True)
class MeasurementPlan:
    """Plan of a measurement, with its expected cost.

    `gavotte measure --dry-run` prints it, and `carry_out` carries it out.

    Attributes:
        question: the request.
        paths: the rounds of all paths.
        cost: expected cost of the paths. Without a budget the measurement ends when it far exceeds this.
        experiments: expected cost of the experiments that follow; None = none were asked for.
        pilot: the pilot that predicted the cost; None = none was taken.
    """

    question: MeasureQuestion
    paths: PathPlan
    cost: Cost
    experiments: Cost | None = None
    pilot: Pilot | None = None

    @property
    def total(self) -> Cost:
        """Expected cost of the paths and of the experiments."""
        return self.cost if self.experiments is None else self.cost + self.experiments

    @property
    def reachable(self) -> PathPlan:
        """The paths between hosts that answered the pilot, which the cost is for; all paths without a pilot."""
        if self.pilot is None:
            return self.paths
        here = self.paths.of_hosts(self.pilot.inventory.names)
        if not here.sparse:
            return here
        tree = hierarchy_of(here.names, with_labels(self.pilot.lengths, here.names, here.labels).lengths)
        return here.of_pairs(sparse_pairs_of(tree, range(tree.size), seed=here.seed))

    @property
    def most(self) -> Most:
        """Cost at which the measurement of the paths ends, whether it is done or not."""
        limits = self.question.limits
        most = self.paths.most(limits, self.cost)
        if self.pilot is None or limits.bytes is not None:
            return most
        return replace(most, bytes=float(self.cost.max_bytes), firm=True)

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
        pilot: results of a pilot, for hosts that no Network covers. The cost is then that of the hosts that answered.

    Raises:
        GavotteError: for a bad field, too small a budget, or fewer than two hosts.
    """
    if pilot is not None:
        question = replace(question, assumed_bps=pilot.usual_bps)
    paths, limits, known = question.paths, question.limits, question.known
    if pilot is None:
        cost = expected_cost(paths, question.inventory, known, limits)
    else:
        known, here = pilot.network, paths.of_hosts(pilot.inventory.names)
        cost = _at_most(predict_cost(here, pilot, limits), pilot)
    if not question.sharing:
        return MeasurementPlan(question, paths, cost, pilot=pilot)
    if pilot is None:
        assumed_bps = ASSUMED_RATE_BPS if question.assumed_bps is None else question.assumed_bps
        history = foreseen(paths.names, known, assumed_bps=assumed_bps, method=paths.method.name)
    else:
        history = replace(foreseen(here.names, known, method=paths.method.name), hops=pilot.lengths.matrix())
    experiments = cost_of_sharing(history, seed=question.seed, price_per_gb=limits.price_per_gb, known=known)
    if pilot is not None:
        experiments = _at_most(experiments, pilot)
    return MeasurementPlan(question, paths, cost, experiments, pilot)


def _at_most(cost: Cost, pilot: Pilot) -> Cost:
    """Return a cost with the most that it may become if a pilot has predicted it.

    Args:
        cost: the cost of hosts of which the most is for paths of any rate.
        pilot: the pilot.
    """
    # Paths that are nearly as fast as trains can measure may turn out to be faster.
    fast_bytes = cost.fast_bytes if pilot.most_bps >= FAST_BPS / NEAR else 0
    return replace(
        cost,
        max_bytes=int(min(cost.usual_max_bytes, NEAR * cost.bytes)) + fast_bytes,
        max_seconds=min(cost.max_seconds, NEAR * cost.seconds + SLACK_S),
        fast_bytes=fast_bytes,
    )
