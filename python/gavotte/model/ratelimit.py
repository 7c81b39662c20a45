"""Find the links that limit rates, and their capacities, from concurrent pairs (Choreo section 3.3.2). No I/O.

This inverts rules 1 and 2 of the paper:

1. A link's capacity is at least the largest load that crossed it in any experiment.
2. If a sum fell short, each path that lost rate crossed a full link that it shared with another path. Only links whose
   load then was as high as ever are suspects.
3. If a path has one suspect, that is the bottleneck, and its load is its capacity.
4. If a path has several suspects or none, nothing is claimed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gavotte.formats.parts.evidence import Evidence
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy

TOLERANCE = 0.10
"""Largest relative difference of two measurements of one rate: short TCP repeats to 3-5 % in both directions."""

ONCE = 0.92
"""Weight of a rate that was seen once. A rate seen twice counts in full."""

LOST_BELOW = 0.88
"""Share of a path's rate alone below which it has lost rate to another path."""

SINGLES = 3
"""Number of pairs above which evidence compares with halves, not single pairs: see `Evidence.alone_bps`."""

UNHARMED = 0.97
EVEN = 1.05
"""Bounds for the pair that carries most on a full link: shares of its rate alone, and of an even share.

The pair is below one of them, because on a full link it has lost rate, too, or has no more than an even share.
"""

CONFIRMED = 2
"""Experiments that must agree before a limit is claimed."""

NOT_TESTED = "not tested"

Finding = Literal["limited", "open", "unknown"]


@dataclass
class LinkFinding:
    """What the experiments show about one link of the tree.

    Attributes:
        link: index of `Hierarchy.links`.
        finding: `limited` if it limits; `open` if it was never full in an experiment made to fill it; or `unknown`.
        rate_bps: its capacity as TCP goodput when limited, else None.
        at_least_bps: highest rate that was seen to cross it.
        experiments: the experiments that show the finding.
        reason: why the finding is `unknown`.
        failed: whether it was to be tested, but every experiment failed.
    """

    link: int
    finding: Finding = "unknown"
    rate_bps: float | None = None
    at_least_bps: float = 0.0
    experiments: list[Evidence] = field(default_factory=list)
    reason: str = NOT_TESTED
    failed: bool = False

    @property
    def tested(self) -> bool:
        """Whether any experiment gave information about the link."""
        return not self.failed and (self.finding != "unknown" or self.reason != NOT_TESTED)


@dataclass(frozen=True)
class _Experiment:
    """One piece of evidence, with host indices as pairs, and the load and number of flows on each link."""

    evidence: Evidence
    pairs: tuple[Pair, ...]
    loads: dict[int, float]
    flows: Counter[int]


def find_limits(hierarchy: Hierarchy, records: Sequence[Evidence]) -> list[LinkFinding]:
    """Find for every link of the hierarchy whether it limits, and its capacity.

    Args:
        hierarchy: tree of all hosts; records with hosts that it lacks are ignored.
        records: evidence in any order.

    Returns:
        one finding per link, in the order of `hierarchy.links`.
    """
    experiments = _in_hierarchy(hierarchy, records)
    findings = [LinkFinding(link) for link in range(len(hierarchy.links))]
    seen: dict[int, list[float]] = defaultdict(list)
    for experiment in experiments:
        for pair, alone_bps in zip(experiment.pairs, experiment.evidence.alone_bps, strict=True):
            for link in hierarchy.path(*pair):
                seen[link].append(alone_bps)
        for link, load_bps in experiment.loads.items():
            # A sum that equals that of single pairs is as good as one seen twice.
            seen[link] += [load_bps] * (1 + (experiment.evidence.verdict == "independent"))
    for link, loads in seen.items():
        # Bytes that came late make one in a few dozen readings too high.
        second, highest = sorted(loads)[-2:][0], max(loads)
        findings[link].at_least_bps = max(second, ONCE * highest)
    _claim(hierarchy, experiments, findings)
    for finding in findings:
        if finding.finding == "unknown":
            _settle(hierarchy, finding, experiments, findings)
    failed = {record.subject: record.reason for record in records if record.sum_bps <= 0}
    for finding in findings:
        label = hierarchy.label(finding.link)
        if finding.finding == "unknown" and label in failed:
            finding.failed = True
            finding.reason = failed[label] if finding.reason == NOT_TESTED else finding.reason
    return findings


