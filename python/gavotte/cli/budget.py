"""Read the limits of `--budget`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gavotte.measure import CostLimits


def read_limits(budget: list[str], price_per_gb: float) -> CostLimits:
    """Read `--budget`: a size, a time, or a sum of money.

    Raises:
        GavotteError: naming the option.
    """
    from gavotte.errors import GavotteError
    from gavotte.measure import CostLimits

    size: int | None = None
    seconds: float | None = None
    money: float | None = None
    for text in budget:
        number = text.strip().lower()
        try:
            for suffix, factor in (("gb", 1e9), ("mb", 1e6), ("kb", 1e3)):
                if number.endswith(suffix):
                    size = int(float(number.removesuffix(suffix)) * factor)
                    break
            else:
                if number.endswith("s"):
                    seconds = float(number.removesuffix("s"))
                else:
                    money = float(number)
        except (ValueError, OverflowError):
            raise GavotteError(
                f"--budget: `{text}` is not a limit", hint="use e.g. 500MB, 30s or a sum of money"
            ) from None
    if money is not None and not price_per_gb:
        raise GavotteError("a budget in money needs a price", hint="use --price-per-gb")
    return CostLimits(bytes=size, seconds=seconds, money=money, price_per_gb=price_per_gb)
