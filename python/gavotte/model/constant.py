"""A History becomes what lasts of it: one rate and one latency for each pair, and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History
from gavotte.formats.network import FORMAT, Host, Network, Sharing
from gavotte.formats.tree import tree_of
from gavotte.model.bucket import egress_buckets
from gavotte.model.choosing import Choice, choose, estimate
from gavotte.model.estimators import ESTIMATORS
from gavotte.model.moved import Cut, cut
from gavotte.model.topology import structure_of

METHODS: tuple[str, ...] = ("auto", *ESTIMATORS)

MESSAGE_BYTES = 8e6
"""Decisions are tried with transfers of this size, as in the RPCA paper, section V-A."""


@dataclass(frozen=True)
class Constant:
    """What lasts.

    Attributes:
        rate_bps: (N, N) bulk TCP goodput, NaN on the diagonal.
        latency_s: (N, N) one way; NaN where never measured.
        method: how it was found: a key of `ESTIMATORS`, with `+excess` where expected excess was added.
        choice: what `auto` chose from; without trials where it had nothing to choose by, or a method was named.
        seed: of the choice.
        cut: the transfer times that it rests on: with `auto` without what was before pairs moved, else all.
    """

    rate_bps: Floats
    latency_s: Floats
    method: str
    choice: Choice
    seed: int
    cut: Cut


def transfer_times(history: History) -> Floats:
    """(n, N, N) seconds for `MESSAGE_BYTES`: alpha + bytes/beta, NaN where the rate was not measured."""
    return np.nan_to_num(history.alpha_s, nan=0.0) + MESSAGE_BYTES / history.beta_Bps


def find_constant(history: History, *, method: str = "auto", seed: int = 0) -> Constant:
    """Finds one lasting value for each pair, of seconds per byte and of latencies apart.

    Of seconds per byte, not of rates: what placement adds up are times. `min` is then the least time, the best rate
    ever seen. `auto` drops what was before a pair moved (see `cut`), then takes what decides best on snapshots held
    out (see `choose`).

    Args:
        history: n snapshots of N hosts.
        method: one of `METHODS`.
        seed: of what `auto` tries.

    Raises:
        GavotteError: for an unknown method, or a pair that was never measured.
    """
    if method not in METHODS:
        raise GavotteError(f"no method {method!r}", hint=f"choose one of {', '.join(METHODS)}")
    size = len(history.hosts)
    off_diagonal = ~np.eye(size, dtype=bool)
    never = np.isnan(history.beta_Bps).all(axis=0) & off_diagonal
    if never.any():
        i, j = (int(x) for x in np.argwhere(never)[0])
        raise GavotteError(
            f"{int(never.sum())} of {size * (size - 1)} paths were never measured, "
            f"first {history.hosts[i]} to {history.hosts[j]}",
            hint="measure again, or leave the hosts out",
        )
    times = transfer_times(history)
    lasting = cut(times) if method == "auto" else Cut(times, 0.0, ())
    choice = choose(lasting.times, seed=seed) if method == "auto" else Choice(method)
    return Constant(
        rate_bps=8 / estimate(lasting.of(1 / history.beta_Bps), choice.method),
        latency_s=estimate(lasting.of(history.alpha_s), choice.method),
        method=choice.method,
        choice=choice,
        seed=seed,
        cut=lasting,
    )


def model(
    history: History,
    *,
    method: str = "auto",
    sharing: Sharing | Literal["auto"] = "auto",
    seed: int = 0,
    constant: Constant | None = None,
) -> Network:
    """Turns snapshots into the Network that placement believes in.

    Path lengths make machines, racks and pods (Choreo section 3.3.1). Where the History holds evidence, it tells
    which hosts and groups have caps and what they are, and what it does not tell stays None. Without any, a host's
    egress (ingress) cap is the best rate it reached to (from) any host outside its machine: with one connection at a
    time a lower bound of the cap, and its value where the cap is what limits it.

    Args:
        history: n snapshots of N hosts.
        method: one of `METHODS`; see `find_constant`.
        sharing: which links later transfers are taken to share; `auto` = as the evidence says, else `hose`.
        seed: of what `auto` tries.
        constant: what `find_constant` found already; then method and seed do not matter.

    Raises:
        GavotteError: for an unknown method, or a pair that was never measured.
    """
    found = constant if constant is not None else find_constant(history, method=method, seed=seed)
    tree = tree_of(history.hosts, history.hops)
    structure = structure_of(tree, history.evidence)
    egress_bps: Sequence[float | None] = structure.egress_bps
    ingress_bps: Sequence[float | None] = structure.ingress_bps
    if not history.evidence:
        machine = np.array(tree.machine)
        outside = np.where(machine[:, None] != machine[None, :], np.nan_to_num(found.rate_bps), 0.0)
        egress_bps = [float(rate) or None for rate in outside.max(axis=1, initial=0.0)]
        ingress_bps = [float(rate) or None for rate in outside.max(axis=0, initial=0.0)]
    burst_bytes, peak_bps = (_nullable_row(values) for values in egress_buckets(history, tree))
    return Network(
        format=FORMAT,
        hosts=[
            Host(
                name=name,
                cpus=float(history.cpus[i]),
                memory_bytes=int(history.memory_bytes[i]),
                machine=f"machine-{tree.machine[i]}",
                egress_bps=egress_bps[i],
                ingress_bps=ingress_bps[i],
                burst_bytes=burst_bytes[i],
                peak_bps=peak_bps[i],
            )
            for i, name in enumerate(history.hosts)
        ],
        rate_bps=_nullable(found.rate_bps),
        latency_s=_nullable(found.latency_s),
        groups=list(structure.groups),
        sharing=(structure.sharing or "hose") if sharing == "auto" else sharing,
        verdicts=list(structure.verdicts) if history.evidence else [],
        notes=list(tree.notes),
    )


def _nullable(matrix: Floats) -> list[list[float | None]]:
    return [_nullable_row(row) for row in matrix]


def _nullable_row(row: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in row]
