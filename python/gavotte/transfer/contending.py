"""Numbers of connections with which the flows of a shuffle keep their rates next to others' connections."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

SHORT = 0.93
"""If flows together achieve less than this share of their rates although their paces rise, others use the link, too."""

GOAL = 0.97
"""Share of their rates that flows should achieve together."""

MOST_TIMES = 2.0
"""Largest growth of all connections at a time."""

MOST = 32
"""Most connections of one flow."""

MOST_TOGETHER = 64
"""Most connections of all flows over the slowest link."""

LEAST_BYTES = 150_000
"""A flow with fewer bytes left gets no more connections: it would end before they help."""

SETTLE_S = 0.4
"""Time from one change until its effect is observed."""

GAIN = 0.01
"""A change that raises the achieved share by less than this did not help."""

PAUSE_S = 1.5
"""Pause after the first such change."""

LONGER = 4.0
"""Length of each further pause, compared with the last one."""


class Contending:
    """Numbers of connections of the flows over the slowest link.

    TCP shares a full link by connections. Flows with C connections next to n of others get C / (C + n) of it, whatever
    their paces are.

    1. If the flows together get less than `SHORT` of their rates, they get as many connections as would carry `GOAL`.
       Each has its part of them in proportion to its rate.
    2. If that does not help, something else is short, such as processors, or the link is slower than the Network says.
       Nothing changes for a while, and for longer each time.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._next_s = 0.0
        self._last_share: float | None = None
        self._pause_s = PAUSE_S

    def observe(
        self, now_s: float, share: float, rates_bps: Mapping[int, float], left_bytes: Sequence[float]
    ) -> dict[int, int]:
        """Return new least numbers of connections, by flow.

        Args:
            now_s: time on any clock.
            share: what the flows over the slowest link achieve together, as a share of their rates.
            rates_bps: intended rate of each of these flows that is not done.
            left_bytes: bytes left of all flows, by number.
        """
        if now_s < self._next_s:
            return {}
        if self._last_share is not None:
            helped, self._last_share = share >= self._last_share + GAIN, None
            if not helped:
                self._next_s = now_s + self._pause_s
                self._pause_s *= LONGER
                return {}
        together_bps = sum(rates_bps.values())
        if share >= SHORT or together_bps <= 0:
            return {}
        now = sum(self._counts.get(number, 1) for number in rates_bps)
        others = now * (1 - share) / max(share, 0.01)
        wanted = min(MOST_TOGETHER, MOST_TIMES * now, others * GOAL / (1 - GOAL))
        changes = {}
        for number, rate_bps in rates_bps.items():
            count = min(MOST, math.ceil(wanted * rate_bps / together_bps))
            if count > self._counts.get(number, 1) and left_bytes[number] >= LEAST_BYTES:
                changes[number] = count
        if changes:
            self._counts |= changes
            self._next_s, self._last_share = now_s + SETTLE_S, share
        return changes
