"""Make a coflow trace in the shape of the public one-hour trace, which has no licence and is therefore not included.

Known figures of `FB2010-1Hr-150-0.txt` (github.com/coflow/coflow-benchmark):

- 526 coflows between 150 ports in 3,629 s; 706,397 flows, 35.5 TB.
- 309, 90, 59 and 68 coflows are short and narrow, long and narrow, short and wide, long and wide (short: no flow of
  5 MB; narrow: at most 50 flows).
- Widths have a median of 10 and reach 21,170 flows.
- Sizes have a median of 25 MB, 11.3 GB at the 90th percentile, and 8.5 TB at most.

As in that trace, a coflow is a set of mappers that each send to all reducers. A reducer's bytes are whole megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.transfer.traces import Trace

PORTS = 150
HOUR_S = 3629.235
MB = 1e6

WAVES = 10
"""Waves in the hour, with half of the coflows. Without them, fair sharing takes less than the public trace's 65 s."""

WAVE_S = 30.0
"""Mean delay of a coflow after the start of its wave."""


@dataclass(frozen=True)
class _Kind:
    """Coflows of one kind: their number, and the ranges of widths (flows) and longest flows.

    Both are log-uniform but for an exponent: below 1 most are large, above 1 most are small.
    """

    count: int
    width: tuple[float, float, float]
    longest_mb: tuple[float, float, float]


KINDS = (
    _Kind(309, (1, 50, 1.2), (1, 5, 1.0)),
    _Kind(90, (1, 50, 1.1), (5, 2000, 1.3)),
    _Kind(59, (51, 9000, 1.0), (0.05, 5, 1.0)),
    _Kind(68, (51, 21_170, 0.27), (5, 1200, 2.0)),
)
"""Short and narrow, long and narrow, short and wide, long and wide, with the numbers of the public trace.

The exponents were chosen so that flows, bytes, and the sum of the coflows' lower bounds are close to it.
"""


def synthetic_trace(seed: int = 0, *, share: float = 1.0) -> Trace:
    """Make a coflow trace of the public one-hour trace's shape: 526 coflows of some 690,000 flows between 150 ports.

    Args:
        seed: decides all of it.
        share: share of the coflows and of the hour, above 0 and at most 1. Coflows keep their size and frequency.
    """
    rng = np.random.default_rng(seed)
    counts = [max(1, round(share * kind.count)) for kind in KINDS]
    columns = [_spread(rng, kind, count) for kind, count in zip(KINDS, counts, strict=True)]
    width, longest_mb = (np.concatenate(column) for column in zip(*columns, strict=True))
    # Somewhat more mappers than reducers.
    ratio = np.exp(rng.normal(np.repeat([-0.5, -0.5, -0.5, -0.35], counts), 0.6))
    reducers = np.clip(np.round(np.sqrt(width * ratio)), 1, PORTS)
    mappers = np.clip(np.round(width / reducers), 1, PORTS)
    reducers = np.clip(np.round(width / mappers), 1, PORTS)
    order = rng.permutation(len(width))
    parts = [_flows(rng, int(mappers[at]), int(reducers[at]), float(longest_mb[at])) for at in order]
    source, target, size = (np.concatenate(column) for column in zip(*parts, strict=True))
    coflow = np.repeat(np.arange(len(parts), dtype=np.uint32), [len(part[0]) for part in parts])
    return Trace(
        _core.CoflowTrace.of(
            [str(port) for port in range(PORTS)],
            [str(number + 1) for number in range(len(parts))],
            _arrivals(rng, len(parts), share * HOUR_S),
            coflow,
            source,
            target,
            size,
        )
    )


Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.uint32]


def _spread(rng: np.random.Generator, kind: _Kind, count: int) -> tuple[Floats, Floats]:
    """Return widths and longest flows, spread evenly over both ranges, so that every seed has the same shape."""

    def column(low: float, high: float, exponent: float) -> Floats:
        evenly = rng.permutation((np.arange(count) + rng.random(count)) / count)
        return np.asarray(low * (high / low) ** (evenly**exponent))

    return column(*kind.width), column(*kind.longest_mb)


def _arrivals(rng: np.random.Generator, count: int, until_s: float) -> Floats:
    """Return arrival times, half of them in waves."""
    waves_s = rng.uniform(0, until_s, max(1, round(WAVES * until_s / HOUR_S)))
    in_waves_s = rng.choice(waves_s, count) + rng.exponential(WAVE_S, count)
    at_s = np.where(rng.random(count) < 0.5, in_waves_s, rng.uniform(0, until_s, count))
    return np.sort(np.minimum(at_s, until_s)).round(3)


def _flows(rng: np.random.Generator, mappers: int, reducers: int, longest_mb: float) -> tuple[Indices, Indices, Floats]:
    """Return source, target and bytes of each flow of a coflow."""
    sizes_mb = np.maximum(1, np.round(longest_mb * mappers * rng.random(reducers) ** 1.3))
    at = [rng.choice(PORTS, count, replace=False).astype(np.uint32) for count in (mappers, reducers)]
    return np.tile(at[0], reducers), np.repeat(at[1], mappers), np.repeat(sizes_mb * MB / mappers, mappers)
