"""Hosts that send at C until they have sent b bytes ahead of r, and at r from then on.

Providers let instances collect such a credit while they send little: seconds to minutes of C. The rates of one host's
probes show it, in the order in which they were sent. So do the bytes of one long transfer (`terms.credit.find_credit`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.terms import Pair
from gavotte.terms.credit import FALLS, Credit, is_credit

PROBES_AFTER = 2
"""Probes of a host after its rate fell, at least, and of those before it."""


@dataclass(frozen=True)
class Sending:
    """One probe of a host.

    Attributes:
        pair: source and target.
        rate_bps: TCP goodput that it found.
        size_bytes: TCP payload that it sent.
        end_s: time at which it ended.
        hops: length of the path; 0 = unknown. Only paths as long as the last one are compared: others may be faster.
    """

    pair: Pair
    rate_bps: float
    size_bytes: float
    end_s: float
    hops: int = 0


class Sendings:
    """Probes of each host in the order in which they were sent."""

    def __init__(self) -> None:
        """Start without any probe."""
        self._probes: dict[int, list[Sending]] = {}
        self._shown: dict[int, Credit] = {}

    def show(self, source: int, credit: Credit) -> None:
        """Note a credit that ran out during the newest probe of a source. The first one counts."""
        if source in self._shown:
            return
        *before, last = self._probes[source]
        spans, begin_s = [_span([probe]) for probe in before], _begin_s([last])
        ahead_bytes = _ahead_bytes(spans, credit.rate_bps, begin_s) if spans else 0.0
        self._shown[source] = Credit(credit.peak_bps, credit.rate_bps, ahead_bytes + credit.size_bytes)

    def shows(self, source: int) -> bool:
        """Return whether a source's credit ran out during one of its probes."""
        return source in self._shown

    def take(self, sending: Sending) -> None:
        """Note a probe that found a rate."""
        self._probes.setdefault(sending.pair[0], []).append(sending)

    def by_source(self) -> Iterator[tuple[int, Sequence[Sending]]]:
        """Yield each host with its probes, in the order in which they were sent."""
        yield from sorted(self._probes.items())

    def _alike(self, source: int) -> list[Sending]:
        probes = self._probes[source]
        return [probe for probe in probes if probe.hops == probes[-1].hops]

    def suspects(self, left_out: Collection[int] = ()) -> dict[int, list[Pair]]:
        """Return the sources whose rate fell for good, with the pairs that were measured only before.

        A source is a suspect if its probes became slower, or if its credit ran out during one of them. Receivers that
        are slower may have come last by chance, so the first of these pairs has to be measured again.

        Args:
            left_out: sources that are known to have used up a credit.
        """
        early = {}
        for source in sorted(self._probes):
            probes = self._alike(source)
            split = _split([probe.rate_bps for probe in probes])
            if split and source not in left_out:
                later = {probe.pair for probe in probes[split:]}
                early[source] = sorted({probe.pair for probe in probes[:split]} - later)
            elif source in self._shown and source not in left_out:
                newest = {probe.pair: probe.rate_bps for probe in self._probes[source]}
                least_bps = FALLS * self._shown[source].rate_bps
                early[source] = sorted(pair for pair, rate_bps in newest.items() if rate_bps >= least_bps)
        return {source: pairs for source, pairs in early.items() if pairs}

    def credit(self, source: int, rate_bps: float) -> Credit | None:
        """Return a suspect's credit; None if its newest probes show that it did not become slower for good.

        Args:
            source: the suspect.
            rate_bps: r.
        """
        if source in self._shown:
            return Credit(self._shown[source].peak_bps, rate_bps, self._shown[source].size_bytes)
        alike = self._alike(source)
        before = alike[: _split([probe.rate_bps for probe in alike])]
        if not before:
            return None
        peak_bps = float(np.median([probe.rate_bps for probe in before]))
        # The bucket is full when the first probe begins.
        first, end_s = self._probes[source][0], before[-1].end_s
        size = sum(probe.size_bytes for probe in self._probes[source] if probe.end_s <= end_s)
        spent_s = end_s - first.end_s + 8 * first.size_bytes / first.rate_bps
        return Credit(peak_bps, rate_bps, max(0.0, size - rate_bps / 8 * spent_s))


