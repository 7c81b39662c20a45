"""The loop: measure a little, see what moved, calibrate only that, say so. Everything it touches is passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle
from typing import Literal

import numpy as np

from gavotte.errors import BusyError, GavotteError
from gavotte.watch.detect import Change, Edge, EdgeCusum, movers
from gavotte.watch.observing import Operation, Tail, TreeWatch

Measure = Callable[[Collection[Edge]], Mapping[Edge, float]]
"""Seconds that one transfer takes on each pair asked for; what does not answer is left out. Raises `BusyError` when
others measure there."""

Alarm = Literal["cusum", "threshold"]

REPEATS = 3
"""Measurements of what is calibrated again; their median counts."""

MOVED = 0.10
"""What differs by less after calibration had not moved."""

SILENT_TICKS = 2
"""Ticks in a row that a host may miss before it counts as gone."""

RETRY_TICKS = 5
"""How often hosts that are gone are asked again."""

MOST_ALL_PAIRS = 32
"""Hosts of which all pairs are tried where nobody is here: with more a tick would take minutes."""

MOST_TREES = 256
"""Trees and sizes that are followed: a program whose messages have ever new sizes must not fill the memory."""

MOST_NAMED = 8
"""Pairs in one line."""


@dataclass(frozen=True)
class Move:
    """One pair whose constant is another now; `before_s` is None where there was none."""

    source: str
    target: str
    before_s: float | None
    after_s: float


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        kind: `moved` pairs have another constant; `false-alarm`, calibration found the old one; hosts `came` or are
            `gone`.
        tick: when, counted from 1.
        hosts: whom it is about; of `moved`, the hosts whose pairs were calibrated again.
        moves: the pairs that have another constant now.
        calibrated: how many pairs were measured again.
        alarm: what the alarm rests on: the `cusum` of an edge, or the `threshold` on a whole operation.
        movers: hosts all of whose pairs that were measured again moved: they did, rather than single links.
    """

    kind: Literal["moved", "false-alarm", "came", "gone"]
    tick: int
    hosts: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    calibrated: int = 0
    alarm: Alarm | None = None
    movers: tuple[str, ...] = ()


