"""The star-knapsack bound: the least bytes that a task must exchange with other machines.

Partners on the same machine as a task do not load its host's caps. How many bytes can stay is a knapsack problem. Its
fractional relaxation is never too low. The linear relaxation of the whole program proves nothing, because spreading
every task evenly over all hosts costs no time at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gavotte import _core

Edge = tuple[int, int, int]
"""Source unit, target unit, bytes."""


def must_leave(
    compact: _core.Compact, edges: Sequence[Edge], mates: Sequence[frozenset[int]]
) -> dict[tuple[int, int, bool], int]:
    """Return the least bytes that leave or enter the machine, by unit, host and direction (True = sent)."""
    partners: dict[tuple[int, bool], Counter[int]] = {}
    for source, target, size in edges:
        partners.setdefault((source, True), Counter())[target] += size
        partners.setdefault((target, False), Counter())[source] += size
    needs = compact.nano_cores
    apart = {(one, other) for pair in compact.apart for one, other in (pair, pair[::-1])}
    least_bytes = {}
    for (unit, sends), sizes in partners.items():
        ranked = sorted(sizes.items(), key=lambda item: (-item[1] / max(needs[item[0]], 1e-3), item[0]))
        for host in range(len(mates)):
            free = max(sum(compact.host_nano_cores[mate] for mate in mates[host]) - needs[unit], 0)
            leaves = 0
            for other, size in ranked:
                allowed = compact.allowed[other]
                elsewhere = allowed is not None and mates[host].isdisjoint(allowed)
                if elsewhere or ((unit, other) in apart and len(mates[host]) == 1):
                    leaves += size
                elif needs[other] <= free:
                    free -= needs[other]
                else:
                    leaves += size - size * free // needs[other]
                    free = 0
            least_bytes[unit, host, sends] = leaves
    return least_bytes