@dataclass(frozen=True)
class Span:
    """Some probes of a host, one behind the other.

    Attributes:
        begin_s: time at which the first one began.
        end_s: time at which the last one ended.
        size_bytes: TCP payload that they sent.
    """

    begin_s: float
    end_s: float
    size_bytes: float


class SpentCredits:
    """Rates and bytes of earlier snapshots, which show hosts whose credit ran out between two snapshots.

    Rates also fall when others send more. A credit explains a fall only if the host had sent that much ahead of its
    rate from then on. Pauses between snapshots fill the bucket again, so that the host is not ahead.
    """

    def __init__(self) -> None:
        """Start without any snapshot."""
        self._spans: dict[int, list[Span]] = {}
        self._rates_bps: dict[Pair, float] = {}

    def take(self, sendings: Sendings) -> dict[int, Credit]:
        """Return the credits of hosts that ran out since the snapshot before.

        1. Some of the host's paths are slower than in the snapshot before by `FALLS`, and none is faster than these.
        2. At least `PROBES_AFTER` probes found these lower rates.
        3. The host was ahead of the lower rate by a bucket that is deep enough for a credit.

        Args:
            sendings: all probes of the newest snapshot.
        """
        suspects = {source: self._ran_out(source, probes) for source, probes in sendings.by_source()}
        for source, probes in sendings.by_source():
            self._spans.setdefault(source, []).append(_span(probes))
            self._rates_bps |= {probe.pair: probe.rate_bps for probe in probes}
        return {source: credit for source, credit in suspects.items() if credit is not None}

    def _ran_out(self, source: int, probes: Sequence[Sending]) -> Credit | None:
        now_bps = {probe.pair: probe.rate_bps for probe in probes}
        slower = [probe for probe in probes if self._rates_bps.get(probe.pair, 0.0) >= FALLS * probe.rate_bps]
        fallen = {pair for pair, rate_bps in now_bps.items() if self._rates_bps.get(pair, 0.0) >= FALLS * rate_bps}
        if not fallen or len(slower) < PROBES_AFTER:
            return None
        rate_bps = max(now_bps[pair] for pair in fallen)
        if max(now_bps.values()) >= FALLS * rate_bps:
            return None
        ahead_bytes = _ahead_bytes(self._spans[source], rate_bps, _begin_s(probes))
        peak_bps = float(np.median([self._rates_bps[pair] for pair in fallen]))
        return Credit(peak_bps, rate_bps, ahead_bytes) if is_credit(ahead_bytes, rate_bps, peak_bps) else None


def _span(probes: Sequence[Sending]) -> Span:
    end_s = max(probe.end_s for probe in probes)
    return Span(_begin_s(probes), end_s, sum(probe.size_bytes for probe in probes))


def _begin_s(probes: Sequence[Sending]) -> float:
    """Return when the first of some probes began."""
    return min(probe.end_s - 8 * probe.size_bytes / probe.rate_bps for probe in probes)


def _ahead_bytes(spans: Sequence[Span], rate_bps: float, until_s: float) -> float:
    """Return how many bytes a host was ahead of a rate at a time; the bucket fills while it sends less."""
    ahead_bytes, last_s = 0.0, spans[0].begin_s
    for span in spans:
        ahead_bytes = max(0.0, ahead_bytes - rate_bps / 8 * max(0.0, span.begin_s - last_s))
        ahead_bytes = max(0.0, ahead_bytes + span.size_bytes - rate_bps / 8 * (span.end_s - span.begin_s))
        last_s = max(last_s, span.end_s)
    return max(0.0, ahead_bytes - rate_bps / 8 * max(0.0, until_s - last_s))


def _split(rates_bps: Sequence[float]) -> int:
    """Return how many rates come before a fall for good; 0 = there is none."""
    for at in range(PROBES_AFTER, len(rates_bps) - PROBES_AFTER + 1):
        if min(rates_bps[:at]) >= FALLS * max(rates_bps[at:]):
            return at
    return 0
