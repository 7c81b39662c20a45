"""Compare two campaigns: report which results are alike, which differ, and which are undecided."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gavotte.campaign.running import METRIC
from gavotte.errors import GavotteError
from gavotte.formats.parts.counting import counted
from gavotte.formats.record import Sample
from gavotte.terms.equivalence import SIGNIFICANCE, VERDICTS, Means, Verdict, judge, whole

MARGIN = 0.05
"""Largest difference that does not matter, as a share of the first mean.

OSMeF's tunnel cost 2 %, and its tenants' router much more.
"""

Cell = tuple[str, str, str, int, str]
"""Scenario, source, target, connections and flavour: the settings that all repetitions of a sample share."""


@dataclass(frozen=True)
class Difference:
    """Comparison of two campaigns' results in one cell: the same scenario, hosts, connections and flavour.

    Attributes:
        scenario: the scenario's name.
        source: the sending hosts, joined by commas.
        target: the receiving hosts, joined by commas.
        connections: number of connections of each pair.
        flavour: name of the processor limit of the endpoints; empty = no limit.
        values: number of values in each campaign.
        means: mean in each campaign; None = the campaign has no values.
        relative: second mean divided by the first, minus 1; None = a mean is missing or the first is 0.
        low: lower end of the 95 % confidence interval of `relative`; None = unknown or unbounded.
        high: upper end of the same interval.
        p: chance, after Holm's correction, of such a difference if the true means differ by no more than the margin;
            None = not testable.
        verdict: alike, different or cannot tell; also different if only one campaign has the cell.
        detectable: smallest relative difference that would have been found with a chance of 80 %; None = unknown.
        repetitions: repetitions that each campaign needs for a verdict, where there was none; None = unknown or more
            than ten thousand.
    """

    scenario: str
    source: str
    target: str
    connections: int
    flavour: str
    values: tuple[int, int]
    means: tuple[float | None, float | None]
    relative: float | None
    low: float | None
    high: float | None
    p: float | None
    verdict: Verdict
    detectable: float | None
    repetitions: int | None


@dataclass(frozen=True)
class Comparison:
    """Comparison of two campaigns.

    Attributes:
        metric: the compared quantity.
        margin: the largest difference that does not matter, as a share of the first mean.
        significance: significance level of all comparisons together.
        cells: one comparison for each cell, in the first campaign's order, then those that only the second has.
        untested: number of cells that both campaigns have, with fewer than two values on a side.
        same: whether both campaigns are the same samples.
    """

    metric: str
    margin: float
    significance: float
    cells: tuple[Difference, ...]
    untested: int
    same: bool = False

    @property
    def verdict(self) -> Verdict:
        """Different if any cell is, alike if all cells are, else cannot tell."""
        return whole(np.array([VERDICTS.index(cell.verdict) for cell in self.cells]))

    @property
    def warnings(self) -> list[str]:
        """Lines that say what was not compared; at most two lines."""
        untested = f"not tested for lack of two values on a side: {counted(self.untested, 'scenario')}"
        same = "both campaigns are the same samples, which says nothing about another run"
        return [untested] * (self.untested > 0) + [same] * self.same

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a dict ready for JSON."""
        return {"verdict": self.verdict, **asdict(self)}


def compare(
    one: Sequence[Sample],
    other: Sequence[Sample],
    *,
    metric: str = METRIC,
    margin: float = MARGIN,
    significance: float = SIGNIFICANCE,
) -> Comparison:
    """Compare two campaigns cell by cell and return the verdict on each cell.

    `terms.equivalence` has the tests: alike and different are both shown, and the rest is undecided.

    Args:
        one: the first campaign's samples.
        other: the second campaign's samples.
        metric: `capacity_bps`, or one of the samples' `metrics`.
        margin: the largest difference that does not matter, as a share of the first campaign's mean.
        significance: significance level of all comparisons together.

    Raises:
        GavotteError: when a campaign has no value of the metric, or both have no cell in common.
    """
    first, second = by_cell(one, metric), by_cell(other, metric)
    for which, values in (("first", first), ("second", second)):
        if not values:
            raise GavotteError(
                f"the {which} campaign has no value of `{metric}`", hint="use another --metric, or other Records"
            )
    cells = list(dict.fromkeys([*first, *second]))
    if not first.keys() & second.keys():
        raise GavotteError(
            "the campaigns have no scenario with the same hosts, connections and flavour in common",
            hint="compare runs of one campaign file",
        )
    means = [Means.of([side.get(cell, []) for cell in cells]) for side in (first, second)]
    result = judge(means[0], means[1], margin, significance=significance)
    same = first == second and sorted(each.time_s for each in one) == sorted(each.time_s for each in other)
    differences = []
    for number, cell in enumerate(cells):
        sides = [first.get(cell, []), second.get(cell, [])]
        verdict = VERDICTS[result.verdict[number]]
        differences.append(
            Difference(
                *cell,
                values=(len(sides[0]), len(sides[1])),
                means=(_known(means[0].mean[number]), _known(means[1].mean[number])),
                relative=_known(result.relative[number]),
                low=_known(result.low[number]),
                high=_known(result.high[number]),
                p=_known(result.chance[number]),
                verdict="alike" if same else verdict if all(sides) else "different",
                detectable=_known(result.detectable[number]),
                repetitions=None if same or math.isnan(need := result.repetitions[number]) else int(need),
            )
        )
    untested = sum(all(cell.values) and min(cell.values) < 2 for cell in differences)
    return Comparison(metric, margin, significance, tuple(differences), untested, same)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def by_cell(samples: Sequence[Sample], metric: str = METRIC) -> dict[Cell, list[float]]:
    """Return the values of a metric for each cell, by repetition. Samples without a value are left out."""
    values: dict[Cell, list[float]] = defaultdict(list)
    for sample in sorted(samples, key=lambda each: each.repetition):
        value = value_of(sample, metric)
        if value is not None:
            values[sample.cell].append(value)
    return dict(values)


def value_of(sample: Sample, metric: str) -> float | None:
    """Return the value of a metric in a sample; None = the sample has no value."""
    if metric == sample.metric:
        return sample.value
    quantity = sample.metrics.get(metric)
    return None if quantity is None else quantity.value
