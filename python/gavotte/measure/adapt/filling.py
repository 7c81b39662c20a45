"""Fill links that pairs may share, and record their rates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from gavotte.formats.history import Floats
from gavotte.measure.adapt.crowding import Crowding
from gavotte.measure.adapt.events import Steps
from gavotte.measure.adapt.experiments import Experiments
from gavotte.measure.plan.concurrency import Concurrency
from gavotte.measure.plan.holds import TRAIN_HOLD_S
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
        rate: Floats,
        hosts: Collection[int],
        *,
        spare_bytes: float,
        sure: bool = False,
    ) -> Steps[bool]:
        """Measure the rates of links, and with them how many pairs fit each.

        Args:
            links: links with their load when a pair lost, bit/s.
            rate: (N, N) rates of pairs alone, bit/s; NaN = unknown.
            hosts: usable hosts.
            spare_bytes: bytes that may be sent.
            sure: if it stays unknown whether a link is shared, treat it as not shared.

        Returns:
            whether the links were tried.
        """
        if not np.isfinite(rate).any():
            return False
        rate = self.expected(rate)
        results = yield from self.crowding.fill(links, rate, hosts, spare_bytes=spare_bytes)
        if results is None:
            return False
        for link, record in results.items():
            if not (sure and record.verdict == "unknown"):
                self._concurrency.settle(link, record.sum_bps, shared=record.verdict != "independent")
        return True

    def expected(self, rate: Floats) -> Floats:
        """Return the (N, N) rates in bit/s, NaN on the diagonal, with estimates where they are unknown.

        An estimate is what both hosts reached with others, at most what the full links between them carry. If nothing
        is known of a host, it is the median rate.
        """
        reached = self._concurrency.reached()
        guessed = np.where(reached > 0, reached, np.nanmedian(rate))
        rate = np.where(np.isnan(rate), guessed, rate)
        np.fill_diagonal(rate, np.nan)
        return rate

    def cross(self, aims: Mapping[str, Sequence[Pair]], rate: Floats, *, spare_bytes: float) -> Steps[None]:
        """Let pairs cross several links at once, and record which links are not full.

        Args:
            aims: links, with the pairs that are to cross each; no host is in two pairs.
            rate: (N, N) rates of pairs alone, bit/s.
            spare_bytes: bytes that may be sent.
        """
        wanted_bps = sum(float(rate[pair]) for pair in {pair for each in aims.values() for pair in each})
        # NaN if the rate of a pair is unknown
        if wanted_bps / 8 * TRAIN_HOLD_S <= spare_bytes:
            for link, record in (yield from self.crowding.pass_together(aims, rate)).items():
                self._concurrency.settle(link, record.sum_bps, shared=False)
