"""One value for each pair from its values over time, and what those say of each host's caps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History
from gavotte.formats.network import FORMAT, Host, Network, Sharing
from gavotte.formats.tree import tree_of
from gavotte.model.bucket import egress_buckets
from gavotte.model.topology import structure_of

Summary = Callable[[Floats], Floats]


def _last(values: Floats) -> Floats:
    """The newest value of each pair, however old."""
    newest: Floats = values[-1].copy()
    for earlier in values[-2::-1]:
        newest = np.where(np.isnan(newest), earlier, newest).astype(np.float64)
    return newest


def _median(values: Floats) -> Floats:
    return np.asarray(np.nanmedian(values, axis=0), dtype=np.float64)


def _mean(values: Floats) -> Floats:
    return np.asarray(np.nanmean(values, axis=0), dtype=np.float64)


def _min(values: Floats) -> Floats:
    return np.asarray(np.nanmin(values, axis=0), dtype=np.float64)


METHODS: dict[str, Summary] = {"last": _last, "median": _median, "mean": _mean, "min": _min}
"""Each takes transfer times per byte (n, N, N), NaN = not measured, and gives (N, N)."""


def model(history: History, *, method: str = "median", sharing: Sharing | Literal["auto"] = "auto") -> Network:
    """Turns snapshots into the Network that placement believes in.

    The summary is taken of seconds per byte, not of rates: what placement adds up are times. `min` is then the
    least time, the best rate ever seen. Path lengths make machines, racks and pods (Choreo section 3.3.1).

    Where the History holds evidence, it tells which hosts and groups have caps and what they are, and what it does not
    tell stays None. Without any, a host's egress (ingress) cap is the best rate it reached to (from) any host
    outside its machine: with one connection at a time a lower bound of the cap, and its value where the cap
    is what limits it.

    Args:
        history: n snapshots of N hosts.
        method: a key of `METHODS`.
        sharing: which links later transfers are taken to share; `auto` = as the evidence says, else `hose`.

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
    with warnings.catch_warnings():  # the diagonal is NaN in every snapshot
        warnings.simplefilter("ignore", RuntimeWarning)
        rate_bps = 8 / METHODS[method](1 / history.beta_Bps)
        latency_s = METHODS[method](history.alpha_s)
    tree = tree_of(history.hosts, history.hops)
    structure = structure_of(tree, history.evidence)
    egress_bps, ingress_bps = structure.egress_bps, structure.ingress_bps
    if not history.evidence:
        machine = np.array(tree.machine)
        outside = np.where(machine[:, None] != machine[None, :], np.nan_to_num(rate_bps), 0.0)
        egress_bps = tuple(float(rate) or None for rate in outside.max(axis=1, initial=0.0))
        ingress_bps = tuple(float(rate) or None for rate in outside.max(axis=0, initial=0.0))
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
        rate_bps=_nullable(rate_bps),
        latency_s=_nullable(latency_s),
        groups=list(structure.groups),
        sharing=(structure.sharing or "hose") if sharing == "auto" else sharing,
        verdicts=list(structure.verdicts) if history.evidence else [],
        notes=list(tree.notes),
    )


def _nullable(matrix: Floats) -> list[list[float | None]]:
    return [_nullable_row(row) for row in matrix]


def _nullable_row(row: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in row]
