"""An answer: the Placement, how it was found, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gavotte._core import policies
from gavotte.formats.app import App
from gavotte.formats.parts.rates import format_bytes
from gavotte.formats.placement import Placement
from gavotte.place.constraints import latency_s
from gavotte.place.effort import Effort
from gavotte.place.question import Question
from gavotte.place.worth import LEAST_SAVING_S, RATE_ERROR, Worth, worth
from gavotte.terms.credit import beyond_seen
from gavotte.terms.unfolding import unfold
from gavotte.terms.usage import host_bytes

if TYPE_CHECKING:
    from gavotte.place.explaining import Explanation
    from gavotte.place.forecast import Forecast
    from gavotte.place.replaying import Replayed

LEAST_UNSEEN_S = 1.0
"""Shortest time, in seconds, that a host must send at a rate that may end, to cause a warning."""

INTERRUPTED_TEXT = "interrupted; this is the best placement found so far"


@dataclass(frozen=True)
class Answer:
    """A Placement with its gap, its price, and how the search for it ended.

    Attributes:
        question: the question; its limits are those under which the Placement was found.
        effort: the effort made.
        placement: the Placement.
        chosen: the method that ran; differs from the requested one under `auto`.
        stopped: whether the time limit ended the work, so that another run may find another placement or bound.
        interrupted: whether a signal ended the work; the placement is the best one found until then.
        gap: (total - bound) / total, where the total is `total_s`; 0 = proven optimal.
        price_usd: price of the hosts used and of the bytes between them, by the Network's prices.
        unmoved_s: completion time of the best placement without moves between phases; None = none were considered.
        replayed: replayed times of the question's job; None = it has none, or a signal came before.
        bound_stopped: whether the clock or a signal cut short the work on the bound, so another run may prove more.
        unproven: why `auto` did not try a proof; empty = it did, or the problem is too large for one.
    """

    question: Question = field(repr=False, compare=False)
    effort: Effort = field(repr=False, compare=False)
    placement: Placement
    chosen: str
    stopped: bool
    gap: float
    price_usd: float
    interrupted: bool = False
    unmoved_s: float | None = None
    bound_stopped: bool = False
    replayed: Replayed | None = None
    unproven: str = ""

    @cached_property
    def unfolded(self) -> tuple[list[App], Placement]:
        """The applications and the Placement with each move between phases written out as transfers."""
        return unfold(self.question.apps, self.placement)

    @property
    def hosts_used(self) -> int:
        """Number of hosts that the placement uses in any phase."""
        return len(set(self.unfolded[1].assignment.values()))

    @property
    def total_s(self) -> float:
        """Completion time with the price of broken constraints, in seconds: what placing minimises."""
        return self.placement.completion_s + self.placement.penalty_s

    @property
    def latency_s(self) -> float:
        """Longest one-way latency between two tasks that exchange bytes, in seconds; inf = unknown."""
        apps, placement = self.unfolded
        return latency_s(self.question.network, apps, placement.assignment)

    @property
    def warnings(self) -> list[str]:
        """Warnings for a reader of the answer, one line each."""
        return [*self._search_warnings, *self._unseen]

    @property
    def _unseen(self) -> list[str]:
        """A warning if hosts send more bytes than when their rates were measured, since a credit may end earlier."""
        network = self.question.network
        if all(host.seen_bytes is None for host in network.hosts):
            return []
        apps, placement = self.unfolded
        sent = host_bytes(network, apps, placement.assignment)
        unseen = beyond_seen(network, sent, least_s=LEAST_UNSEEN_S)
        if not unseen:
            return []
        first, *others = unseen
        host = network.hosts[first]
        more = f" ({len(others)} more hosts alike)" if len(others) > 1 else " (1 more host alike)" if others else ""
        seconds = math.ceil(8 * sent[first] / (host.egress_bps or math.inf))
        return [
            f"`{host.name}` sends {format_bytes(sent[first])}, but its rate was measured for "
            f"{format_bytes(host.seen_bytes or 0.0)} only{more}; `measure --sustain {seconds}` finds out "
            "whether a credit ends before"
        ]

    @property
    def _search_warnings(self) -> list[str]:
        """A warning if a signal or the time limit ended the search early, or a proof needs what is not installed."""
        without_proof = self.unproven and self.gap > 0 and not self.interrupted
        return [*self._ended_early, *([f"a faster placement may exist: {self.unproven}"] if without_proof else [])]

    @property
    def _ended_early(self) -> list[str]:
        if self.interrupted:
            return [INTERRUPTED_TEXT]
        if self.stopped and self.chosen in policies():
            return ["the bound ran out of time, so another run may prove a different one; use a longer --time-limit"]
        if self.stopped:
            return [
                "the search ran out of time, so another run may find a different placement; use a longer --time-limit"
            ]
        return []

    def worth(self, *, rate_error: float = RATE_ERROR, least_saving_s: float = LEAST_SAVING_S) -> Worth | None:
        """Return the gain to expect over placing blindly.

        Args:
            rate_error: relative standard error of a measured rate.
            least_saving_s: a smaller saving is not worth it.

        Returns:
            The gain; None if running applications, moves or an interruption make a comparison unfair, if a replay
            decided instead of the bytes, or if no baseline finds a placement.
        """
        if self.question.running or self.placement.moves or self.interrupted or self.replayed is not None:
            return None
        return worth(
            self.question,
            self.placement,
            rate_error=rate_error,
            least_saving_s=least_saving_s,
            seed=self.effort.seed,
        )

    def forecast(
        self,
        before: Mapping[str, str],
        took_s: Sequence[float],
        *,
        computing_s: float | None = None,
        rate_error: float = RATE_ERROR,
    ) -> Forecast:
        """Predict the run time under this placement from runs under another one.

        Args:
            before: task to host when the applications ran.
            took_s: seconds of each run.
            computing_s: as for `gavotte.place.forecast`.
            rate_error: relative standard error of a measured rate.
        """
        from gavotte.place.forecast import forecast

        return forecast(
            self.question,
            before,
            self.placement.assignment,
            took_s,
            computing_s=computing_s,
            rate_error=rate_error,
            seed=self.effort.seed,
        )

    @cached_property
    def explanation(self) -> Explanation:
        """Explanation of the placement's completion time, with its bottleneck.

        Raises:
            GavotteError: when the placement has moves between phases.
        """
        from gavotte.place.explaining import explain

        return replace(explain(self.question, self.placement), replayed=self.replayed)
