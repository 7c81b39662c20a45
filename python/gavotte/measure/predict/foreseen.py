"""The result that a measurement will probably have, by an earlier Network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from gavotte.formats.history import History
from gavotte.formats.network import Network
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS
from gavotte.terms.hierarchy import MACHINE_HOPS, RACK_HOPS

APART_HOPS = RACK_HOPS + 2


def foreseen(
    names: Sequence[str],
    known: Network | None = None,
    *,
    assumed_bps: float = ASSUMED_RATE_BPS,
    method: str = "train",
) -> History:
    """Return the expected result of a measurement, for `cost_of_sharing` while there is none.

    Args:
        names: hosts in matrix order.
        known: an earlier Network, for rates and for hosts that share a machine or a group. Hosts that it does not have
            are assumed to share nothing.
        assumed_bps: rate of paths that it does not have.
        method: the method of the paths; experiments send trains if it does.
    """
    shape = (len(names), len(names))
    rate_bps, hops = np.full(shape, assumed_bps), np.full(shape, APART_HOPS)
    if known is not None:
        at = {name: i for i, name in enumerate(known.names)}
        machine = {host.name: host.machine for host in known.hosts}
        # Of nested groups the innermost counts.
        group = {name: g.name for g in sorted(known.groups, key=lambda g: -len(g.members)) for name in g.members}
        for (i, a), (j, b) in permutations(enumerate(names), 2):
            if a in at and b in at:
                rate_bps[i, j] = known.pair_bps(at[a], at[b]) or assumed_bps
                if machine[a] is not None and machine[a] == machine[b]:
                    hops[i, j] = MACHINE_HOPS
                elif a in group and group[a] == group.get(b):
                    hops[i, j] = RACK_HOPS
    np.fill_diagonal(rate_bps, np.nan)
    np.fill_diagonal(hops, 0)
    return History(
        alpha_s=np.full((1, *shape), np.nan),
        beta_Bps=rate_bps[None] / 8,
        time_s=np.zeros(1),
        hosts=tuple(names),
        hops=hops,
        cpus=np.ones(len(names)),
        memory_bytes=np.zeros(len(names), dtype=np.int64),
        method=method,
    )
