"""The curves of pages: what was measured over time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import History
from gavotte.formats.parts.rates import common_unit
from gavotte.serve.pages.curves import Curve, Line, curve
from gavotte.serve.pages.shown import JobRow, MetricRow, NetworkDetail, Pair

Floats = npt.NDArray[np.float64]

MS = 1e3


def rates_of(detail: NetworkDetail, history: History) -> Curve | None:
    """Draw the median rate of a network, with a band that has 80 % of the pairs.

    Args:
        detail: all its measurements.
        history: those for which the band is drawn.

    Returns:
        None if it has one measurement only.
    """
    unit, scale = common_unit([each.rate_bps or 0.0 for each in detail.measurements])
    times_s = [each.time_s for each in detail.measurements]
    bands = {float(at): _band(8 * beta / scale) for at, beta in zip(history.time_s, history.beta_Bps, strict=True)}
    low, high = zip(*(bands.get(time_s, (None, None)) for time_s in times_s), strict=True)
    title = "Median rate over time. In the newest measurements, a band has 80 % of the pairs"
    values = [_times(1 / scale, each.rate_bps) for each in detail.measurements]
    return curve(title, times_s, [Line("median rate", values, low=low, high=high)], unit)


def _band(rates: Floats) -> tuple[float | None, float | None]:
    known = rates[np.isfinite(rates)]
    if not known.size:
        return None, None
    low, high = np.quantile(known, (0.1, 0.9))
    return float(low), float(high)


def latencies_of(detail: NetworkDetail) -> Curve | None:
    """Draw the median latency of a network."""
    return curve(
        "Median latency over time",
        [each.time_s for each in detail.measurements],
        [Line("median latency", [_times(MS, each.latency_s) for each in detail.measurements])],
        "ms",
    )


def pair_rates(pair: Pair) -> Curve | None:
    """Draw the rates of a pair, there and back."""
    rows = pair.measurements
    unit, scale = common_unit([rate or 0.0 for each in rows for rate in (each.rate_bps, each.back_bps)])
    return curve(
        "Rate over time",
        [each.time_s for each in rows],
        [
            Line(f"{pair.source} to {pair.target}", [_times(1 / scale, each.rate_bps) for each in rows]),
            Line(f"{pair.target} to {pair.source}", [_times(1 / scale, each.back_bps) for each in rows], "received"),
        ],
        unit,
    )


def pair_latencies(pair: Pair) -> Curve | None:
    """Draw the latency of a pair."""
    rows = pair.measurements
    values = [_times(MS, each.latency_s) for each in rows]
    return curve("Latency over time", [each.time_s for each in rows], [Line("latency", values)], "ms")


def runs_of(job: JobRow) -> Curve | None:
    """Draw the wall times of a job's runs, with what was predicted for them."""
    rows = job.runs
    return curve(
        "Wall time of each run, and what was predicted for it",
        [each.time_s for each in rows],
        [
            Line(
                "predicted",
                [each.predicted_s for each in rows],
                "simulated",
                [each.low_s for each in rows],
                [each.high_s for each in rows],
            ),
            Line("measured", [each.wall_s for each in rows]),
        ],
        "s",
    )


def values_of(row: MetricRow) -> Curve | None:
    """Draw the newest values of a quantity."""
    times_s = [each.time_s for each in row.values]
    return curve(row.metric, times_s, [Line(row.metric, [each.value for each in row.values])], "")


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value
