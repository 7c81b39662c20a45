"""Estimate the share of packets that each path loses at random."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gavotte._core import chi_squared_quantile
from gavotte.formats.history import History
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_rate
from gavotte.terms.goodput import TCP_PAYLOAD_BYTES
from gavotte.terms.loss import connection_bps

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_LOST, LEAST_ALONE = 5, 20
"""Fewest packets that a host, and a path alone, must have lost: one or two of thousands are chance."""

ROUNDS = 200
"""The likelihood of eight hosts with different losses no longer changes in the fourth digit."""

FAR_S = 0.005
"""Shortest round trip of paths whose unseen loss is named. Nearer ones, within a data centre, seldom lose packets."""

SURELY = 0.95
"""Confidence of the largest loss that the counts allow."""

LITTLE = 0.9
"""Share of its rate that a connection keeps where unseen loss is not worth naming."""

SURE = 4.0
"""Standard deviations by which a path's own losses must differ from those of its hosts to count alone."""


def random_loss(history: History) -> Floats | None:
    """Return the share of packets that each path loses at random.

    A train of 700 packets loses 7 at 1 %, give or take 3, which is too few for the rate of a TCP connection. Other
    paths tell more:

    1. The whole network loses one share; or each host loses a share both ways; or each host loses one share of what it
       sends and another of what it receives. A path loses the sum of its two hosts' shares. The description counts that
       the Bayesian information criterion prefers, with the lost packets as observations.
    2. No more can be lost at random than is lost at all. A train sends several times as many packets as meet no full
       queue, so that the mean of `loss` also bounds the error of few counts: larger shares are scaled down to it.
    3. A path whose own losses differ from that by more than `SURE` standard deviations has its own share, at most its
       own `loss`.

    Returns:
        (N, N), 0 = nothing known to be lost; None if the History has no counts.
    """
    if history.unqueued is None or history.unqueued_lost is None:
        return None
    packets, lost = history.unqueued.sum(axis=0), history.unqueued_lost.sum(axis=0)
    if lost.sum() < LEAST_LOST:
        return np.zeros(lost.shape)
    size = len(lost)
    described = [(1, np.full(lost.shape, lost.sum() / packets.sum()))]
    described += [(size, _by_host(packets, lost, symmetric=True)), (2 * size - 1, _by_host(packets, lost))]
    shares = min(described, key=lambda each: each[0] * np.log(lost.sum()) - 2 * _fit(packets, lost, each[1]))[1]
    whole = _lost_at_all(history)
    counted = packets > 0
    shares *= min(1.0, whole[counted].mean() / max(shares[counted].mean(), 1e-300))
    expected = packets * shares
    alone = (lost >= LEAST_ALONE) & (np.abs(lost - expected) > SURE * np.sqrt(np.maximum(expected, 1.0)))
    shares = np.where(alone, np.minimum(lost / np.maximum(packets, 1), whole), shares)
    np.fill_diagonal(shares, 0.0)
    return np.asarray(np.minimum(shares, 1.0))


def unseen_loss(history: History, rate_bps: Floats, latency_s: Floats) -> list[str]:
    """Return a note if far paths may lose packets although too few were counted to show it; empty = no such path.

    Of n packets of the whole network, k were lost. At a confidence of 95 %, its loss is at most half of the chi-squared
    quantile of 2 (k + 1) degrees of freedom, divided by n. At this loss, one connection may get less than the path's
    rate.

    Args:
        history: the counts.
        rate_bps: (N, N) rates.
        latency_s: (N, N) latencies, one way.
    """
    if history.unqueued is None or history.unqueued_lost is None or not history.unqueued.any():
        return []
    shares = random_loss(history)
    packets, lost = int(history.unqueued.sum()), int(history.unqueued_lost.sum())
    if shares is None or shares.any():
        return []
    most = chi_squared_quantile(SURELY, 2 * (lost + 1)) / 2 / packets
    trips_s = np.nan_to_num(latency_s + latency_s.T)
    least_bps = connection_bps(min(most, 1.0), trips_s, TCP_PAYLOAD_BYTES)
    count, worst = _slowed(least_bps, rate_bps, trips_s)
    if not count:
        return []
    source, target = (history.hosts[place] for place in worst)
    return [
        f"{counted(packets, 'packet')} cannot show a loss below {100 * most:.2g} %. At that loss, one TCP connection "
        f"gets {format_rate(float(least_bps[worst]))} of {format_rate(float(rate_bps[worst]))} from {source} to "
        f"{target}, and less than its rate on {counted(count, 'path')}; predictions assume no loss"
    ]


