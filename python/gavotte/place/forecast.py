"""Predict the run time of a job under a new placement from a run under another, with a 95 % interval.

The completion time counts bytes on links. A real job also computes, waits for messages of its own and shares links less
fairly. A run's time does not show how much of it each of these takes. The interval therefore has two ends:

1. Everything scales. The whole run is sending, at lower rates than the Network's. A new placement then changes all of
   it, except for the computing that is known.
2. Sending is hidden. While a task computes, links carry what was sent before, so a faster placement saves only what
   computing cannot hide. Without `computing_s` that may be all of it, and the saving may be nothing.

The second end assumes the least: each second of computing may hide a second of sending, in any phase of the job. So may
a token bucket, once. Tasks that wait for all their bytes save more, and the forecast says how much. Each end is
computed on many networks whose rates have the error of measured ones.

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

_BURST_BYTES = 65536
"""Least bytes that buffers and token buckets take before a sender feels a limit."""

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
        saving_waited: the lower end if tasks wait for all that they send, so that computing hides none of it.
        computing_s: seconds of the run in which tasks computed; None = unknown.
    """

    took_s: float
    modelled_s: tuple[float, float]
    unknown: tuple[str, ...] = ()
    low_s: float | None = None
    high_s: float | None = None
    saving_low: float | None = None
    saving_high: float | None = None
    saving_waited: float | None = None
    computing_s: float | None = None

    @property
    def reason(self) -> str:
        """The forecast in one line for people."""
        if self.low_s is None or self.high_s is None or self.saving_low is None or self.saving_high is None:
            links = ", ".join(self.unknown)
            return f"cannot predict the new run time from {self.took_s:.3g} s: no rate is known for {links}"
        return (
            f"took {self.took_s:.3g} s, will take {self.low_s:.3g} to {self.high_s:.3g} s: "
            f"{_percent(self.saving_low)} to {_percent(self.saving_high)} saved"
        )

    @property
    def hidden(self) -> str:
        """What the forecast does not know of computing, in one line; empty if that changes nothing."""
        if self.computing_s is not None or self.saving_low is None or self.saving_waited is None:
            return ""
        if self.saving_waited - self.saving_low < _MATTERS:
            return ""
        return (
            "how much of its sending the job hides behind computing is unknown; "
            f"if its tasks wait for all that they send, at least {_percent(self.saving_waited)} is saved; "
            "give the time that they compute by --computing"
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
    computing_s: float | None = None,
    rate_error: float = RATE_ERROR,
    seed: int = 0,
) -> Forecast:
    """Predict the time of a job under a new placement from its time under an old one.

    Args:
        question: the current Network, the applications that ran, and the sharing. The rest does not count.
        before: task to host, in the old placement.
        after: task to host, in the new placement.
        took_s: seconds of each run.
        computing_s: seconds of a run in which tasks computed: those of the busiest task if tasks compute at the same
            time, their sum if one computes after the other. None = unknown.
        rate_error: relative standard error of a measured rate.
        seed: seed of the random networks.

    Raises:
        GavotteError: when a run took no time, computing took longer than every run, the error is not from 0 to 1, or a
            placement is not of the Apps.
    """
    if not took_s or not all(0 < each < math.inf for each in took_s):
        raise GavotteError("a forecast needs the seconds of a run", hint="use more than 0")
    if computing_s is not None and not 0 <= computing_s <= max(took_s):
        raise GavotteError(
            f"{computing_s:g} s of computing are not in a run of {max(took_s):g} s",
            hint="give the seconds in which the busiest task computed",
        )
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
        return Forecast(took, known, unknown, computing_s=computing_s)
    hides_s = None if computing_s is None else computing_s + _burst_s(network)
    rng = np.random.default_rng(seed)
    draws = max(40, min(_DRAWS, 400_000 // len(network.hosts) ** 2))
    ends = []
    for draw in range(draws):
        drawn_s = float(rng.choice(took_s))
        exact = draw == 0 or rate_error == 0
        modelled_s = known if exact else modelled(disturbed(network, rate_error, rng), sharing)
        ends.append((*_times_s(drawn_s, modelled_s, computing_s or 0.0, hides_s), drawn_s))
    lows, highs, waited, drawns = np.array(ends).T
    return Forecast(
        took,
        known,
        (),
        low_s=float(np.percentile(lows, 2.5)),
        high_s=float(np.percentile(highs, 97.5)),
        saving_low=float(np.percentile(1 - highs / drawns, 2.5)),
        saving_high=float(np.percentile(1 - lows / drawns, 97.5)),
        saving_waited=float(np.percentile(1 - waited / drawns, 2.5)),
        computing_s=computing_s,
    )


def _burst_s(network: Network) -> float:
    """Return the longest time in which a host's token bucket passes on its bytes at the host's lasting rate."""
    paths_bps = [rate for row in network.rate_bps for rate in row if rate is not None]
    slowest_bps = min(paths_bps, default=math.inf)
    return max(
        8 * max(host.burst_bytes or 0.0, _BURST_BYTES) / (host.egress_bps or slowest_bps) for host in network.hosts
    )


def _times_s(
    took_s: float, modelled_s: tuple[float, float], computing_s: float, hides_s: float | None
) -> tuple[float, float, float]:
    """Return the least and most seconds under the new placement, and the most if nothing hides sending.

    Args:
        took_s: seconds of the run.
        modelled_s: the model's completion times under the old and the new placement.
        computing_s: least seconds of the run in which tasks computed.
        hides_s: most seconds of sending that the job may not have waited for; None = any.
    """
    was_s, becomes_s = modelled_s
    sending_s = min(was_s, took_s)
    computing_s = min(computing_s, took_s)
    hides_s = took_s if hides_s is None else min(hides_s, took_s)
    if sending_s == 0:
        # Nothing crossed a link. What crosses one now adds to the run, as far as computing does not hide it.
        waited_s = took_s + becomes_s
        return max(took_s, waited_s - hides_s), waited_s, waited_s
    scale = becomes_s / was_s
    scales_s = max(took_s * scale, computing_s)
    waited_s = max(took_s - sending_s * (1 - scale), computing_s)
    if scale <= 1:
        # No placement makes the hidden part of the sending any shorter.
        hidden_s = took_s - max(sending_s - hides_s, 0.0) * (1 - scale)
    else:
        # The same computing hides longer sending.
        hidden_s = took_s + max(sending_s - hides_s / scale, 0.0) * (scale - 1)
    ends_s = (scales_s, waited_s, hidden_s)
    return min(ends_s), max(ends_s), max(scales_s, waited_s)


def _percent(share: float) -> str:
    """Return a share as per cent, without a minus sign of a rounded zero."""
    text = f"{share:.0%}"
    return "0%" if text == "-0%" else text


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