def _in_hierarchy(hierarchy: Hierarchy, records: Sequence[Evidence]) -> list[_Experiment]:
    index = {name: host for host, name in enumerate(hierarchy.names)}
    experiments = []
    for record in records:
        if record.sum_bps <= 0 or not all(name in index for pair in record.pairs for name in pair):
            continue
        pairs = tuple((index[source], index[target]) for source, target in record.pairs)
        loads: dict[int, float] = defaultdict(float)
        flows: Counter[int] = Counter()
        for pair, rate_bps in zip(pairs, record.together_bps, strict=True):
            path = hierarchy.path(*pair)
            flows.update(path)
            for link in path:
                loads[link] += rate_bps
        experiments.append(_Experiment(record, pairs, dict(loads), flows))
    return experiments


def _claim(hierarchy: Hierarchy, experiments: Sequence[_Experiment], findings: list[LinkFinding]) -> None:
    """Mark links as limited that are the only explanation of a loss in at least `CONFIRMED` agreeing experiments."""
    blamed: dict[int, list[_Experiment]] = defaultdict(list)
    for experiment in experiments:
        if experiment.evidence.verdict != "shared":
            continue
        links = {suspects[0] for suspects in _suspects(hierarchy, experiment, findings) if len(suspects) == 1}
        for link in links:
            blamed[link].append(experiment)
    for link, blaming in blamed.items():
        finding = findings[link]
        finding.experiments = [experiment.evidence for experiment in blaming]
        loads = [experiment.loads[link] for experiment in blaming]
        # What disturbs an experiment lowers its sum.
        agreeing = [load_bps for load_bps in loads if load_bps >= (1 - TOLERANCE) * max(loads)]
        if len(agreeing) >= CONFIRMED:
            # The capacity is at least the largest load that crossed the link.
            rate_bps = max(float(np.median(agreeing)), finding.at_least_bps)
            finding.finding, finding.rate_bps, finding.reason = "limited", rate_bps, ""
        else:
            finding.reason = "one experiment points to it, no other confirms it"


def _suspects(hierarchy: Hierarchy, experiment: _Experiment, findings: Sequence[LinkFinding]) -> list[list[int]]:
    """Return the links that may have been full, for each path that lost rate."""
    record = experiment.evidence
    paths = [hierarchy.path(*pair) for pair in experiment.pairs]
    carried = list(zip(paths, record.alone_bps, record.together_bps, strict=True))

    def full(link: int) -> bool:
        load_bps, flows = experiment.loads[link], experiment.flows[link]
        if flows < 2 or load_bps < (1 - TOLERANCE) * findings[link].at_least_bps:
            return False
        users = [(rate, alone) for path, alone, rate in carried if link in path]
        if len(carried) > SINGLES:
            # `alone` is with half of the others here, and says nothing of one pair.
            return load_bps < LOST_BELOW * sum(alone for _, alone in users)
        # On a full link, a pair with more than an even part cannot have all that it wants. Otherwise
        # something else slowed the others.
        top_bps, top_alone_bps = max(users)
        return top_bps <= EVEN * load_bps / flows or top_bps < UNHARMED * top_alone_bps

    return [[link for link in path if full(link)] for path, alone, rate in carried if rate < LOST_BELOW * alone]


def _settle(
    hierarchy: Hierarchy, finding: LinkFinding, experiments: Sequence[_Experiment], findings: Sequence[LinkFinding]
) -> None:
    """Separate links that were never full from unknown ones."""
    if finding.experiments:  # blamed, though not often enough
        return
    # Made to fill it: all pairs cross it.
    tests = [e for e in experiments if e.flows[finding.link] == len(e.pairs) > 1]
    if not tests:
        return
    finding.experiments = [e.evidence for e in tests]
    verdicts = {e.evidence.verdict for e in tests}
    if "shared" in verdicts:
        suspects = {
            link
            for e in tests
            if e.evidence.verdict == "shared"
            for few in _suspects(hierarchy, e, findings)
            for link in few
        } - {finding.link}
        full = sorted(link for link in suspects if findings[link].finding == "limited")
        if full:
            finding.reason = f"{hierarchy.label(full[0])} was full before it"
        elif suspects:
            finding.reason = f"pairs lost rate, but {hierarchy.label(min(suspects))} may be why"
        else:
            finding.reason = "pairs lost rate, but no link of the tree was as full as before"
    elif "independent" in verdicts:
        sources = {pair[0] for e in tests for pair in e.pairs}
        hosts = {host for e in experiments for pair in e.pairs for host in pair}
        link = hierarchy.links[finding.link]
        if len(link.targets) > 1 and not link.sources & hosts <= sources:
            finding.reason = "too few pairs sent to fill it"
        else:
            finding.finding, finding.reason = "open", ""
    else:
        finding.reason = next(e.evidence.reason for e in tests)
