"""Derive the groups, caps and verdicts of a Network from path lengths and evidence (Choreo section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gavotte.formats.network import Group, LinkVerdict, Sharing
from gavotte.formats.parts.evidence import Evidence
from gavotte.formats.parts.rates import common_unit, format_in
from gavotte.model.ratelimit import LinkFinding, find_limits
from gavotte.terms.hierarchy import Hierarchy, limited_groups

_VERDICTS: dict[str, Literal["hose", "machine", "tor", "aggregate"]] = {
    "host": "hose",
    "machine": "machine",
    "rack": "tor",
    "pod": "aggregate",
    "area": "aggregate",
}
_INNER_FIRST = tuple(_VERDICTS)


@dataclass(frozen=True)
class Structure:
    """Properties of a Network that belong to hosts, groups and links instead of pairs.

    Attributes:
        egress_bps: (N,) cap on what each host sends to other machines, None = none found.
        ingress_bps: (N,) cap on what it receives.
        tested_out: (N,) whether any experiment was made to measure the cap on what a host sends.
        tested_into: (N,) whether any experiment was made to measure the cap on what a host receives.
        groups: racks, the groups above them, and machines whose NIC limits.
        sharing: which links transfers load; None = the experiments do not show it.
        verdicts: one for each link of the hierarchy.
        failed: links that were to be tested, but every experiment failed.
    """

    egress_bps: tuple[float | None, ...]
    ingress_bps: tuple[float | None, ...]
    tested_out: tuple[bool, ...]
    tested_into: tuple[bool, ...]
    groups: tuple[Group, ...]
    sharing: Sharing | None
    verdicts: tuple[LinkVerdict, ...]
    failed: tuple[str, ...] = ()


def structure_of(hierarchy: Hierarchy, evidence: Sequence[Evidence]) -> Structure:
    """Attribute each limit that the experiments show to a host, a machine, a rack or a pod.

    A limit that several links explain alike, because the same paths cross them, is attributed to the innermost: a
    rack's only host rather than the rack. `sharing` is the first of these that holds:

    1. `groups` if a machine, rack or pod limits.
    2. `hose` if a host limits.
    3. `pipe` if most hosts sent on several paths without filling a link of their own.
    4. None otherwise.
    """
    findings = find_limits(hierarchy, evidence)
    unit = common_unit(rate for record in evidence for rate in (record.sum_bps, sum(record.alone_bps)))
    out: dict[int, float] = {}
    into: dict[int, float] = {}
    tested_out, tested_into = set[int](), set[int]()
    for finding in findings:
        link = hierarchy.links[finding.link]
        if finding.tested:
            tested_out.update(link.out_of)
            tested_into.update(link.into)
        if finding.rate_bps is None:
            continue
        inner = _innermost(hierarchy, finding)
        out.update({node: finding.rate_bps for node in link.out_of if hierarchy.kind(node) == inner})
        into.update({node: finding.rate_bps for node in link.into if hierarchy.kind(node) == inner})
    return Structure(
        egress_bps=tuple(out.get(host) for host in range(hierarchy.size)),
        ingress_bps=tuple(into.get(host) for host in range(hierarchy.size)),
        tested_out=tuple(host in tested_out for host in range(hierarchy.size)),
        tested_into=tuple(host in tested_into for host in range(hierarchy.size)),
        groups=limited_groups(hierarchy, out, into),
        sharing=_sharing(hierarchy, findings),
        verdicts=tuple(_verdict(hierarchy, finding, unit) for finding in findings),
        failed=tuple(hierarchy.label(finding.link) for finding in findings if finding.failed),
    )


def _innermost(hierarchy: Hierarchy, finding: LinkFinding) -> str:
    link = hierarchy.links[finding.link]
    kinds = {hierarchy.kind(node) for node in (*link.out_of, *link.into)}
    return next(kind for kind in _INNER_FIRST if kind in kinds)


def _sharing(hierarchy: Hierarchy, findings: Sequence[LinkFinding]) -> Sharing | None:
    limited = {_innermost(hierarchy, finding) for finding in findings if finding.finding == "limited"}
    if limited - {"host"}:
        return "groups"
    if limited:
        return "hose"
    # Sources only: Choreo's hose is a cap on what a host sends.
    senders = [f for f in findings if len(hierarchy.links[f.link].sources) == 1]
    if sum(finding.finding == "open" for finding in senders) > len(senders) / 2:
        return "pipe"
    return None


def _verdict(hierarchy: Hierarchy, finding: LinkFinding, unit: tuple[str, float]) -> LinkVerdict:
    if finding.finding == "limited":
        verdict: Literal["hose", "machine", "tor", "aggregate", "open", "unknown"] = _VERDICTS[
            _innermost(hierarchy, finding)
        ]
    else:
        verdict = finding.finding
    return LinkVerdict(
        link=hierarchy.label(finding.link),
        verdict=verdict,
        rate_bps=finding.rate_bps,
        at_least_bps=finding.at_least_bps or None,
        evidence="; ".join(
            [finding.reason] * bool(finding.reason) + [_words(e, unit) for e in finding.experiments[:3]]
        ),
    )


def _words(record: Evidence, unit: tuple[str, float]) -> str:
    """Return a short description of one experiment: its pairs, their rates together and one by one, and its overlap."""
    sources, targets = ({pair[end] for pair in record.pairs} for end in (0, 1))
    what = f"{len(record.pairs)} pairs from {_some(sources)} to {_some(targets)}"
    together, alone = (f"{format_in(rate, unit[1])} {unit[0]}" for rate in (record.sum_bps, sum(record.alone_bps)))
    sums = f"{together} together, {alone} one by one"
    return f"{what}: {sums}, {1e3 * record.overlap_s:.0f} ms"


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return "+".join(shown[:3]) + (f"+{len(shown) - 3} more" if len(shown) > 3 else "")
