"""What a measurement costs, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.rates import format_bytes

EXCEEDED = 1.25
"""A measurement ends when it has cost so many times what was said."""

LOST_S = 15.0
"""What waiting may cost beside, for each host that vanishes and each two that cannot reach each other: up to 3 s as a
rule, and 10 where an agent hangs."""


@dataclass(frozen=True)
class Cost:
    """What a measurement costs.

    Attributes:
        bytes: payload bytes that all hosts typically send together.
        max_bytes: what they send at most; agents refuse more.
        seconds: typical wall time.
        max_seconds: wall time where all paths share one link, and go one by one; those that nothing is known of at
            `SLOW_BPS`.
        money: of the typical bytes at the given price; 0 without one.
    """

    bytes: int
    max_bytes: int
    seconds: float
    max_seconds: float
    money: float

    def __add__(self, other: Cost) -> Cost:
        """Of the one and then the other."""
        return Cost(
            self.bytes + other.bytes,
            self.max_bytes + other.max_bytes,
            self.seconds + other.seconds,
            self.max_seconds + other.max_seconds,
            self.money + other.money,
        )


@dataclass(frozen=True)
class CostLimits:
    """What a measurement may cost. None = no limit.

    Attributes:
        bytes: payload bytes of all hosts. Each agent enforces its share.
        seconds: wall time.
        money: in the currency of the price.
        price_per_gb: of 10^9 bytes that cross the network.
    """

    bytes: int | None = None
    seconds: float | None = None
    money: float | None = None
    price_per_gb: float = 0.0

    def check(self, cost: Cost) -> None:
        """Refuses what costs more.

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
    """What a measurement may have cost before it ends early.

    Attributes:
        bytes: payload bytes of all hosts.
        seconds: of probing.
    """

    bytes: float
    seconds: float
