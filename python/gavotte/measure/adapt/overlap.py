"""Decide from the bytes of concurrent pairs whether they shared a link. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.formats.history import Floats
from gavotte.formats.parts.evidence import Evidence, SharingVerdict
from gavotte.measure.plan.trials import Trial
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy

MIN_OVERLAP_S = 0.05
"""Shortest common window that counts: with 120 ms trains, two runs that overlapped less gave wrong sums."""

SHARED_BELOW = 0.88
INDEPENDENT_ABOVE = 0.93
"""Bounds of the verdicts, as shares of the sum of what the pairs carry alone. The space between is `unknown`.

Short TCP repeats to 3-5 %. The interval's ends are not used: a receiver that waits for one lost segment gets nothing in
one block and twice in the next.
"""

EVEN_WITHIN = 0.02
"""Largest half width of a full link's sum, as a share of it. A full link always gives the same sum.

Senders that could not keep it full give a sum that varies.
"""

CALM_ABOVE = 0.75
"""Bound between two causes of a low sum, as a share of it.

If each path passed packets at its full rate whenever it had any, the hosts caused the rest of the loss. Below this
share the paths were too seldom full at the same time.
"""

AGREE = 0.92
"""Two sums of a link that was full agree when the lower has this share of the higher."""

PACKET_BITS = 8 * 1448
"""Size of a full packet's payload. At 10 Mbit/s, a block has 20 or 30 of them."""

BLOCKS = 5

HEAD, TAIL = 0.25, 0.2
"""Shares of the window that are ignored at its start and its end, for series that do not settle on their own.

At the start buckets may still empty. At the end the first of a pair's connections may be done, and the others may not
fill the path. """


@dataclass(frozen=True)
class Series:
    """TCP goodput that one pair's receiver got in each of many short bins.

    Attributes:
        start_s: time at which the first bin begins, on a clock that all receivers share.
        bin_s: width of the bins.
        bits: TCP goodput (or its equivalent) in each bin.
        settle_s: time at the start that does not count. The rest then counts up to its end.
        startup_s: time at the start in which TCP does not fill the path yet, and which does not count either.
        steady_bps: the single rate at which the path passed packets whenever it had a queue; NaN = there is none.
        filled: whether the path always had a queue, so that the network and not the hosts cause a low rate.
        gap: why the series shows a host and not the network; empty = it shows the network.
    """

    start_s: float
    bin_s: float
    bits: Floats
    settle_s: float = 0.0
    steady_bps: float = math.nan
    filled: bool = True
    startup_s: float = 0.0
    gap: str = ""

    @property
    def end_s(self) -> float:
        """Time at which the last bin ends, in seconds on the same clock as `start_s`."""
        return self.start_s + len(self.bits) * self.bin_s

    def until(self, times: Floats) -> Floats:
        """Return the bits received up to each time."""
        edges = self.start_s + self.bin_s * np.arange(len(self.bits) + 1)
        return np.interp(times, edges, np.concatenate(([0.0], np.cumsum(self.bits))))


@dataclass(frozen=True)
class Together:
    """Rates of concurrent pairs in the time in which all of them were sending.

    Attributes:
        overlap_s: length of that time; rates are meaningless below `MIN_OVERLAP_S`.
        rate_bps: rate of each pair.
        low_bps: lower end of the sum's 95 % interval.
        high_bps: upper end of it.
        steady_bps: steady rate of each pair, see `Series`.
        filled: whether each pair's path always had a queue.
        gap: why a pair shows a host and not the network; empty = none does.
        grain_bps: half the width of the sum's interval if only whole packets make its blocks differ.
    """

    overlap_s: float
    rate_bps: tuple[float, ...]
    low_bps: float
    high_bps: float
    steady_bps: tuple[float, ...]
    filled: tuple[bool, ...]
    gap: str = ""
    grain_bps: float = 0.0

    @property
    def sum_bps(self) -> float:
        """Sum of the rates of all pairs, in bit/s."""
        return sum(self.rate_bps)

    @property
    def even(self) -> bool:
        """Whether the sum hardly varied: half the width of its 95 % interval is at most `EVEN_WITHIN` of the sum.

        What whole packets add to the width does not count.
        """
        return (self.high_bps - self.low_bps) / 2 <= EVEN_WITHIN * self.sum_bps + self.grain_bps


