"""Decision whether placing pays: the expected gain in time, compared with the error of the measured rates.

The gain is over the mean of placements that know nothing of the network (Choreo, section 6). Measured rates are wrong
by some percent; the same placements are timed again on many networks drawn around the measured one. Placing is not
worth it in three cases:

- The gain's interval reaches zero.
- The gain is below the error of the rates.
- The time saved is less than a floor: a fifth of a millisecond is no reason to choose hosts.

All times are those on the network. An App does not say how long a job computes, and how often its tasks wait for each
other. A real job gained a fifth where the network's own time had little at stake. `unknown` therefore says what the
verdict lacks, and a forecast from a run (`forecast`) gives the verdict on the job's own time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place.columns import Instance, build_instance
from gavotte.place.limits import NO_LIMITS
from gavotte.place.question import Question, hosts_of
from gavotte.terms.usage import as_used, depends_on_use

RATE_ERROR = 0.09
"""Relative error of a measured rate: packet trains on EC2 (Choreo, section 4.1: 9 %; 4 % at Rackspace)."""

LEAST_SAVING_S = 0.1
"""A saving below this is none, unless another floor is given: starting processes on other machines takes longer, and so
does each path that is measured to place them."""

NOTHING = 1e-9
"""Rounding error of a mean of sums of floating-point numbers, as a share of the time of blind placements."""

UNKNOWN = (
    "how long the job computes and waits is unknown, so another placement may still be faster; "
    "give a run's time by --ran and --took"
)
"""What a verdict from the network's time alone does not know, and the remedy."""

_DRAWS = 40
_PAIRS = 400_000
_TRANSFERS = 100_000
"""Most networks drawn around the measured one, and the most pairs of hosts and transfers in all of them."""

_MOST_DRAWN = 300
"""Hosts up to which the rates of pairs are drawn, too. Beyond, a draw of a million takes longer than placing, and the
errors of single pairs even out."""

_RANDOM = 20
_FEWEST_RANDOM = 3
"""Number of random placements whose mean is the baseline `random`. Many transfers need fewer: their sums vary less."""

_FEWEST_DRAWS = 4
_FEWEST_DRAWS_OF_MANY = 2
_MANY_HOSTS = 1000
"""Fewest networks that are drawn, and fewest for many hosts, whose errors cancel out."""

_AFTER_S = 1e-5
_AFTER_READING = 2.0
_AFTER_SHARE = 0.3
"""Time that checks, worth, report and exit take at most: seconds for each transfer, as a multiple of the time in which
the files were read on the same machine, and as a share of a limit."""

_Part = TypeVar("_Part", bound=BaseModel)

_HALF_WIDTH = 1.96
"""Standard deviations on each side of a 95 % interval."""


@dataclass(frozen=True)
class Worth:
    """Expected gain of a Placement over placing blindly, and whether it is worthwhile.

    Attributes:
        gain: 1 - its time / mean time of the baselines; 0.3 = 30 % sooner.
        low: lower end of the gain's 95 % interval, from the error of the rates.
        high: upper end.
        baseline_s: mean predicted time of random, round-robin and min-machines.
        saving_s: seconds saved: `baseline_s` less the placement's own time.
        least_saving_s: the floor below which a saving counts as none.
        rate_spread: standard deviation of the rates between hosts, over their mean: 0 on a uniform network.
        skew: share of all bytes that the busiest tenth of the task pairs exchange: 0.1 where all exchange alike.
        rate_error: the relative error assumed of a rate.
        worthwhile: whether the gain on the network is beyond doubt, above the error, and saves more than the floor.
        reason: explanation of `worthwhile` in one line.
        unknown: what the verdict does not know, in one line; empty if the gain on the network is reason enough.
    """

    gain: float
    low: float
    high: float
    baseline_s: float
    saving_s: float
    least_saving_s: float
    rate_spread: float
    skew: float
    rate_error: float
    worthwhile: bool
    reason: str
    unknown: str = ""


@dataclass(frozen=True)
class _Stake:
    """Seconds of blind placements, seconds saved over them, and the least saving that counts."""

    baseline_s: float
    saving_s: float
    least_s: float


