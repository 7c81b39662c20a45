"""What `gavotte measure` prints about paths that bulk TCP measured in place of trains."""

from __future__ import annotations

import numpy as np

from gavotte.cli.output import note
from gavotte.formats.history import BY_TCP, BY_TCP_MARK, History, Ints, PairHistory
from gavotte.formats.parts.rates import format_rate


def mark(history: History, source: int, target: int) -> str:
    """Return the mark after the newest rate of a path; empty for paths that the method measured."""
    by_tcp = history.by_tcp is not None and bool(history.by_tcp[-1, source, target])
    return BY_TCP_MARK * by_tcp


def documented(history: PairHistory) -> list[dict[str, str]]:
    """Return such paths of the newest snapshot with the reason, for `--json`."""
    if "by_tcp" not in history.values:
        return []
    names, newest = history.hosts, history.values["by_tcp"][-1]
    return [
        {"source": names[i], "target": names[j], "reason": BY_TCP[code]}
        for (i, j), code in zip(history.pairs.tolist(), newest.tolist(), strict=True)
        if code
    ]


def note_fast(history: PairHistory) -> None:
    """Print the rates of one connection and of several on fast paths; nothing if no path is fast."""
    tried = _tried(history)
    if not tried.size:
        return
    several_bps, one_bps = 8 * history.values["several_Bps"][-1], 8 * history.beta_Bps[-1, tried]
    best = int(tried[np.argmax(several_bps[tried])])
    source, target = (history.hosts[host] for host in history.pairs[best])
    least, most = (format_rate(float(pick(one_bps))) for pick in (np.min, np.max))
    note(
        f"fast: one connection carries {least} to {most} on {len(tried)} paths; "
        f"{source} to {target} carries {format_rate(float(several_bps[best]))} over "
        f"{history.values['connections'][-1, best]}"
    )


def several(history: PairHistory) -> list[dict[str, object]]:
    """Return the rates of several connections on fast paths, for `--json`."""
    return [
        {
            "source": history.hosts[history.pairs[at, 0]],
            "target": history.hosts[history.pairs[at, 1]],
            "one_bps": 8 * float(history.beta_Bps[-1, at]),
            "several_bps": 8 * float(history.values["several_Bps"][-1, at]),
            "connections": int(history.values["connections"][-1, at]),
        }
        for at in _tried(history)
    ]


def _tried(history: PairHistory) -> Ints:
    """Return which pairs were tried with several connections in the newest snapshot."""
    if not {"several_Bps", "connections"} <= history.values.keys():
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(history.values["connections"][-1] > 0)
