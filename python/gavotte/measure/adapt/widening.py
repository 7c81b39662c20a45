"""Paths faster than trains: bulk TCP over one connection, then over several, until their sum no longer grows.

Providers limit single flows, for example to 5 Gbit/s on a host of 25. The rate of one connection and the rate of
several are therefore two rates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from gavotte.measure.adapt.events import Steps
from gavotte.measure.adapt.results import PathResult, Results
from gavotte.measure.adapt.withheld import Gap, limited_by_host
from gavotte.measure.plan.fast_paths import FAST_BPS
from gavotte.measure.plan.methods.method import LOWER_BOUNDS, Reading
from gavotte.terms import Pair

GROWS = 1.1
"""Twice as many connections carry more if their sum is this many times the best before."""

MOST_CONNECTIONS = 32
"""Most connections of a pair. The steps are 1, 2, 4, ... up to it."""

Send = Callable[[Mapping[Pair, int]], Steps[dict[Pair, float]]]
"""Sends on some pairs at once, with a number of connections each. Returns bit/s of those that answered."""


def fast_pairs(results: Results, snapshot: int, hosts: Collection[int]) -> list[Pair]:
    """Return the pairs that may carry more than their train, because it was too slow for them or a single flow."""
    return [
        (i, j)
        for (number, i, j), path in sorted(results.paths.items())
        if number == snapshot
        and path.answered
        and path.reading.by_tcp in ("", "refused")
        and (lower_bound(path) or path.reading.goodput_bps >= FAST_BPS)
        and i in hosts
        and j in hosts
    ]


def lower_bound(path: PathResult) -> bool:
    """Return whether a train only found that the path carries at least its rate."""
    return path.reading.verdict in LOWER_BOUNDS


class Widening:
    """Connections that hosts need to fill their paths.

    Attributes:
        needed: connections that carried most on the first path of each source.
    """

    def __init__(self, send: Send, *, needed: Mapping[int, int] | None = None) -> None:
        """Start with the numbers of connections that are known already.

        Args:
            send: carries out one step.
            needed: initial value of the attribute.
        """
        self.needed: dict[int, int] = dict(needed or {})
        self._send = send

    def climb(self, pairs: Sequence[Pair], known: Collection[Pair] = ()) -> Steps[dict[Pair, dict[int, float]]]:
        """Measure pairs without a common host.

        1. Every pair sends over one connection.
        2. A pair whose source is known to need n connections sends over n.
        3. Any other pair doubles its connections while their sum grows. Its first step, and one that carries no
           more, are repeated: neighbours and schedulers slow single probes.

        Args:
            pairs: each once.
            known: those whose rate over one connection is known. They send nothing if their source needs only one.

        Returns:
            bit/s by number of connections, the best of repeated steps. Pairs that did not answer are left out.
        """
        results: dict[Pair, dict[int, float]] = {}
        tries: Counter[tuple[Pair, int]] = Counter()
        needed = dict(self.needed)
        wanted = {pair: 1 for pair in pairs if pair not in known or needed.get(pair[0]) != 1}
        while wanted:
            tries.update(wanted.items())
            carried = yield from self._send(wanted)
            for pair, rate_bps in carried.items():
                rates = results.setdefault(pair, {})
                rates[wanted[pair]] = max(rate_bps, rates.get(wanted[pair], 0.0))
            after = {
                pair: _next(results[pair], count, needed.get(pair[0]), repeated=tries[pair, count] > 1)
                for pair, count in wanted.items()
                if pair in carried
            }
            wanted = {pair: count for pair, count in after.items() if count}
        for pair, rates in results.items():
            self.needed.setdefault(pair[0], _best(rates))
        return results


def _next(rates: Mapping[int, float], tried: int, needed: int | None, *, repeated: bool) -> int:
    """Return how many connections to try after some; 0 = no more."""
    if needed is not None:
        return needed if tried < needed else 0
    before = max((rate_bps for count, rate_bps in rates.items() if count < tried), default=0.0)
    grows = rates[tried] >= GROWS * before
    if not repeated and (tried == 1 or not grows):
        return tried
    return 2 * tried if grows and tried < MOST_CONNECTIONS else 0


def _best(rates: Mapping[int, float]) -> int:
    """Return the least number of connections that carries nearly as much as any."""
    most_bps = max(rates.values())
    return min(count for count, rate_bps in rates.items() if GROWS * rate_bps >= most_bps)


def widened(path: PathResult, rates: Mapping[int, float], gap: Gap | None = None) -> PathResult:
    """Return a path's result with what one connection carries as its rate, and what several carry next to it.

    A rate that a train proved stays. One that TCP found where trains found none is a first try of one connection. A
    lower bound of a throttled host gives way to connections that nothing throttled.

    Args:
        path: result of the train.
        rates: bit/s by number of connections.
        gap: why the connections show a host and not the path, if they do. Their rates are then lower bounds.
    """
    if path.reading.by_tcp:
        rates = {**rates, 1: max(rates[1], path.reading.goodput_bps)}
        path = replace(path, reading=replace(path.reading, goodput_bps=rates[1]))
    count, one_bps = _best(rates), rates[1]
    several_bps = max(rates[count], one_bps)
    if not lower_bound(path):
        return replace(path, reading=replace(path.reading, several_bps=several_bps, connections=count))
    by_tcp = path.reading.by_tcp or "fast"
    reading = Reading(one_bps, loss=path.reading.loss, by_tcp=by_tcp, several_bps=several_bps, connections=count)
    return replace(path, reading=reading if gap is None else limited_by_host(reading, gap), gap=gap)