def uncertain_loss(history: History, rate_bps: Floats, latency_s: Floats) -> list[str]:
    """Return a note if too few packets were lost to predict one connection on far paths; empty = enough, or none.

    Of n packets of the whole network, k were lost. The ends of the 95 % interval of k are half of the chi-squared
    quantiles of 2 k and 2 (k + 1) degrees of freedom (Garwood 1936). The loss of each path is at least as uncertain.

    Args:
        history: the counts.
        rate_bps: (N, N) rates.
        latency_s: (N, N) latencies, one way.
    """
    shares = random_loss(history)
    if shares is None or not shares.any() or history.unqueued is None or history.unqueued_lost is None:
        return []
    packets, lost = int(history.unqueued.sum()), int(history.unqueued_lost.sum())
    ends = (
        chi_squared_quantile((1 - SURELY) / 2, 2 * lost) / 2,
        chi_squared_quantile((1 + SURELY) / 2, 2 * (lost + 1)) / 2,
    )
    trips_s = np.nan_to_num(latency_s + latency_s.T)
    most_bps, usual_bps, least_bps = (
        np.fmin(rate_bps, connection_bps(np.minimum(shares * count / lost, 1.0), trips_s, TCP_PAYLOAD_BYTES))
        for count in (ends[0], lost, ends[1])
    )
    count, worst = _slowed(least_bps, most_bps, trips_s)
    if not count:
        return []
    source, target = (history.hosts[place] for place in worst)
    low, high = (100 * min(1.0, end / packets) for end in ends)
    return [
        f"{lost} of {counted(packets, 'packet')} were lost at random, which shows a loss between {low:.2g} and "
        f"{high:.2g} %. One TCP connection gets {format_rate(float(least_bps[worst]))} to "
        f"{format_rate(float(most_bps[worst]))} from {source} to {target}, where predictions assume "
        f"{format_rate(float(usual_bps[worst]))}; {counted(count, 'path')} as uncertain"
    ]


def _slowed(least_bps: Floats, most_bps: Floats, trips_s: Floats) -> tuple[int, tuple[int, int]]:
    """Return how many far paths may keep less than `LITTLE` of their rate, and the one that may keep least.

    Args:
        least_bps: (N, N) lowest rates.
        most_bps: (N, N) highest rates; NaN = unknown.
        trips_s: (N, N) round trips.
    """
    with np.errstate(invalid="ignore"):
        kept = np.where((trips_s >= FAR_S) & np.isfinite(most_bps), least_bps / most_bps, 1.0)
    source, target = divmod(int(np.argmin(kept)), len(kept))
    return int((kept < LITTLE).sum()), (source, target)


def _lost_at_all(history: History) -> Floats:
    """Return the share of packets that each path's trains lost, for whatever reason; 1 where it is unknown."""
    if history.proof is None or history.unqueued is None:
        return np.ones(history.beta_Bps.shape[1:])
    known = np.where(history.unqueued > 0, history.proof.loss, np.nan)
    trains = np.isfinite(known).sum(axis=0)
    return np.where(trains > 0, np.nansum(known, axis=0) / np.maximum(trains, 1), 1.0)


def _fit(packets: Ints, lost: Ints, shares: Floats) -> float:
    """Return the logarithm of the likelihood of the counts, taken as Poisson's, up to a constant."""
    expected = packets * shares
    if (lost[expected <= 0] > 0).any():
        return -np.inf
    used = expected > 0
    return float((lost[used] * np.log(expected[used])).sum() - expected.sum())


def _by_host(packets: Ints, lost: Ints, *, symmetric: bool = False) -> Floats:
    """Return the likeliest share of each path as the sum of one of its source and one of its target.

    Each step of the EM algorithm divides a path's losses between its two hosts in proportion to their present shares
    (Richardson 1972, Lucy 1974). Hosts that then lost fewer than `LEAST_LOST` packets lose none.

    Args:
        packets: (N, N) sent on each path.
        lost: (N, N) lost of them.
        symmetric: whether each host has one share for both ways.
    """
    start = lost.sum() / packets.sum()
    out, into = np.full(len(lost), start / 2), np.full(len(lost), start / 2)
    of_out, of_into = np.maximum(packets.sum(axis=1), 1), np.maximum(packets.sum(axis=0), 1)
    for _ in range(ROUNDS):
        per_share = lost / np.maximum(out[:, None] + into[None, :], 1e-300)
        lost_out, lost_into = out * per_share.sum(axis=1), into * per_share.sum(axis=0)
        if symmetric:
            out = into = (lost_out + lost_into) / (of_out + of_into)
        else:
            out, into = lost_out / of_out, lost_into / of_into
    counts = (lost_out + lost_into,) * 2 if symmetric else (lost_out, lost_into)
    out, into = (np.where(count < LEAST_LOST, 0.0, each) for count, each in zip(counts, (out, into), strict=True))
    return np.asarray(out[:, None] + into[None, :])
