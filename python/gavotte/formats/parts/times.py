"""Write Unix times for people."""

from __future__ import annotations

import time

DAY_S = 86_400.0


def utc(time_s: float) -> str:
    """Return a Unix time in seconds as a date and time in UTC, such as `2026-01-31 12:00:00 UTC`."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_s))


def utc_within(time_s: float, span_s: float) -> str:
    """Return a Unix time as short as a span of times allows: the time of day within a day, else date and time."""
    return time.strftime("%H:%M:%S" if span_s < DAY_S else "%Y-%m-%d %H:%M", time.gmtime(time_s))
