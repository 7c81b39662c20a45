"""Find pairs whose constant moved during the measurement, and drop their values from before the move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats
from gavotte.model.estimators import fresh, median, mode_and_band

AGREEING = 4
"""Number of newest values in a row that must agree with each other.

Spikes hardly do. With three in a row, one hot host in a hundred still did.
"""

OLDER = 3
OLDER_SHARE = 0.6
"""Least number and least share of the older values that must agree with each other, too."""

MIN_SHARE = 0.01
"""Least share of all pairs that must have moved, unless a host moved.

Fewer are attributed to chance, which makes up to half as many look moved.
"""

HOST_SHARE = 0.4
"""Share of a host's pairs in one direction above which the host moved, and all of these pairs count as moved."""

HOST_AGREEING = 2
"""Number of newest values in a row that must agree to find moved hosts.

Of 40 hosts whose pairs are slow with a probability of 0.3, none had more than 0.27 of its pairs look moved after two
values. Hosts that moved had 0.55 to 0.9.
"""

LEAST_PAIRS, LEAST_TELLING = 3, 0.2
"""Least number, and least share of a host's pairs in one direction, that must show whether the host moved."""

WIDEST = 0.4
"""Half of the largest difference between values that agree. In a wider band, two values agree or differ by chance."""

SAMPLED = 100_000
"""Number of values from which the clock's tick is estimated."""


@dataclass(frozen=True)
class Cut:
    """Measured times without those from before a pair moved.

    Attributes:
        times: (n, N, N), NaN = not measured, or measured before the pair moved. Pairs that were measured only before
            their host moved keep their older times, multiplied by `factor`.
        share: share of pairs that moved, 0 to 1.
        hosts: indices of hosts that moved as a whole: all paths that they send on, or all that they receive on.
        factor: (N, N) factor of kept older times, NaN = the pair has none; None if nothing moved.
    """

    times: Floats
    share: float = 0.0
    hosts: tuple[int, ...] = ()
    factor: Floats | None = None

    def of(self, values: Floats, *, scaled: bool = False) -> Floats:
        """Return other (n, N, N) values of the same snapshots, without those from before a pair moved.

        Args:
            values: values in any unit.
            scaled: whether to multiply kept older values by `factor`, like times.
        """
        if self.factor is None:
            return values
        kept = np.where(np.isnan(self.times), np.nan, values)
        return kept * np.where(np.isnan(self.factor), 1.0, self.factor) if scaled else kept

    @property
    def earlier(self) -> npt.NDArray[np.bool_]:
        """(N, N) mask of pairs that were measured only before their host moved."""
        return np.zeros(self.times.shape[1:], dtype=bool) if self.factor is None else ~np.isnan(self.factor)


def resolution(times: Floats) -> float:
    """Return the least difference between two different values; 0 if there are fewer than two.

    If there are many more values than ticks of the clock, this is the clock's tick.
    """
    values = np.unique(times[np.isfinite(times)][:SAMPLED])
    return float(np.diff(values).min()) if len(values) > 1 else 0.0