def worth(
    question: Question,
    placement: Placement,
    *,
    rate_error: float = RATE_ERROR,
    least_saving_s: float = LEAST_SAVING_S,
    seed: int = 0,
) -> Worth | None:
    """Return the expected gain of a Placement over placing blindly.

    Args:
        question: the question that the Placement answers. Only its network, applications and sharing count.
        placement: the Placement.
        rate_error: relative standard error of a measured rate.
        least_saving_s: a saving below this is not worth it.
        seed: seed of the random placements and draws.

    Returns:
        The expected gain; None if no baseline finds a placement to compare with.

    Raises:
        GavotteError: when the error is not from 0 to 1, the floor is negative or infinite, or the Placement is not of
            the Apps.
    """
    if not 0 <= rate_error < 1:
        raise GavotteError(f"a relative rate error of {rate_error:g} is out of range", hint="use 0 to 1")
    if not 0 <= least_saving_s < math.inf:
        raise GavotteError(f"a least saving of {least_saving_s:g} s is out of range", hint="use 0 or more seconds")
    network, apps = question.network, question.apps
    bare = not (question.allowed or question.running or question.depends_on_use) and question.limits == NO_LIMITS
    instance = question.numbers if bare else build_instance(network, apps, question.shared)
    ours = hosts_of(instance, placement.assignment)
    blind = []
    transfers = max(sum(len(app.transfer) for app in apps), 1)
    drawn = max(_FEWEST_RANDOM, min(_RANDOM, _TRANSFERS // transfers))
    for method, count in (("random", drawn), ("round-robin", 1), ("min-machines", 1)):
        try:
            placements = [instance.core.place(method, seed + draw) for draw in range(count)]
        except InfeasibleError:
            continue
        blind.append(placements)
    if not blind:
        return None
    rng = np.random.default_rng(seed)
    names = [app.name for app in apps]
    gains = []
    depends = depends_on_use(network, apps)
    networks = _RANDOM if depends else 1
    draws = max(
        _FEWEST_DRAWS_OF_MANY if len(network.hosts) >= _MANY_HOSTS else _FEWEST_DRAWS,
        min(_DRAWS, _PAIRS // (networks * len(network.hosts) ** 2), _TRANSFERS // transfers),
    )
    for draw in range(draws + 1):
        other = network if draw == 0 else disturbed(network, rate_error, rng)
        timed = _Timed(instance, other, apps, depends=depends)
        baseline_s = float(np.mean([np.mean([timed.seconds(hosts) for hosts in placements]) for placements in blind]))
        ours_s = timed.seconds(ours)
        gains.append((1 - ours_s / baseline_s if baseline_s > 0 else 0.0, baseline_s, baseline_s - ours_s))
    gain, baseline_s, saving_s = gains[0]
    deviation = float(np.std([value for value, _, _ in gains[1:]]))
    low, high = gain - _HALF_WIDTH * deviation, gain + _HALF_WIDTH * deviation
    reason = _reason(gain, low, rate_error, _Stake(baseline_s, saving_s, least_saving_s), names)
    return Worth(
        gain=gain,
        low=low,
        high=high,
        baseline_s=baseline_s,
        saving_s=saving_s,
        least_saving_s=least_saving_s,
        rate_spread=rate_spread(network),
        skew=skew(instance, apps),
        rate_error=rate_error,
        worthwhile=not reason,
        reason=reason
        or f"{gain:.0%} sooner on the network than placing blindly ({low:.0%} to {high:.0%}), {saving_s:.3g} s saved",
        unknown=UNKNOWN if reason and gain >= -NOTHING else "",
    )


def after_s(apps: Sequence[App], time_limit_s: float, reading_s: float = math.inf) -> float:
    """Return the seconds of a time limit to leave for what follows the search.

    Args:
        apps: the applications that are placed.
        time_limit_s: the whole limit.
        reading_s: seconds that reading the files took, which shows how fast the machine is; inf = not known.
    """
    transfers = sum(len(app.transfer) for app in apps)
    return min(_AFTER_S * transfers, _AFTER_READING * reading_s, _AFTER_SHARE * time_limit_s)


class _Timed:
    """Times placements on one drawn network, each by the rates that its own assignment gets."""

    def __init__(self, instance: Instance, drawn: Network, apps: Sequence[App], *, depends: bool) -> None:
        self._instance, self._drawn, self._apps, self._depends = instance, drawn, apps, depends
        self._core = instance.over(drawn)

    def seconds(self, hosts: npt.NDArray[np.uint32]) -> float:
        """Return the completion time of tasks on these hosts."""
        core = self._core
        if self._depends:
            names = self._instance.hosts
            placed = {task: names[host] for task, host in zip(self._instance.tasks, hosts.tolist(), strict=True)}
            core = self._instance.over(as_used(self._drawn, self._apps, placed))
        return core.evaluate(hosts).seconds


def rate_spread(network: Network) -> float:
    """Return the standard deviation of the rates between hosts over their mean; 0 if every rate is unlimited."""
    caps = [host.egress_bps or math.inf for host in network.hosts]
    rates = [
        min(rate or math.inf, caps[m]) for m, row in enumerate(network.rate_bps) for n, rate in enumerate(row) if m != n
    ] or caps
    limited = [rate for rate in rates if math.isfinite(rate)]
    return float(np.std(limited) / np.mean(limited)) if limited else 0.0


def skew(instance: Instance, apps: Sequence[App]) -> float:
    """Return the share of all bytes, 0 to 1, that the busiest tenth of the ordered task pairs exchange."""
    transfers = instance.transfers
    keys = transfers.source.astype(np.int64) * len(instance.tasks) + transfers.target
    _, pair_of = np.unique(keys, return_inverse=True)
    sums = np.sort(np.bincount(pair_of, weights=transfers.bytes.astype(np.float64)))[::-1]
    total = float(sums.sum())
    most = max(math.ceil(sum(len(app.task) * (len(app.task) - 1) for app in apps) / 10), 1)
    return float(sums[:most].sum()) / total if total else 0.0


def _reason(gain: float, low: float, rate_error: float, stake: _Stake, names: Sequence[str]) -> str:
    """Return the reason why the network gives no reason to place; empty if it does."""
    if stake.baseline_s == 0:
        return f"no bytes of {', '.join(names)} cross a limited link, so the network favours no placement"
    if gain < -NOTHING:
        return f"this placement is {-gain:.0%} slower than placing blindly; use --method auto"
    if stake.saving_s <= NOTHING * stake.baseline_s:
        return f"on the network, placing blindly takes no longer: {stake.baseline_s:.2g} s"
    if stake.saving_s < stake.least_s:
        return (
            f"on the network, only {stake.saving_s:.2g} s of {stake.baseline_s:.2g} s are at stake, "
            f"below the floor of {stake.least_s:g} s"
        )
    if low <= 0:
        return f"the expected gain of {gain:.0%} on the network may be chance (at worst {low:.0%})"
    if gain < rate_error:
        return f"the expected gain of {gain:.0%} on the network is below the {rate_error:.0%} error of the rates"
    return ""


def disturbed(network: Network, error: float, rng: np.random.Generator) -> Network:
    """Return the network with each rate multiplied by a random log-normal factor of this relative error."""

    def factors(*shape: int) -> Any:
        return np.exp(rng.normal(0.0, error, shape)).tolist()

    def times(rate_bps: float | None, factor: float) -> float | None:
        return None if rate_bps is None else rate_bps * factor

    def drawn(parts: Sequence[_Part], *keys: str) -> list[_Part]:
        return [
            part.model_copy(
                update={key: times(getattr(part, key), factor) for key, factor in zip(keys, row, strict=True)}
            )
            for part, row in zip(parts, factors(len(parts), len(keys)), strict=True)
        ]

    hosts = network.hosts
    changed: dict[str, object] = {
        "hosts": drawn(hosts, "egress_bps", "ingress_bps"),
        "groups": drawn(network.groups, "up_bps", "down_bps"),
    }
    if len(hosts) <= _MOST_DRAWN or not any(host.egress_bps or host.ingress_bps for host in hosts):
        changed["rate_bps"] = [
            [times(rate, factor) for rate, factor in zip(rates, row, strict=True)]
            for rates, row in zip(network.rate_bps, factors(len(network.rate_bps), len(hosts)), strict=True)
        ]
    return network.model_copy(update=changed)
