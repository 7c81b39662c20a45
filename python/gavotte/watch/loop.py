"""Run the loop of a watch: measure a few pairs, detect changes, calibrate only those pairs, and report them.

The caller passes in every function that measures, waits or reports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gavotte.errors import BusyError, GavotteError
from gavotte.watch.detect import Change, Edge, movers
from gavotte.watch.expecting import Expected, Measure, Shift
from gavotte.watch.observing import Operation, Tail, TreeWatch
from gavotte.watch.ring import Ring
from gavotte.watch.trees import Trees

Alarm = Literal["cusum", "threshold"]
Kind = Literal["moved", "false-alarm", "renewed", "came", "gone"]

MOST_MOVED = 0.5
"""Share of all pairs, 0 to 1. If more have changed since all were last measured, the other times are outdated too."""

RETRY_TICKS = 5
"""Number of ticks between two attempts to reach hosts that are gone."""


@dataclass(frozen=True)
class Event:
    """A change of the network or its hosts that a watch detected, or a false alarm.

    Attributes:
        kind: `moved`, pairs have a new constant; `false-alarm`, calibration measured the old constant; `renewed`, all
            pairs were measured repeatedly for a whole new constant; `came` or `gone`, hosts did.
        tick: number of the tick, from 1.
        hosts: the hosts concerned. For `moved`, the hosts whose pairs were calibrated again.
        moves: the pairs that have a new constant.
        calibrated: number of pairs that were measured again.
        alarm: reason for the alarm: the `cusum` of an edge, or the `threshold` on a whole operation.
        movers: hosts whose pairs that were measured again, at least two, all have a new constant. The host moved, not
            single links.
        measured: the pairs that were calibrated and answered, changed or not.
    """

    kind: Kind
    tick: int
    hosts: tuple[str, ...]
    moves: tuple[Shift, ...] = ()
    calibrated: int = 0
    alarm: Alarm | None = None
    movers: tuple[str, ...] = ()
    measured: tuple[Edge, ...] = ()


class Watcher:
    """Detector of changes in a network, from measurements of a ring of its hosts and from operations along trees.

    Each tick measures the ring's pairs in two or three rounds of disjoint pairs, whatever the number of hosts. When
    the CUSUM of an edge raises an alarm, all pairs out of its sender and into its receiver are measured again.

    Attributes:
        waiting: whether another run held the agents when they were last asked.
        heard: whether any host answered the last measurement.
    """

    def __init__(
        self,
        expected_s: Mapping[Edge, float],
        width: float,
        measure: Measure | None,
        *,
        seed: int = 0,
        threshold: float | None = None,
        most_moved: float = MOST_MOVED,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start with expected times and draw the ring.

        Args:
            expected_s: seconds of one transfer of each pair.
            width: width of the band, a standard deviation of logarithms.
            measure: measures some pairs. It can take long, and raises nothing for hosts that do not answer. None:
                the times that operations show are believed as they are.
            seed: seed of the ring.
            threshold: share of its expected time by which an operation may be off, as in the RPCA paper's Algorithm 1.
                If it is off by more, the pairs that are off are calibrated. None = only the CUSUM raises alarms.
            most_moved: share of all pairs; when more have moved, all are measured for a whole new constant, as in the
                paper's Algorithm 1 from line 1. 1 = never.
            complain: is called once for each pair of an operation whose expected time is not known.

        Raises:
            GavotteError: with fewer than two hosts, or a threshold and nothing to calibrate by.
        """
        if threshold is not None and measure is None:
            raise GavotteError(
                "a threshold on one operation cannot tell a change from a spike", hint="add hosts to measure"
            )
        self._expected = Expected(expected_s, measure)
        self._ring = Ring(self._expected, width, seed)
        if len(self.hosts) < 2:
            raise GavotteError("a single host has no path to watch", hint="use a Network of at least two hosts")
        self._trees = Trees(self._expected, width, complain)
        self._tick = 0
        self._threshold = threshold
        self._most_moved = most_moved
        self._moved: set[Edge] = set()
        self._complain = complain
        self.waiting = False
        self.heard = False

    @property
    def expected_s(self) -> dict[Edge, float]:
        """Expected seconds of one transfer of each pair."""
        return self._expected.seconds

    @property
    def hosts(self) -> list[str]:
        """All watched hosts. With an inventory, only those that it lists now."""
        return self._ring.hosts

    @property
    def gone(self) -> set[str]:
        """Watched hosts that count as gone, as they did not answer."""
        return self._ring.gone

    @property
    def present(self) -> list[str]:
        """Watched hosts that answered when last asked. A host that failed to answer once does not count as gone yet."""
        return self._ring.heard

    def tick(self, hosts: Collection[str] | None = None) -> list[Event]:
        """Measure the ring once and calibrate the pairs that seem to have changed.

        Args:
            hosts: hosts that the inventory lists now; None = as before.

        Returns:
            The events, in order. Usually there are none, and none when another run holds the agents.
        """
        self._tick += 1
        self.heard = False
        events: list[Event] = []
        try:
            self._look(hosts, events)
            self.waiting = False
        except BusyError as error:  # the next tick looks at the rest
            self._wait_for(error)
        return events

    def _look(self, hosts: Collection[str] | None, events: list[Event]) -> None:
        """Carry out one tick and append each event as it happens, so that a `BusyError` loses none."""
        if hosts is not None:
            events += self._gone(self._ring.keep(hosts))
            events += self._come(sorted(set(hosts) - set(self.hosts)))
        if self.gone and self._tick % RETRY_TICKS == 0:
            events += self._come(self._ring.back())
        if not self._ring.edges or self._expected.measure is None:
            return
        times = self._expected.measure(self._ring.edges)
        self.heard = bool(times)
        silenced = self._ring.silenced(times)
        self._ring.leave(silenced)
        events += self._gone(silenced)
        if any(event.kind in ("gone", "came") for event in events):
            return
        if changes := self._ring.changes(times):
            events.append(self._follow(changes))
        here = len(self._ring.here)
        if len(self._moved) > self._most_moved * here * (here - 1):
            events += self._renew()

    def _wait_for(self, error: BusyError) -> None:
        """Report that another run holds the agents, unless the last attempt reported it."""
        if not self.waiting:
            self._complain(f"{error}; looking again when it has ended")
        self.waiting = True

    def observe(self, operation: Operation) -> list[Event]:
        """Compare the times of an application's own operation with the expected ones, and react to changes.

        Args:
            operation: the operation. Its edges between pairs without an expected time are ignored.

        Returns:
            The events; usually there are none.
        """
        if self._expected.measure is None:
            self._tick += 1
        tree = self._trees.of(operation.tree)
        known = self._trees.known(operation)
        try:
            return self._judged(tree, known)
        except BusyError as error:  # later operations will show the change too
            self._wait_for(error)
            return []

    def _judged(self, tree: TreeWatch, taken: Operation) -> list[Event]:
        changes = tree.take(taken)
        if not changes:
            # One operation may be off by a spike. A change that calibration does not confirm is dropped.
            off = tree.exceeding(taken, self._threshold) if self._threshold is not None else []
            return [self._follow(off, "threshold")] if off else []
        event = self._follow(changes) if self._expected.measure is not None else self._believe(changes)
        moved = {(move.source, move.target) for move in event.moves}
        for change in changes:
            # What calibration does not confirm is contention between the operation's own messages, and will last.
            if (change.source, change.target) not in moved:
                tree.rebase((change.source, change.target), change.factor)
        return [event]

    def _believe(self, changes: Sequence[Change]) -> Event:
        """Scale the expected times by the factors that operations show, without calibration, as there are no agents."""
        moves = tuple(self._expected.scaled((change.source, change.target), change.factor) for change in changes)
        self._trees.rebase(moves)
        hosts = tuple(sorted({host for change in changes for host in (change.source, change.target)}))
        return Event("moved", self._tick, hosts, moves, alarm="cusum")

    def _follow(self, changes: Sequence[Change], alarm: Alarm = "cusum") -> Event:
        """Calibrate all pairs out of the changes' senders and into their receivers. Return the pairs that changed."""
        senders, receivers = {c.source for c in changes}, {c.target for c in changes}
        here = self._ring.here
        pairs = {(s, t) for s in senders for t in here if t != s} | {(s, t) for t in receivers for s in here if s != t}
        measured_s = self._expected.calibrated(pairs)
        moves = self._expected.shifted(measured_s)
        self._ring.expect({(c.source, c.target) for c in changes} | {(m.source, m.target) for m in moves})
        self._trees.rebase(moves)
        self._moved |= {(move.source, move.target) for move in moves}
        hosts, moved_whole = tuple(sorted(senders | receivers)), tuple(movers(moves, measured_s))
        kind: Kind = "moved" if moves else "false-alarm"
        return Event(kind, self._tick, hosts, moves, len(pairs), alarm, moved_whole, tuple(sorted(measured_s)))

    def _renew(self) -> list[Event]:
        """Measure all pairs repeatedly and replace their expected times by the new constant."""
        here = self._ring.here
        measured_s = self._expected.renewed(here)
        self._moved.clear()
        moves = self._expected.replaced(measured_s)
        self._ring.draw()
        self._trees.rebase(moves)
        pairs = len(here) * (len(here) - 1)
        return (
            [Event("renewed", self._tick, tuple(here), moves, pairs, measured=tuple(sorted(measured_s)))]
            if measured_s
            else []
        )

    def _gone(self, lost: Collection[str]) -> list[Event]:
        return [Event("gone", self._tick, tuple(sorted(lost)))] if lost else []

    def _come(self, hosts: Sequence[str]) -> list[Event]:
        """Calibrate all pairs of hosts that are new or back, and draw the ring again."""
        if not hosts:
            return []
        here = sorted({*self._ring.here, *hosts})
        self._ring.list_gone(hosts)
        pairs = {(s, t) for s in here for t in here if s != t and (s in hosts or t in hosts)}
        measured_s = self._expected.calibrated(pairs)
        answered = {host for edge in measured_s for host in edge}
        self._ring.welcome(set(hosts) & answered)
        moves = self._expected.shifted(measured_s)
        self._trees.rebase(moves)
        self._ring.draw()
        came = tuple(host for host in hosts if host in answered)
        measured = tuple(sorted(measured_s))
        return [Event("came", self._tick, came, moves, len(pairs), measured=measured)] if came else []