class Watcher:
    """Watches a network with one pair out of and one pair into each host.

    The pairs form a ring, so that one tick takes two or three rounds of disjoint pairs whatever the number of hosts.
    When the CUSUM of an edge alarms, all pairs of its sender outwards and of its receiver inwards are measured again.

    Attributes:
        expected_s: seconds of one transfer of each pair.
        hosts: who is listed, of those that the pairs have.
        gone: who of them does not answer.
        waiting: whether another run held the agents when they were last asked.
    """

    def __init__(
        self,
        expected_s: Mapping[Edge, float],
        width: float,
        measure: Measure | None,
        *,
        seed: int = 0,
        threshold: float | None = None,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Starts from what is believed.

        Args:
            expected_s: seconds of one transfer of each pair.
            width: of the band, standard deviation of logarithms.
            measure: measures some pairs; may take its time, and raises nothing for hosts that do not answer. None: what
                operations show is believed as it is.
            seed: of the ring.
            threshold: share of its expected time by which an operation may be off before what is off in it is
                calibrated, as in the RPCA paper's Algorithm 1; None = only the CUSUM alarms.
            complain: told, once, of each pair of an operation of which nothing is expected.

        Raises:
            GavotteError: with fewer than two hosts, or a threshold and nothing to calibrate by.
        """
        if threshold is not None and measure is None:
            raise GavotteError("a threshold on one operation cannot tell a spike", hint="give hosts to calibrate by")
        self.expected_s = dict(expected_s)
        self.hosts = sorted({host for edge in expected_s for host in edge})
        if len(self.hosts) < 2:
            raise GavotteError("one host has no path to watch", hint="give a Network of at least two hosts")
        self.gone: set[str] = set()
        self._width = width
        self._measure = measure
        self._rng = np.random.default_rng(seed)
        self._silent: dict[str, int] = {}
        self._tick = 0
        self._ring: list[Edge] = []
        self._cusum: EdgeCusum | None = None
        self._trees: dict[str, TreeWatch] = {}
        self._threshold = threshold
        self._complain = complain
        self._told: set[Edge] = set()
        self.waiting = False
        self._draw()

    def tick(self, hosts: Collection[str] | None = None) -> list[Event]:
        """Measures the ring once and follows up on what it shows.

        Args:
            hosts: who is there according to the inventory; None = as before.

        Returns:
            What happened, in order; nothing most of the time, or when others measure there.
        """
        self._tick += 1
        events: list[Event] = []
        try:
            self._look(hosts, events)
            self.waiting = False
        except BusyError as error:  # what was not looked at is in the next tick
            self._wait_for(error)
        return events

    def _look(self, hosts: Collection[str] | None, events: list[Event]) -> None:
        """One tick; adds to the events as they happen."""
        if hosts is not None:
            events += self._unlisted(hosts)
            events += self._come(sorted(set(hosts) - set(self.hosts)))
        if self.gone and self._tick % RETRY_TICKS == 0:
            events += self._ask_again()
        if self._cusum is None or self._measure is None:
            return
        times = self._measure(self._ring)
        events += self._heard(times)
        if any(event.kind in ("gone", "came") for event in events):
            return
        if changes := self._cusum.observe(np.array([times.get(edge, np.nan) for edge in self._ring])):
            events.append(self._follow(changes))

    def _wait_for(self, error: BusyError) -> None:
        """Says, once, that others measure."""
        if not self.waiting:
            self._complain(f"{error}; looking again when it has ended")
        self.waiting = True

    def observe(self, operation: Operation) -> list[Event]:
        """Takes the times of an operation that ran anyway, and follows up on what they show.

        Args:
            operation: its edges; those of hosts that the Network does not know count for nothing.

        Returns:
            What happened; nothing most of the time.
        """
        if self._measure is None:
            self._tick += 1
        tree = self._tree(operation.tree)
        known = {edge: took_s for edge, took_s in operation.seconds.items() if edge in self.expected_s}
        if new := {edge for edge in operation.seconds if edge not in known and edge not in self._told}:
            self._told |= new
            pairs = ", ".join(f"{source} to {target}" for source, target in sorted(new)[:MOST_NAMED])
            more = f" and {len(new) - MOST_NAMED} more" if len(new) > MOST_NAMED else ""
            self._complain(f"the Network has no rate of what operations use, which counts for nothing: {pairs}{more}")
        try:
            return self._judged(tree, Operation(operation.tree, known))
        except BusyError as error:  # what has changed shows in later operations too
            self._wait_for(error)
            return []

    def _judged(self, tree: TreeWatch, taken: Operation) -> list[Event]:
        changes = tree.take(taken)
        if not changes:
            # One operation may be off by a spike: what calibration does not find is forgotten.
            off = tree.exceeding(taken, self._threshold) if self._threshold is not None else []
            return [self._follow(off, "threshold")] if off else []
        event = self._follow(changes) if self._measure is not None else self._believe(changes)
        moved = {(move.source, move.target) for move in event.moves}
        for change in changes:
            # What calibration did not find lies between the operation's own messages, and lasts as long as they do.
            if (change.source, change.target) not in moved:
                tree.rebase((change.source, change.target), change.factor)
        return [event]

    def _tree(self, name: str) -> TreeWatch:
        """What is known of a tree; of many, that which was used longest ago is forgotten."""
        tree = self._trees.pop(name, None) or TreeWatch(self._width)
        self._trees[name] = tree
        if len(self._trees) > MOST_TREES:
            del self._trees[next(iter(self._trees))]
        return tree

    def _believe(self, changes: Sequence[Change]) -> Event:
        """Takes the factors that operations show for those of the pairs."""
        moves = []
        for change in changes:
            edge = (change.source, change.target)
            before_s = self.expected_s[edge]
            self.expected_s[edge] = before_s * change.factor
            moves.append(Move(*edge, before_s, before_s * change.factor))
        self._rebase(moves)
        hosts = tuple(sorted({host for change in changes for host in (change.source, change.target)}))
        return Event("moved", self._tick, hosts, tuple(moves), alarm="cusum")

    def _follow(self, changes: Sequence[Change], alarm: Alarm = "cusum") -> Event:
        """Calibrates what may have changed, and tells what has."""
        senders, receivers = {c.source for c in changes}, {c.target for c in changes}
        here = self._here()
        pairs = {(s, t) for s in senders for t in here if t != s} | {(s, t) for t in receivers for s in here if s != t}
        found = self._calibrated(pairs)
        moves = self._moved(found)
        for edge in {(c.source, c.target) for c in changes} | {(m.source, m.target) for m in moves}:
            if self._cusum is not None and edge in self._ring:
                self._cusum.expect(*edge, self.expected_s[edge])
        self._rebase(moves)
        kind: Literal["moved", "false-alarm"] = "moved" if moves else "false-alarm"
        hosts, moved_whole = tuple(sorted(senders | receivers)), tuple(movers(moves, found))
        return Event(kind, self._tick, hosts, moves, len(pairs), alarm, moved_whole)

    def _moved(self, found: Mapping[Edge, float]) -> tuple[Move, ...]:
        """Expects what was measured where that is not what was expected."""
        moves = []
        for (source, target), after_s in sorted(found.items()):
            before_s = self.expected_s.get((source, target))
            if before_s is None or abs(after_s / before_s - 1) > MOVED:
                moves.append(Move(source, target, before_s, after_s))
                self.expected_s[source, target] = after_s
        return tuple(moves)

    def _rebase(self, moves: Sequence[Move]) -> None:
        """Has every tree expect what moved, or it would find the same again."""
        for move in moves:
            if move.before_s is None:
                continue
            for tree in self._trees.values():
                tree.rebase((move.source, move.target), move.after_s / move.before_s)

    def _calibrated(self, pairs: Collection[Edge]) -> dict[Edge, float]:
        """Median of `REPEATS` measurements; pairs without any are left out."""
        heard: dict[Edge, list[float]] = {}
        for _ in range(REPEATS if self._measure is not None else 0):
            assert self._measure is not None
            for edge, seconds in self._measure(sorted(pairs)).items():
                heard.setdefault(edge, []).append(seconds)
        return {edge: float(np.median(seconds)) for edge, seconds in heard.items()}

    def _heard(self, times: Mapping[Edge, float]) -> list[Event]:
        """Counts who is silent; who has been for too long, and answers nobody else either, is gone."""
        heard = {host for edge in times for host in edge}
        for host in self._here():
            self._silent[host] = 0 if host in heard else self._silent.get(host, 0) + 1
        silent = [host for host in self._here() if self._silent[host] >= SILENT_TICKS]
        # Both neighbours of a host in the ring may have died, and it lives.
        alive = self._answering(silent, sorted(heard)) if silent else set()
        self._silent.update(dict.fromkeys(alive & set(silent), 0))
        return self._leave(set(silent) - alive)

    def _answering(self, hosts: Sequence[str], here: Sequence[str]) -> set[str]:
        """Who of `hosts` answers one of those that are here, or, where nobody is, who answers whom.

        All pairs in one measurement then: one costs nothing that has a dead agent, and any two that live are found. Of
        many hosts some pairs, drawn anew each time.
        """
        assert self._measure is not None
        # Each asks another, drawn anew: one that cannot reach a host must not keep it out for good.
        near = cycle([here[number] for number in self._rng.permutation(len(here))])
        pairs = list(zip(hosts, near, strict=False)) if here else self._some_pairs(hosts)
        return {host for edge in self._measure(pairs) for host in edge} if pairs else set()

    def _some_pairs(self, hosts: Sequence[str]) -> list[Edge]:
        if len(hosts) <= MOST_ALL_PAIRS:
            return list(combinations(hosts, 2))
        order = [hosts[number] for number in self._rng.permutation(len(hosts))]
        return [(order[i], order[i - step]) for step in range(1, MOST_ALL_PAIRS // 2) for i in range(len(order))]

    def _leave(self, lost: set[str]) -> list[Event]:
        if not lost:
            return []
        self.gone |= lost
        self._draw()
        return [Event("gone", self._tick, tuple(sorted(lost)))]

    def _unlisted(self, hosts: Collection[str]) -> list[Event]:
        """Leaves out what the inventory has lost."""
        stay = set(self.hosts) & set(hosts)
        events = self._leave(set(self.hosts) - self.gone - stay)
        self.hosts = sorted(stay)
        self.gone &= stay
        return events

    def _ask_again(self) -> list[Event]:
        if self._measure is None:
            return []
        here = self._here()
        # One alone is in no ring, so nobody knows whether it is still there.
        heard = self._answering(sorted(self.gone), here) if len(here) > 1 else self._answering(self.hosts, [])
        return self._come(sorted(self.gone & heard))

    def _come(self, hosts: Sequence[str]) -> list[Event]:
        """Calibrates all pairs of hosts that are new or back; until they have answered they count as gone."""
        if not hosts:
            return []
        here = sorted({*self._here(), *hosts})
        self.hosts = sorted({*self.hosts, *hosts})
        self.gone |= set(hosts)
        pairs = {(s, t) for s in here for t in here if s != t and (s in hosts or t in hosts)}
        found = self._calibrated(pairs)
        answered = {host for edge in found for host in edge}
        self.gone -= set(hosts) & answered
        moves = self._moved(found)
        self._rebase(moves)
        self._draw()
        came = tuple(host for host in hosts if host in answered)
        return [Event("came", self._tick, came, moves, len(pairs))] if came else []

    def _here(self) -> list[str]:
        return [host for host in self.hosts if host not in self.gone]

    def _draw(self) -> None:
        """A ring of all who are here, and what it should take."""
        here = self._here()
        self._silent = {}
        ring = [here[number] for number in self._rng.permutation(len(here))]
        edges = list(zip(ring, ring[1:] + ring[:1], strict=True)) if len(ring) > 1 else []
        self._ring = [edge for edge in edges if edge in self.expected_s]
        expected = np.array([self.expected_s[edge] for edge in self._ring])
        self._cusum = EdgeCusum(self._ring, expected, self._width) if self._ring else None


def watch(
    watcher: Watcher,
    *,
    every_s: float,
    wait: Callable[[float], bool],
    report: Callable[[Event], None],
    hosts: Callable[[], Collection[str]] | None = None,
    count: int | None = None,
) -> int:
    """Ticks until told to stop.

    Args:
        watcher: what to tick.
        every_s: pause between ticks.
        wait: waits so many seconds; true = stop.
        report: told of each event, at once.
        hosts: who is there now, asked at each tick; None = always the same.
        count: ticks at most, those not counted that found the agents held; None = no end.

    Returns:
        Ticks taken.
    """
    taken = 0
    while count is None or taken < count:
        for event in watcher.tick(hosts() if hosts is not None else None):
            report(event)
        taken += not watcher.waiting
        if taken == count or wait(every_s):
            break
    return taken


def follow(
    watcher: Watcher,
    tail: Tail,
    *,
    every_s: float,
    wait: Callable[[float], bool],
    report: Callable[[Event], None],
    count: int | None = None,
) -> int:
    """Takes operations as they are written, until told to stop.

    Args:
        watcher: what to tell of them.
        tail: where they come from.
        every_s: pause between two looks.
        wait: as for `watch`.
        report: as for `watch`.
        count: operations at most; None = no end.

    Returns:
        Operations taken.
    """
    taken = 0
    while True:
        for operation in tail.read():
            for event in watcher.observe(operation):
                report(event)
            taken += 1
            if taken == count:
                return taken
        if wait(every_s):
            return taken
