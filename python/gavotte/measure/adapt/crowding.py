"""Fill the few links that a measurement found to be shared, to measure the rate of each (Choreo section 3.3.2)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from gavotte.formats.parts.evidence import Evidence
from gavotte.measure.adapt.events import Steps
from gavotte.measure.adapt.experiments import Experiments
from gavotte.measure.adapt.overlap import AGREE, MIN_OVERLAP_S, Series, Together, evidence, together
from gavotte.measure.plan.holds import CONFIRMED, hold_of_ways
from gavotte.measure.plan.pair_rates import PairRates
from gavotte.measure.plan.trials import WAYS, Trial, UsablePairs, choose, rounds_of
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy

ATTEMPTS = 4
"""Most experiments on one link."""

MOST_WITHHELD = 2
"""Most further experiments on it, for those in which a host was kept from running."""

APART = "its pairs did not send at the same time"

FEWEST = 2
FAIR = 4
"""If more than `FEWEST` pairs are needed, at least this many are chosen. Of three pairs that send 60 packets each, one
may lose nothing, and the link then does not seem to be full."""

OVERFULL = 1.4
"""Pairs are chosen that could carry this multiple of the rate seen on a link; more would only lose more packets."""

_Run = tuple[Trial, Together, float]
"""An experiment, its result, and its Unix time."""


class Crowding:
    """Experiments on single links, and their results.

    The measurement around them gives what each pair carries alone, so that they only have to find the sum.
    """

    def __init__(self, experiments: Experiments, tree: Hierarchy, *, trains: bool, seed: int) -> None:
        """Create experiments that have not been tried yet.

        Args:
            experiments: asks for them.
            tree: tree of all hosts.
            trains: whether pairs without a common host send trains, not TCP.
            seed: seed of the choice of pairs.
        """
        self._experiments = experiments
        self._hold_s = hold_of_ways(trains=trains)
        self._tree = tree
        self._seed = seed
        self._link = {tree.label(link): link for link in range(len(tree.links))}
        self._found: defaultdict[int, list[_Run]] = defaultdict(list)
        self._lost: defaultdict[int, list[float]] = defaultdict(list)
        self._tried: defaultdict[int, int] = defaultdict(int)
        self._withheld: defaultdict[int, int] = defaultdict(int)
        self._free: set[int] = set()

    def fill(
        self,
        labels: Mapping[str, float],
        rate: PairRates,
        hosts: Collection[int],
        *,
        known_bps: Mapping[str, float] | None = None,
        spare_bytes: float = math.inf,
    ) -> Steps[dict[str, Evidence] | None]:
        """Let just as many pairs cross each of some links as fill it, and more if they do not.

        Args:
            labels: links of the tree, with the load that they were seen to carry, bit/s; other labels are ignored.
            rate: rates of pairs alone, bit/s, as far as known; NaN = not to be used.
            hosts: usable hosts.
            known_bps: links whose rate is known.
            spare_bytes: bytes that may be sent; links that would take more are left out.

        Returns:
            the last result of each link that enough pairs crossed at once; None if there is none and some links would
            have taken more bytes.
        """
        results: dict[str, Evidence] = {}
        most_bytes = self._experiments.bytes_sent + spare_bytes
        left_out = False
        todo = {
            self._link[label]: OVERFULL * load_bps
            for label, load_bps in labels.items()
            if label in self._link and self._tried[self._link[label]] < ATTEMPTS
        }
        link_bps = {self._link[label]: bps for label, bps in (known_bps or {}).items() if label in self._link}
        usable = UsablePairs(self._tree, rate, hosts, link_bps)
        while todo:
            trials: list[Trial] = []
            cut: set[int] = set()
            left_bytes = most_bytes - self._experiments.bytes_sent
            for link, enough_bps in todo.items():
                used = [pair for trial, *_ in self._found[link] for pair in trial.pairs]
                attempt = self._tried[link]
                whole = choose(usable, link, seed=self._seed, attempt=attempt, used=used)
                if whole is not None:
                    trial = _as_few_as_fill(whole, rate, enough_bps)
                    wanted_bytes = sum(float(rate[pair]) for pair in trial.pairs) / 8 * self._hold_s[trial.way]
                    if wanted_bytes > left_bytes:
                        left_out = True
                        # That fewer pairs did not fill it says nothing.
                        results.pop(self._tree.label(link), None)
                        continue
                    left_bytes -= wanted_bytes
                    trials.append(trial)
                    cut.update({link} if len(trial.pairs) < len(whole.pairs) else ())
                self._tried[link] += 1
            records = yield from self._run(trials, rate)
            results |= {self._tree.label(link): record for link, record in records.items()}
            self._free |= {link for link, each in records.items() if each.verdict == "independent"} - cut
            # These few pairs did not fill it.
            todo = {
                link: 2 * OVERFULL * record.sum_bps
                for link, record in records.items()
                if record.verdict == "independent" and link in cut
            }
            for link in todo:
                # No try of the link: twice as many pairs follow, until all of them are too few.
                self._tried[link] -= 1
        return None if left_out and not results else results

    def pass_together(self, aims: Mapping[str, Sequence[Pair]], rate: PairRates) -> Steps[dict[str, Evidence]]:
        """Let pairs cross several links at once. If all carry as much as alone, no link on their way is full.

        Args:
            aims: links of the tree, with the pairs that cross each; no host is in two pairs.
            rate: rates of pairs alone, bit/s.

        Returns:
            results of the links that are not full; others may only have suffered from them.
        """
        pairs = sorted({pair for each in aims.values() for pair in each})
        series = yield from self._experiments.carry([pairs], {pair: float(rate[pair]) for pair in pairs}, "disjoint")
        results: dict[str, Evidence] = {}
        for label, each in aims.items():
            link = self._link[label]
            run = _read(Trial(link, tuple(each)), series, self._experiments.time_s)
            if run is not None and (record := self._evidence(run, rate)).verdict == "independent":
                self._found[link].append(run)
                self._free.add(link)
                results[label] = record
        return results

    def _run(self, trials: Sequence[Trial], rate: PairRates) -> Steps[dict[int, Evidence]]:
        """Run experiments; those on links that cannot meet run at the same time."""
        results = {}
        for way in WAYS:
            for members in rounds_of(self._tree, [trial for trial in trials if trial.way == way]):
                expect = {pair: float(rate[pair]) for trial in members for pair in trial.pairs}
                series = yield from self._experiments.carry([trial.pairs for trial in members], expect, way)
                for trial in members:
                    if (run := _read(trial, series, self._experiments.time_s)) is not None:
                        record = self._evidence(run, rate)
                        if record.verdict == "unknown" and run[1].gap:
                            # The sum shows a host that was kept from running, not the link.
                            if self._withheld[trial.link] < MOST_WITHHELD:
                                self._withheld[trial.link] += 1
                                self._tried[trial.link] -= 1
                            continue
                        results[trial.link] = record
                        self._found[trial.link].append(run)
                        if record.verdict == "shared":
                            self._lost[trial.link].append(record.sum_bps)
        return results

    def knows(self, label: str) -> bool:
        """Return whether a label is a link of the tree."""
        return label in self._link

    def free(self, label: str) -> bool:
        """Return whether as many pairs as can cross a link did not fill it."""
        link = self._link.get(label)
        return link is not None and link in self._free

    def left(self, labels: Iterable[str]) -> list[str]:
        """Return the links that may be tried again."""
        return [label for label in labels if label in self._link and self._tried[self._link[label]] < ATTEMPTS]

    def untold(self, label: str, pairs: Sequence[Pair], rate: PairRates) -> Evidence:
        """Return a record without a result for a link.

        Args:
            label: label of the link.
            pairs: pairs that were to cross it together.
            rate: rates of pairs alone, bit/s; NaN = unknown.
        """
        return Evidence(
            subject=label,
            pairs=[(self._tree.names[s], self._tree.names[t]) for s, t in pairs],
            alone_bps=[0.0 if math.isnan(rate[pair]) else rate[pair] for pair in pairs],
            together_bps=[0.0] * len(pairs),
            sum_bps=0.0,
            low_bps=0.0,
            high_bps=0.0,
            overlap_s=0.0,
            time_s=self._experiments.time_s,
            verdict="unknown",
            reason=APART,
        )

    def unsettled(self, labels: Iterable[str]) -> dict[str, float]:
        """Return links without two agreeing experiments that may be tried again, with the load that they carried."""
        todo: dict[str, float] = {}
        for label in sorted(labels):
            link = self._link.get(label)
            if link is not None and self._tried[link] < ATTEMPTS:
                sums = sorted(self._lost[link], reverse=True)
                if len(sums) < CONFIRMED or sums[CONFIRMED - 1] < AGREE * sums[0]:
                    todo[label] = max((outcome.sum_bps for _, outcome, _ in self._found[link]), default=math.inf)
        return todo

    def records(self, rate: PairRates) -> tuple[Evidence, ...]:
        """Return all experiments whose pairs have rates by now, compared with the rate of each alone.

        Args:
            rate: rates of pairs alone, bit/s.
        """
        return tuple(
            self._evidence(run, rate)
            for each in self._found.values()
            for run in each
            if all(math.isfinite(rate[pair]) for pair in run[0].pairs)
        )

    def _evidence(self, run: _Run, rate: PairRates) -> Evidence:
        trial, outcome, time_s = run
        alone = {pair: float(rate[pair]) for pair in trial.pairs}
        return evidence(self._tree, trial, alone, outcome, time_s=time_s)


def _read(trial: Trial, series: Mapping[Pair, Series], time_s: float) -> _Run | None:
    """Return an experiment's result; None if its pairs did not all send at the same time."""
    if not all(pair in series for pair in trial.pairs):
        return None
    outcome = together([series[pair] for pair in trial.pairs])
    return (trial, outcome, time_s) if outcome.overlap_s >= MIN_OVERLAP_S else None


def _as_few_as_fill(trial: Trial, rate: PairRates, enough_bps: float) -> Trial:
    """Return an experiment's first pairs that together reach this rate: two, or at least `FAIR`."""
    count, wanted_bps = 0, 0.0
    for pair in trial.pairs:
        if count >= FEWEST and wanted_bps >= enough_bps:
            break
        count, wanted_bps = count + 1, wanted_bps + float(rate[pair])
    return replace(trial, pairs=trial.pairs[: count if count <= FEWEST else max(count, FAIR)])
