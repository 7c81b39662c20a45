"""Learn a Network of many hosts from few pairs, without a matrix: caps of hosts and groups, and pairs that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, PairHistory
from gavotte.formats.network import COMPACT, Network, Sharing
from gavotte.formats.parts.counting import listed
from gavotte.formats.parts.tree import Tree, limits_bps
from gavotte.model.bucket import apart_pairs
from gavotte.model.choosing import estimate
from gavotte.model.compact import KnownPairs, lacking, with_pairs
from gavotte.model.constant import METHODS, failed
from gavotte.model.estimators import load_of
from gavotte.model.filling import FAR_OFF, FOLDS
from gavotte.model.findings import Norm
from gavotte.model.held_out import HeldOutCheck, held_out_check
from gavotte.model.hosting import LastingRates, hosts_of
from gavotte.model.intervals import lower_bps, proven_share
from gavotte.model.topology import Structure, structure_of
from gavotte.terms.held_out import OFF
from gavotte.terms.hierarchy import Hierarchy, hierarchy_of
from gavotte.terms.norm import TOLERANCE, norm_of_pairs

USUAL = "median"
"""Method of `auto`. Trees and placements, by which it chooses otherwise, need all pairs between some hosts."""

MOST_SHARE = 0.5
"""Largest share of all pairs, 0 to 1, that are few."""


@dataclass(frozen=True)
class LearnedFromFew:
    """A Network that was learned from few pairs.

    Attributes:
        network: of version 2.
        check: how well the other pairs predict those that were held out; None if none were.
        method: the estimator.
        snapshots: number of snapshots it was estimated from.
        norm: shares of measured times that are errors.
        load: (n,) factor of each snapshot on all times at once; median 1.
        warnings: hosts and properties of pairs that the Network does not contain.
    """

    network: Network
    check: HeldOutCheck | None
    method: str
    snapshots: int
    norm: Norm
    load: Floats
    warnings: tuple[str, ...]


def are_few(history: PairHistory) -> bool:
    """Return whether so few pairs were measured that the others follow from caps of hosts and groups."""
    size = len(history.hosts)
    return history.answered <= MOST_SHARE * size * (size - 1)


def learn_from_few(
    history: PairHistory, *, method: str = "auto", sharing: Sharing | Literal["auto"] = "auto"
) -> LearnedFromFew:
    """Build a Network of version 2 from few pairs, and check it by those that were held out.

    Of many hosts some never answer. Hosts of which no path was measured in one of its directions are left out.

    Args:
        history: the snapshots.
        method: one of `METHODS`; `auto` = `USUAL`.
        sharing: as for `model`.

    Raises:
        GavotteError: for an unknown method, or when no host is left.
    """
    if method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
    method = USUAL if method == "auto" else method
    silent = _silent(history)
    history = history.without(silent)
    series = 1 / history.beta_Bps
    constant = estimate(series, method)
    proven = proven_share(history.values["low_Bps"], history.beta_Bps) if "low_Bps" in history.values else None
    low_bps, width = lower_bps(8 / constant, series, proven)
    rates = LastingRates(8 / constant, np.where(np.isnan(constant), np.nan, low_bps))
    network = _network(history, rates, sharing).model_copy(update={"band": width})
    known = KnownPairs(history.pairs[:, 0], history.pairs[:, 1], rates.rate_bps, estimate(history.alpha_s, method))
    check = _checked(history, rates, network.sharing)
    wide = norm_of_pairs(series, constant, tolerance=3 * width)
    return LearnedFromFew(
        network=with_pairs(network, known, check),
        check=check,
        method=method,
        snapshots=history.snapshots,
        norm=Norm(norm_of_pairs(series, constant), TOLERANCE, wide, 3 * width),
        load=load_of(series, constant),
        warnings=(*_left_out(silent), *lacking(_lost(history))),
    )


def _checked(history: PairHistory, rates: LastingRates, sharing: Sharing) -> HeldOutCheck | None:
    """Return how well the other pairs predict the held-out ones."""
    held_out = history.values.get("held_out")
    if held_out is None:
        return None
    shown, hidden = held_out == 0, held_out > 0
    learned = _network(history.only(shown), LastingRates(rates.rate_bps[shown], rates.low_bps[shown]), sharing)
    tree = Tree(learned.hosts, learned.groups, sharing=learned.sharing)
    source, target = history.pairs[hidden, 0], history.pairs[hidden, 1]
    names = np.array(history.hosts)
    return held_out_check(
        measured_bps=8 * history.beta_Bps[-1, hidden],
        predicted_bps=limits_bps(tree, source, target),
        pairs=list(zip(names[source].tolist(), names[target].tolist(), strict=True)),
    )


def _network(history: PairHistory, rates: LastingRates, sharing: Sharing | Literal["auto"]) -> Network:
    """Return the Network without latencies and exceptions."""
    hierarchy = hierarchy_of(history.hosts, history.paths())
    structure = structure_of(hierarchy, history.evidence)
    used = (structure.sharing or "hose") if sharing == "auto" else sharing
    learn = partial(_learned, hierarchy=hierarchy, structure=structure, sharing=used)
    # Where hosts limit only what they send, most clouds, the best rate that one received is no cap of its own.
    only_shown = _errors(history, rates, partial(learn, only_shown=True))
    as_seen = _errors(history, rates, partial(learn, only_shown=False))
    return Network(
        format=COMPACT,
        hosts=learn(history, rates, only_shown=only_shown <= as_seen).hosts,
        groups=list(structure.groups),
        sharing=used,
        verdicts=list(structure.verdicts) if history.evidence else [],
        notes=[*hierarchy.notes, *failed(structure)],
    )


def _learned(
    history: PairHistory,
    rates: LastingRates,
    *,
    hierarchy: Hierarchy,
    structure: Structure,
    sharing: Sharing,
    only_shown: bool,
) -> Tree:
    """Return the hosts with their caps, and the groups.

    Args:
        history: the snapshots.
        rates: rates of its pairs.
        hierarchy: tree of its hosts.
        structure: caps that experiments show.
        sharing: links that limit.
        only_shown: without caps on receiving that no pair shows, because each was as fast as its sender and the groups
            between them allow.
    """
    hosts = hosts_of(history, rates, hierarchy, structure)
    if not only_shown:
        return Tree(hosts, structure.groups, sharing=sharing)
    free = {"ingress_bps": None, "ingress_low_bps": None}
    tested = structure.tested_into
    senders = [host if tested[i] else host.model_copy(update=free) for i, host in enumerate(hosts)]
    tree = Tree(senders, structure.groups, sharing=sharing)
    source, target = history.pairs[:, 0], history.pairs[:, 1]
    with np.errstate(invalid="ignore"):
        slowed = rates.rate_bps < (1 - OFF) * limits_bps(tree, source, target)
    shown = set(target[slowed & apart_pairs(history, hierarchy)].tolist())
    return replace(tree, hosts=[host if i in shown else senders[i] for i, host in enumerate(hosts)])


def _errors(history: PairHistory, rates: LastingRates, learn: Callable[[PairHistory, LastingRates], Tree]) -> float:
    """Return the mean logarithmic error of pairs that others predict, in `FOLDS` parts; at most `FAR_OFF` counts."""
    part = np.random.default_rng(0).integers(FOLDS, size=len(history.pairs))
    total, count = 0.0, 0
    for fold in range(FOLDS):
        rest, held = part != fold, part == fold
        tree = learn(history.only(rest), LastingRates(rates.rate_bps[rest], rates.low_bps[rest]))
        predicted = limits_bps(tree, history.pairs[held, 0], history.pairs[held, 1])
        off = np.abs(np.log(predicted / rates.rate_bps[held]))
        known = off[np.isfinite(off)]
        total, count = total + float(np.minimum(known, FAR_OFF).sum()), count + len(known)
    return total / max(count, 1)


def _silent(history: PairHistory) -> list[str]:
    """Return the hosts of which no path was measured in one of its directions."""
    known = history.pairs[np.isfinite(history.beta_Bps).any(axis=0)]
    heard = set(known[:, 0].tolist()) & set(known[:, 1].tolist())
    return [name for host, name in enumerate(history.hosts) if host not in heard]


def _left_out(silent: Sequence[str]) -> list[str]:
    """Return a warning about hosts that are left out."""
    are = "is" if len(silent) == 1 else "are"
    return [f"{listed(silent)} {are} left out: no path was measured in one of the directions"] if silent else []


def _lost(history: PairHistory) -> list[str]:
    """Return the matrices of version 1 of which the History knows something."""
    values = history.values
    known = {
        "mtu_bytes": bool(np.isin(values.get("mtu_bytes", 0), (0, 1500), invert=True).any()),
        "several_bps": "several_Bps" in values,
        "connections": "connections" in values,
        "policed": "policed" in values,
        "loss": "unqueued_lost" in values,
    }
    return [key for key, is_known in known.items() if is_known]
