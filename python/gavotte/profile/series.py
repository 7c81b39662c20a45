"""Find phases in an application's traffic over time, and predict its next interval (Choreo, sections 2.1 and 7.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gavotte.errors import GavotteError
from gavotte.profile.traffic import Count, Traffic, TrafficSpan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_INTERVALS = 4000
"""Most intervals in which change points are searched. The search takes the square of their number."""
LARGEST_PAIRS = 1000
"""Most pairs that are searched for change points; these are the pairs with most bytes."""
DAY_S = 86_400.0
PREDICTORS = ("previous", "time-of-day", "combined")


def phases(traffic: Traffic) -> list[tuple[int, int]]:
    """Split a series into phases, where its pattern of traffic changes for good.

    Each interval has a matrix of square roots of bytes, whose noise does not grow with the bytes. A split has to lower
    the sum of squared distances of the intervals' matrices to their phase's mean. It counts when it lowers the sum by
    more than a penalty of 3 sigma^2 log(n) per pair that moves. Sigma is the median difference of neighbouring
    intervals. The best split is found exactly, by dynamic programming.

    Returns:
        For each phase in order, its first interval and the one after its last.

    Raises:
        GavotteError: when there are more than `MOST_INTERVALS`.
    """
    import numpy as np

    n = len(traffic.spans)
    if n > MOST_INTERVALS:
        raise GavotteError(f"{n} intervals are too many for phases", hint="use longer ones")
    largest = sorted(traffic.counts.items(), key=lambda item: -item[1].bytes)[:LARGEST_PAIRS]
    if n < 2 or not largest:
        return [(0, n)]
    values = np.sqrt(matrix_of([pair for pair, _ in largest], traffic.spans))
    # The noise of each pair is estimated separately, so that a pair that never changes adds no penalty.
    noise = float((np.median(np.abs(np.diff(values, axis=0)), axis=0) ** 2).sum()) / (2 * 0.6745**2)
    spread = float(((values - values.mean(axis=0)) ** 2).sum())
    penalty = max(3 * noise * math.log(n), spread * 1e-3, 1e-9)
    sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values, axis=0)])
    squares = np.concatenate([[0.0], np.cumsum((values**2).sum(axis=1))])
    best = np.full(n + 1, math.inf)
    best[0], before = -penalty, [0] * (n + 1)
    for end in range(1, n + 1):
        starts = np.arange(end)
        within = ((sums[end] - sums[:end]) ** 2).sum(axis=1) / (end - starts)
        costs = best[:end] + squares[end] - squares[:end] - within + penalty
        before[end] = int(np.argmin(costs))
        best[end] = costs[before[end]]
    spans, end = [], n
    while end > 0:
        spans.append((before[end], end))
        end = before[end]
    return spans[::-1]


def by_phase(traffic: Traffic) -> list[dict[tuple[str, str], Count]]:
    """Return the bytes of each pair in each phase, without phases in which nothing is sent."""
    volumes = [_sum(traffic.spans[first:end]) for first, end in phases(traffic)]
    return [sums for sums in volumes if any(count.bytes for count in sums.values())]


def _sum(spans: Sequence[TrafficSpan]) -> dict[tuple[str, str], Count]:
    sums: dict[tuple[str, str], Count] = {}
    for span in spans:
        for pair, count in span.counts.items():
            sums[pair] = sums[pair].plus(count) if pair in sums else count
    return sums


def matrix_of(pairs: Sequence[tuple[str, str]], spans: Sequence[TrafficSpan]) -> npt.NDArray[np.float64]:
    """Return the bytes of each pair in each span as an array of shape (spans, pairs)."""
    import numpy as np

    at = {pair: index for index, pair in enumerate(pairs)}
    values = np.zeros((len(spans), len(pairs)))
    for row, span in enumerate(spans):
        for pair, count in span.counts.items():
            if pair in at:
                values[row, at[pair]] = count.bytes
    return values


@dataclass(frozen=True)
class Prediction:
    """Predicted traffic of the interval that follows a series.

    Attributes:
        pairs: predicted bytes by (source, target), from the predictor with the smallest error.
        method: name of that predictor, one of `PREDICTORS`.
        errors: mean error of each predictor over the intervals of the series. An interval's error is the sum over pairs
            of the difference between predicted and sent bytes, as a share of all bytes sent. A predictor for which the
            series is too short is missing.
        tested: number of intervals on which each predictor was tested.
    """

    pairs: Mapping[tuple[str, str], int]
    method: str
    errors: Mapping[str, float]
    tested: Mapping[str, int]


def predict(traffic: Traffic, *, day_s: float = DAY_S) -> Prediction:
    """Predict the next interval of a series from the previous one, from the same time on earlier days, and from both.

    The combined prediction is the mean of both, weighted by the inverse of each one's error up to that interval.
    Back-testing predicts each interval from the earlier ones alone.

    Args:
        traffic: a series of equal intervals.
        day_s: period after which the traffic repeats, in seconds.

    Raises:
        GavotteError: when there are fewer than three intervals, or an interval is longer than a day.
    """
    import numpy as np

    spans = traffic.spans
    if len(spans) < 3 or spans[0].start_s is None or spans[0].end_s is None:
        raise GavotteError("a prediction needs a series of three intervals or more", hint="profile with --every")
    every_s = spans[0].end_s - spans[0].start_s
    if not (every_s > 0 and day_s >= every_s):
        raise GavotteError(f"a day of {day_s:g} s has no interval of {every_s:g} s", hint="use a longer day")
    pairs = sorted(traffic.counts)
    values = matrix_of(pairs, spans)
    # A gap between two spans is an interval without traffic that the source left out.
    number = [round((span.start_s - spans[0].start_s) / every_s) for span in spans if span.start_s is not None]
    day = max(round(day_s / every_s), 1)
    at = {each: row for row, each in enumerate(number)}

    def guesses(row: int, nth: int) -> dict[str, npt.NDArray[np.float64]]:
        """Return each predictor's bytes per pair for interval number `nth`, from the first `row` spans alone."""
        earlier = [at[each] for each in range(nth - day, -1, -day) if each in at and at[each] < row]
        guess_of = {"previous": values[row - 1]} if row else {}
        if earlier and day > 1:
            guess_of["time-of-day"] = values[earlier].mean(axis=0)
        return guess_of

    wrong: dict[str, list[float]] = {each: [] for each in PREDICTORS}
    for row in range(1, len(spans)):
        guess_of = guesses(row, number[row])
        guess_of |= _combined(guess_of, wrong)
        sent = values[row].sum()
        for name, guess in guess_of.items():
            if sent > 0:
                wrong[name].append(float(np.abs(guess - values[row]).sum() / sent))
    errors = {name: float(np.mean(each)) for name, each in wrong.items() if each}
    guess_of = guesses(len(spans), number[-1] + 1)
    guess_of |= _combined(guess_of, wrong)
    method = min((each for each in guess_of if each in errors), key=lambda each: errors[each], default="previous")
    kept = {pair: round(float(size)) for pair, size in zip(pairs, guess_of[method], strict=True) if size >= 0.5}
    return Prediction(kept, method, errors, {name: len(each) for name, each in wrong.items() if each})


def _combined(
    guess_of: Mapping[str, npt.NDArray[np.float64]], wrong: Mapping[str, Sequence[float]]
) -> dict[str, npt.NDArray[np.float64]]:
    if len(guess_of) < 2:
        return {}
    weights = {name: 1 / (sum(wrong[name]) / len(wrong[name]) + 1e-9) if wrong[name] else 1.0 for name in guess_of}
    whole = sum(weights.values())
    first, second = guess_of
    return {"combined": (guess_of[first] * weights[first] + guess_of[second] * weights[second]) / whole}
