"""Judge how far a History's constant can be trusted, and give advice in sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gavotte.formats.history import Floats, History
from gavotte.model.choosing import BASE, trials
from gavotte.model.constant import MESSAGE_BYTES, Constant, transfer_times
from gavotte.model.estimators import load_of
from gavotte.model.filling import filled_series
from gavotte.model.findings import (
    NEAR_ENOUGH,
    VOLATILE,
    Gains,
    Interval,
    Norm,
    enough,
    gains,
    looked_at,
    norm,
    recalibrate_after_s,
    steps,
)
from gavotte.model.subset import Mask, SubsetCost, cost_of_subset, random_rings, usual_degree
from gavotte.terms.norm import TOLERANCE

HOUR_S = 3600.0
WORTH_LEAVING_OUT = 0.5
"""Share of the pairs above which measuring only a subset saves too little."""


@dataclass(frozen=True)
class Findings:
    """Reliability of a constant, and the gain of decisions from it.

    Attributes:
        method: how the constant was estimated.
        snapshots: number of snapshots it was estimated from.
        rate_low_bps: (N, N) lower end of each pair's 95 % interval, around `Constant.rate_bps`.
        rate_high_bps: (N, N) upper end.
        load: (n,) factor of each snapshot on all times at once; median 1.
        band: standard deviation of the logarithm of undisturbed times.
        norm: shares of measured times that are errors, by the undisturbed constant.
        gains: shares of time that decisions save; None with fewer than three snapshots or hosts.
        steps: share of pairs that still differ after the first `step_snapshots` snapshots (the RPCA paper's Fig. 5).
        step_snapshots: the number of snapshots of each of `steps`; the last number is that of all.
        enough: the least of `step_snapshots` from which on few pairs differed; None = more snapshots are needed.
        recalibrate_after_s: for how long to trust the constant; None = not known.
        moved_share: share of pairs that moved during the calibration.
        moved_hosts: names of hosts all of whose paths moved.
        measured_share: share of pairs that were measured; the rest is guessed.
        subset: the gain that measuring only some pairs loses, or would lose; None with too few hosts for that.
        advice: these findings in sentences.
    """

    method: str
    snapshots: int
    rate_low_bps: Floats
    rate_high_bps: Floats
    load: Floats
    band: float
    norm: Norm
    gains: Gains | None
    steps: list[float]
    step_snapshots: list[int]
    enough: int | None
    recalibrate_after_s: float | None
    moved_share: float
    moved_hosts: tuple[str, ...]
    measured_share: float
    subset: SubsetCost | None
    advice: tuple[str, ...]


def judge(history: History, constant: Constant) -> Findings:
    """Judge a constant by the snapshots from which it was estimated. Gains are those on held-out snapshots.

    Args:
        history: the snapshots.
        constant: the constant that `find_constant` estimated from them.
    """
    seconds_per_byte = constant.cut.of(1 / history.beta_Bps, scaled=True)
    error = norm(seconds_per_byte, 8 / constant.undisturbed_bps, constant.band)
    usual = MESSAGE_BYTES * 8 / constant.rate_bps
    whole = constant.cut.times if constant.guess is None else filled_series(constant.cut.times, usual)
    choice = trials(whole, candidates=sorted({BASE, constant.method}), seed=constant.seed, ordered=False)
    saved = gains(choice, constant.method)
    shares = steps(constant.cut.times, constant.method, seed=constant.seed)
    after = looked_at(history.snapshots)
    needed = enough(shares, after)
    after_s = recalibrate_after_s(transfer_times(history), history.time_s)
    measured = np.asarray(np.isfinite(seconds_per_byte).any(axis=0))
    subset = _subset(constant, measured)
    moved_hosts = tuple(history.hosts[host] for host in constant.cut.hosts)
    advice = (
        _worth(error, saved),
        _snapshots(shares, after, needed),
        _again(after_s, history),
        *_some(constant, measured, subset),
        *_moved(constant.cut.share, moved_hosts),
    )
    return Findings(
        method=constant.method,
        snapshots=history.snapshots,
        rate_low_bps=constant.rate_low_bps,
        rate_high_bps=constant.rate_bps**2 / constant.rate_low_bps,
        load=load_of(seconds_per_byte, 8 / constant.undisturbed_bps),
        band=constant.band,
        norm=error,
        gains=saved,
        steps=shares,
        step_snapshots=after,
        enough=needed,
        recalibrate_after_s=after_s,
        moved_share=constant.cut.share,
        moved_hosts=moved_hosts,
        measured_share=float(measured.sum() / max(1, measured.size - len(measured))),
        subset=subset,
        advice=advice,
    )


def _subset(constant: Constant, measured: Mask) -> SubsetCost | None:
    """Return the gain that broadcast trees over only some pairs lose.

    These are the measured pairs. If all pairs were measured, they are 2 log2 N random pairs out of each host.
    None means that there are too few hosts, or that the pairs do not reach every host.
    """
    size = len(measured)
    if size < 3:
        return None
    if constant.guess is None:
        degree = usual_degree(size)
        if degree > WORTH_LEAVING_OUT * (size - 1):
            return None
        measured = random_rings(size, degree, seed=constant.seed)
    try:
        return cost_of_subset(MESSAGE_BYTES * 8 / constant.rate_bps, measured, seed=constant.seed)
    except ValueError:  # the measured pairs do not reach every host
        return None


def _some(constant: Constant, measured: Mask, subset: SubsetCost | None) -> list[str]:
    if subset is None:
        return []
    share, gain, full = 100 * subset.share, 100 * subset.gain, 100 * subset.full_gain
    if constant.guess is None:
        degree = usual_degree(len(measured))
        return [
            f"measuring {degree} pairs out of each host, {share:.0f} % of all, would make broadcasts {gain:.0f} % "
            f"shorter instead of {full:.0f} %"
        ]
    return [
        f"{share:.0f} % of the pairs were measured: trees over those alone make broadcasts {gain:.0f} % shorter, "
        f"with guesses {full:.0f} % if they hold"
    ]


def _worth(error: Norm, saved: Gains | None) -> str:
    if saved is None:
        return "too few snapshots or hosts to say what tuning gains: use at least 3 of each"
    sure = {name: gain for name, gain in (("broadcast", saved.broadcast), ("mapping", saved.mapping)) if gain.low > 0}
    off = f"{100 * error.share:.0f} % of the measured times are off the lasting value of their pair"
    both = f"broadcast {_percent(saved.broadcast)}, mapping {_percent(saved.mapping)} shorter, tried on other snapshots"
    if sure:
        volatile = f"; but the network is volatile: {off}" if error.share > VOLATILE else ""
        return f"network-aware {' and '.join(sure)} pay{'s' * (len(sure) == 1)} here: {both}{volatile}"
    if error.share > VOLATILE:
        return f"too volatile to tune for: {off}, and tuning needs at most {100 * VOLATILE:.0f} %; {both}"
    return f"tuning may not pay here: {both}"


def _snapshots(shares: list[float], after: list[int], needed: int | None) -> str:
    if len(shares) < 3:
        return "take more snapshots to learn how many are enough"
    if needed is None:
        newest = after[-1] - after[-2]
        return (
            f"{after[-1]} snapshots are not enough: the last {newest if newest > 1 else 'one'} changed "
            f"{100 * shares[-2]:.0f} % of the pairs by more than {100 * TOLERANCE:.0f} %"
        )
    were = "was" if needed == 1 else "were"
    return (
        f"{needed} of {after[-1]} snapshots {were} enough: from then on at most {100 * NEAR_ENOUGH:.0f} % of the pairs "
        f"were more than {100 * TOLERANCE:.0f} % off the lasting values of all"
    )


def _again(after_s: float | None, history: History) -> str:
    if after_s is None:
        few = "take at least 6" if history.snapshots < 6 else "spread them over time"
        return f"the snapshots do not show when to measure again: {few}"
    advice = f"measure again after {_duration(after_s)}, or as soon as operations take longer or shorter than expected"
    span_s = float(history.time_s[-1] - history.time_s[0])
    return advice + ("; snapshots spread over hours would vouch for longer" if span_s < HOUR_S else "")


def _moved(share: float, hosts: tuple[str, ...]) -> list[str]:
    if not share:
        return []
    named = f", with them all of {', '.join(hosts[:5])}{f' and {len(hosts) - 5} more' * (len(hosts) > 5)}" * bool(hosts)
    return [
        f"{100 * share:.1f} % of the pairs moved while they were measured{named}; of those only what came after counts"
    ]


def _percent(gain: Interval) -> str:
    return f"{100 * gain.mean:.0f} % ({100 * gain.low:.0f} to {100 * gain.high:.0f} %)"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"
