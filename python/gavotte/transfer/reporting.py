"""When hosts reported last, and which are silent while others report."""

from __future__ import annotations

MOST_STEP_S = 0.3
"""Most that the pause before one report adds to the silence of others.

A controller without a processor reads late what all have sent meanwhile, so it hears of no silence.
"""

NEWEST = 0.02
"""Weight of the newest interval in the average."""


class Reporting:
    """Silence of each host, measured by the reports of the others.

    Attributes:
        interval_s: average time between two reports of a host.
    """

    def __init__(self) -> None:
        self.interval_s = 0.0
        self._silence_s: dict[str, float] = {}
        self._last_s: dict[str, float] = {}
        self._heard_s: float | None = None

    def heard(self, host: str, now_s: float) -> None:
        """Record a report.

        Args:
            host: its sender.
            now_s: monotonic time.
        """
        step_s = 0.0 if self._heard_s is None else min(MOST_STEP_S, now_s - self._heard_s)
        self._heard_s = now_s
        for other in self._silence_s:
            self._silence_s[other] += step_s
        if host in self._last_s:
            self.interval_s += NEWEST * (now_s - self._last_s[host] - self.interval_s)
        self._silence_s[host], self._last_s[host] = 0.0, now_s

    def forget(self, host: str) -> None:
        """Do not expect reports of a host until it reports again."""
        self._silence_s.pop(host, None)
        self._last_s.pop(host, None)

    def silent(self, least_s: float) -> set[str]:
        """Return the hosts that have been silent for at least this long while others reported."""
        return {host for host, silence_s in self._silence_s.items() if silence_s >= least_s}
