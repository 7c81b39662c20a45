"""Tells whether two campaigns found the same. Sample by sample they never do: what is chance, and what matters?"""

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
"""The smallest difference that matters, as a share; OSMeF's tunnel cost 2 % and its tenants' router much more."""
SIGNIFICANCE = 0.05
"""The chance that any one of all comparisons calls alike what is alike different, after Holm's correction."""

Cell = tuple[str, str, str, int, str]
"""Scenario, source, target, connections, flavour."""


@dataclass(frozen=True)
class Difference:
    """One cell of two campaigns.

    Attributes:
        scenario: its name.
        source: who sent.
        target: who received.
        connections: of each pair.
        flavour: of the endpoints.
        values: how many of each.
        means: of each; None = it has none.
        low: lower end of the 95 % interval of each mean; None = fewer than two values.
        high: upper end.
        relative: the second mean by the first, less 1; None where one has none.
        p: chance, after Holm's correction, of such a difference where the means lie within what matters; None = not
            testable.
        different: whether they differ by more than what matters, or only one of them has the cell.
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
        relevant: the smallest difference that matters, as a share.
        significance: of all comparisons together.
        cells: one for each combination, in the first campaign's order, then those that only the second has.
        untested: number of cells with fewer than two values on a side.
    """

    metric: str
    relevant: float
    significance: float
    cells: tuple[Difference, ...]
    untested: int

    @property
    def alike(self) -> bool:
        """Whether no cell is different."""
        return not any(cell.different for cell in self.cells)

    @property
    def warnings(self) -> list[str]:
        """What was not compared, one line each."""
        text = f"{self.untested} scenarios have fewer than two values on a side and were not tested"
        return [text] * (self.untested > 0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"alike": self.alike, **asdict(self)}


def compare(
    one: Sequence[Sample],
    other: Sequence[Sample],
    *,
    metric: str = METRIC,
    relevant: float = RELEVANT,
    significance: float = SIGNIFICANCE,
) -> Comparison:
    """Compares two campaigns cell by cell: Welch's test of a difference beyond what matters, Holm's correction for all.

    Args:
        one: the first one's samples.
        other: the second one's.
        metric: `capacity_bps`, or one of the samples' `metrics`.
        relevant: the smallest difference that matters, as a share of the first one's mean.
        significance: of all comparisons together.

    Raises:
        GavotteError: when nothing can be tested: no cell has two values of the metric in both.
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
    """The values of a metric, repetition after repetition, by what they are repetitions of."""
    values: dict[Cell, list[float]] = defaultdict(list)
    for sample in sorted(samples, key=lambda each: each.repetition):
        value = value_of(sample, metric)
        if value is not None:
            values[sample.cell].append(value)
    return dict(values)


def value_of(sample: Sample, metric: str) -> float | None:
    """A sample's value of a metric; None where it has none."""
    if metric == sample.metric:
        return sample.value
    quantity = sample.metrics.get(metric)
    return None if quantity is None else quantity.value
