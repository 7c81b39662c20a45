"""Put changes of pairs into sentences: the whole network, hosts whose pairs changed together, then single pairs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats, Ints
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_rate
from gavotte.terms.equivalence import DIFFERENT

TOGETHER = 0.8
"""Least share of a host's pairs in one direction, or of all pairs, that changed alike to be named as one."""

LEAST_ALL = 6
"""Least number of compared pairs for a finding about the whole network: those of three hosts."""

SHOWN = 10
"""Most single pairs that are named; the table has all."""

TIMES = 1.5
"""Factor from which a change is written as a multiple, not in percent."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Changes:
    """Changes of one quantity of P pairs.

    Attributes:
        hosts: N names.
        pairs: (P, 2) indices in `hosts`.
        verdict: (P,) verdict codes.
        before: (P,) means before.
        now: (P,) means now.
    """

    hosts: Sequence[str]
    pairs: Ints
    verdict: Ints
    before: Floats
    now: Floats


@dataclass(frozen=True)
class Set:
    """Pairs that changed together.

    Attributes:
        host: the host of all of them; None = the whole network.
        ends: whether the host sends, receives or both: 0, 1 or (0, 1).
        members: indices of the changed pairs.
        compared: number of compared pairs of this host and direction, changed or not.
        factor: median of now / before.
    """

    host: int | None
    ends: tuple[int, ...]
    members: tuple[int, ...]
    compared: int
    factor: float


def host_findings(vanished: Sequence[str], appeared: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about hosts that only one side has."""
    for hosts, what in ((vanished, "gone"), (appeared, "new")):
        if hosts:
            yield f"{', '.join(hosts)} {'is' if len(hosts) == 1 else 'are'} {what}"


def rate_findings(changes: Changes) -> Iterator[str]:
    """Yield a sentence for each set of pairs whose rates changed together, and for each other changed pair."""
    sets, single = grouped(changes)
    words = {(0,): "sends", (1,): "receives", (0, 1): "sends and receives"}
    for each in sets:
        share = f"({len(each.members)} of {counted(each.compared, 'path')})"
        if each.host is None:
            yield f"the whole network is {_faster(each.factor)} than before {share}"
        else:
            yield f"{changes.hosts[each.host]} {words[each.ends]} {_faster(each.factor)} than before {share}"
    for index in single[:SHOWN]:
        rates = f"{format_rate(changes.before[index])} before, {format_rate(changes.now[index])} now"
        yield f"{_path(changes, index)} is {_faster(changes.now[index] / changes.before[index])}: {rates}"
    yield from _more(single, "rate")


def latency_findings(changes: Changes) -> Iterator[str]:
    """Yield the same about latencies."""
    sets, single = grouped(changes)
    words = {(0,): "from", (1,): "to", (0, 1): "from and to"}
    for each in sets:
        where = "the whole network" if each.host is None else f"paths {words[each.ends]} {changes.hosts[each.host]}"
        of = f"({len(each.members)} of {counted(each.compared, 'path')}, {_times(changes, each.members)})"
        yield f"latency of {where} is {_higher(each.factor)} than before {of}"
    for index in single[:SHOWN]:
        factor = changes.now[index] / changes.before[index]
        yield f"latency of {_path(changes, index)} is {_higher(factor)}: {_times(changes, (index,))}"
    yield from _more(single, "latency")


def mtu_findings(changes: Sequence[tuple[str, str, int, int]]) -> Iterator[str]:
    """Yield a sentence for each pair of MTUs, before and now, with the host that all its paths share if there is one.

    Args:
        changes: source, target, MTU before and MTU now of each path whose MTU has changed.
    """
    paths: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    for source, target, before, now in changes:
        paths[before, now].append((source, target))
    for (before, now), ends in paths.items():
        what = f"{ends[0][0]} to {ends[0][1]}"
        if len(ends) > 1:
            counts = Counter(host for pair in ends for host in pair)
            host, count = counts.most_common(1)[0]
            what = counted(len(ends), "path") + (f" of {host}" if count == len(ends) else "")
        yield f"MTU of {what}: {before} bytes before, {now} now"


