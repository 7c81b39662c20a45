"""Fill links that pairs may share, and record their rates."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import median

import numpy as np

from gavotte.formats.history import Floats
from gavotte.measure.adapt.crowding import Crowding
from gavotte.measure.adapt.events import Steps
from gavotte.measure.adapt.experiments import Experiments
from gavotte.measure.plan.concurrency import Concurrency
from gavotte.measure.plan.holds import TRAIN_HOLD_S
from gavotte.measure.plan.pair_rates import KnownRates, PairRates
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy


class Filling:
    """Experiments on links during the measurement of paths.

    Attributes:
        crowding: the experiments' results.
    """

    def __init__(
        self, experiments: Experiments, tree: Hierarchy, concurrency: Concurrency, *, trains: bool, seed: int
    ) -> None:
        """Create experiments that have sent nothing yet.

        Args:
            experiments: asks for them.
            tree: tree of all hosts.
            concurrency: receives the rates of links.
            trains: whether paths are measured by trains, not by TCP.
            seed: seed of the choice of pairs.
        """
        self._concurrency = concurrency
        self.crowding = Crowding(experiments, tree, trains=trains, seed=seed)

    def fill(
        self,
        links: Mapping[str, float],
        rate: KnownRates,
        hosts: Collection[int],
        *,
        spare_bytes: float,
        sure: bool = False,
    ) -> Steps[bool]:
        """Measure the rates of links, and with them how many pairs fit each.

        Args:
            links: links with their load when a pair lost, bit/s.
            rate: rates of pairs alone.
            hosts: usable hosts.
            spare_bytes: bytes that may be sent.
            sure: if it stays unknown whether a link is shared, treat it as not shared.

        Returns:
            whether the links were tried.
        """
        if not rate:
            return False
        known_bps = self._concurrency.link_bps()
        results = yield from self.crowding.fill(
            links, self.expected(rate), hosts, known_bps=known_bps, spare_bytes=spare_bytes
        )
        if results is None:
            return False
        for link, record in results.items():
            if not (sure and record.verdict == "unknown"):
                self._concurrency.settle(link, record.sum_bps, shared=record.verdict != "independent")
        return True

    def expected(self, rate: KnownRates) -> PairRates:
        """Return the rates of all pairs, with estimates where they are unknown.

        An estimate is what both hosts reached with others, at most what the full links between them carry. If nothing
        is known of a host, it is the median rate.
        """
        return _Expected(rate, self._concurrency)

    def cross(self, aims: Mapping[str, Sequence[Pair]], rate: PairRates, *, spare_bytes: float) -> Steps[None]:
        """Let pairs cross several links at once, and record which links are not full.

        Args:
            aims: links, with the pairs that are to cross each; no host is in two pairs.
            rate: rates of pairs alone.
            spare_bytes: bytes that may be sent.
        """
        wanted_bps = sum(float(rate[pair]) for pair in {pair for each in aims.values() for pair in each})
        # NaN if the rate of a pair is unknown
        if wanted_bps / 8 * TRAIN_HOLD_S <= spare_bytes:
            for link, record in (yield from self.crowding.pass_together(aims, rate)).items():
                self._concurrency.settle(link, record.sum_bps, shared=False)


class _Expected:
    """Measured rates, and estimates of all others."""

    def __init__(self, known: KnownRates, concurrency: Concurrency) -> None:
        self._known = known
        self._concurrency = concurrency
        self._usual_bps = median(known.values()) if known else math.nan

    def __getitem__(self, pair: Pair) -> float:
        """Return the rate of a pair, bit/s; NaN within a host."""
        if pair[0] == pair[1]:
            return math.nan
        return self._known.get(pair) or self._concurrency.expected_bps(pair) or self._usual_bps

    def between(self, sources: Sequence[int], targets: Sequence[int]) -> Floats:
        """Return the (S, T) rates from each source to each target, bit/s; NaN within a host."""
        expected = self._concurrency.expected_between(sources, targets)
        known = [[self._known.get((i, j), 0.0) for j in targets] for i in sources]
        rates = np.array(known, dtype=np.float64).reshape(expected.shape)
        rates = np.where(rates > 0, rates, np.where(expected > 0, expected, self._usual_bps))
        rates[np.equal.outer(np.asarray(sources), np.asarray(targets))] = np.nan
        return np.asarray(rates)
