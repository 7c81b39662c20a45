"""Which round trips are short: breaks between the tiers of a network, and what each host adds to its round trips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gavotte.formats.history import Floats, Ints
from gavotte.terms import Pair
from gavotte.terms.hierarchy import RACK_HOPS

MOST_BREAKS = 3
"""Most breaks: between racks, pods and areas."""

NARROW = 0.04
"""Width of the kernel of the density of round trips, as a logarithm: jitter blurs a tier by more than that."""

DEEP = 6.0
"""A break has at most this part of the density of the lower one of its neighbours."""

FEWEST_SHORT = 3
"""Round trips of each pivot that have to be below a break, in the mean."""

UNCERTAIN = 0.06
"""A round trip this near a break, as a logarithm, is measured again."""

LEAST_S = 1e-7
"""Round trips count as at least this long."""

FITS = 5
"""Turns in which tiers and hosts' delays are fitted. Further ones move no break by more than 1 %."""

USUAL, MOST_REST = 0.9, 0.33
"""Share of round trips that a fit has to explain, up to this share of the step between tiers."""

MOST_UNLIKE, UNLIKE = 0.75, 0.1
"""Most that hosts' delays may differ, as a share of the least difference of tiers, and what such a difference counts
compared with what is left of round trips."""

MOST_CROOKED = 0.02
"""Largest share of round trips that may contradict a tree."""


@dataclass(frozen=True)
class Scale:
    """Times of tiers.

    Attributes:
        breaks_s: round trips between two tiers, ascending.
        step_s: least time from the shortest round trips of a tier to the break above it.
        offsets_s: (N,) what each host adds to its round trips, compared with others.
    """

    breaks_s: tuple[float, ...]
    step_s: float
    offsets_s: Floats

    def tier(self, pair: Pair, round_trip_s: float) -> int:
        """Return the length of a pair's path by its round trip; 0 = it is too near a break."""
        seconds = max(round_trip_s - self.offsets_s[pair[0]] - self.offsets_s[pair[1]], LEAST_S)
        if any(abs(math.log(seconds / each)) < UNCERTAIN for each in self.breaks_s):
            return 0
        return RACK_HOPS + 2 * sum(bool(seconds > each) for each in self.breaks_s)


def fitted_scale(table: tuple[Ints, Floats], pivots: Sequence[int], size: int) -> Scale | None:
    """Return the breaks between tiers, and what each host adds to its round trips; None = there are no breaks.

    Both are found in turns: what is left of a round trip without the usual one of its tier is what its hosts add. The
    turns begin with all hosts alike, or with all round trips in one tier. Of fits that leave little, the one with the
    least differences between hosts counts: with few racks, such differences can imitate racks.

    Args:
        table: (H,) hosts by index, and (H, P) seconds of their round trips with the pivots; NaN = unknown.
        pivots: P hosts by index, all of them among the H.
        size: number of all hosts, N.
    """
    hosts, trips_s = table
    known = np.isfinite(trips_s)
    ends = hosts[:, None], np.array(pivots)[None, :]
    best, least_s = None, math.inf
    for offsets_s in (np.zeros(size), _added(hosts, trips_s - _median(trips_s), pivots, size)):
        for _ in range(FITS):
            plain_s = trips_s - offsets_s[ends[0]] - offsets_s[ends[1]]
            breaks_s, step_s = _breaks(plain_s[known], FEWEST_SHORT * len(pivots))
            tiers = np.searchsorted(np.array(breaks_s), plain_s)
            usual_s = np.array([_median(plain_s[known & (tiers == tier)]) for tier in range(len(breaks_s) + 1)])
            if breaks_s and known.any():
                rest_s = float(np.quantile(np.abs(plain_s - usual_s[tiers])[known], USUAL))
                unlike_s = float(np.diff(np.quantile(offsets_s[hosts], [0.05, 0.95]))[0])
                fits = rest_s <= MOST_REST * step_s and unlike_s <= MOST_UNLIKE * np.diff(usual_s).min()
                fits = fits and _nested(np.where(known, tiers, -1), hosts, pivots)
                if fits and rest_s + UNLIKE * unlike_s < least_s:
                    best, least_s = Scale(breaks_s, step_s, offsets_s), rest_s + UNLIKE * unlike_s
            offsets_s = _added(hosts, trips_s - usual_s[tiers], pivots, size)
    return best


