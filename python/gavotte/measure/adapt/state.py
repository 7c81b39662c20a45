"""State of a measurement in progress, and conclusions from it. No I/O."""

from __future__ import annotations

from collections import Counter

from gavotte.measure.adapt.busy import Busy
from gavotte.measure.adapt.events import BeginSnapshot, Instruction, Keep, Moment, Report
from gavotte.measure.adapt.filling import Filling
from gavotte.measure.adapt.results import PathResult, Results
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.adapt.streams import Streams
from gavotte.measure.plan.concurrency import EVERYTHING, Concurrency, LoadedReading, Sent
from gavotte.measure.plan.cost import LOST_S
from gavotte.measure.plan.credit import Sendings, SpentCredits
from gavotte.measure.plan.labelled import disagreement
from gavotte.measure.plan.opening import Opening
from gavotte.measure.plan.pair_rates import KnownRates
from gavotte.measure.plan.path_plan import PathPlan
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.terms import Pair
from gavotte.terms.credit import Credit
from gavotte.terms.hierarchy import Hierarchy


class State:
    """The state of a measurement.

    Attributes:
        plan: plan of the measurement.
        results: the answers so far.
        spending: bytes and seconds so far, compared with the limits.
        moment: times and states of hosts at the newest event.
        effects: instructions that no event answers, to be given with the next one.
        index: index of each host.
        done: probes so far.
        total: probes in all, as far as known.
        number: the snapshot, counted from 0.
        readings: newest reading of each pair of the snapshot.
        looked: number of times that each of its pairs was measured again.
        method: how most paths are measured.
        concurrency: which pairs may be measured together.
        traffic: evidence of other traffic from the snapshot's probes.
        streams: paths on which TCP replaces trains.
        tree: machines and racks; None = not looked for.
        opening: its first rounds, if links were to be tested; None = they were not.
        crossed: results of the test rounds among them, by pair.
        filling: experiments on links; None = there are none.
        trips: round trips of pairs.
        cut: pairs that have lost contact.
        ends_s: times at which each host last sent, and last received.
        sendings: evidence of credits from the snapshot's probes.
        spent_credits: evidence of credits from earlier snapshots.
        credits: credits of hosts that ran out during a snapshot or between two, by name.
        again: probes beyond the first of a path and snapshot.
        seconds: seconds of probing.
        doubtful: pairs of the snapshot that could not be measured alone because of a limit.
        busy: pairs of the snapshot with only TCP's share alongside other traffic.
        untested: links that pairs may share and of which nothing is known, with the pairs that were to cross them
            together.
        stopped: why it ended early; empty = it did not.
        warnings: events that a reader of the rates should know, one line each.
    """

    def __init__(self, plan: PathPlan, results: Results, spending: Spending) -> None:
        """Create a measurement to which nothing has happened yet."""
        self.plan = plan
        self.results = results
        self.spending = spending
        self.moment = Moment(0.0, 0.0, frozenset(plan.names))
        self.effects: list[Instruction] = []
        self.index = {name: i for i, name in enumerate(plan.names)}
        self.done = 0
        self.total = 0
        self.number = 0
        self.readings: dict[Pair, LoadedReading] = {}
        self.looked: Counter[Pair] = Counter()
        self.method = plan.method
        self.concurrency = Concurrency(len(plan.names), plan.links, tolerance=plan.method.tolerance)
        self.traffic = Busy(plan.method)
        self.streams = Streams(plan.method)
        self.tree: Hierarchy | None = None
        self.opening: Opening | None = None
        self.crossed: list[dict[Pair, Sent]] = []
        self.filling: Filling | None = None
        self.trips = RoundTrips(plan.round_trips_s)
        self.cut: set[frozenset[int]] = set()
        self.ends_s: dict[tuple[str, str], float] = {}
        self.sendings = Sendings()
        self.spent_credits = SpentCredits()
        self.credits: dict[str, Credit] = {}
        self.again = 0
        self.seconds = 0.0
        self.doubtful: list[Pair] = []
        self.busy: list[Pair] = []
        self.untested: dict[str, list[Pair]] = {}
        self.stopped = ""
        self.warnings: list[str] = []
        self._began_s = 0.0
        self._before_s = 0.0

    def begin(self, number: int) -> None:
        """Begin a snapshot, or continue one of an interrupted measurement."""
        self.number, self.readings, self.looked = number, {}, Counter()
        self.sendings = Sendings()
        self._began_s, self._before_s = self.moment.now_s, self.seconds
        if number not in self.results.times_s:
            self.results.times_s[number] = self._unix_s()
            self.effects.append(BeginSnapshot(number, self.results.times_s[number]))

    @property
    def known(self) -> set[Pair]:
        """Pairs with a rate in the snapshot."""
        return {(i, j) for (at, i, j), path in self.results.paths.items() if at == self.number and path.answered}

    def rates(self) -> KnownRates:
        """Return the newest rate of each path that has one."""
        known = ((at[1:], path) for at, path in sorted(self.results.paths.items()))
        return KnownRates((pair, path.reading.goodput_bps) for pair, path in known if path.answered)

    def disagreement(self) -> str:
        """Return which hosts are in another rack than the labels say that stand for routers; empty = none is."""
        if not self.results.hidden or not self.plan.labels:
            return ""
        trips_s = {at[1:]: path.rtt_s for at, path in sorted(self.results.paths.items()) if path.rtt_s > 0}
        return disagreement(self.rates(), trips_s, self.plan.names, self.plan.labels)

    def here(self) -> set[int]:
        """Return the hosts that answer. Only they take part: a dead one would cost every peer its waiting time."""
        return {self.index[name] for name in self.moment.hosts}

    def spent_s(self) -> float:
        """Return the seconds of probing so far."""
        return self._before_s + self.moment.now_s - self._began_s

    def _unix_s(self) -> float:
        """Return the Unix time, never before the last snapshot's, which may be that of an interrupted measurement."""
        now_s, last_s = self.moment.unix_s, max(self.results.times_s.values(), default=0.0)
        if now_s < last_s:
            self.warnings.append(
                f"the clock was set back by {last_s - now_s:.0f} s; times continue from the last snapshot's"
            )
        return max(now_s, last_s)

    def links(self, pair: Pair) -> frozenset[str]:
        """Return the links that a pair crosses, and the one that all pairs cross."""
        return self.concurrency.links(pair) | {EVERYTHING}

    def affords(self, pair: Pair) -> bool:
        """Return whether the source's share of a byte limit suffices for another probe."""
        return self.spending.affords(self.plan.names[pair[0]])

    def spare_bytes(self) -> float:
        """Return the bytes that may be sent in addition to the remaining paths."""
        return self.spending.spare_bytes(self.done, self.total - self.done)

    def check(self) -> None:
        """End the measurement if its cost would far exceed the estimate."""
        if self.stopped:
            return
        waited_s = LOST_S * (self.moment.lost + len(self.cut))
        self.stopped = self.spending.exceeded(self.spent_s(), waited_s=waited_s)

    def shows_host(self, pair: Pair) -> bool:
        """Return whether a result shows a host that kept its agent from running, instead of the path."""
        path = self.results.paths.get((self.number, *pair))
        return path is not None and path.gap is not None

    def lacking(self) -> list[Pair]:
        """Return pairs without a rate, of hosts that take part."""
        return [pair for pairs in self.plan.rounds(self.number, self.here(), self.known) for pair in pairs]

    def laid(self, todo: list[list[Pair]]) -> list[list[Pair]]:
        """Lay out rounds so that no link is overfull, and so that no near pair waits for a far one."""
        near, far = self.trips.split(todo)
        # Links that were known before are in the plan's rounds.
        return (
            self.concurrency.rounds(near) + self.concurrency.rounds(far)
            if self.concurrency.limited_links
            else near + far
        )

    def take(self, pair: Pair, result: PathResult) -> None:
        """Record the answer of one probe of the snapshot, except for those that only show which links limit."""
        if pair not in self.plan.crossing:
            self.results.add(self.number, *pair, result)
            if result.answered:
                self.effects.append(Keep(self.number, pair, result))
        self.done += 1
        self.effects.append(Report(self.done, self.total))
