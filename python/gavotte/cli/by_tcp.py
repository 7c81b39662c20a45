"""What `gavotte measure` prints about paths that bulk TCP measured in place of trains."""

from __future__ import annotations

import numpy as np

from gavotte.cli.output import note
from gavotte.formats.history import BY_TCP, BY_TCP_MARK, History
from gavotte.formats.parts.rates import format_rate


def mark(history: History, source: int, target: int) -> str:
    """Return the mark after the newest rate of a path; empty for paths that the method measured."""
    by_tcp = history.by_tcp is not None and bool(history.by_tcp[-1, source, target])
    return BY_TCP_MARK * by_tcp


def documented(history: History) -> list[dict[str, str]]:
    """Return such paths of the newest snapshot with the reason, for `--json`."""
    if history.by_tcp is None:
        return []
    names, newest = history.hosts, history.by_tcp[-1]
    return [
        {"source": names[i], "target": names[j], "reason": BY_TCP[newest[i, j]]}
        for i in range(len(names))
        for j in range(len(names))
        if newest[i, j]
    ]


def note_fast(history: History) -> None:
    """Print the rates of one connection and of several on fast paths; nothing if no path is fast."""
    if history.several_Bps is None or history.connections is None:
        return
    several_bps, connections = 8 * history.several_Bps[-1], history.connections[-1]
    tried = np.argwhere(connections > 0)
    if not tried.size:
        return
    i, j = max(map(tuple, tried), key=lambda pair: several_bps[pair])
    one_bps = 8 * history.beta_Bps[-1]
    least, most = (format_rate(pick(one_bps[connections > 0])) for pick in (np.min, np.max))
    note(
        f"fast: one connection carries {least} to {most} on {len(tried)} paths; "
        f"{history.hosts[i]} to {history.hosts[j]} carries {format_rate(several_bps[i, j])} over {connections[i, j]}"
    )


def several(history: History) -> list[dict[str, object]]:
    """Return the rates of several connections on fast paths, for `--json`."""
    if history.several_Bps is None or history.connections is None:
        return []
    return [
        {
            "source": history.hosts[i],
            "target": history.hosts[j],
            "one_bps": 8 * float(history.beta_Bps[-1, i, j]),
            "several_bps": 8 * float(history.several_Bps[-1, i, j]),
            "connections": int(history.connections[-1, i, j]),
        }
        for i, j in np.argwhere(history.connections[-1] > 0)
    ]
