"""A lower bound on the completion time by the tasks with most traffic: the least bytes on their hosts' links.

Partners that join the task take some of its bytes off the host's links, but bring their own. Choosing the partners is a
minimum cut with a budget of cores. Its linear relaxation takes HiGHS half a second. It was within 0.3 % of the truth in
power-law graphs of 10,000 tasks. The star-knapsack bound, which lets partners join for free, was 14 and 25 % short. A
host reaches the hosts on its machine past its caps, so partners may be on those at no cost.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.place.columns import Instance
from gavotte.place.exact.installed import HIGHS, solver_lacking
from gavotte.place.exact.solver import race

logger = logging.getLogger(__name__)

CHILD = HIGHS

HUBS = 2
"""Number of tasks examined, each both on a machine shared with other hosts and on any other host."""

MOST_EDGES = 100_000
"""Most transfers. With more, the relaxation takes longer than it is worth."""

SAFE = 1e-6
"""Share by which the bound is lowered. The solver's tolerances are smaller by three orders of magnitude."""

_Row = tuple[float, float, list[tuple[int, float]]]
INF = float("inf")


@dataclass(frozen=True)
class _Kind:
    """The most that any host of one kind offers, taken separately for each attribute.

    Attributes:
        nano_cores: nano-cores of the host.
        around: nano-cores of all hosts that it reaches past its caps: itself alone, or its machine.
        leave_bps: rate from these hosts to all others.
        enter_bps: rate from all others to these hosts.
    """

    nano_cores: int
    around: int
    leave_bps: float
    enter_bps: float


def hub_bound_s(
    instance: Instance, *, limit_s: float, strict: bool, tick: Callable[[], object] = lambda: None
) -> tuple[float, bool]:
    """Return a lower bound on the completion time, by the tasks that exchange most bytes.

    Args:
        instance: the problem.
        limit_s: time limit by the clock, in seconds.
        strict: end soon after the limit at the latest.
        tick: called several times a second.

    Returns:
        The bound in seconds, 0 if none is found or HiGHS is not installed, and whether the clock or a failed solver cut
        the work short.
    """
    compact = instance.core.compact()
    if len(compact.edges) > MOST_EDGES or solver_lacking(CHILD) is not None:
        return 0.0, False
    sent, received = Counter[int](), Counter[int]()
    for source, target, size, _ in compact.edges:
        sent[source] += size
        received[target] += size
    most = {unit: max(sent[unit], received[unit]) for unit in sent.keys() | received.keys()}
    programs: list[_Program] = []
    for hub in sorted((unit for unit in most if most[unit] > 0), key=lambda unit: (-most[unit], unit))[:HUBS]:
        kinds = _kinds(instance.core, compact.nano_cores[hub])
        # A hub that may run on a host without a rate limit gives no bound.
        if all(0 < min(kind.leave_bps, kind.enter_bps) < INF for kind in kinds):
            programs += [_Program(compact, hub, kind, most[hub]) for kind in kinds]
    requests = [program.request(limit_s) for program in programs]
    try:
        answers = race(CHILD, requests, limit_s, lambda *_: False, strict=strict, tick=tick)
    except GavotteError as error:
        # A placement does not need this bound.
        logger.info("no bound by the tasks that exchange most: %s", error)
        return 0.0, True
    least_s: dict[int, float] = {}
    stopped = False
    for program, answer in zip(programs, answers, strict=True):
        bound_s = 0.0
        if answer is not None and answer["status"] == "optimal":
            bound_s = float(answer["bound"]) * program.scale_s * (1 - SAFE)
        else:
            stopped = True
        least_s[program.hub] = min(bound_s, least_s.get(program.hub, INF))
    return max(least_s.values(), default=0.0), stopped


def _kinds(core: _core.Problem, nano_cores: int) -> list[_Kind]:
    """Return the hosts with room for `nano_cores`: those that share a machine, and the others."""
    alone: list[_Kind] = []
    sharing: list[_Kind] = []
    for offered, leave_bps, enter_bps, machine in core.offers():
        if offered < nano_cores:
            continue
        if machine is None:
            alone.append(_Kind(offered, offered, leave_bps, enter_bps))
        else:
            sharing.append(_Kind(offered, *machine))
    return [
        _Kind(
            max(kind.nano_cores for kind in kinds),
            max(kind.around for kind in kinds),
            max(kind.leave_bps for kind in kinds),
            max(kind.enter_bps for kind in kinds),
        )
        for kinds in (alone, sharing)
        if kinds
    ]


class _Program:
    """Linear program of the units on a hub's host and on its machine. Times are in units of `scale_s`, near 1."""

    def __init__(self, compact: _core.Compact, hub: int, kind: _Kind, size: int) -> None:
        self.hub = hub
        self._compact = compact
        self._upper: list[float] = []
        self._rows: list[_Row] = []
        self.scale_s = 8 * size / min(kind.leave_bps, kind.enter_bps)
        phases = 1 + max(phase for *_, phase in compact.edges)
        self._times = [self._column(INF) for _ in range(phases)]
        host_columns = machine_columns = self._place(kind.nano_cores)
        if kind.around > kind.nano_cores:
            machine_columns = self._place(kind.around)
            self._rows += [
                (0.0, INF, [(far, 1.0), (near, -1.0)]) for near, far in zip(host_columns, machine_columns, strict=True)
            ]
        for rate_bps, sends in ((kind.leave_bps, True), (kind.enter_bps, False)):
            if rate_bps < INF:
                self._load(host_columns, machine_columns, rate_bps, sends=sends)

    def request(self, limit_s: float) -> dict[str, object]:
        """Return the program as a request for the solver's process."""
        cost = [0.0] * len(self._upper)
        for column in self._times:
            cost[column] = 1.0
        return {
            "cost": cost,
            "upper": self._upper,
            "binaries": 0,
            "rows": self._rows,
            "limit_s": limit_s,
            "seed": 0,
        }

    def _column(self, upper: float) -> int:
        self._upper.append(upper)
        return len(self._upper) - 1

    def _place(self, nano_cores: int) -> list[int]:
        """Return columns that say which units are at a place with this many cores. The hub is one of them."""
        needs = self._compact.nano_cores
        at = [self._column(float(need <= nano_cores)) for need in needs]
        self._rows.append((1.0, 1.0, [(at[self.hub], 1.0)]))
        taken = [(column, need / nano_cores) for column, need in zip(at, needs, strict=True) if need > 0]
        self._rows.append((0.0, 1.0, taken))
        return at

    def _load(self, inner: list[int], outer: list[int], rate_bps: float, *, sends: bool) -> None:
        """Add rows: a phase is at least as long as the bytes between units in `inner` and units not in `outer` take.

        With `sends` these are the bytes from `inner`, otherwise those to it.
        """
        through: list[list[tuple[int, float]]] = [[] for _ in self._times]
        for source, target, size, phase in self._compact.edges:
            near, far = (source, target) if sends else (target, source)
            crosses = self._column(1.0)
            self._rows.append((0.0, INF, [(crosses, 1.0), (inner[near], -1.0), (outer[far], 1.0)]))
            through[phase].append((crosses, -8 * size / rate_bps / self.scale_s))
        self._rows += [(0.0, INF, [(column, 1.0), *terms]) for column, terms in zip(self._times, through, strict=True)]
