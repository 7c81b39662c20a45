"""Predict the run time of a job under a new placement from a run under another, with a 95 % interval.

The completion time counts bytes on links. A real job also computes, waits for messages of its own and shares links less
fairly, so it takes longer than in the model. The run measures that rest. Its new value is unknown: it
stays the same (computation), or it changes with the time on links (rounds, retransmissions). These are the ends of the
forecast. Each is computed on many networks whose rates have the error of measured ones.

If the rate of a deciding link is unknown, there is no forecast. The rate may be anything above what was seen to cross
the link.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.network import UNKNOWN_SHARE, Network
from gavotte.formats.parts.rates import format_rate
from gavotte.place.columns import build_instance
from gavotte.place.question import Question, hosts_of
from gavotte.place.worth import RATE_ERROR, disturbed
from gavotte.terms.usage import as_used

_DRAWS = 200
"""Number of random networks, at most. The 2.5 % at either end are then five networks."""

_MATTERS = 0.01
"""Relative change of a completion time above which an unknown rate prevents a forecast."""


@dataclass(frozen=True)
class Forecast:
    """Predicted effect of a new placement on a job's run time, with its 95 % interval.

    Attributes:
        took_s: mean run time under the old placement, in seconds.
        modelled_s: completion times in the model, under the old and the new placement.
        unknown: links whose unknown rate decides one of these, in words; then the attributes below are None.
        low_s: lower end of the 95 % interval of the run time under the new placement.
        high_s: upper end.
        saving_low: lower end of 1 - new time / old time; negative = the job may take longer.
        saving_high: upper end.
    """

    took_s: float
    modelled_s: tuple[float, float]
    unknown: tuple[str, ...] = ()
    low_s: float | None = None
    high_s: float | None = None
    saving_low: float | None = None
    saving_high: float | None = None

    @property
    def reason(self) -> str:
        """The forecast in one line for people."""
        if self.low_s is None or self.high_s is None or self.saving_low is None or self.saving_high is None:
            links = ", ".join(self.unknown)
            return f"cannot predict the new run time from {self.took_s:.3g} s: no rate is known for {links}"
        return (
            f"took {self.took_s:.3g} s, will take {self.low_s:.3g} to {self.high_s:.3g} s: "
            f"{self.saving_low:.0%} to {self.saving_high:.0%} saved"
        )

    def verdict(self, least_saving_s: float) -> str:
        """Return whether the job should move to the new placement, in one line; empty if the forecast is unknown.

        Args:
            least_saving_s: a smaller saving is not worth it.
        """
        if self.low_s is None or self.high_s is None:
            return ""
        least_s, most_s = self.took_s - self.high_s, self.took_s - self.low_s
        if most_s < least_saving_s:
            most = f"saves at most {most_s:.2g} s of" if most_s > 0 else "saves nothing of"
            return f"this placement {most} {self.took_s:.3g} s: the placement of the run will do"
        if least_s < least_saving_s:
            least = "may save nothing" if least_s <= 0 else f"may save {least_s:.2g} s only"
            return f"this placement {least}, or up to {most_s:.2g} s of {self.took_s:.3g} s: one run under it decides"
        return f"this placement saves at least {least_s:.2g} s of {self.took_s:.3g} s: it is worth the move"


def forecast(
    question: Question,
    before: Mapping[str, str],
    after: Mapping[str, str],
    took_s: Sequence[float],
    *,
    rate_error: float = RATE_ERROR,
    seed: int = 0,
) -> Forecast:
    """Predict the time of a job under a new placement from its time under an old one.

    Args:
        question: the current Network, the applications that ran, and the sharing. The rest does not count.
        before: task to host, in the old placement.
        after: task to host, in the new placement.
        took_s: seconds of each run.
        rate_error: relative standard error of a measured rate.
        seed: seed of the random networks.

    Raises:
        GavotteError: when a run took no time, the error is not from 0 to 1, or a placement is not of the Apps.
    """
    if not took_s or not all(0 < each < math.inf for each in took_s):
        raise GavotteError("a forecast needs the seconds of a run", hint="use more than 0")
    if not 0 <= rate_error < 1:
        raise GavotteError(f"a relative rate error of {rate_error:g} is out of range", hint="use 0 to 1")

    network, apps, sharing = question.network, question.apps, question.sharing

    def modelled(net: Network, how: str | None) -> tuple[float, float]:
        first, second = (timed_s(net, how or net.sharing, each) for each in (before, after))
        return first, second

    def timed_s(net: Network, how: str, assignment: Mapping[str, str]) -> float:
        instance = build_instance(net, apps, how)
        hosts = hosts_of(instance, assignment)
        placed = {task: instance.hosts[host] for task, host in zip(instance.tasks, hosts, strict=True)}
        used = as_used(net, apps, placed)
        return (instance if used is net else build_instance(used, apps, how)).core.evaluate(hosts).seconds

    took = float(np.mean(took_s))
    known = modelled(network, sharing)
    unknown = tuple(
        what
        for what, worst, how in _unknown(network, sharing)
        if any(abs(other - each) > _MATTERS * each for each, other in zip(known, modelled(worst, how), strict=True))
    )
    if unknown:
        return Forecast(took, known, unknown)
    rng = np.random.default_rng(seed)
    draws = max(40, min(_DRAWS, 400_000 // len(network.hosts) ** 2))
    ends = []
    for draw in range(draws):
        drawn_s = float(rng.choice(took_s))
        was_s, becomes_s = modelled(disturbed(network, rate_error, rng) if draw else network, sharing)
        rest_s = max(drawn_s - was_s, 0.0)
        stays_s = becomes_s + rest_s if rest_s else becomes_s * drawn_s / was_s
        scales_s = becomes_s * drawn_s / was_s if was_s else stays_s
        ends.append((min(stays_s, scales_s), max(stays_s, scales_s), drawn_s))
    lows, highs, drawns = np.array(ends).T
    low_s, high_s = float(np.percentile(lows, 2.5)), float(np.percentile(highs, 97.5))
    saving_low = float(np.percentile(1 - highs / drawns, 2.5))
    saving_high = float(np.percentile(1 - lows / drawns, 97.5))
    return Forecast(took, known, (), low_s, high_s, saving_low, saving_high)


def _unknown(network: Network, sharing: str | None) -> Iterator[tuple[str, Network, str | None]]:
    """Yield each unknown rate, in words, with a network in which it is as low as it may be, and the sharing to use."""
    for verdict in network.verdicts:
        if verdict.verdict != "unknown":
            continue
        way, name = verdict.link.split(", ")[0].rsplit(" ", 1)
        out = way == "out of"
        # A link that nothing crossed in any experiment may be as slow as can be.
        cap_bps = verdict.at_least_bps or 1.0
        at_least = f" (at least {format_rate(cap_bps)})" if verdict.at_least_bps else ""
        hosts = [
            each.model_copy(update={"egress_bps" if out else "ingress_bps": cap_bps}) if each.name == name else each
            for each in network.hosts
        ]
        groups = [
            each.model_copy(update={"up_bps" if out else "down_bps": cap_bps}) if each.name == name else each
            for each in network.groups
        ]
        worst = network.model_copy(update={"hosts": hosts, "groups": groups})
        yield f"`{verdict.link}`{at_least}", worst, sharing or "groups"
    known_bps = [rate for row in network.rate_bps for rate in row if rate is not None]
    doubted = {(m, n) for m, row in enumerate(network.doubt) for n, why in enumerate(row) if why}
    count = len(doubted) + network.unknown_pairs
    if not count or not known_bps:
        return
    least_bps = UNKNOWN_SHARE * min(known_bps)  # as planned with
    rates = [
        [
            None if m == n else UNKNOWN_SHARE * least_bps if rate is None else rate / 2 if (m, n) in doubted else rate
            for n, rate in enumerate(row)
        ]
        for m, row in enumerate(network.rate_bps)
    ]
    yield (
        "rates of paths" if count > 1 else "the rate of a path",
        network.model_copy(update={"rate_bps": rates}),
        sharing,
    )
