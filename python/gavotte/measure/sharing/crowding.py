"""Fills the few links that a measurement found to be shared, to tell what each carries (Choreo section 3.3.2)."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gavotte.formats.evidence import Evidence
from gavotte.formats.history import Floats
from gavotte.measure.sharing.carrier import Carrier, hold_of_ways
from gavotte.measure.sharing.experiments import AGREE
from gavotte.measure.sharing.overlap import MIN_OVERLAP_S, Series, Together, evidence, together
from gavotte.measure.sharing.trials import WAYS, Trial, choose, rounds_of
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy

CONFIRMED = 2
"""Sums that must agree: what disturbs an experiment lowers its sum."""

ATTEMPTS = 4

APART = "its pairs did not send at the same time"

FEWEST = 2
OVERFULL = 1.4
"""Pairs that could carry so many times what a link was seen to carry fill it; more would only lose more packets."""

_Run = tuple[Trial, Together, float]
"""An experiment, what it told, and when, as Unix time."""


class Crowding:
    """Experiments on single links, and what they told.

    What each pair carries alone is known from the measurement around them, so that only the sum is to be found.
    """

    def __init__(self, carrier: Carrier, tree: Hierarchy, *, trains: bool, seed: int) -> None:
        """Has tried nothing yet.

        Args:
            carrier: sends.
            tree: of all hosts.
            trains: by trains where pairs share no host, not by TCP.
            seed: of the choice of pairs.
        """
        self._carrier = carrier
        self._hold_s = hold_of_ways(trains=trains)
        self._tree = tree
        self._seed = seed
        self._link = {tree.label(link): link for link in range(len(tree.links))}
        self._found: defaultdict[int, list[_Run]] = defaultdict(list)
        self._lost: defaultdict[int, list[float]] = defaultdict(list)
        self._tried: defaultdict[int, int] = defaultdict(int)
        self._free: set[int] = set()

    def fill(
        self, labels: Mapping[str, float], rate: Floats, hosts: Collection[int], *, spare_bytes: float = math.inf
    ) -> dict[str, Evidence] | None:
        """Lets so many pairs cross each of some links as fill it, and more where that does not.

        Args:
            labels: of links of the tree, with what they were seen to carry, bit/s; others are passed over.
            rate: (N, N) what pairs carry alone, bit/s, as far as known; NaN = not to be used.
            hosts: that can be used.
            spare_bytes: that may be sent; links that would take more are left out.

        Returns:
            what was found last, for the links that enough pairs crossed at once; None where it is nothing and some
            would have taken more.
        """
        found: dict[str, Evidence] = {}
        most_bytes = self._carrier.bytes_sent + spare_bytes
        left_out = False
        todo = {
            self._link[label]: OVERFULL * load_bps
            for label, load_bps in labels.items()
            if label in self._link and self._tried[self._link[label]] < ATTEMPTS
        }
        while todo:
            trials: list[Trial] = []
            cut: set[int] = set()
            left_bytes = most_bytes - self._carrier.bytes_sent
            for link, enough_bps in todo.items():
                used = [pair for trial, *_ in self._found[link] for pair in trial.pairs]
                attempt = self._tried[link]
                whole = choose(self._tree, link, rate, hosts=hosts, seed=self._seed, attempt=attempt, used=used)
                if whole is not None:
                    trial = _as_few_as_fill(whole, rate, enough_bps)
                    wanted_bytes = sum(float(rate[pair]) for pair in trial.pairs) / 8 * self._hold_s[trial.way]
                    if wanted_bytes > left_bytes:
                        left_out = True
                        # That fewer did not fill it says nothing.
                        found.pop(self._tree.label(link), None)
                        continue
                    left_bytes -= wanted_bytes
                    trials.append(trial)
                    cut.update({link} if len(trial.pairs) < len(whole.pairs) else ())
                self._tried[link] += 1
            records = self._run(trials, rate)
            found |= {self._tree.label(link): record for link, record in records.items()}
            self._free |= {link for link, each in records.items() if each.verdict == "independent"} - cut
            # So few pairs did not fill it.
            todo = {
                link: 2 * OVERFULL * record.sum_bps
                for link, record in records.items()
                if record.verdict == "independent" and link in cut
            }
        return None if left_out and not found else found

    def pass_together(self, aims: Mapping[str, Sequence[Pair]], rate: Floats) -> dict[str, Evidence]:
        """Lets pairs cross several links at once: where all carry what they do alone, no link on their way is full.

        Args:
            aims: links of the tree, with those of the pairs that cross each; no host is in two pairs of them.
            rate: (N, N) what pairs carry alone, bit/s.

        Returns:
            what was found for the links that are not full; others may only have suffered for them.
        """
        pairs = sorted({pair for each in aims.values() for pair in each})
        series = self._carrier.carry([pairs], {pair: float(rate[pair]) for pair in pairs}, "disjoint")
        found: dict[str, Evidence] = {}
        for label, each in aims.items():
            link = self._link[label]
            run = _read(Trial(link, tuple(each)), series)
            if run is not None and (record := self._evidence(run, rate)).verdict == "independent":
                self._found[link].append(run)
                self._free.add(link)
                found[label] = record
        return found

    def _run(self, trials: Sequence[Trial], rate: Floats) -> dict[int, Evidence]:
        """Runs experiments, those on links that cannot meet at the same time."""
        found = {}
        for way in WAYS:
            for members in rounds_of(self._tree, [trial for trial in trials if trial.way == way]):
                expect = {pair: float(rate[pair]) for trial in members for pair in trial.pairs}
                series = self._carrier.carry([trial.pairs for trial in members], expect, way)
                for trial in members:
                    if (run := _read(trial, series)) is not None:
                        found[trial.link] = record = self._evidence(run, rate)
                        self._found[trial.link].append(run)
                        if record.verdict == "shared":
                            self._lost[trial.link].append(record.sum_bps)
        return found

    def knows(self, label: str) -> bool:
        """Whether it is a link of the tree."""
        return label in self._link

    def free(self, label: str) -> bool:
        """Whether as many pairs as can cross a link were found not to fill it."""
        link = self._link.get(label)
        return link is not None and link in self._free

    def left(self, labels: Iterable[str]) -> list[str]:
        """Those that may be tried again."""
        return [label for label in labels if label in self._link and self._tried[self._link[label]] < ATTEMPTS]

    def untold(self, label: str, pairs: Sequence[Pair], rate: Floats) -> Evidence:
        """Writes down that nothing is known of a link.

        Args:
            label: of the link.
            pairs: that were to cross it together.
            rate: (N, N) bit/s; NaN = unknown.
        """
        return Evidence(
            subject=label,
            pairs=[(self._tree.names[s], self._tree.names[t]) for s, t in pairs],
            alone_bps=[float(np.nan_to_num(rate[pair])) for pair in pairs],
            together_bps=[0.0] * len(pairs),
            sum_bps=0.0,
            low_bps=0.0,
            high_bps=0.0,
            overlap_s=0.0,
            time_s=time.time(),
            verdict="unknown",
            reason=APART,
        )

    def unsettled(self, labels: Iterable[str]) -> dict[str, float]:
        """Links whose limit no two experiments agree on yet, and that may be tried again, with what they carried."""
        todo: dict[str, float] = {}
        for label in sorted(labels):
            link = self._link.get(label)
            if link is not None and self._tried[link] < ATTEMPTS:
                sums = sorted(self._lost[link], reverse=True)
                if len(sums) < CONFIRMED or sums[CONFIRMED - 1] < AGREE * sums[0]:
                    todo[label] = max((told.sum_bps for _, told, _ in self._found[link]), default=math.inf)
        return todo

    def records(self, rate: Floats) -> tuple[Evidence, ...]:
        """All experiments whose pairs have rates by now, compared with what each was found to carry alone.

        Args:
            rate: (N, N) bit/s.
        """
        return tuple(
            self._evidence(run, rate)
            for each in self._found.values()
            for run in each
            if all(np.isfinite(rate[pair]) for pair in run[0].pairs)
        )

    def _evidence(self, run: _Run, rate: Floats) -> Evidence:
        trial, told, time_s = run
        alone = {pair: float(rate[pair]) for pair in trial.pairs}
        return evidence(self._tree, trial, alone, told, time_s=time_s)


def _read(trial: Trial, series: Mapping[Pair, Series]) -> _Run | None:
    """What an experiment told; None where its pairs did not all send at the same time."""
    if not all(pair in series for pair in trial.pairs):
        return None
    told = together([series[pair] for pair in trial.pairs])
    return (trial, told, time.time()) if told.overlap_s >= MIN_OVERLAP_S else None


def _as_few_as_fill(trial: Trial, rate: Floats, enough_bps: float) -> Trial:
    """An experiment's first pairs that want so much together, at least two."""
    count, wanted_bps = 0, 0.0
    for pair in trial.pairs:
        if count >= FEWEST and wanted_bps >= enough_bps:
            break
        count, wanted_bps = count + 1, wanted_bps + float(rate[pair])
    return replace(trial, pairs=trial.pairs[:count])
