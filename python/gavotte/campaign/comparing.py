"""Compare two campaigns: report which results differ by more than chance and by enough to matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gavotte.campaign.running import METRIC
from gavotte.campaign.statistics import holm, mean_interval, more_than
from gavotte.errors import GavotteError
from gavotte.formats.record import Sample

RELEVANT = 0.05
"""Smallest difference that matters, as a share of the first mean.

OSMeF's tunnel cost 2 %, and its tenants' router much more.
"""
SIGNIFICANCE = 0.05
"""Chance, 0 to 1, that at least one comparison reports a difference where none exists, after Holm's correction."""

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
        low: lower end of the 95 % confidence interval of each mean; None = fewer than two values.
        high: upper end of the same intervals.
        relative: second mean divided by the first, minus 1; None = a mean is missing or the first is 0.
        p: chance, after Holm's correction, of such a difference if the true means differ by no more than what matters;
            None = not testable.
        different: whether the means differ by more than what matters, or only one campaign has the cell.
    """

    scenario: str
    source: str
    target: str
    connections: int
    flavour: str
    values: tuple[int, int]
    means: tuple[float | None, float | None]
    low: tuple[float | None, float | None]
    high: tuple[float | None, float | None]
    relative: float | None
    p: float | None
    different: bool


@dataclass(frozen=True)
class Comparison:
    """Comparison of two campaigns.

    Attributes:
        metric: the compared quantity.
        relevant: the smallest difference that matters, as a share of the first mean.
        significance: significance level of all comparisons together.
        cells: one comparison for each cell, in the first campaign's order, then those that only the second has.
        untested: number of cells with fewer than two values on a side.
    """

    metric: str
    relevant: float
    significance: float
    cells: tuple[Difference, ...]
    untested: int

    @property
    def alike(self) -> bool:
        """Whether the two campaigns differ in no cell."""
        return not any(cell.different for cell in self.cells)

    @property
    def warnings(self) -> list[str]:
        """Lines that say what was not compared; at most one line."""
        text = f"{self.untested} scenarios have fewer than two values on a side and were not tested"
        return [text] * (self.untested > 0)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a dict ready for JSON."""
        return {"alike": self.alike, **asdict(self)}


def compare(
    one: Sequence[Sample],
    other: Sequence[Sample],
    *,
    metric: str = METRIC,
    relevant: float = RELEVANT,
    significance: float = SIGNIFICANCE,
) -> Comparison:
    """Compare two campaigns cell by cell and return the difference in each cell.

    Each cell gets Welch's test for a difference beyond what matters. Holm's correction covers all cells together.

    Args:
        one: the first campaign's samples.
        other: the second campaign's samples.
        metric: `capacity_bps`, or one of the samples' `metrics`.
        relevant: the smallest difference that matters, as a share of the first campaign's mean.
        significance: significance level of all comparisons together.

    Raises:
        GavotteError: when nothing can be tested, because no cell has two values of the metric in both campaigns.
    """
    first, second = by_cell(one, metric), by_cell(other, metric)
    cells = list(dict.fromkeys([*first, *second]))
    testable = [cell for cell in cells if min(len(first.get(cell, ())), len(second.get(cell, ()))) >= 2]
    if not testable:
        raise GavotteError(
            f"no scenario has two or more values of `{metric}` in both campaigns",
            hint="compare runs of one campaign file with two or more repetitions",
        )
    chances = holm([more_than(first[cell], second[cell], relevant) for cell in testable])
    p = dict(zip(testable, chances, strict=True))
    differences = []
    for cell in cells:
        sides = [first.get(cell, []), second.get(cell, [])]
        intervals = [mean_interval(values) if values else (None, None, None) for values in sides]
        whole = [len(values) > 1 for values in sides]
        means = (intervals[0][0], intervals[1][0])
        differences.append(
            Difference(
                *cell,
                values=(len(sides[0]), len(sides[1])),
                means=means,
                low=(intervals[0][1] if whole[0] else None, intervals[1][1] if whole[1] else None),
                high=(intervals[0][2] if whole[0] else None, intervals[1][2] if whole[1] else None),
                relative=means[1] / means[0] - 1 if means[0] and means[1] is not None else None,
                p=p.get(cell),
                different=not all(sides) or p.get(cell, 1.0) < significance,
            )
        )
    return Comparison(metric, relevant, significance, tuple(differences), len(cells) - len(testable))


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