def _nested(tiers: Ints, hosts: Ints, pivots: Sequence[int]) -> bool:
    """Return whether tiers are those of a tree: no host is farther from one pivot than both are from another.

    Two kinds of hosts, one of which answers late, look like tiers, but the late ones are farthest from each other.

    Args:
        tiers: tier of each host with each pivot; -1 = unknown.
        hosts: the hosts.
        pivots: the pivots.
    """
    row = {host: at for at, host in enumerate(hosts.tolist())}
    apart = compared = 0
    for p, pivot in enumerate(pivots):
        for q, between in enumerate(tiers[row[pivot]].tolist()):
            if p != q and between >= 0:
                known = (tiers[:, p] >= 0) & (tiers[:, q] >= 0)
                compared += int(known.sum())
                apart += int((known & (tiers[:, q] > np.maximum(tiers[:, p], between))).sum())
    return apart <= MOST_CROOKED * compared


def _added(hosts: Ints, left_s: Floats, pivots: Sequence[int], size: int) -> Floats:
    """Return what each host adds: the median of its row, without what pivots add."""
    by_pivot, by_host = np.zeros(len(pivots)), np.zeros(len(hosts))
    for _ in range(FITS):
        by_host = np.array([_median(row) for row in left_s - by_pivot[None, :]])
        by_pivot = np.array([_median(column) for column in (left_s - by_host[:, None]).T])
    offsets_s = np.zeros(size)
    offsets_s[hosts] = by_host
    offsets_s[list(pivots)] = by_pivot
    return offsets_s


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else 0.0


def _breaks(values_s: Floats, fewest: int) -> tuple[tuple[float, ...], float]:
    """Return where the density of round trips has deep valleys, and the step of a `Scale`.

    Args:
        values_s: round trips.
        fewest: number of round trips that have to be below and above a break.
    """
    logs = np.log(np.maximum(values_s, LEAST_S))
    if len(logs) < 2 * fewest:
        return (), 0.0
    low, high = float(logs.min()) - 3 * NARROW, float(logs.max()) + 3 * NARROW
    counts, edges = np.histogram(logs, bins=max(int((high - low) / (NARROW / 4)), 8), range=(low, high))
    reach = np.arange(-12, 13)
    kernel = np.exp(-0.5 * (reach / 4) ** 2)
    breaks = np.array([edges[at] for at in _valleys(np.convolve(counts, kernel / kernel.sum(), mode="same"))])
    below = np.array([int((logs < each).sum()) for each in breaks])
    breaks = breaks[(below >= fewest) & (below <= len(logs) - fewest)][:MOST_BREAKS]
    if not breaks.size:
        return (), 0.0
    tiers = np.split(np.sort(logs), np.searchsorted(np.sort(logs), breaks))[:-1]
    steps_s = [np.exp(each) - np.exp(np.quantile(tier, 0.01)) for each, tier in zip(breaks, tiers, strict=True)]
    return tuple(np.exp(breaks).tolist()), float(min(steps_s))


def _valleys(density: Floats) -> list[int]:
    """Return the places of valleys that are `DEEP` times lower than the lower one of the peaks next to them, ascending.

    Valleys of small depth are joined first, so that a peak counts with its whole height (persistence).
    """
    falls = np.flatnonzero((density[1:-1] >= density[:-2]) & (density[1:-1] > density[2:])) + 1
    peaks = [int(at) for at in falls if density[at] > 0]
    lows = [one + int(np.argmin(density[one:two])) for one, two in pairwise(peaks)]
    while lows:
        depth = [min(density[peaks[k]], density[peaks[k + 1]]) / max(density[low], 1e-3) for k, low in enumerate(lows)]
        k = int(np.argmin(depth))
        if depth[k] >= DEEP:
            break
        del peaks[k if density[peaks[k]] < density[peaks[k + 1]] else k + 1]
        lows = [one + int(np.argmin(density[one:two])) for one, two in pairwise(peaks)]
    # An empty valley is wide: its middle is the farthest from both tiers.
    return [_middle(density, low) for low in lows]


def _middle(density: Floats, low: int) -> int:
    alike = density <= max(2 * density[low], 1e-3)
    first = last = low
    while first > 0 and alike[first - 1]:
        first -= 1
    while last + 1 < len(density) and alike[last + 1]:
        last += 1
    return (first + last) // 2
