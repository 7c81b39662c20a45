"""Estimate from snapshots what share of them is error, how reliable the constant is, and what it gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.formats.history import Floats
from gavotte.model.choosing import MAX_HOSTS, Candidate, Choice, estimate
from gavotte.model.estimators import Z95, band
from gavotte.model.intervals import MEDIAN_PENALTY
from gavotte.terms.norm import TOLERANCE, norm_of

NEAR_ENOUGH = 0.10
"""Share of pairs that may still be off, by which section V-C of the RPCA paper chooses its time step."""

STEPS = 16
"""Number of points of Fig. 5 at the first snapshots, and largest number of points after them.

Each point costs one estimate.
"""

VOLATILE = 0.5
"""Norm above which the RPCA paper, section V-E, finds tuning to gain little."""


@dataclass(frozen=True)
class Norm:
    """Shares of measured times that differ from load x constant, without the diagonal and missing values.

    Attributes:
        share: share of times, 0 to 1, that are off by more than `tolerance`.
        tolerance: relative.
        wide_share: share of times that are off by more than `wide_tolerance`. It shows slow-downs without the band.
        wide_tolerance: relative; three band widths.
    """

    share: float
    tolerance: float
    wide_share: float
    wide_tolerance: float


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Gains:
    """Shares of time that decisions from the constant save on held-out snapshots.

    Attributes:
        broadcast: compared with the binomial tree by rank.
        mapping: compared with the mapping in order of rank.
        broadcast_over_mean: compared with the same kind of tree built from the plain mean.
        mapping_over_mean: compared with the same kind of mapping built from the plain mean.
    """

    broadcast: Interval
    mapping: Interval
    broadcast_over_mean: Interval
    mapping_over_mean: Interval


def norm(times: Floats, constant: Floats, width: float) -> Norm:
    """Return the share of measured times that are errors, `Norm(N_E)`, at both tolerances; see `norm_of`.

    Args:
        times: (n, N, N), NaN = not measured.
        constant: (N, N) undisturbed times.
        width: width of the band.
    """
    return Norm(norm_of(times, constant), TOLERANCE, norm_of(times, constant, tolerance=3 * width), 3 * width)


def looked_at(snapshots: int) -> list[int]:
    """Return the numbers of first snapshots that `steps` compares with all.

    These are each number up to `STEPS`, then at most `STEPS` numbers at growing distances. The last is `snapshots`.
    """
    if snapshots <= STEPS:
        return list(range(1, snapshots + 1))
    above = {round(k) for k in np.geomspace(STEPS, snapshots, STEPS + 1).tolist()}
    return [*range(1, STEPS), *sorted(above)]


def steps(times: Floats, method: str, *, seed: int = 0) -> list[float]:
    """Compare the constant from the first k snapshots with that from all, as in the RPCA paper's Fig. 5.

    If there are more than `MAX_HOSTS` hosts, only `MAX_HOSTS` of them, chosen at random, are compared.

    Returns:
        For each k of `looked_at`, the share of pairs whose constants differ by more than `TOLERANCE`. A factor common
        to all pairs does not count.
    """
    size = times.shape[1]
    if size > MAX_HOSTS:
        kept = np.sort(np.random.default_rng(seed).permutation(size)[:MAX_HOSTS])
        times = np.ascontiguousarray(times[:, kept][:, :, kept])
    whole = estimate(times, method)
    shares = []
    for count in looked_at(len(times)):
        part = estimate(times[:count], method) if count < len(times) else whole
        shares.append(differing(part, whole))
    return shares


def differing(one: Floats, other: Floats) -> float:
    """Return the share of pairs, 0 to 1, whose values differ by more than `TOLERANCE` between two constants.

    Only pairs known to both count, and a factor common to all pairs does not count.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (one / other)[np.isfinite(one / other)]
    if not ratio.size:
        return 0.0
    return float((np.abs(ratio / np.median(ratio) - 1) > TOLERANCE).mean())


def enough(shares: Sequence[float], after: Sequence[int] | None = None) -> int | None:
    """Return the least number of snapshots from which on at most `NEAR_ENOUGH` of the pairs are off.

    None means that more snapshots are needed. All snapshots agree with themselves, so the last step shows nothing.

    Args:
        shares: the result of `steps`.
        after: number of snapshots of each share; None = 1, 2, 3 and so on.
    """
    good = [share <= NEAR_ENOUGH for share in shares[:-1]]
    if not good or not good[-1]:
        return None
    first = len(good) - next((k for k, ok in enumerate(reversed(good)) if not ok), len(good))
    return first + 1 if after is None else after[first]


def gains(choice: Choice, method: str) -> Gains | None:
    """Return the gains of a method in held-out trials; None if nothing was held out.

    If the same trials chose the method, its gains are slightly too high: the best of several was also lucky.
    """
    chosen, base, plain = choice.trial(method), choice.trial("mean"), choice.untuned
    if chosen is None or base is None or plain is None:
        return None

    def saved(other: Candidate) -> tuple[Interval, Interval]:
        return (
            _interval(1 - chosen.broadcast_s.mean(axis=1) / other.broadcast_s.mean(axis=1)),
            _interval(1 - chosen.mapping_s.mean(axis=1) / other.mapping_s.mean(axis=1)),
        )

    return Gains(*saved(plain), *saved(base))


def recalibrate_after_s(times: Floats, time_s: Floats) -> float | None:
    """Return for how long the constant can be trusted: until about `NEAR_ENOUGH` of the hosts' pairs have moved.

    The past gives the rate at which pairs move: the share of pairs whose constants of the first and of the second half
    differ, divided by half the time that the snapshots span. If no pair has moved, the rule of three, applied to the
    number of hosts, bounds the rate from above. The constant is then trusted for at least the time that it was seen to
    last.

    Returns:
        Seconds, or None with fewer than six snapshots or no span.
    """
    count, span_s = len(times), float(time_s[-1] - time_s[0])
    if count < 6 or span_s <= 0:
        return None
    half = count // 2
    older, newer = (estimate(np.ascontiguousarray(part), "mode") for part in (times[:half], times[half:]))
    width = band(times).width
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = newer / older
    ratio = ratio[np.isfinite(ratio)]
    # Halves differ by chance, too.
    chance = max(TOLERANCE, 4 * MEDIAN_PENALTY * width * math.sqrt(2 / half))
    share = float((np.abs(np.log(ratio / np.median(ratio))) > chance).mean()) if ratio.size else 0.0
    least = 3 / (times.shape[1] * max(1, half))
    trusted_s = NEAR_ENOUGH * (span_s / 2) / max(share, least)
    return float(trusted_s if share > least else max(trusted_s, span_s))


def _interval(shares: Floats) -> Interval:
    """Return the mean over snapshots and its 95 % interval."""
    mean, count = float(shares.mean()), len(shares)
    if count < 2:
        return Interval(mean, -math.inf, math.inf)
    # Student's t at 97.5 % to 1 % from three degrees of freedom on (Abramowitz and Stegun 26.7.5).
    free = count - 1
    student = Z95 + (Z95**3 + Z95) / (4 * free) + (5 * Z95**5 + 16 * Z95**3 + 3 * Z95) / (96 * free**2)
    error = student * float(shares.std(ddof=1)) / math.sqrt(count)
    return Interval(mean, mean - error, mean + error)
