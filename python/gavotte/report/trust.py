"""How far each pair's rate can be trusted, and how it came to be, from a Network and the History behind it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import History, Ints
from gavotte.formats.network import Network
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
    "a lower bound: a token bucket was not emptied",
    "guessed from what its hosts do with others",
    "measured before its host moved, and scaled",
)
"""What a pair's number stands for."""
_OF_VERDICT = np.array([3, 4, 5, 6])
"""Which of them is which of `VERDICTS`."""
GUESSED, EARLIER = 7, 8
SOUND = (0, 4)
SNAPSHOTS = 24
"""Shown at most."""


@dataclass(frozen=True)
class Snapshot:
    """One of a History against the Network.

    Attributes:
        time: UTC.
        answered: directed pairs measured.
        load: factor on all transfer times at once, 1 = as in the Network; None where nothing was measured.
        off: share of pairs more than `TOLERANCE` off load x constant.
    """

    time: str
    answered: int
    load: float | None
    off: float


def aligned(history: History, network: Network) -> History:
    """The History with the Network's hosts in its order.

    Raises:
        GavotteError: when a host of the Network is not in it.
    """
    missing = [name for name in network.names if name not in history.hosts]
    if missing:
        raise GavotteError(
            f"host `{missing[0]}` of the Network is not in the History", hint="use the History that it was learned from"
        )
    return history.of_hosts([history.hosts.index(name) for name in network.names])


def standing(network: Network, history: History | None) -> Ints:
    """(N, N) index into `WORDS`; the diagonal says nothing."""
    size = len(network.hosts)
    rates = network.to_numpy()
    word = np.full((size, size), MEASURED)
    if history is not None and history.proof is not None:
        measured = np.isfinite(history.beta_Bps)
        # Of the verdicts of a pair's values the most frequent; of equals, the path's own first.
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
    """Snapshots against the Network; of many, `SNAPSHOTS` evenly chosen."""
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


def utc(time_s: float) -> str:
    """A Unix time for people."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
