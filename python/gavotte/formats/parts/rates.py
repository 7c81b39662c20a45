"""Write rates and sizes for people: `287 Mbit/s`, `265 MB`. `rate_fields` reads them from files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_UNITS = (("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12))


def format_rate(rate_bps: float, digits: int = 3) -> str:
    """Return bit/s with three significant digits, or more, for people: `287 Mbit/s`."""
    if not math.isfinite(rate_bps):
        return "unlimited"
    value, unit = rate_bps, "bit/s"
    for larger in ("kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:#.{digits}g}".rstrip(".") + f" {unit}"


def format_apart(first_bps: float, second_bps: float) -> tuple[str, str]:
    """Return two rates for people, with as many digits as it takes to see which is higher."""
    for digits in range(3, 8):
        first, second = format_rate(first_bps, digits), format_rate(second_bps, digits)
        if first != second:
            return first, second
    return format_rate(first_bps), format_rate(second_bps)


def common_unit(rates_bps: Iterable[float]) -> tuple[str, float]:
    """Return one unit for all rates of a table, and how many bit/s it is.

    It is the largest unit in which no known rate is below 1, unless the highest rate would then have six digits.
    """
    known = [abs(rate) for rate in rates_bps if rate and math.isfinite(rate)]
    low, high = min(known, default=1e6), max(known, default=1e6)
    fitting = [(unit, scale) for unit, scale in _UNITS if high < 99_950 * scale] or [_UNITS[-1]]
    return next(((unit, scale) for unit, scale in reversed(fitting) if low >= 0.9995 * scale), fitting[0])


def format_in(rate_bps: float, scale: float) -> str:
    """Return a rate in a unit of `scale` bit/s with three significant digits and without the unit: `287`, `1050`."""
    value = rate_bps / scale
    if not value or not math.isfinite(value):
        return "0" if not value else "unlimited"
    digits = 2 - math.floor(math.log10(abs(float(f"{value:.3g}"))))
    return f"{round(value, digits):.{max(0, digits)}f}"


def in_one_unit(rates_bps: Sequence[float]) -> list[str]:
    """Return the rates of one sentence, all in the unit that `common_unit` finds: `43.0 Mbit/s`, `1050 Mbit/s`."""
    unit, scale = common_unit(rates_bps)
    return [f"{format_in(rate, scale)} {unit}" for rate in rates_bps]


def format_bytes(size_bytes: float) -> str:
    """Return bytes with three significant digits for people, in powers of 1000: `265 MB`."""
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:#.3g}".rstrip(".") + f" {unit}"
