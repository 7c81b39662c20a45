"""Unix time that does not jump when the machine's clock is set."""

from __future__ import annotations

import time


class UnixClock:
    """Clock that returns Unix time: the machine's clock when this was created, plus the monotonic clock since then.

    Differences of two times are durations. The machine's own clock would make them wrong when NTP or a person sets it.
    """

    def __init__(self) -> None:
        """Read the machine's clock, once."""
        self._ahead_s = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Return the time in seconds since 1970."""
        return self._ahead_s + time.monotonic()
