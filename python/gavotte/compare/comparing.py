"""Compare two networks pair by pair, and name the hosts whose pairs have changed together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gavotte.compare.findings import (
    Changes,
    Mask,
    grouped,
    host_findings,
    latency_findings,
    mtu_findings,
    rate_findings,
)
from gavotte.compare.sides import Side, side_of
from gavotte.errors import GavotteError
from gavotte.formats.history import History, Ints
from gavotte.formats.network import Network
from gavotte.tables import Tabular
from gavotte.terms.equivalence import (
    ALIKE,
    CANNOT_TELL,
    DIFFERENT,
    SIGNIFICANCE,
    VERDICTS,
    Judgement,
    Means,
    Verdict,
    judge,
)

MARGIN = 0.10
"""Largest relative difference of a rate that does not matter. `model` and `watch` count less than this as no change."""

LATENCY_MARGIN = 0.25
"""Largest relative difference of a latency that does not matter."""

LATENCY_FLOOR_S = 1e-4
"""Difference of latencies that never matters, in seconds: a host that is late to wake up adds as much."""

SCATTERED = 8
"""Least number of pairs whose common scatter shows the error of single snapshots."""

MAD_SIGMA = 1.4826
"""Standard deviation of a normal distribution, divided by its median absolute deviation."""

FEW_SNAPSHOTS = 3
"""Fewer snapshots than this cause a warning: they show a moment, not what lasts."""


@dataclass(frozen=True)
class PathDifference:
    """Comparison of one pair's rate or latency.

    Attributes:
        quantity: `rate_bps` or `latency_s`.
        source: sending host.
        target: receiving host.
        before: mean before; None = not measured.
        now: mean now; None = not measured.
        relative: `now` / `before` - 1; None = one is missing.
        low: lower end of the 95 % interval of `relative`; None = unknown.
        high: upper end of it.
        verdict: alike, different or cannot tell.
        detectable: smallest relative difference that would have been found different with a chance of 80 %.
        snapshots: snapshots that each side needs for a verdict, where there was none; None = unknown, or too many.
        reason: why there is no verdict; empty if there is one.
    """

    quantity: str
    source: str
    target: str
    before: float | None
    now: float | None
    relative: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    detectable: float | None
    snapshots: int | None
    reason: str


@dataclass(frozen=True)
class MtuChange:
    """A path whose MTU has changed, in bytes."""

    source: str
    target: str
    before_bytes: int
    now_bytes: int


@dataclass(frozen=True)
class Quantity:
    """One quantity of all pairs that both sides have: its means and the judgement on each pair.

    Attributes:
        before: means before, P pairs.
        now: means now.
        judgement: the judgement on each pair.
        changes: the same with the pairs' hosts, for sentences.
        bound: pairs whose difference a lower bound forbids.
        alone: pairs whose difference one snapshot alone does not show.
    """

    before: Means
    now: Means
    judgement: Judgement
    changes: Changes
    bound: Mask
    alone: Mask


@dataclass(frozen=True)
class NetworkComparison(Tabular):
    """Comparison of two measurements of a network.

    Attributes:
        margin: largest relative difference of a rate that does not matter.
        latency_margin: the same of a latency.
        significance: chance of a false alarm, for all pairs together.
        hosts: hosts of both sides.
        vanished: hosts of the first side only.
        appeared: hosts of the second side only.
        pairs: (P, 2) indices in `hosts` of the pairs that one side at least has measured.
        rate: rates of these pairs.
        latency: their latencies.
        mtus: pairs whose MTU has changed.
        findings: what has changed, in sentences, the most severe first.
        same: whether both sides are the same measurement.
        snapshots: number of snapshots of each side; 0 = a Network.
    """

    margin: float
    latency_margin: float
    significance: float
    hosts: tuple[str, ...]
    vanished: tuple[str, ...]
    appeared: tuple[str, ...]
    pairs: Ints = field(repr=False)
    rate: Quantity = field(repr=False)
    latency: Quantity = field(repr=False)
    mtus: tuple[MtuChange, ...]
    findings: tuple[str, ...]
    same: bool
    snapshots: tuple[int, int]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole network.

        It is different if a host, a rate, a latency or an MTU is. It is alike if all rates are. Undecided latencies
        do not count: on short paths they vary with the hosts' load.
        """
        latencies = (self.latency.judgement.verdict == DIFFERENT).any()
        if self.vanished or self.appeared or self.mtus or latencies:
            return "different"
        return self.rate.judgement.whole

    @property
    def counts(self) -> dict[Verdict, int]:
        """Number of pairs by the verdict on their rates."""
        codes = Counter(self.rate.judgement.verdict.tolist())
        return {verdict: codes[code] for code, verdict in enumerate(VERDICTS)}

    @property
    def warnings(self) -> list[str]:
        """Lines that say what limits the comparison."""
        if self.same:
            return ["both are the same measurement, which says nothing about another time"]
        lines = []
        few = [
            name for name, count in zip(("first", "second"), self.snapshots, strict=True) if 0 < count < FEW_SNAPSHOTS
        ]
        if few:
            which = "both have" if len(few) == 2 else f"the {few[0]} has"
            lines.append(
                f"{which} fewer than {FEW_SNAPSHOTS} snapshots, which show a moment and not what lasts; "
                "`measure --count 5` shows more"
            )
        known = np.isfinite(self.latency.before.mean) & np.isfinite(self.latency.now.mean)
        open_ = int((known & (self.latency.judgement.verdict == CANNOT_TELL)).sum())
        if open_:
            lines.append(f"whether the latency has changed is undecided on {open_} of {int(known.sum())} paths")
        return lines

    @property
    def paths(self) -> tuple[PathDifference, ...]:
        """The comparison of each pair's rate, then of each pair's latency."""
        every = range(len(self.pairs))
        return tuple(
            self._row(name, quantity, n)
            for name, quantity in (("rate_bps", self.rate), ("latency_s", self.latency))
            for n in every
        )

    def worst(self, most: int) -> tuple[list[PathDifference], int]:
        """Return the paths that differ, then those whose rate is undecided, and the number of both.

        Args:
            most: number of paths to return at most, those with the largest differences.
        """
        rows: list[PathDifference] = []
        total = 0
        for name, quantity, code in (
            ("rate_bps", self.rate, DIFFERENT),
            ("latency_s", self.latency, DIFFERENT),
            ("rate_bps", self.rate, CANNOT_TELL),
        ):
            which = np.flatnonzero(quantity.judgement.verdict == code)
            size = np.nan_to_num(np.abs(quantity.judgement.relative[which]))
            order = which[np.argsort(-size, kind="stable")]
            total += len(order)
            rows += [self._row(name, quantity, n) for n in order[: max(most - len(rows), 0)].tolist()]
        return rows, total

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per pair and quantity, with the fields of PathDifference."""
        return [vars(each) for each in self.paths]

    def _row(self, name: str, quantity: Quantity, n: int) -> PathDifference:
        result = quantity.judgement
        source, target = self.pairs[n].tolist()
        return PathDifference(
            name,
            self.hosts[source],
            self.hosts[target],
            _known(quantity.before.mean[n]),
            _known(quantity.now.mean[n]),
            _known(result.relative[n]),
            _known(result.low[n]),
            _known(result.high[n]),
            VERDICTS[result.verdict[n]],
            _known(result.detectable[n]),
            None if math.isnan(result.repetitions[n]) else int(result.repetitions[n]),
            self._reason(quantity, n),
        )

    def _reason(self, quantity: Quantity, n: int) -> str:
        if quantity.judgement.verdict[n] != CANNOT_TELL:
            return ""
        for side, when in ((quantity.before, "before"), (quantity.now, "now")):
            if not math.isfinite(side.mean[n]):
                return f"not measured {when}"
        if quantity.bound[n]:
            return "a rate is a lower bound"
        if quantity.alone[n]:
            return "one snapshot"
        if math.isnan(quantity.judgement.chance[n]):
            return "measured only once"
        return "noise"


def compare(
    before: History | Network,
    now: History | Network,
    *,
    margin: float = MARGIN,
    latency_margin: float = LATENCY_MARGIN,
    significance: float = SIGNIFICANCE,
) -> NetworkComparison:
    """Compare two measurements of a network: what has changed, what has not, and what is undecided.

    1. The snapshots of each side give the mean and the error of each pair (`means_over_time`). A single snapshot has
       the intervals of its probes, and at least the scatter of all pairs' changes around their median.
    2. `terms.equivalence` judges each pair. Holm's correction covers all rates and latencies together.
    3. A lower bound never shows that a rate fell below it, nor that it rose above it.
    4. In one snapshot, a slow moment of one path looks like a change. Such a snapshot shows changes only of paths that
       changed together: those of one host, or of the whole network.

    Args:
        before: the earlier measurement.
        now: the later one.
        margin: largest relative difference of a rate that does not matter.
        latency_margin: the same of a latency; differences below `LATENCY_FLOOR_S` never matter.
        significance: chance of a false alarm, for all pairs together.

    Raises:
        GavotteError: when the two have no pair in common, or a Network has no rates.
    """
    first, second = side_of(before), side_of(now)
    sides = _matched(first, second)
    hosts = sides[0].hosts
    pairs = np.argwhere(_between(sides[0]) | _between(sides[1]))
    flat = pairs[:, 0] * len(hosts) + pairs[:, 1]
    rates, latencies = ([_take(each, flat) for each in kind] for kind in _kinds(sides))
    if not (np.isfinite(rates[0].mean) & np.isfinite(rates[1].mean)).any():
        raise GavotteError("no pair was measured in both", hint="compare measurements of the same hosts")
    same = first.hosts == second.hosts and all(
        np.array_equal(one.mean, two.mean, equal_nan=True) for one, two in (rates, latencies)
    )
    # A Network does not say how far its latencies can be trusted.
    moments = [side.snapshots == 1 for side in sides], [side.snapshots <= 1 for side in sides]
    rates, latencies = _guarded(rates, moments[0]), _guarded(latencies, moments[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        floors = np.fmax(latency_margin, LATENCY_FLOOR_S / latencies[0].mean)
    margins = np.concatenate([np.full(len(pairs), margin), np.where(np.isfinite(floors), floors, latency_margin)])
    whole = judge(rates[0].joined(latencies[0]), rates[1].joined(latencies[1]), margins, significance=significance)
    parts = np.split(np.arange(2 * len(pairs)), 2)
    bounds = [side.bound.ravel()[flat] for side in sides]
    rate, latency = (
        _quantity(Changes(hosts, pairs, whole.verdict[part], one.mean, two.mean), (one, two), _part(whole, part), each)
        for part, (one, two), each in (
            (parts[0], rates, Limits(bounds[0], bounds[1], moment=any(moments[0]), same=same)),
            (parts[1], latencies, Limits(np.zeros_like(bounds[0]), np.zeros_like(bounds[1]), any(moments[1]), same)),
        )
    )
    mtus = _mtus(sides)
    known = [{host.lower() for host in side.hosts} for side in (first, second)]
    vanished = tuple(host for host in first.hosts if host.lower() not in known[1])
    appeared = tuple(host for host in second.hosts if host.lower() not in known[0])
    return NetworkComparison(
        margin=margin,
        latency_margin=latency_margin,
        significance=significance,
        hosts=hosts,
        vanished=vanished,
        appeared=appeared,
        pairs=pairs,
        rate=rate,
        latency=latency,
        mtus=mtus,
        findings=(
            *host_findings(vanished, appeared),
            *rate_findings(rate.changes),
            *latency_findings(latency.changes),
            *mtu_findings([(each.source, each.target, each.before_bytes, each.now_bytes) for each in mtus]),
        ),
        same=same,
        snapshots=(first.snapshots, second.snapshots),
    )


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _matched(first: Side, second: Side) -> list[Side]:
    """Return both sides with their common hosts only, in the first side's order.

    Raises:
        GavotteError: when they have fewer than two hosts in common.
    """
    at = {host.lower(): index for index, host in enumerate(second.hosts)}
    common = [index for index, host in enumerate(first.hosts) if host.lower() in at]
    if len(common) < 2:
        raise GavotteError(
            f"the two have {'one host' if common else 'no host'} in common",
            hint="compare measurements of the same hosts",
        )
    return [_among(first, common), _among(second, [at[first.hosts[index].lower()] for index in common])]


def _among(side: Side, indices: list[int]) -> Side:
    """Return a side with these hosts only, in this order."""
    size = len(side.hosts)
    square = np.ix_(indices, indices)
    flat = np.arange(size * size).reshape(size, size)[square].ravel()
    return Side(
        tuple(side.hosts[index] for index in indices),
        _take(side.rate, flat),
        _take(side.latency, flat),
        side.bound[square],
        side.mtu_bytes[square],
        side.snapshots,
    )


def _kinds(sides: list[Side]) -> tuple[list[Means], list[Means]]:
    """Return the rates of both sides, and their latencies."""
    return [side.rate for side in sides], [side.latency for side in sides]


def _take(means: Means, which: Ints) -> Means:
    return Means(*(getattr(means, each.name)[which] for each in fields(means)))


def _part(whole: Judgement, part: Ints) -> Judgement:
    return Judgement(*(getattr(whole, each.name)[part] for each in fields(whole)))


def _between(side: Side) -> Mask:
    """Return the (N, N) mask of pairs of different hosts with a rate."""
    size = len(side.hosts)
    return np.asarray(np.isfinite(side.rate.mean.reshape(size, size)) & ~np.eye(size, dtype=bool))


def _guarded(sides: list[Means], single: list[bool]) -> list[Means]:
    """Return the means with errors of single snapshots that are at least the scatter of all pairs' changes.

    The median change may be a change of the whole network. What pairs scatter around it is taken for noise, which is
    sound as long as fewer than half of the pairs have changed on their own.
    """
    if not any(single):
        return sides
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sides[1].mean / sides[0].mean
    change = np.log(ratio[np.isfinite(ratio) & (ratio > 0)])
    if len(change) < SCATTERED:
        return sides
    scatter = MAD_SIGMA * float(np.median(np.abs(change - np.median(change)))) / math.sqrt(sum(single))
    guarded = []
    for side, alone in zip(sides, single, strict=True):
        least = scatter * np.abs(side.mean)
        wider = np.isnan(side.error) | (side.error < least) if alone else np.zeros(side.mean.shape, dtype=bool)
        guarded.append(
            replace(
                side,
                error=np.where(wider, least, side.error),
                freedom=np.where(wider, len(change) / 2, side.freedom),
            )
        )
    return guarded


@dataclass(frozen=True)
class Limits:
    """What limits the differences that can be shown.

    Attributes:
        before: pairs whose value before is a lower bound.
        now: pairs whose value now is one.
        moment: whether a side has one snapshot, which shows a moment.
        same: whether both sides are the same measurement.
    """

    before: Mask
    now: Mask
    moment: bool
    same: bool


def _quantity(changes: Changes, sides: Sequence[Means], judgement: Judgement, limits: Limits) -> Quantity:
    """Return one quantity with its final verdicts."""
    bound = ((judgement.relative < 0) & limits.now) | ((judgement.relative > 0) & limits.before)
    verdict = np.where(bound & (judgement.verdict == DIFFERENT), CANNOT_TELL, judgement.verdict)
    alone = np.zeros(bound.shape, dtype=np.bool_)
    if limits.moment:
        alone = verdict == DIFFERENT
        for each in grouped(replace(changes, verdict=verdict))[0]:
            alone[list(each.members)] = False
        verdict = np.where(alone, CANNOT_TELL, verdict)
    if limits.same:
        verdict = np.where(np.isfinite(sides[0].mean), ALIKE, verdict)
    final = replace(judgement, verdict=verdict)
    return Quantity(sides[0], sides[1], final, replace(changes, verdict=verdict), bound, alone)


def _mtus(sides: list[Side]) -> tuple[MtuChange, ...]:
    hosts, before, now = sides[0].hosts, sides[0].mtu_bytes, sides[1].mtu_bytes
    changed = np.argwhere((before > 0) & (now > 0) & (before != now))
    return tuple(
        MtuChange(hosts[i], hosts[j], int(before[i, j]), int(now[i, j])) for i, j in changed.tolist() if i != j
    )
