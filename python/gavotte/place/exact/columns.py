"""Columns: every set of tasks that one host can hold, with the least bytes that the host must then exchange.

The bytes that a host sends depend only on the set of tasks on it. A set whose bytes take longer than the time to beat
cannot be on a host that slow. Choosing one set for each host, with every task in one of them, is a set partition. Its
linear relaxation is strong, where that of single tasks is always zero.

The model proved three all-to-all applications of 16 and 20 tasks in 0.5 to 7 s that the compact model left open after
20 s. On others, with many sets that all fit, the compact model is faster. Both therefore run at the same time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gavotte import _core
from gavotte.place.columns import Instance
from gavotte.place.exact.links import machines

MOST_SETS = 6_000
"""With more sets of tasks than this, the model grows faster than the proof gets shorter."""

_Ends = list[dict[int, int]]
"""For each unit, its partners and the bytes that it sends to them, or receives from them."""


@dataclass(frozen=True)
class Column:
    """A set of units that one host can run together, with the least time that its traffic takes.

    Attributes:
        units: the units, as indices.
        host: the host, as an index.
        least_s: for each phase, the least seconds that the set's bytes take on the host's links.
    """

    units: tuple[int, ...]
    host: int
    least_s: tuple[float, ...]


def host_columns(instance: Instance, cap_s: float) -> list[Column] | None:
    """Return every set of units on every host that can be part of a placement of at most `cap_s` seconds.

    Args:
        instance: what to place.
        cap_s: maximum completion time of a placement, in seconds.

    Returns:
        The columns; None if there are too many sets for them to help.
    """
    compact = instance.core.compact()
    sets = _sets(compact)
    if sets is None:
        return None
    loads = _Loads(instance, compact)
    columns = []
    for units in sets:
        cores = sum(compact.nano_cores[unit] for unit in units)
        memory = sum(compact.memory_bytes[unit] for unit in units)
        storage = sum(compact.storage_bytes[unit] for unit in units)
        loads.choose(units)
        for host in range(len(instance.hosts)):
            if cores > compact.host_nano_cores[host]:
                continue
            # An unlimited amount is larger than any sum.
            if memory > compact.host_memory_bytes[host] or storage > compact.host_storage_bytes[host]:
                continue
            if not all(_allowed(compact, unit, host) for unit in units):
                continue
            least_s = loads.on(host)
            if sum(least_s) <= cap_s * (1 + 1e-9):
                columns.append(Column(units, host, least_s))
    return columns


def _allowed(compact: _core.Compact, unit: int, host: int) -> bool:
    hosts = compact.allowed[unit]
    return hosts is None or host in hosts


def _sets(compact: _core.Compact) -> list[tuple[int, ...]] | None:
    """Return all sets of units whose cores fit the largest host and that may share it; None above `MOST_SETS`."""
    most = max(compact.host_nano_cores)
    apart = set(compact.apart)
    sets: list[tuple[int, ...]] = []

    def grow(first: int, room: int, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for unit in range(first, len(compact.members)):
            if compact.nano_cores[unit] <= room and not any((other, unit) in apart for other in (*chosen, unit)):
                larger = (*chosen, unit)
                yield larger
                yield from grow(unit + 1, room - compact.nano_cores[unit], larger)

    for units in grow(0, most, ()):
        sets.append(units)
        if len(sets) > MOST_SETS:
            return None
    return sets


class _Loads:
    """Least time that a chosen set of units takes to exchange its bytes, on any host."""

    def __init__(self, instance: Instance, compact: _core.Compact) -> None:
        self.instance, self.compact = instance, compact
        self.mates = machines(instance)
        count, phases = len(compact.members), range(len(instance.phases))
        self.sent: list[_Ends] = [[{} for _ in range(count)] for _ in phases]
        self.heard: list[_Ends] = [[{} for _ in range(count)] for _ in phases]
        for source, target, size, phase in compact.edges:
            self.sent[phase][source][target] = self.sent[phase][source].get(target, 0) + size
            self.heard[phase][target][source] = self.heard[phase][target].get(source, 0) + size
        self.out_bps = [self._rate(host, sends=True) for host in range(len(self.mates))]
        self.in_bps = [self._rate(host, sends=False) for host in range(len(self.mates))]
        self.outside: list[tuple[Counter[int], Counter[int]]] = []

    def choose(self, units: Sequence[int]) -> None:
        """Choose the set of units for which `on` returns times."""
        inside = set(units)

        def beyond(ends: _Ends) -> Counter[int]:
            sizes: Counter[int] = Counter()
            for unit in units:
                for other, size in ends[unit].items():
                    if other not in inside:
                        sizes[other] += size
            return sizes

        self.outside = [(beyond(sent), beyond(heard)) for sent, heard in zip(self.sent, self.heard, strict=True)]

    def on(self, host: int) -> tuple[float, ...]:
        """Return the least seconds of each phase if the chosen set is on this host."""
        return tuple(
            max(self._seconds(sent, host, self.out_bps[host]), self._seconds(heard, host, self.in_bps[host]))
            for sent, heard in self.outside
        )

    def _rate(self, host: int, *, sends: bool) -> float:
        """Return the rate in bit/s of all links out of a host, or into it, together.

        A hose cap does not limit traffic within the host's machine.
        """
        network, others = self.instance.network, range(len(self.mates))
        rates = [network.pair_bps(host, n) if sends else network.pair_bps(n, host) for n in others]
        if network.sharing == "pipe":
            return sum(rate for other, rate in enumerate(rates) if other != host)
        far = sum(rate for other, rate in enumerate(rates) if other not in self.mates[host])
        return min(far, network.egress_bps(host) if sends else network.ingress_bps(host))

    def _seconds(self, outside: Counter[int], host: int, rate_bps: float) -> float:
        size: float = outside.total()
        if self.instance.network.sharing != "pipe" and len(self.mates[host]) > 1:
            size -= self._beside(outside, host)
        if size <= 0 or rate_bps == math.inf:
            return 0.0
        return 8 * size / rate_bps if rate_bps > 0 else math.inf

    def _beside(self, outside: Counter[int], host: int) -> float:
        """Return the most bytes that can stay on the host's machine, by a fractional knapsack of partners."""
        needs = self.compact.nano_cores
        free = sum(self.compact.host_nano_cores[mate] for mate in self.mates[host] if mate != host)
        stays = 0.0
        for other, size in sorted(outside.items(), key=lambda item: (-item[1] / max(needs[item[0]], 1e-3), item[0])):
            if needs[other] > free:
                return stays + size * free / needs[other]
            free -= needs[other]
            stays += size
        return stays