def cut(times: Floats) -> Cut:
    """Find the pairs that moved, and drop their values from before the move.

    Each snapshot's load is removed first. A pair has moved when all of these hold:

    1. Its newest values, at least four, lie within the band of each other.
    2. Most of its older values, at least three, lie within the band of each other, too.
    3. The newest and the older values differ by more than the band.

    When more than `HOST_SHARE` of the paths that a host sends on (or receives on) have moved, all of these count as
    moved. The others then moved at the median time of those that did. To find such hosts, two newest values are enough.

    Args:
        times: (n, N, N), row = source, NaN = not measured.
    """
    count, size = times.shape[:2]
    if count < HOST_AGREEING + OLDER:
        return Cut(times)
    every, times = times, fresh(times)
    usual_times, scatter = mode_and_band(times)
    width = scatter.width
    # Two values of one constant may lie a tick of the clock to either side of it.
    ticks = np.log1p(2 * resolution(times) / np.where(usual_times.constant > 0, usual_times.constant, np.inf))
    window = np.maximum(2 * min(max(2 * width, 0.01), WIDEST), ticks)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log(times / (usual_times.load[:, None, None] * usual_times.constant))
    off[~np.isfinite(off)] = np.nan
    high, low = np.full((size, size), -np.inf), np.full((size, size), np.inf)
    total, known = np.zeros((size, size)), np.zeros((size, size), dtype=np.int64)
    start, open_ = np.full((size, size), count), np.ones((size, size), dtype=bool)
    for row in range(count - 1, -1, -1):
        seen = ~np.isnan(off[row])
        value = np.where(seen, off[row], 0.0)
        higher, lower = np.where(seen, np.maximum(high, value), high), np.where(seen, np.minimum(low, value), low)
        open_ &= ~(higher - lower > window)
        taken = open_ & seen
        high, low = np.where(taken, higher, high), np.where(taken, lower, low)
        total, known = total + value * taken, known + taken
        start[taken] = row
    older = np.where(np.arange(count)[:, None, None] < start, off, np.nan)
    was = np.log(median(np.exp(older)).constant)
    agreeing = (np.abs(older - was) <= window).sum(axis=0)
    together = agreeing >= np.maximum(OLDER, OLDER_SHARE * (~np.isnan(older)).sum(axis=0))
    by = total / np.maximum(known, 1) - was
    least = HOST_AGREEING if width <= WIDEST else AGREEING
    looks_moved = (known >= least) & together & (np.abs(by) > window)
    # A pair whose older values differ shows neither that it moved nor that it did not, unless it has no older values.
    telling = (known >= least) & (together | (start == 0))
    moved = looks_moved & (known >= AGREEING)
    shift = np.full((size, size), -np.inf)
    hosts = set()
    of_hosts = np.zeros((size, size), dtype=bool)
    while (line := _moved_host(looks_moved, telling, of_hosts)) is not None:
        hosts.add(next(index for index in line if isinstance(index, int)))
        usual = int(np.median(start[line][looks_moved[line]]))
        shift[line] = np.maximum(shift[line], np.median(by[line][looks_moved[line]]))
        start[line] = np.where(looks_moved[line], start[line], usual)
        of_hosts[line] = True
    moved |= of_hosts
    np.fill_diagonal(moved, False)
    pairs = size * (size - 1)
    if not hosts and moved.sum() < MIN_SHARE * pairs:
        return Cut(every)
    # Repetitions of an older value do not show the pair's present constant.
    since = np.isfinite(times) & (np.arange(count)[:, None, None] >= start)
    kept = np.where(moved & ~np.logical_or.accumulate(since, axis=0), np.nan, every)
    gone = moved & np.isnan(kept).all(axis=0) & ~np.isnan(every).all(axis=0)
    factor = np.where(gone, np.exp(shift), np.nan)
    share = float(moved.sum() / max(1, pairs))
    return Cut(np.where(gone, every * factor, kept), share, tuple(sorted(hosts)), factor)


def _moved_host(
    looks_moved: npt.NDArray[np.bool_], telling: npt.NDArray[np.bool_], of_hosts: npt.NDArray[np.bool_]
) -> tuple[int | slice, int | slice] | None:
    """Return the row or column of the host with the largest share of moved pairs; None if none is above `HOST_SHARE`.

    Pairs with hosts that are known to have moved, `of_hosts`, do not count: each looks moved to its other host, too.
    """
    most, line = HOST_SHARE, None
    for axis in (1, 0):
        counted = telling & ~of_hosts
        total = counted.sum(axis=axis)
        share = (looks_moved & counted).sum(axis=axis) / np.maximum(total, 1)
        share[total < max(LEAST_PAIRS, LEAST_TELLING * (len(total) - 1))] = 0.0
        host = int(share.argmax())
        if share[host] > most:
            most, line = share[host], (host, slice(None)) if axis == 1 else (slice(None), host)
    return line
