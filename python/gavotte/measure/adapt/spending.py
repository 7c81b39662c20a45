"""Bytes and seconds that a measurement has used so far, compared with its limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gavotte.measure.adapt.experiments import Experiments
from gavotte.measure.plan.cost import CostLimits, Most
from gavotte.measure.plan.path_plan import PathPlan

EXTENDED = 3.0
"""Multiple of the expected cost of further probes by which they extend the estimate."""


class Spending:
    """Account of a measurement's bytes and seconds, which keeps it within its estimate or its budget.

    Without a budget of bytes, bytes between hosts of one machine do not count: they cross no network, and memory
    carries a hundred times as much (64 MB a train, 4 GB in 0.5 s of TCP).

    Attributes:
        experiments: the experiments that fill links; None = there are none yet.
        share: most bytes that each host may send in total; 0 = no limit.
    """

    def __init__(self, plan: PathPlan, limits: CostLimits, most: Most) -> None:
        """Create an account without any bytes or seconds spent.

        Args:
            plan: plan of the measurement.
            limits: limits of its cost.
            most: cost at which it ends, even if it is not finished.
        """
        self._plan = plan
        self._most = most
        # For hosts that no Network knows, the first rounds show what the others will cost.
        self._guessed = limits.bytes is None and not plan.rates and not most.firm
        # A budget of time is fixed; an estimate is corrected during the measurement.
        self._timed = limits.seconds is not None
        self._allowed_s = 0.0
        self._sent: Counter[str] = Counter()
        self._probes = 0
        self._largest_bytes = 0
        self._near_bytes = 0
        self.share = plan.budget(limits).max_bytes if limits.bytes is not None else 0
        self.experiments: Experiments | None = None

    @property
    def bytes_sent(self) -> int:
        """Payload bytes that all hosts have sent so far."""
        return self._sent.total() + (self.experiments.bytes_sent if self.experiments is not None else 0)

    @property
    def _counted_bytes(self) -> int:
        return self.bytes_sent - self._near_bytes

    def take(self, source: str, size: int, *, near: bool) -> None:
        """Record one probe.

        Args:
            source: host that sent.
            size: payload bytes.
            near: whether it stayed in one machine, or was TCP where no train is possible.
        """
        self._sent[source] += size
        if near and not self.share:
            self._near_bytes += size
            return
        self._probes += 1
        self._largest_bytes = max(self._largest_bytes, size)

    def learn(self) -> None:
        """Use the cost of the first rounds for the others, if nothing was known before."""
        if self._guessed and self._probes:
            self._guessed = False
            self._most = self._plan.more(self._most, self._counted_bytes / self._probes)

    def allow(self, seconds: float) -> None:
        """Extend the estimated time because a path is far or loses packets; a budget of time stays as it is."""
        if not self._timed:
            self._allowed_s += seconds

    def extend(self, probes: int, *, done: int, spent_s: float) -> bool:
        """Extend the estimate for further probes. Return whether there is room for them: a budget stays as it is.

        Args:
            probes: their number.
            done: probes so far.
            spent_s: seconds of probing so far.
        """
        more_s = spent_s / max(done, 1) * probes
        if self.limited:
            return self.spare_bytes(done, probes) >= 0 and (not self._timed or spent_s + more_s <= self._most.seconds)
        more_bytes = EXTENDED * self.each_bytes(done) * probes
        self._most = replace(
            self._most, bytes=self._most.bytes + more_bytes, seconds=self._most.seconds + EXTENDED * more_s
        )
        return True

    def each_bytes(self, done: int) -> float:
        """Return the bytes of a path: the mean so far, or the largest if nothing was known before.

        Args:
            done: probes so far.
        """
        return self._counted_bytes / max(done, 1) if self._plan.rates else self._largest_bytes

    def spare_bytes(self, done: int, left: int) -> float:
        """Return the bytes that may be sent in addition to the remaining probes.

        Args:
            done: probes so far.
            left: probes to be sent in any case.
        """
        return self._most.bytes - self._counted_bytes - self.each_bytes(done) * max(0, left)

    def affords(self, source: str) -> bool:
        """Return whether a host's share of a byte limit suffices for another probe."""
        return not self.share or self._sent[source] + self._plan.method.bytes_per_path <= self.share

    def left_bytes(self, sources: Iterable[str]) -> float:
        """Return what each of some hosts may still send of its share of a byte limit."""
        return self.share - max((self._sent[source] for source in sources), default=0)

    @property
    def limited(self) -> bool:
        """Whether the user gave a limit of bytes or time."""
        return self._timed or bool(self.share)

    def fallback_bytes(self, sources: Sequence[str]) -> int:
        """Return the bytes that TCP may send on each of some paths on which trains found no rate.

        They are at most as many as a train's, and keep the measurement within the most that was announced.

        Args:
            sources: source of each path.
        """
        if not sources:
            return 0
        left = [(self._plan.cost().max_bytes - self.bytes_sent) / len(sources)]
        if self.share:
            left += [(self.share - self._sent[source]) / paths for source, paths in Counter(sources).items()]
        return int(min(self._plan.method.bytes_per_path, *left))

    def exceeded(self, seconds: float, *, waited_s: float) -> str:
        """Return why the measurement is to end: its cost far exceeds the estimate. Empty = it continues.

        Args:
            seconds: seconds of probing.
            waited_s: most of them that lost hosts may have cost.
        """
        if self._counted_bytes > self._most.bytes:
            return "more bytes were needed than estimated"
        return (
            "more time was needed than estimated" if seconds > self._most.seconds + self._allowed_s + waited_s else ""
        )