def watch(
    watcher: Watcher,
    *,
    every_s: float,
    wait: Callable[[float], bool],
    report: Callable[[Event], None],
    hosts: Callable[[], Collection[str]] | None = None,
    count: int | None = None,
    alive: Callable[[int], None] = lambda _: None,
) -> int:
    """Run the ticks of a watcher, with a pause after each, until `wait` says stop.

    Args:
        watcher: the watcher to tick.
        every_s: pause between ticks, in seconds.
        wait: called to wait this many seconds; returns whether to stop.
        report: called with each event, at once.
        hosts: returns the current hosts, called at each tick; None = always the same.
        count: most ticks, not counting those when another run held the agents; None = no end.
        alive: called with the number of measurements, at the start and after each tick.

    Returns:
        Measurements taken: ticks at which any host answered.
    """
    ticks = taken = 0
    alive(taken)
    while count is None or ticks < count:
        for event in watcher.tick(hosts() if hosts is not None else None):
            report(event)
        ticks += not watcher.waiting
        taken += watcher.heard
        alive(taken)
        if ticks == count or wait(every_s):
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
    alive: Callable[[int], None] = lambda _: None,
) -> int:
    """Process an application's operations as they are written, until `wait` says stop.

    Args:
        watcher: the watcher that observes the operations.
        tail: the file that the operations are read from.
        every_s: pause between two looks at the file, in seconds.
        wait: as for `watch`.
        report: as for `watch`.
        count: most operations; None = no end.
        alive: called with the number of operations, at each look.

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
        alive(taken)
        if wait(every_s):
            return taken
