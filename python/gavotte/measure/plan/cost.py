"""The cost of a measurement, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gavotte.errors import GavotteError
from gavotte.formats.parts.rates import format_bytes

EXCEEDED = 1.25
"""A measurement ends when its cost exceeds the estimate by this factor."""

LOST_S = 15.0
"""Further time for waiting, for each host that vanishes and each two that cannot reach each other.

It is usually up to 3 s, and 10 s if an agent hangs.
"""


@dataclass(frozen=True)
class Cost:
    """Cost of a measurement.

    Attributes:
        bytes: payload bytes that all hosts typically send together.
        max_bytes: most that they send; agents refuse more.
        seconds: typical wall time.
        max_seconds: wall time if all paths share one link and are measured one by one, unknown ones at `SLOW_BPS`.
        money: price of the typical bytes; 0 without a price.
        fast_bytes: part of `max_bytes` that is sent only if paths turn out to be faster than trains can measure.
    """

    bytes: int
    max_bytes: int
    seconds: float
    max_seconds: float
    money: float
    fast_bytes: int = 0

    @property
    def usual_max_bytes(self) -> int:
        """Most payload bytes if no path turns out to be that fast."""
        return self.max_bytes - self.fast_bytes

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both, one after the other."""
        return Cost(
            self.bytes + other.bytes,
            self.max_bytes + other.max_bytes,
            self.seconds + other.seconds,
            self.max_seconds + other.max_seconds,
            self.money + other.money,
            self.fast_bytes + other.fast_bytes,
        )


@dataclass(frozen=True)
class CostLimits:
    """Most that a measurement may cost. None = no limit.

    Attributes:
        bytes: payload bytes of all hosts. Each agent enforces its share.
        seconds: wall time.
        money: in the currency of the price.
        price_per_gb: price of 10^9 bytes that cross the network.
    """

    bytes: int | None = None
    seconds: float | None = None
    money: float | None = None
    price_per_gb: float = 0.0

    def less(self, size: int, seconds: float) -> CostLimits:
        """Return what is left after these bytes and seconds.

        Args:
            size: payload bytes.
            seconds: wall time.
        """
        money = size / 1e9 * self.price_per_gb
        return replace(
            self,
            bytes=None if self.bytes is None else max(self.bytes - size, 0),
            seconds=None if self.seconds is None else max(self.seconds - seconds, 0.0),
            money=None if self.money is None else max(self.money - money, 0.0),
        )

    def check(self, cost: Cost) -> None:
        """Refuse a higher cost.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        if self.bytes is not None and cost.bytes > self.bytes:
            raise _over(f"about {format_bytes(cost.bytes)}", format_bytes(self.bytes))
        if self.seconds is not None and cost.seconds > self.seconds:
            raise _over(f"about {cost.seconds:.1f} s", f"{self.seconds:g} s")
        if self.money is not None and cost.money > self.money:
            raise _over(f"about {cost.money:.2f} in money", f"{self.money:g}")


def _over(cost: str, budget: str) -> GavotteError:
    return GavotteError(
        f"the measurement would take {cost}, more than the budget of {budget}",
        hint="raise the budget, or measure fewer hosts or snapshots",
    )


@dataclass(frozen=True)
class Most:
    """Cost at which a measurement ends early.

    Attributes:
        bytes: payload bytes of all hosts.
        seconds: seconds of probing.
        firm: whether the first rounds leave it as it is, because a pilot has shown what paths cost.
    """

    bytes: float
    seconds: float
    firm: bool = False