def together(series: Sequence[Series]) -> Together:
    """Evaluate the common window of several pairs, one series each.

    A token bucket passes its depth at once, however slow it is: 32 kB are 3 % of what 20 Mbit/s carry in 0.4 s. The sum
    is therefore not all bytes over all time, but the slope of their count in the middle of the window.

    A TCP receiver delivers in order: it counts nothing after a lost segment, and then everything at once. A count is
    often late, but never early, and its concave hull shows what had arrived. Where TCP's rate still grows, a hull would
    level it out, so the start is left out first: at a round trip of 150 ms, 57 Mbit/s were taken for 31.
    """
    begin = max(s.start_s + s.settle_s + s.startup_s for s in series)
    end = min(s.end_s - s.bin_s for s in series)
    steady_bps, filled = tuple(s.steady_bps for s in series), tuple(s.filled for s in series)
    gap = next((s.gap for s in series if s.gap), "")
    if end - begin < MIN_OVERLAP_S:
        return Together(max(0.0, end - begin), tuple(0.0 for _ in series), 0.0, math.inf, steady_bps, filled, gap)
    settles = any(s.settle_s > 0 for s in series)
    since, until = (begin, end) if settles else (begin + HEAD * (end - begin), end - TAIL * (end - begin))
    edges = np.linspace(since, until, BLOCKS + 1)
    blocks = np.array([np.diff(s.until(edges)) for s in series]) / (edges[1] - edges[0])
    sums = blocks.sum(axis=0)
    # Student's t for 5 blocks
    width = 2.776 / math.sqrt(BLOCKS)
    half = width * float(sums.std(ddof=1))
    times = np.linspace(begin, end, math.ceil((end - begin) / min(s.bin_s for s in series)) + 1)
    counts = [s.until(times) for s in series]
    middle = _slope(times, sum(counts, np.zeros(len(times))), since, until)
    each = [_slope(times, count, since, until) for count in counts]
    scale = middle / sum(each) if sum(each) > 0 else 1.0
    return Together(
        overlap_s=end - begin,
        rate_bps=tuple(scale * rate for rate in each),
        low_bps=max(0.0, middle - half),
        high_bps=middle + half,
        steady_bps=steady_bps,
        filled=filled,
        gap=gap,
        # The count of each path is off by a part of a packet at both ends of a block.
        grain_bps=width * math.sqrt(len(series) / 2) * PACKET_BITS / float(edges[1] - edges[0]),
    )


def _slope(times: Floats, count: Floats, since: float, until: float) -> float:
    """Return how fast the concave hull of a count grew.

    Args:
        times: ascending.
        count: what had arrived by each.
        since: one of them, or between two.
        until: later.
    """
    hull: list[int] = []
    for at in range(len(times)):
        # Points below the line from the one before them to the new one are not on the hull.
        while len(hull) > 1 and (count[hull[-1]] - count[hull[-2]]) * (times[at] - times[hull[-2]]) <= (
            count[at] - count[hull[-2]]
        ) * (times[hull[-1]] - times[hull[-2]]):
            hull.pop()
        hull.append(at)
    first, last = np.interp([since, until], times[hull], count[hull])
    return float((last - first) / (until - since))


def judge(alone_bps: Sequence[float], outcome: Together) -> tuple[SharingVerdict, str]:
    """Compare the sum with the sum of singles, not with the drop of one: shares of one link may be 1 to 2.

    Args:
        alone_bps: rate of each pair alone.
        outcome: their rates together.

    Returns:
        the verdict, and for `unknown` the reason.
    """
    if outcome.overlap_s < MIN_OVERLAP_S:
        return "unknown", f"only {1e3 * outcome.overlap_s:.0f} ms of overlap"
    share = outcome.sum_bps / sum(alone_bps)
    calm = [steady >= INDEPENDENT_ABOVE * alone for steady, alone in zip(outcome.steady_bps, alone_bps, strict=True)]
    if share >= INDEPENDENT_ABOVE or (all(calm) and share >= CALM_ABOVE):
        return "independent", ""
    if outcome.gap:
        return "unknown", outcome.gap
    if share > SHARED_BELOW:
        return "unknown", f"together they carried {100 * share:.0f} % of what each carried alone, too close to call"
    lost = [rate < SHARED_BELOW * alone for rate, alone in zip(outcome.rate_bps, alone_bps, strict=True)]
    # A path may have been full alone after the others were done, so an even sum counts more.
    if not outcome.even and any(
        low and (ok or not filled) for low, ok, filled in zip(lost, calm, outcome.filled, strict=True)
    ):
        return "unknown", "hosts could not keep their paths full"
    return "shared", ""


def evidence(
    tree: Hierarchy, trial: Trial, alone: Mapping[Pair, float], outcome: Together, *, time_s: float
) -> Evidence:
    """Return the record of an experiment.

    Args:
        tree: tree of all hosts.
        trial: the experiment.
        alone: bit/s of each of its pairs.
        outcome: their rates together.
        time_s: Unix time.
    """
    alone_bps = [alone[pair] for pair in trial.pairs]
    verdict, reason = judge(alone_bps, outcome)
    return Evidence(
        subject=tree.label(trial.link),
        pairs=[(tree.names[s], tree.names[t]) for s, t in trial.pairs],
        alone_bps=alone_bps,
        together_bps=list(outcome.rate_bps),
        sum_bps=outcome.sum_bps,
        low_bps=outcome.low_bps,
        high_bps=outcome.high_bps if math.isfinite(outcome.high_bps) else outcome.sum_bps,
        overlap_s=outcome.overlap_s,
        time_s=time_s,
        verdict=verdict,
        reason=reason,
    )
