"""Report for each pair of a Network how its rate was found and how far to trust it, from the History behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import History, Ints
from gavotte.formats.network import Network
from gavotte.formats.parts.times import utc
from gavotte.terms.norm import TOLERANCE

WIDE = 0.8
"""An interval whose lower end is below this share of the rate is doubtful."""

MEASURED, UNKNOWN, WIDE_INTERVAL = 0, 1, 2
WORDS = (
    "measured",
    "not known",
    "wide interval",
    "no proof that the path was the limit",
    "the path was the limit",
    "a lower bound: a host was the limit",
    "a lower bound: the sender's credit for bursts was not used up",
    "guessed from what its hosts do with others",
    "measured before its host moved, and scaled",
)
"""How the rate of a pair was found; `standing` returns indices into these."""
_OF_VERDICT = np.array([3, 4, 5, 6])
"""Index into `WORDS` of each of `formats.history.VERDICTS`."""
GUESSED, EARLIER = 7, 8
SOUND = (0, 4)
SNAPSHOTS = 24
"""Most snapshots of a History that are shown."""


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a History, compared with the Network.

    Attributes:
        time: time of the snapshot, UTC.
        answered: number of directed pairs measured.
        load: median factor on the transfer times of all pairs, 1 = as in the Network; None = nothing was measured.
        off: share of measured pairs, 0 to 1, whose time differs by more than `TOLERANCE` from load x constant.
    """

    time: str
    answered: int
    load: float | None
    off: float


def aligned(history: History, network: Network) -> History:
    """Return the History of the Network's hosts, in the Network's order.

    Raises:
        GavotteError: when a host of the Network is not in the History.
    """
    missing = [name for name in network.names if name not in history.hosts]
    if missing:
        raise GavotteError(
            f"host `{missing[0]}` of the Network is not in the History", hint="use the History that it was learned from"
        )
    return history.of_hosts([history.hosts.index(name) for name in network.names])


def standing(network: Network, history: History | None) -> Ints:
    """Return for each pair how its rate was found: (N, N) indices into `WORDS`. The diagonal has no meaning."""
    size = len(network.hosts)
    rates = network.to_numpy()
    word = np.full((size, size), MEASURED)
    if history is not None and history.proof is not None:
        measured = np.isfinite(history.beta_Bps)
        # The most frequent verdict of a pair's values. On a tie, "the path was the limit" counts first.
        order = [1, 0, 2, 3]
        counts = np.stack([((history.proof.verdict == code) & measured).sum(axis=0) for code in order])
        word = np.where(measured.any(axis=0), _OF_VERDICT[order][counts.argmax(axis=0)], word)
    wide = network.to_numpy("rate_low_bps") < WIDE * rates
    word = np.where(wide & np.isin(word, SOUND), WIDE_INTERVAL, word)
    if network.doubt:
        doubt = np.array([[each or "" for each in row] for row in network.doubt])
        word = np.where(doubt == "guessed", GUESSED, np.where(doubt == "earlier", EARLIER, word))
    return np.where(np.isnan(rates), UNKNOWN, word)


def over_time(network: Network, history: History) -> list[Snapshot]:
    """Compare snapshots of the History with the Network: all of them, or `SNAPSHOTS` evenly chosen ones."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = np.log(network.to_numpy() / (8 * history.beta_Bps))
    rows = []
    for k in np.unique(np.linspace(0, history.snapshots - 1, SNAPSHOTS).round().astype(int)).tolist():
        known = slower[k][np.isfinite(slower[k])]
        load = float(np.median(known)) if known.size else 0.0
        rows.append(
            Snapshot(
                time=utc(float(history.time_s[k])),
                answered=int(known.size),
                load=float(np.exp(load)) if known.size else None,
                off=float((np.abs(np.expm1(known - load)) > TOLERANCE).mean()) if known.size else 0.0,
            )
        )
    return rows
