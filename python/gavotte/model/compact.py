"""Turn a Network with matrices into one of version 2: latencies of hosts and groups, and the pairs that differ.

Hosts' caps and groups' links are the same in both. What pairs add to them are their latencies, and rates below every
cap. In a data centre, few pairs have such a rate: the file grows with hosts, not with pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import COMPACT, MATRICES, Checked, Network, PairException
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.tree import Tree, inside_groups, latencies_s, limits_bps, machine_numbers
from gavotte.model.held_out import CONFIDENCE, HeldOutCheck
from gavotte.tables import matrix
from gavotte.terms.held_out import OFF

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Masks = npt.NDArray[np.bool_]

MOST_EXCEPTIONS = 0.1
"""Largest share of all pairs that may be exceptions. With more, the network is no tree of caps."""

LATENCY_OFF, LATENCY_OFF_S = 0.5, 2e-4
"""An exception's latency differs by more than this share and this time. Round trips of busy hosts scatter by both."""

PASSES = 12
"""Solutions for least squares. With delays of 10 % in the mean, further ones change no host by more than 2 %."""

CLOSE = 1e-3
"""Differences below this share of the median latency weigh alike."""

GRADIENTS, TOLERANCE, RIDGE = 200, 1e-6, 1e-9
"""Most steps of one solution, the rest at which it ends, and the share of a host without certain value."""

_KEPT = ("rate_bps", "rate_low_bps", "latency_s", "doubt")
"""Matrices whose content caps, groups and exceptions keep, if not each value."""


@dataclass(frozen=True)
class Compacted:
    """A Network of version 2, or why there is none.

    Attributes:
        network: the Network of version 2; the given one if its pairs differ too much.
        warnings: what the file does not contain.
    """

    network: Network
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class KnownPairs:
    """What is known about pairs; all arrays are (P,), NaN = unknown.

    Attributes:
        source: index of each pair's sender.
        target: index of its receiver.
        rate_bps: its rate.
        latency_s: its latency, one way.
    """

    source: Ints
    target: Ints
    rate_bps: Floats
    latency_s: Floats


def compact(network: Network, check: HeldOutCheck | None = None) -> Compacted:
    """Return the Network as version 2, if at most `MOST_EXCEPTIONS` of its pairs differ from its tree.

    Args:
        network: of version 1. Its guessed pairs are not used.
        check: how well held-out pairs were predicted.
    """
    if network.compact:
        return Compacted(network, ())
    size = len(network.hosts)
    unknown = np.full((size, size), np.nan)
    rates = matrix(network.rate_bps) if network.rate_bps else unknown
    known_s = matrix(network.latency_s) if network.latency_s else unknown
    if network.doubt:
        guessed = np.array([[word == "guessed" for word in row] for row in network.doubt])
        rates, known_s = (np.where(guessed, np.nan, each) for each in (rates, known_s))
    known = np.isfinite(rates) | np.isfinite(known_s)
    np.fill_diagonal(known, val=False)
    source, target = np.nonzero(known)
    pairs = KnownPairs(source, target, rates[source, target], known_s[source, target])
    learned = with_pairs(network, pairs, check)
    if (count := len(learned.exceptions)) > MOST_EXCEPTIONS * size * (size - 1):
        share = f"{counted(count, 'pair')} of {size * (size - 1)} differ from what hosts and groups say"
        return Compacted(network, (f"{share}; the Network is kept as version 1, with a matrix",))
    lost = [key for key in MATRICES if key not in _KEPT and _tells(getattr(network, key), key)]
    return Compacted(learned, tuple(lacking(lost)))


def with_pairs(network: Network, known: KnownPairs, check: HeldOutCheck | None = None) -> Network:
    """Return a Network of version 2 with these hosts and groups, their latencies, and the pairs that differ.

    1. Half a round trip of each host to its rack, and what each group adds, are those that fit most known latencies.
    2. A pair is an exception if its rate is more than `OFF` below the caps and groups. So is one of two hosts of a
       machine, and one whose latency is off by more than `LATENCY_OFF` and `LATENCY_OFF_S`.

    Args:
        network: its hosts, groups and sharing count.
        known: pairs that were measured.
        check: how well held-out pairs were predicted.
    """
    host_s, group_s = tree_latencies(known, inside_groups(Tree(network.hosts, network.groups)))
    changes: dict[str, object] = {key: [] for key in MATRICES}
    changes |= {"format": COMPACT, "checked": None if check is None else _checked(check)}
    changes["hosts"] = _with_latencies(network.hosts, host_s)
    changes["groups"] = _with_latencies(network.groups, group_s)
    learned = network.model_copy(update=changes)
    return learned.model_copy(update={"exceptions": _exceptions(learned, known)})


