"""By how much the paces of a shuffle exceed its rates, from what its flows achieve together."""

from __future__ import annotations

from collections import deque

SLACK = 1.02
"""Least factor. A link whose rate the Network underestimates slightly is full all the same."""

MOST = 2.0
"""Largest factor. Plain TCP shares what is left then."""

WINDOW_S = 0.6
"""Time over which the achieved rate is averaged: a few reports."""

SHORT = 0.985
"""If flows achieve less than this share of their rates, some wait for lost packets, and others may use what is left."""

PROBE = 0.99
"""If flows achieve this share of their paces, links may carry more than the Network knows."""

RISE = 1.08
"""Factor of one rise."""

PROBE_RISE = 1.02
"""Factor of one rise to find out whether links carry more."""

FALL = 0.97
"""Factor of one fall."""


class Slack:
    """Factor between the paces and the rates of weighted shuffle scheduling.

    At these rates all flows end together, and the slowest link is exactly full. A flow that waits for a lost packet
    then leaves capacity that no other flow may use. Each call of `observe` therefore compares the achieved with the
    intended rate of all flows over that link together:

    1. If it falls short, the factor rises. Flows with bytes left then use what others leave.
    2. If these flows keep their paces, it rises slowly: the Network may be too low.
    3. Otherwise it falls, since paces far above the rates fill queues.

    Rates are computed again from the bytes left, so a flow that gets ahead has a lower rate afterwards.

    Attributes:
        factor: the current factor.
    """

    def __init__(self) -> None:
        self.factor = SLACK
        self._marks: deque[tuple[float, float]] = deque()

    def restart(self) -> None:
        """Forget what was observed, since other flows decide from now on."""
        self._marks.clear()

    def observe(self, now_s: float, moved_bytes: float, rate_bps: float) -> None:
        """Adapt the factor.

        Args:
            now_s: monotonic time.
            moved_bytes: payload of these flows that has moved.
            rate_bps: intended rate of these flows together, without the factor.
        """
        self._marks.append((now_s, moved_bytes))
        while len(self._marks) > 2 and now_s - self._marks[1][0] >= WINDOW_S:
            self._marks.popleft()
        begin_s, before_bytes = self._marks[0]
        if now_s - begin_s < WINDOW_S / 2 or rate_bps <= 0:
            return
        achieved = 8 * (moved_bytes - before_bytes) / (now_s - begin_s) / rate_bps
        if achieved < SHORT:
            self.factor = min(MOST, self.factor * RISE)
        elif achieved >= PROBE * self.factor:
            self.factor = min(MOST, self.factor * PROBE_RISE)
        else:
            self.factor = max(SLACK, self.factor * FALL)