def grouped(changes: Changes) -> tuple[list[Set], list[int]]:
    """Return sets of pairs that changed together, and the other changed pairs, each with the largest change first.

    1. If most compared pairs changed in one direction, that is a change of the whole network.
    2. Else the host and direction (sends, receives) that explain most of the changed pairs are named. Most of its
       compared pairs, and two at least, must have changed in one direction. The other pairs are then searched again.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = changes.now / changes.before
    compared = np.isfinite(factor)
    changed = compared & (changes.verdict == DIFFERENT)
    up = factor > 1
    for way in (up, ~up):
        alike = changed & way
        if compared.sum() >= LEAST_ALL and alike.sum() >= TOGETHER * compared.sum():
            rest = np.flatnonzero(changed & ~way).tolist()
            return [_set(None, (), alike, int(compared.sum()), factor)], _largest(rest, factor)
    size = len(changes.hosts)
    kinds = [(end, way) for end in (0, 1) for way in (up, ~up)]

    def counted_of(which: Mask, end: int) -> Ints:
        return np.bincount(changes.pairs[which, end], minlength=size)

    most = [counted_of(compared, end) for end, _ in kinds]
    alike_of = [counted_of(changed & way, end) for end, way in kinds]
    sets: list[Set] = []
    left = changed.copy()
    while left.any():
        explained = np.array([counted_of(left & way, end) for end, way in kinds])
        enough = [alike >= TOGETHER * np.fmax(total, 1) for alike, total in zip(alike_of, most, strict=True)]
        explained[~np.array(enough) | (explained < 2)] = 0
        kind, host = (int(index) for index in np.unravel_index(int(explained.argmax()), explained.shape))
        if not explained[kind, host]:
            break
        end, way = kinds[kind]
        alike = changed & way & (changes.pairs[:, end] == host)
        sets.append(_set(host, (end,), alike, int(most[kind][host]), factor))
        left &= ~alike
    return _joined(sets, factor), _largest(np.flatnonzero(left).tolist(), factor)


def _set(host: int | None, ends: tuple[int, ...], members: Mask, compared: int, factor: Floats) -> Set:
    indices = np.flatnonzero(members)
    return Set(host, ends, tuple(indices.tolist()), compared, float(np.median(factor[indices])))


def _joined(sets: Sequence[Set], factor: Floats) -> list[Set]:
    """Return the sets with both directions of one host that changed alike as one, the largest change first."""
    whole: dict[tuple[int | None, bool], Set] = {}
    for each in sets:
        key = each.host, each.factor > 1
        if (other := whole.get(key)) is not None:
            members = tuple(sorted({*other.members, *each.members}))
            middle = float(np.median(factor[list(members)]))
            each = Set(each.host, (0, 1), members, other.compared + each.compared, middle)
        whole[key] = each
    return sorted(whole.values(), key=lambda each: (-len(each.members), -abs(math.log(each.factor))))


def _largest(indices: list[int], factor: Floats) -> list[int]:
    return sorted(indices, key=lambda index: -abs(math.log(factor[index])))


def _faster(factor: float) -> str:
    if factor >= 1:
        return f"{factor:.1f} times faster" if factor >= TIMES else f"{100 * (factor - 1):.0f} % faster"
    return f"{1 / factor:.1f} times slower" if 1 / factor >= TIMES else f"{100 * (1 - factor):.0f} % slower"


def _higher(factor: float) -> str:
    if factor >= 1:
        return f"{factor:.1f} times higher" if factor >= TIMES else f"{100 * (factor - 1):.0f} % higher"
    return f"{1 / factor:.1f} times lower" if 1 / factor >= TIMES else f"{100 * (1 - factor):.0f} % lower"


def _times(changes: Changes, members: tuple[int, ...]) -> str:
    before, now = (1e3 * float(np.median(each[list(members)])) for each in (changes.before, changes.now))
    return f"{before:.3g} ms before, {now:.3g} ms now"


def _path(changes: Changes, index: int) -> str:
    source, target = changes.pairs[index]
    return f"{changes.hosts[source]} to {changes.hosts[target]}"


def _more(single: Sequence[int], what: str) -> Iterator[str]:
    if len(single) > SHOWN:
        yield f"the {what} of {counted(len(single) - SHOWN, 'other path')} has changed, too"