def tree_latencies(known: KnownPairs, inside: Masks) -> tuple[Floats, Floats]:
    """Return the latencies of hosts and groups whose sums are nearest to the known latencies of pairs.

    A pair's latency is that of its two hosts, and of each group that contains the sender and not the receiver. The sum
    of all absolute differences is least, so that round trips that busy hosts delayed count little. Each pass solves
    for least squares with weights by the differences before (Schlossmacher 1973), by conjugate gradients.

    Args:
        known: pairs of two hosts with their latencies.
        inside: (G, N) whether each host is in each group.

    Returns:
        (N,) seconds of hosts, NaN where nothing is known, and (G,) seconds of groups; both from 0.
    """
    hosts, groups = inside.shape[1], inside.shape[0]
    measured = np.isfinite(known.latency_s)
    sources, targets, seen_s = known.source[measured], known.target[measured], known.latency_s[measured]
    if not sources.size:
        return np.full(hosts, np.nan), np.full(groups, np.nan)
    unit_s = max(float(np.median(seen_s)), 1e-9)
    terms = _terms(inside, sources, targets)
    sums = np.full(hosts + groups, 0.5)
    weights = np.ones(len(seen_s))
    for _ in range(PASSES):
        sums = _least_squares(terms, weights, seen_s / unit_s, sums)
        left = np.abs(seen_s / unit_s - _of_pairs(terms, sums))
        weights = 1 / np.maximum(left, CLOSE)
    latency_s = np.maximum(sums * unit_s, 0.0)
    seen = np.zeros(hosts, dtype=np.bool_)
    seen[sources] = seen[targets] = True
    return np.where(seen, latency_s[:hosts], np.nan), latency_s[hosts:]


def _terms(inside: Masks, sources: Ints, targets: Ints) -> Ints:
    """Return (M, K) numbers of what each pair's latency adds up: hosts, then groups; N + G stands for nothing."""
    groups, hosts = inside.shape
    left = inside[:, sources] & ~inside[:, targets]
    deepest = int(left.sum(axis=0).max(initial=0))
    terms = np.full((len(sources), 2 + deepest), hosts + groups)
    terms[:, 0], terms[:, 1] = sources, targets
    place = np.full(len(sources), 2)
    for group, pairs in enumerate(left):
        terms[pairs, place[pairs]] = hosts + group
        place += pairs
    return terms


def _of_pairs(terms: Ints, sums: Floats) -> Floats:
    return np.asarray(np.append(sums, 0.0)[terms].sum(axis=1))


def _least_squares(terms: Ints, weights: Floats, seen: Floats, start: Floats) -> Floats:
    """Return the sums with the least weighted squares of differences, by conjugate gradients from a start."""

    def back(values: Floats) -> Floats:
        spread = np.repeat(weights * values, terms.shape[1])
        return np.asarray(np.bincount(terms.ravel(), spread, minlength=len(start) + 1)[:-1], dtype=np.float64)

    def product(sums: Floats) -> Floats:
        return back(_of_pairs(terms, sums)) + RIDGE * scale * sums

    scale = np.maximum(back(np.ones(len(seen))), 1e-300)
    sums = start.copy()
    rest = back(seen) - product(sums)
    step = rest / scale
    size = float(rest @ step)
    enough = TOLERANCE**2 * max(size, 1e-300)
    for _ in range(GRADIENTS):
        if size <= enough:
            break
        along = product(step)
        length = size / float(step @ along)
        sums = sums + length * step
        rest = rest - length * along
        size, before = float(rest @ (rest / scale)), size
        step = rest / scale + size / before * step
    return np.asarray(sums)


def _with_latencies(parts: Sequence[object], latency_s: Floats) -> list[object]:
    return [
        part.model_copy(update={"latency_s": None if np.isnan(seconds) else float(seconds)})  # type: ignore[attr-defined]
        for part, seconds in zip(parts, latency_s, strict=True)
    ]


def _exceptions(learned: Network, known: KnownPairs) -> list[PairException]:
    tree = Tree(learned.hosts, learned.groups, sharing=learned.sharing)
    limits, fitted_s = (each(tree, known.source, known.target) for each in (limits_bps, latencies_s))
    machine = machine_numbers(tree)
    mates = machine[known.source] == machine[known.target]
    with np.errstate(invalid="ignore"):
        slow = np.isfinite(known.rate_bps) & (mates | (known.rate_bps < (1 - OFF) * limits))
        off_s = np.abs(known.latency_s - fitted_s)
        far = (off_s > LATENCY_OFF_S) & (off_s > LATENCY_OFF * fitted_s)
    names = learned.names
    return [
        PairException(
            source=names[known.source[at]],
            target=names[known.target[at]],
            rate_bps=float(known.rate_bps[at]) if slow[at] else None,
            latency_s=float(known.latency_s[at]) if far[at] else None,
        )
        for at in np.flatnonzero(slow | far)
    ]


def _checked(check: HeldOutCheck) -> Checked:
    return Checked(pairs=check.pairs, off=check.off, share_at_most=check.most_share, confidence=CONFIDENCE)


def lacking(keys: Sequence[str]) -> list[str]:
    """Return a warning that names the matrices of version 1 that version 2 cannot have."""
    return [f"version 2 has no {' and no '.join(keys)} of pairs; `--no-compact` keeps them"] if keys else []


def _tells(rows: Sequence[Sequence[object]], key: str) -> bool:
    """Return whether a matrix says anything that is not assumed without it."""
    usual = {None, 1500} if key == "mtu_bytes" else {None, False}
    return any(value not in usual for row in rows for value in row)
