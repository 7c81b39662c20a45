"""Estimate one lasting rate and latency for each pair of a History, with their uncertainty, and build a Network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History
from gavotte.formats.network import FORMAT, Doubt, Group, Network, Sharing
from gavotte.model.choosing import PURPOSES, Choice, Purpose, choose, estimate, lasting, undisturbed
from gavotte.model.estimators import ESTIMATORS
from gavotte.model.filling import Filled, filled, filled_series
from gavotte.model.hosting import LastingRates, hosts_of
from gavotte.model.intervals import lower_bps, proven_share
from gavotte.model.lossy import random_loss, uncertain_loss, unseen_loss
from gavotte.model.moved import Cut
from gavotte.model.topology import Structure, structure_of
from gavotte.tables import nullable
from gavotte.terms.hierarchy import hierarchy_of

METHODS: tuple[str, ...] = ("auto", *ESTIMATORS)

FEW = 0.1
"""Largest share of pairs without an answer, 0 to 1, that are guessed by default."""

MESSAGE_BYTES = 8e6
"""Size of the transfers with which decisions are tried, as in the RPCA paper, section V-A."""


@dataclass(frozen=True)
class Constant:
    """Lasting rate and latency of each pair, and how they were estimated.

    Attributes:
        rate_bps: (N, N) bulk TCP goodput, NaN on the diagonal.
        undisturbed_bps: (N, N) the same while nothing slows a pair down (see `undisturbed`). It is above `rate_bps`
            if that includes expected excess.
        rate_low_bps: (N, N) lower end of the 95 % interval of `rate_bps` (see `lower_bps`).
        band: standard deviation of the logarithm of undisturbed times.
        latency_s: (N, N) one way; NaN where never measured.
        method: the estimator: a key of `ESTIMATORS`, with `+excess` if expected excess was added.
        choice: candidates that `auto` compared; it has no trials if there was too little data or a method was named.
        seed: seed of the choice.
        cut: transfer times from which it was estimated. `auto` drops those from before pairs moved.
        guess: how pairs that were never measured were guessed; None if there are none.
    """

    rate_bps: Floats
    undisturbed_bps: Floats
    rate_low_bps: Floats
    band: float
    latency_s: Floats
    method: str
    choice: Choice
    seed: int
    cut: Cut
    guess: Filled | None = None


def transfer_times(history: History) -> Floats:
    """Return the (n, N, N) seconds that `MESSAGE_BYTES` take: alpha + bytes/beta, NaN where no rate was measured."""
    return np.nan_to_num(history.alpha_s, nan=0.0) + MESSAGE_BYTES / history.beta_Bps


def find_constant(
    history: History, *, method: str = "auto", purpose: Purpose = "any", seed: int = 0, fill: bool | None = None
) -> Constant:
    """Estimate the lasting rate and latency of each pair.

    Estimators work on seconds per byte, not on rates, because placement adds up times. `min` therefore is the least
    time, that is the best rate ever measured. `auto` drops values from before a pair moved (see `cut`). It then takes
    the estimator that serves the purpose best on later snapshots (see `choose`).

    Args:
        history: n snapshots of N hosts.
        method: one of `METHODS`.
        purpose: one of `PURPOSES`, for `auto`.
        seed: seed of the trials of `auto`.
        fill: whether to guess pairs that were never measured from their hosts' other pairs (see `filled`). None = if
            they are at most `FEW` of all, or if the measurement chose few pairs to show the rates of all.

    Raises:
        GavotteError: for an unknown method, or a pair that was never measured and cannot be guessed.
    """
    if method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
    if purpose not in PURPOSES:
        raise GavotteError(f"unknown purpose `{purpose}`", hint=f"use one of {', '.join(PURPOSES)}")
    size = len(history.hosts)
    off_diagonal = ~np.eye(size, dtype=bool)
    never = np.isnan(history.beta_Bps).all(axis=0) & off_diagonal
    unheard = [(never | ~off_diagonal).all(axis=axis) for axis in (1, 0)]
    if size > 1 and (names := [history.hosts[int(i)] for i in np.flatnonzero(unheard[0] | unheard[1])]):
        out = f"leave {'them' if len(names) > 1 else 'it'} out: " + " ".join(f"--without {name}" for name in names)
        raise GavotteError(
            f"no path of {names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)} was measured in one of its "
            "directions",
            hint="measure again" if len(names) > size - 2 else f"measure again, or {out}",
        )
    usual = history.held_out is not None or never.sum() <= FEW * off_diagonal.sum()
    if never.any() and not (usual if fill is None else fill):
        i, j = (int(x) for x in np.argwhere(never)[0])
        raise GavotteError(
            f"{int(never.sum())} of {size * (size - 1)} paths were never measured, "
            f"first {history.hosts[i]} to {history.hosts[j]}",
            hint="measure again, leave out hosts with --without, or guess the missing paths with --fill",
        )
    times = transfer_times(history)
    kept = lasting(times, seed=seed) if method == "auto" else Cut(times)
    choice = Choice(method)
    if method == "auto":
        known = kept.times
        if never.any():
            known = filled_series(known, filled(estimate(known, "median"), history.hops, seed=seed).values)
        choice = choose(known, purpose=purpose, seed=seed)
    series = kept.of(1 / history.beta_Bps, scaled=True)
    seconds_per_byte = estimate(series, choice.method)
    latency_s = estimate(kept.of(history.alpha_s), choice.method)
    guess = filled(seconds_per_byte, history.hops, seed=seed) if never.any() else None
    rate_bps = 8 / (seconds_per_byte if guess is None else guess.values)
    quiet_bps = rate_bps
    if undisturbed(choice.method) != choice.method:
        slower = seconds_per_byte / estimate(series, undisturbed(choice.method))
        quiet_bps = rate_bps * (slower if guess is None else filled(slower, history.hops, seed=seed).values)
    proven = None if history.proof is None else proven_share(history.proof.low_Bps, history.beta_Bps)
    low_bps, width = lower_bps(rate_bps, series, proven, spread=np.nan if guess is None else guess.spread)
    return Constant(
        rate_bps=rate_bps,
        undisturbed_bps=quiet_bps,
        rate_low_bps=low_bps,
        band=width,
        latency_s=latency_s if guess is None else filled(latency_s, history.hops, seed=seed).values,
        method=choice.method,
        choice=choice,
        seed=seed,
        cut=kept,
        guess=guess,
    )


def model(
    history: History,
    *,
    method: str = "auto",
    sharing: Sharing | Literal["auto"] = "auto",
    seed: int = 0,
    constant: Constant | None = None,
) -> Network:
    """Build the Network that placement uses from the snapshots of a History.

    1. Path lengths show machines, racks and pods (Choreo section 3.3.1).
    2. The History's evidence shows which groups have caps.
    3. It also shows which hosts do; see `hosts_of`.

    Args:
        history: n snapshots of N hosts.
        method: one of `METHODS`; see `find_constant`.
        sharing: links that later transfers are assumed to share; `auto` = as the evidence shows, else `hose`.
        seed: seed of the trials of `auto`.
        constant: the result of an earlier `find_constant`; method and seed are then ignored.

    Raises:
        GavotteError: for an unknown method, or a pair that was never measured.
    """
    estimated = constant if constant is not None else find_constant(history, method=method, seed=seed)
    never = np.asarray(np.isnan(history.beta_Bps).all(axis=0))
    hierarchy = hierarchy_of(history.hosts, history.hops)
    structure = structure_of(hierarchy, history.evidence)
    listed = history.in_pairs()
    source, target = listed.pairs.T
    # A guess may be above every measured rate.
    measured = (np.where(never, np.nan, each)[source, target] for each in (estimated.rate_bps, estimated.rate_low_bps))
    rate_bps, rate_low_bps = (
        _within_groups(each, never, history.hosts, structure.groups)
        for each in (estimated.rate_bps, estimated.rate_low_bps)
    )
    several_bps, connections = _several(history)
    excess = np.maximum(estimated.undisturbed_bps / estimated.rate_bps - 1, 0)
    return Network(
        format=FORMAT,
        hosts=hosts_of(listed, LastingRates(*measured), hierarchy, structure),
        rate_bps=nullable(rate_bps),
        latency_s=nullable(estimated.latency_s),
        groups=list(structure.groups),
        sharing=(structure.sharing or "hose") if sharing == "auto" else sharing,
        verdicts=list(structure.verdicts) if history.evidence else [],
        notes=[
            *hierarchy.notes,
            *_guessed(estimated, int(never.sum()) - hierarchy.size),
            *_earlier(estimated),
            *failed(structure),
            *unseen_loss(history, rate_bps, estimated.latency_s),
            *uncertain_loss(history, rate_bps, estimated.latency_s),
        ],
        rate_low_bps=nullable(rate_low_bps),
        excess=nullable(excess) if (excess > 0).any() else [],
        band=estimated.band,
        doubt=_doubts(never, estimated.cut.earlier),
        mtu_bytes=_mtu_bytes(history),
        several_bps=several_bps,
        connections=connections,
        policed=_policed(history),
        loss=_loss(history),
    )


def _several(history: History) -> tuple[list[list[float | None]], list[list[int | None]]]:
    """Return the newest `several_bps` and `connections` of each pair; empty if several were never tried."""
    if history.several_Bps is None or history.connections is None:
        return [], []
    size = range(len(history.hosts))
    several_bps: list[list[float | None]] = [[None for _ in size] for _ in size]
    connections: list[list[int | None]] = [[None for _ in size] for _ in size]
    for snapshot, i, j in np.argwhere(history.connections > 0):
        several_bps[i][j] = 8 * float(history.several_Bps[snapshot, i, j])
        connections[i][j] = int(history.connections[snapshot, i, j])
    return several_bps, connections


def _policed(history: History) -> list[list[bool | None]]:
    """Return whether each path had a policer when it was last measured; empty if none ever had."""
    if history.policed is None:
        return []
    size = range(len(history.hosts))
    policed: list[list[bool | None]] = [[None for _ in size] for _ in size]
    for snapshot, i, j in np.argwhere(np.isfinite(history.beta_Bps)):
        policed[i][j] = bool(history.policed[snapshot, i, j])
    return policed


def _loss(history: History) -> list[list[float | None]]:
    """Return the share of packets that each path loses at random; empty if none loses any."""
    shares = random_loss(history)
    if shares is None or not shares.any():
        return []
    return [[float(share) or None for share in row] for row in shares]


def _mtu_bytes(history: History) -> list[list[int | None]]:
    if history.mtu_bytes is None:
        return []
    return [[int(mtu_bytes) or None for mtu_bytes in row] for row in history.mtu_bytes]


def _within_groups(
    rate_bps: Floats, guessed: npt.NDArray[np.bool_], names: Sequence[str], groups: Sequence[Group]
) -> Floats:
    """Return the rates with guessed ones limited to the caps of the groups that each pair leaves and enters.

    Guesses are made from the rates of hosts, which do not include these caps.
    """
    rate_bps = rate_bps.copy()
    for group in groups:
        inside = np.isin(names, group.members)
        for cap_bps, crosses in (
            (group.up_bps, inside[:, None] & ~inside[None, :]),
            (group.down_bps, ~inside[:, None] & inside[None, :]),
        ):
            if cap_bps is not None:
                rate_bps[guessed & crosses] = np.fmin(rate_bps[guessed & crosses], cap_bps)
    return rate_bps


def _guessed(constant: Constant, count: int) -> list[str]:
    if constant.guess is None:
        return []
    off = (
        f"{100 * constant.guess.typical_error:.0f} %"
        if np.isfinite(constant.guess.typical_error)
        else "an unknown share"
    )
    what = "1 pair was never measured; its rate is guessed from its hosts' others"
    if count > 1:
        what = f"{count} pairs were never measured; their rates are guessed from their hosts' others"
    return [f"{what}, in the median {off} off"]


def failed(structure: Structure) -> list[str]:
    """Return a note on links of which it is not known whether hosts share them."""
    if not structure.failed:
        return []
    link, more = structure.failed[0], len(structure.failed) - 1
    return [
        f"whether hosts share {link}{f' and {more} more' * (more > 0)} is not known, and it is taken to be free; "
        "measure again, or with --sharing"
    ]


def _earlier(constant: Constant) -> list[str]:
    count = int(constant.cut.earlier.sum())
    if not count:
        return []
    what = "1 pair was measured only before its host moved; its older rate is kept"
    if count > 1:
        what = f"{count} pairs were measured only before their hosts moved; their older rates are kept"
    return [f"{what}, scaled as the host's others changed"]


def _doubts(never: npt.NDArray[np.bool_], earlier: npt.NDArray[np.bool_]) -> list[list[Doubt | None]]:
    """Return why each pair's rate is doubtful: `guessed`, `earlier` or None; empty if no pair's is."""
    words: tuple[Doubt | None, ...] = (None, "guessed", "earlier")
    codes = np.where(np.eye(len(never), dtype=bool), 0, np.where(never, 1, 2 * earlier))
    return [[words[code] for code in row] for row in codes.tolist()] if codes.any() else []
