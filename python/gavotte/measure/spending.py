"""What a measurement has sent so far, beside what it may."""

from __future__ import annotations

from collections import Counter

from gavotte.measure.cost import CostLimits, Most
from gavotte.measure.planning import MeasurementPlan
from gavotte.measure.sharing.carrier import Carrier


class Spending:
    """Keeps a measurement to its estimate, or to its budget.

    Where no budget of bytes was set, what hosts of one machine send each other does not count: it crosses no network,
    and memory carries a hundred times as much (64 MB a train, 4 GB in 0.5 s of TCP).

    Attributes:
        carrier: that fills links; None = none does yet.
        share: what each host may send in all; 0 = as much as it likes.
    """

    def __init__(self, plan: MeasurementPlan, limits: CostLimits, most: Most) -> None:
        """Nothing was sent yet.

        Args:
            plan: what is to be done.
            limits: what it may cost.
            most: when it is to end, whether it is done or not.
        """
        self._plan = plan
        self._most = most
        # Of hosts that no Network knows, the first rounds tell what the others will cost.
        self._guessed = limits.bytes is None and not plan.rates
        self._sent: Counter[str] = Counter()
        self._probes = 0
        self._largest_bytes = 0
        self._near_bytes = 0
        self.share = plan.budget(limits).max_bytes if limits.bytes is not None else 0
        self.carrier: Carrier | None = None

    @property
    def bytes_sent(self) -> int:
        """Payload so far."""
        return self._sent.total() + (self.carrier.bytes_sent if self.carrier is not None else 0)

    @property
    def _counted_bytes(self) -> int:
        return self.bytes_sent - self._near_bytes

    def take(self, source: str, size: int, *, near: bool) -> None:
        """Notes one probe.

        Args:
            source: host that sent.
            size: payload bytes.
            near: whether it stayed in one machine.
        """
        self._sent[source] += size
        if near and not self.share:
            self._near_bytes += size
            return
        self._probes += 1
        self._largest_bytes = max(self._largest_bytes, size)

    def learn(self) -> None:
        """Takes what the first rounds cost for what the others will, where nothing was known before."""
        if self._guessed and self._probes:
            self._guessed = False
            self._most = self._plan.more(self._most, self._counted_bytes / self._probes)

    def each_bytes(self, done: int) -> float:
        """What a path takes: as they did so far, or where nothing was known before as the largest did.

        Args:
            done: probes so far.
        """
        return self._counted_bytes / max(done, 1) if self._plan.rates else self._largest_bytes

    def spare_bytes(self, done: int, left: int) -> float:
        """What may be sent beside the probes that are left.

        Args:
            done: probes so far.
            left: to be sent in any case.
        """
        return self._most.bytes - self._counted_bytes - self.each_bytes(done) * max(0, left)

    def affords(self, source: str) -> bool:
        """Whether a host's share of a byte limit suffices for another probe."""
        return not self.share or self._sent[source] + self._plan.method.bytes_per_path <= self.share

    def exceeded(self, seconds: float, *, waited_s: float) -> str:
        """Why the measurement is to end: it has cost far more than was said. Empty = it goes on.

        Args:
            seconds: of probing.
            waited_s: what hosts that are gone may have cost of them.
        """
        if self._counted_bytes > self._most.bytes:
            return "more bytes were needed than estimated"
        return "more time was needed than estimated" if seconds > self._most.seconds + waited_s else ""
