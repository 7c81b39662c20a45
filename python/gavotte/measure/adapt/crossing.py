"""Find the links that enough pairs crossed together in the first rounds of a measurement, without falling short."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gavotte.measure.adapt.overlap import Series
from gavotte.measure.plan.concurrency import Sent
from gavotte.measure.plan.methods.method import Method
from gavotte.measure.plan.opening import Opening
from gavotte.measure.plan.pair_rates import PairRates
from gavotte.terms import Pair

FULL = 1 / 3
"""Share of its load at which a link is first filled, if as many pairs as can cross it lose."""

STRETCHED = 1.5
"""These trains end after this multiple of their usual time."""

MET = 0.65
"""Two pairs ran together if each did for this share of its time.

Of trains alone, one took 1.4 times as long as another. A train that waited for another, or was starved by it, continues
after it. """

CAME = 0.8
"""Share of the rates that must arrive. Trains that lost nothing brought 0.9 of their rates, in bins of 10 ms."""

ENOUGH = 0.75
"""A link is tested when this share of the pairs that were to cross it did so together, at least two."""


def untested(
    opening: Opening, sent: Sequence[Mapping[Pair, Sent]], rate: PairRates, method: Method
) -> dict[str, list[Pair]]:
    """Return links that too few pairs crossed together, or on which some fell short.

    Args:
        opening: the first rounds.
        sent: the readings of each test round's probes, and when.
        rate: rates of pairs alone, bit/s; NaN = unknown.
        method: the method of the paths.

    Returns:
        them, with the pairs that were to cross them.
    """
    return {
        link: pairs
        for link, pairs in opening.aims.items()
        if max((_met(each, pairs, rate, method) for each in sent), default=0) < max(2, math.ceil(ENOUGH * len(pairs)))
    }


def by_test(opening: Opening, links: Mapping[str, list[Pair]]) -> list[dict[str, list[Pair]]]:
    """Group untested links whose pairs were in the same round."""
    parts = ({link: pairs for link, pairs in links.items() if set(pairs) <= set(test)} for test in opening.tests)
    return [part for part in parts if part]


def _met(sent: Mapping[Pair, Sent], pairs: Sequence[Pair], rate: PairRates, method: Method) -> int:
    """Return how many of a link's pairs ran together in one round; 0 if any of them fell short."""
    probes = [sent[pair] for pair in pairs if pair in sent]
    if any(not probe.rate_bps >= (1 - method.tolerance) * rate[probe.pair] for probe in probes):
        return 0

    def overlap(one: Sent, other: Sent) -> bool:
        both_s = min(one.end_s, other.end_s) - max(one.start_s, other.start_s)
        # A slower train takes longer.
        usual = [method.typical(each.rate_bps)[1] for each in (one, other)]
        stretched = max((each.end_s - each.start_s) / s for each, s in zip((one, other), usual, strict=True))
        return one is other or both_s >= MET * stretched * min(usual)

    together = [[other for other in probes if overlap(one, other)] for one in probes]
    return max((len(each) for each in together if _all_came(each)), default=0)


def _all_came(probes: Sequence[Sent]) -> bool:
    """Return whether nearly all that pairs carry arrived while all of them sent, if receivers report it.

    Hosts much faster than a link each fill its queue alone. One after the other, all pass it at its full rate.
    """
    if not all(probe.bits for probe in probes):
        return True
    begin = max(probe.start_s for probe in probes)
    end = min(probe.start_s + len(probe.bits) * probe.bin_s for probe in probes)
    if end <= begin:
        return False
    series = (Series(probe.start_s, probe.bin_s, np.array(probe.bits)) for probe in probes)
    came = sum(float(np.diff(each.until(np.array([begin, end])))[0]) for each in series)
    return came >= CAME * (end - begin) * sum(probe.rate_bps for probe in probes)
