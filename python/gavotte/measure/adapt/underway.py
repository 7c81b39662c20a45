"""A measurement in progress, as a state machine of events and instructions.

It takes snapshot after snapshot, and learns about shared links meanwhile. It reads no clock, and neither sends nor
writes, so that tests feed it without agents, and predictions play it on a network that is known.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gavotte.agents.schedule import OUT_OF_TOUCH
from gavotte.errors import AgentError
from gavotte.formats.evidence import Evidence
from gavotte.formats.history import Floats, History
from gavotte.measure.adapt.again import changed
from gavotte.measure.adapt.answers import gap_in, read, sent_as
from gavotte.measure.adapt.busy import Busy
from gavotte.measure.adapt.concurrency import EVERYTHING, Concurrency, LoadedReading, Sent
from gavotte.measure.adapt.events import (
    Answered,
    BeginSnapshot,
    Counted,
    CountRouters,
    Event,
    Instruction,
    Judge,
    Judged,
    Keep,
    Moment,
    Rejoin,
    Report,
    SendRounds,
    Started,
    Steps,
    Wait,
)
from gavotte.measure.adapt.experiments import Experiments
from gavotte.measure.adapt.filling import Filling
from gavotte.measure.adapt.opening import FULL, PAUSE_S, STRETCHED, Opening, opening
from gavotte.measure.adapt.path_plan import AHEAD, MOST_AHEAD, PathPlan
from gavotte.measure.adapt.results import PathResult, Results, path_result, with_credit
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.adapt.streams import LEAST_FALLBACK_BYTES, Streams
from gavotte.measure.adapt.tcp_steps import TcpSteps
from gavotte.measure.adapt.widening import LEAST_STREAM_BYTES, Widening, fast_pairs, lower_bound, widened
from gavotte.measure.adapt.withheld import FRESH_S, REPEATS, limited_by_host, withheld_s
from gavotte.measure.plan.cost import LOST_S, CostLimits, Most
from gavotte.measure.plan.credit import FALLS, Credit, Sending, Sendings, SpentCredits
from gavotte.measure.plan.methods import LOWER_BOUNDS, TRAIN_BRIEF_S, Reading, refused
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.measure.plan.rounds import packed
from gavotte.terms import Pair
from gavotte.terms.credit import OWN, is_credit
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.hierarchy import hierarchy_of

logger = logging.getLogger(__name__)

AGAIN = 3
"""Most times that a doubtful path is measured again; more than once only while it has no rate."""


class Underway:
    """Decides what a plan sends next.

    Attributes:
        again: probes beyond the first of a path and snapshot.
        seconds: seconds of probing.
        doubtful: pairs of the last snapshot that could not be measured alone because of a limit.
        busy: pairs of the last snapshot with only TCP's share alongside other traffic.
        untested: links that pairs may share and of which nothing is known, with the pairs that were to cross them
            together.
        credits: credits of hosts that ran out during a snapshot or between two, by name.
        stopped: why it ended early; empty = it did not.
        warnings: what happened that a reader of the rates should know, one line each.
    """

    def __init__(
        self, plan: PathPlan, limits: CostLimits, results: Results, *, again: bool = True, most: Most | None = None
    ) -> None:
        """Create a measurement to which nothing has happened yet.

        Args:
            plan: what to do.
            limits: what it may cost.
            results: receives the answers; earlier ones are kept.
            again: measure doubtful paths again, alone.
            most: when it is to end, whether it is done or not; None = computed here.
        """
        self._plan = plan
        self._results = results
        self._again = again
        self._steps = self._run()
        self._effects: list[Instruction] = []
        self._moment = Moment(0.0, 0.0, frozenset(plan.names))
        self._index = {name: i for i, name in enumerate(plan.names)}
        self._done = 0
        self._total = 0
        self._ends_s: dict[tuple[str, str], float] = {}
        self._concurrency = Concurrency(len(plan.names), plan.links, tolerance=plan.method.tolerance)
        self._busy = Busy(plan.method)
        self._streams = Streams(plan.method)
        self._method = plan.method
        self._opening: Opening | None = None
        self._filling: Filling | None = None
        self._spending = Spending(plan, limits, most or plan.most(limits))
        self._trips = RoundTrips(plan.round_trips_s)
        self._cut: set[frozenset[int]] = set()
        self._sendings = Sendings()
        self._spent_credits = SpentCredits()
        self.credits: dict[str, Credit] = {}
        self.again = 0
        self.seconds = 0.0
        self.doubtful: list[Pair] = []
        self.busy: list[Pair] = []
        self.untested: dict[str, list[Pair]] = {}
        self.stopped = ""
        self.warnings: list[str] = []

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event, and return what to do.

        1. The first event is `Started`.
        2. All instructions but the last are carried out at once, and no event answers them.
        3. So is the last, if it is a `BeginSnapshot`, `Keep` or `Report`. Any other is answered by the events that its
           description names, each of which is handed to this method.
        4. The measurement has ended if the last event of an instruction brings no other one.

        Raises:
            AgentError: when no hosts are left before a path has answered.
        """
        self._moment = event.moment
        try:
            awaited = next(self._steps) if isinstance(event, Started) else self._steps.send(event)
        except StopIteration:
            awaited = None
        effects, self._effects = self._effects, []
        return effects if awaited is None else [*effects, awaited]

    def _run(self) -> Steps[None]:
        """Take all snapshots."""
        began_s, wanted = self._moment.now_s, self._results.count
        self._total = self._plan.count * sum(map(len, self._plan.rounds(0, self._here())))
        for number in range(wanted):
            if number not in self._results.times_s:
                yield Wait(began_s + number * self._plan.every_s)
            yield Rejoin()
            if self._is_over(number):
                return
            self._began_s, self._before_s = self._moment.now_s, self.seconds
            yield from self._snapshot(number)
            self._keep_credits(number)
            yield from self._widen(number)
            self.seconds = self._spent_s()
            self._results.count = number + 1
            if self.stopped or (number + 1 < wanted and (yield from _judged())):
                return
            self._results.count = wanted

    def _is_over(self, number: int) -> bool:
        """Return whether no hosts are left for this snapshot. Earlier snapshots are kept, and none is empty.

        Raises:
            AgentError: when they found nothing.
        """
        if not self._moment.alone:
            return False
        silent = dict.fromkeys(sorted(self._moment.silent), "its agent does not answer any more")
        gone = silent | dict(self._moment.away)
        text = "; ".join(f"{name}: {reason}" for name, reason in list(gone.items())[:2])
        wanted, self._results.count = self._results.count, number
        reason = f"fewer than two agents are left after {number} of {wanted} snapshots ({text})"
        if not any(self._results.answered(each) for each in range(number)):
            raise AgentError(reason, hint="start the agents and measure again")
        self.warnings.append(reason)
        self.stopped = reason
        return True

    def _now_s(self) -> float:
        """Return the Unix time, never before the last snapshot's, which may be that of an interrupted measurement."""
        now_s, last_s = self._moment.unix_s, max(self._results.times_s.values(), default=0.0)
        if now_s < last_s:
            self.warnings.append(
                f"the clock was set back by {last_s - now_s:.0f} s; times continue from the last snapshot's"
            )
        return max(now_s, last_s)

    @property
    def bytes_sent(self) -> int:
        """Payload so far."""
        return self._spending.bytes_sent

    def history(self) -> History:
        """Return the answers so far as matrices."""
        return self._results.history()

    def shared(self) -> dict[str, float]:
        """Links that were full, with the load that they were seen to carry, bit/s; 0 = unknown."""
        return {
            link: max((e.sum_bps for e in self.evidence() if e.subject == link), default=0.0)
            for link in sorted(self._concurrency.full)
            if self._filling is not None and self._filling.crowding.knows(link)
        }

    def evidence(self) -> tuple[Evidence, ...]:
        """Results of the experiments on shared links, including those without a result."""
        if self._filling is None:
            return ()
        rate, crowding = self._rates(), self._filling.crowding
        return (*crowding.records(rate), *(crowding.untold(*each, rate) for each in self.untested.items()))

    def _replace_spent(self, number: int) -> Steps[None]:
        """Measure paths again whose rates are from before their source's credit ran out.

        If the first of them is as fast as before, the others were slower for another reason.
        """
        here, names = self._here(), self._plan.names
        for source, before in self._sendings.suspects().items():
            pairs = [pair for pair in before if here.issuperset(pair) and self._affords(pair)]
            if not pairs or self.stopped:
                continue
            known_bps = self._results.paths[number, *pairs[0]].reading.goodput_bps
            self.again += 1
            self._total += 1
            first = yield from self._probe([pairs[:1]], number, alone=True)
            rate_bps = first.get(pairs[0], LoadedReading(math.nan)).rate_bps
            # NaN is no rate.
            if not FALLS * rate_bps <= known_bps:
                continue
            credit = self.credits[names[source]] = self._sendings.credit(source, rate_bps)
            self.again += len(pairs) - 1
            self._total += len(pairs) - 1
            yield from self._probe([[pair] for pair in pairs[1:]], number, alone=True)
            for pair in pairs:
                self._results.paths[number, *pair] = with_credit(self._results.paths[number, *pair], credit)

    def _keep_credits(self, number: int) -> None:
        """Name credits that ran out between two snapshots, and never mix rates from before and after.

        1. Credits that ran out since the snapshot before are added to those that are known.
        2. A reading of C, in any snapshot, becomes the newest reading of r on its path, with C as the peak.
        3. Readings of r in this snapshot get the credit, so that it is named.
        """
        names, paths = self._plan.names, self._results.paths
        for source, credit in self._spent_credits.take(self._sendings).items():
            self.credits.setdefault(names[source], credit)
        for source, credit in ((self._index[name], credit) for name, credit in self.credits.items()):
            middle_bps = math.sqrt(credit.peak_bps * credit.rate_bps)
            known = sorted(at for at, path in paths.items() if at[1] == source and path.answered)
            known = [at for at in known if not self._concurrency.mates(at[1:])]
            spent = {at[1:]: paths[at] for at in known if paths[at].reading.goodput_bps < middle_bps}
            for at in known:
                path = spent.get(at[1:])
                if path is None:
                    continue
                if paths[at].reading.goodput_bps >= middle_bps:
                    paths[at] = with_credit(path, credit)
                elif at[0] == number and path.reading.goodput_bps >= OWN * credit.rate_bps:
                    paths[at] = with_credit(paths[at], credit)

    def _rates(self) -> Floats:
        """Return the (N, N) bit/s, the newest of each path; NaN = none."""
        rate = np.full((len(self._plan.names),) * 2, np.nan)
        for (_, i, j), path in sorted(self._results.paths.items()):
            if path.answered:
                rate[i, j] = path.reading.goodput_bps
        return rate

    def _here(self) -> set[int]:
        """Return the hosts that answer. Only they take part: a dead one would cost every peer its waiting time."""
        return {self._index[name] for name in self._moment.hosts}

    def _spent_s(self) -> float:
        return self._before_s + self._moment.now_s - self._began_s

    def _snapshot(self, number: int) -> Steps[None]:
        if number not in self._results.times_s:
            self._results.times_s[number] = self._now_s()
            self._effects.append(BeginSnapshot(number, self._results.times_s[number]))
        logger.info("snapshot %d of %d", number, self._results.count)
        self._sendings = Sendings()
        known = {(i, j) for (at, i, j), path in self._results.paths.items() if at == number and path.answered}
        self._done += len(known)
        todo = self._plan.rounds(number, self._here(), known)
        if not self._again:
            yield from self._probe(todo, number, alone=True)
            yield from self._fall_back(number)
            return
        readings: dict[Pair, LoadedReading] = {}
        looked: Counter[Pair] = Counter()
        self._busy, self.busy = Busy(self._method), []
        look = self._filling is None and len(self._here()) > 2 and todo
        if look and (yield from self._look()) and not self._plan.links:
            todo = yield from self._open(todo, readings, looked, number)
        todo = self._laid(todo)
        ahead, most = AHEAD, max(AHEAD, math.ceil(MOST_AHEAD * len(todo)))
        while todo and not self.stopped:
            part, todo, before = todo[:ahead], todo[ahead:], self._concurrency.found
            readings |= yield from self._probe(part, number)
            yield from self._once_more(self._doubts(number, readings, looked), readings, looked, number)
            ahead = min(most, 2 * ahead)
            if self._concurrency.found > before:
                ahead, todo = AHEAD, self._laid(todo)
            if self._busy.now:
                left = ([pair for pair in pairs if not self._busy.hopeless(self._links(pair))] for pairs in todo)
                todo = [pairs for pairs in left if pairs]
        yield from self._repeat_withheld(number, readings)
        while not self.stopped and (pairs := self._doubts(number, readings, looked)):
            if not (yield from self._once_more(pairs, readings, looked, number)):
                break
        if self._busy.now:
            yield from self._take_shares(number, () if self._busy.proves else readings)
            return
        readings |= yield from self._fall_back(number)
        if not self.stopped:
            yield from self._once_more(
                [pair for pair in changed(self._results, number) if not looked[pair]], readings, looked, number
            )
            yield from self._replace_spent(number)
        self.doubtful = [
            pair
            for pair, reading in readings.items()
            if not self._shows_host(number, pair) and self._concurrency.doubtful(pair, reading)
        ]
        yield from self._confirm()

    def _shows_host(self, number: int, pair: Pair) -> bool:
        """Return whether a result shows a host that kept its agent from running, instead of the path."""
        path = self._results.paths.get((number, *pair))
        return path is not None and path.gap is not None

    def _repeat_withheld(self, number: int, readings: dict[Pair, LoadedReading]) -> Steps[None]:
        """Repeat probes during which a host kept its agent from running, each with a full quota."""
        for _ in range(REPEATS):
            pairs = [
                (i, j)
                for (at, i, j) in self._results.paths
                if at == number and self._shows_host(number, (i, j)) and self._affords((i, j))
            ]
            for lone in self._concurrency.apart([pair for pair in pairs if self._here().issuperset(pair)], {}):
                self._check()
                if self.stopped:
                    return
                self.again += len(lone)
                self._total += len(lone)
                sent = yield from self._carry_out([lone], number, alone=True, start=(FRESH_S, 0.0))
                apart = self._concurrency.take(sent)
                readings |= {
                    p: LoadedReading(each.rate_bps) for p, each in apart.items() if math.isfinite(each.rate_bps)
                }

    def _laid(self, todo: list[list[Pair]]) -> list[list[Pair]]:
        """Lay out rounds so that no link is overfull, and so that no near pair waits for a far one."""
        near, far = self._trips.split(todo)
        # Links that were known before are in the plan's rounds.
        return self._concurrency.rounds(near) + self._concurrency.rounds(far) if self._concurrency.found else near + far

    def _widen(self, number: int) -> Steps[None]:
        """Continue with TCP on fast paths."""
        if not self._plan.method.has_faster_paths or self._busy.now:
            return
        # Traffic within one machine crosses no network.
        pairs = [pair for pair in fast_pairs(self._results, number, self._here()) if not self._concurrency.mates(pair)]
        size, share = self._plan.stream_bytes, self._spending.share
        if share:
            # What a byte limit leaves, by the host that has sent most.
            left = self._spending.left_bytes({self._plan.names[source] for source, _ in pairs})
            size = min(size, int(left / max(1, self._plan.widening_bytes(1))))
        if size < LEAST_STREAM_BYTES:
            return
        steps = TcpSteps(self._plan, self._spending, size)
        held = {pair for pair in pairs if self._shows_host(number, pair)}
        # More connections need more of a processor that the host does not give.
        single = Widening(steps.send, needed=dict.fromkeys(range(len(self._plan.names)), 1))
        climbing = [pair for pair in pairs if pair not in held]
        for todo, widening in ((climbing, Widening(steps.send)), (sorted(held), single)):
            for part in self._laid(packed(todo, self._plan.links)):
                self._check()
                if self.stopped:
                    return
                known = [pair for pair in part if not lower_bound(self._results.paths[number, *pair])]
                for pair, rates in (yield from widening.climb(part, known)).items():
                    self._total += 1
                    self._take(number, pair, widened(self._results.paths[number, *pair], rates, steps.gaps.get(pair)))

    def _open(
        self, todo: list[list[Pair]], readings: dict[Pair, LoadedReading], looked: Counter[Pair], number: int
    ) -> Steps[list[list[Pair]]]:
        """Find out whether links are shared: first let pairs cross them together, then one by one.

        Returns:
            the remaining rounds.
        """
        first = self._opening = opening(todo, self._concurrency)
        readings |= yield from self._probe(first.ends, number)
        beside: list[Pair] = []
        streamed: list[list[Pair]] = []
        for pairs in first.tests:
            if self.stopped:
                break
            if self._method.can_pause and (blocked := self._streams.blocked.intersection(pairs)):
                # Unlike trains, TCP does not wait until the others have connected.
                streamed.append(sorted(blocked))
                pairs = [pair for pair in pairs if pair not in blocked]
            if not pairs:
                continue
            sent = yield from self._carry_out([pairs], number, alone=False, together=True)
            first.take(sent)
            readings |= (concurrent_readings := self._concurrency.take(sent))
            beside += [
                pair
                for pair in concurrent_readings
                if concurrent_readings[pair].links and not self._concurrency.as_alone(pair, concurrent_readings[pair])
            ]
            streamed += self._streams.waiting([pairs])
            self._check()
        readings |= yield from self._probe(streamed, number)
        yield from self._once_more(beside, readings, looked, number, full=FULL)
        return first.rest

    def _test_again(self) -> Steps[None]:
        """Fill links without a result from the first rounds, for longer: at first together, then each alone."""
        for turn in itertools.count():
            if self._opening is None or (filling := self._filling) is None:
                return
            untested = self._opening.untested(self._rates(), self._plan.method)
            self.untested = {
                link: pairs
                for link, pairs in untested.items()
                if link not in self._concurrency.full and not filling.crowding.free(link)
            }
            todo = filling.crowding.left(self.untested)
            if not todo or self.stopped or self._spending.share or self._plan.only is not None:
                return
            self._check()
            if turn == 0:
                for aims in self._opening.by_test({link: self.untested[link] for link in todo}):
                    yield from filling.cross(aims, self._rates(), spare_bytes=self._spare_bytes())
                    self._check()
            elif not (yield from self._fill(dict.fromkeys(todo, math.inf), sure=True)):
                return

    def _take_shares(self, number: int, measured: Iterable[Pair]) -> Steps[None]:
        """Measure TCP's share of paths without a rate. For the pairs in `measured` it is known already."""
        self.warnings.append(
            f"snapshot {number}: other traffic fills the network; paths without a rate show TCP's share"
        )
        lacking = [pair for pair in self._lacking(number) if self._affords(pair)]
        left = packed(lacking, {})
        most = max(AHEAD, math.ceil(MOST_AHEAD * len(left)))
        while left and not self.stopped:
            part, left = left[:most], left[most:]
            yield from self._carry_out(part, number, alone=True, share=True)
            self._check()
        self.busy = sorted({*lacking, *measured}.difference(self._lacking(number)))

    def _fall_back(self, number: int) -> Steps[dict[Pair, LoadedReading]]:
        """Measure paths by bulk TCP on which trains found no rate, however often they were sent. Each is alone."""
        lacking = self._streams.lacking(self._results, number, self._here())
        size = self._spending.fallback_bytes([self._plan.names[source] for source, _ in lacking])
        if not lacking or size < LEAST_FALLBACK_BYTES:
            return {}
        self.again += len(lacking)
        self._total += len(lacking)
        sent: list[Sent] = []
        with self._streams.falling_back(lacking, size):
            for pairs in self._concurrency.apart(lacking, {}):
                self._check()
                # An estimate that trains exceeded leaves no path without an answer; a limit of the user does.
                if self.stopped and self._spending.limited:
                    break
                sent += yield from self._carry_out([pairs], number, alone=True)
        return {each.pair: LoadedReading(each.rate_bps) for each in sent}

    def _links(self, pair: Pair) -> frozenset[str]:
        return self._concurrency.links(pair) | {EVERYTHING}

    def _lacking(self, number: int) -> list[Pair]:
        """Return pairs without a rate, of hosts that take part."""
        known = {(i, j) for (at, i, j), path in self._results.paths.items() if at == number and path.answered}
        return [pair for pairs in self._plan.rounds(number, self._here(), known) for pair in pairs]

    def _look(self) -> Steps[bool]:
        """Find machines and racks. Return whether pairs without a common host can share any of their links."""
        names = self._plan.names
        event = yield CountRouters(self._plan.seed)
        assert isinstance(event, Counted)
        self._results.lengths = event.lengths
        for pair, round_trip_s in event.round_trips_s.items():
            self._trips.take(pair, round_trip_s)
        blocked = self._streams.blocked
        blocked |= event.blocked
        self._cut |= event.cut
        if 2 * len(blocked) > math.perm(len(self._here()), 2):
            # Most readings will be TCP's, which scatter more than trains'.
            self._method = self._streams.method
            self._busy = Busy(self._method)
            self._concurrency = Concurrency(len(names), self._plan.links, tolerance=self._method.tolerance)
        tree = hierarchy_of(names, self._results.lengths)
        trains = self._method.can_pause and not blocked
        experiments = Experiments(trains=trains, round_trips=self._trips, time_s=self._moment.unix_s)
        self._spending.experiments = experiments
        self._filling = Filling(experiments, tree, self._concurrency, trains=trains, seed=self._plan.seed)
        return self._concurrency.see(tree)

    def _doubts(self, number: int, readings: dict[Pair, LoadedReading], looked: Counter[Pair]) -> list[Pair]:
        """Return pairs to measure again, alone: once, or while they have no rate."""
        here = self._here()
        doubts: list[Pair] = []
        for pair, reading in readings.items():
            # If even a lone train finds no rate, the path carries other traffic.
            if self._busy.now:
                break
            if not here.issuperset(pair) or not self._concurrency.doubtful(pair, reading):
                continue
            if self._shows_host(number, pair):
                continue
            known = self._results.paths.get((number, *pair))
            if looked[pair] < (AGAIN if known is None or not known.answered else 1):
                doubts.append(pair)
        return doubts

    def _once_more(
        self,
        pairs: Sequence[Pair],
        readings: dict[Pair, LoadedReading],
        looked: Counter[Pair],
        number: int,
        *,
        full: float = 1.0,
    ) -> Steps[bool]:
        """Measure pairs again without other probes, and learn from the differences. Return whether it was possible.

        The rate of a link on which a pair lost is assumed to be `full` times its load.
        """
        pairs = [pair for pair in pairs if self._affords(pair)]
        # Paths without any answer come first.
        pairs = pairs[: max(0, int(self._spare_bytes() / max(self._spending.each_bytes(self._done), 1)))]
        if not pairs:
            return False
        logger.info("snapshot %d: measuring %d paths again, apart", number, len(pairs))
        yield Rejoin()
        self.again += len(pairs)
        self._total += len(pairs)
        looked.update(pairs)
        compared: list[tuple[LoadedReading, float]] = []
        for lone in self._concurrency.apart(pairs, readings):
            if self._busy.now:
                break
            apart = yield from self._probe([lone], number, alone=True)
            if twice := [pair for pair in self._busy.unsure(readings, apart) if self._affords(pair)]:
                self.again += len(twice)
                self._total += len(twice)
                self._busy.compare(apart, (yield from self._probe([twice], number, alone=True)))
            for pair, reading in apart.items():
                if pair in readings:
                    compared.append((readings[pair], reading.rate_bps))
                if math.isfinite(reading.rate_bps):
                    # Whatever else was sent meanwhile, no link was shared.
                    readings[pair] = LoadedReading(reading.rate_bps)
        blamed: dict[str, float] = {}
        for beside, alone_bps in compared if self._busy.proves or not self._busy.now else ():
            blamed |= self._concurrency.compare(beside, alone_bps)
        if blamed and not self._busy.now:
            yield from self._fill({link: full * load_bps for link, load_bps in blamed.items()})
        return True

    def _spare_bytes(self) -> float:
        """Return the bytes that may be sent in addition to the remaining paths."""
        return self._spending.spare_bytes(self._done, self._total - self._done)

    def _affords(self, pair: Pair) -> bool:
        """Return whether the source's share of a byte limit suffices for another probe."""
        return self._spending.affords(self._plan.names[pair[0]])

    def _fill(self, links: Mapping[str, float], *, sure: bool = False) -> Steps[bool]:
        """Measure the rates of links. Return whether it was tried: not if paths would then exceed the estimate.

        Args:
            links: links with their load when a pair lost, bit/s.
            sure: if it stays unknown whether a link is shared, treat it as not shared.
        """
        if self._filling is None or self.stopped or self._spending.share:
            return False
        return (
            yield from self._filling.fill(
                links, self._rates(), self._here(), spare_bytes=self._spare_bytes(), sure=sure
            )
        )

    def _confirm(self) -> Steps[None]:
        """Fill each full link until two sums agree, and others once: an oversubscribed rack is seldom the only one."""
        if not self._spending.share and not self.stopped and (others := self._concurrency.untested()):
            yield from self._fill(others)
        yield from self._test_again()
        while self._filling is not None and not self.stopped:
            todo = self._filling.crowding.unsettled(self._concurrency.full)
            if not todo or self._spending.share:
                return
            self._check()
            if not (yield from self._fill(todo)):
                return

    def _check(self) -> None:
        """End the measurement if its cost would far exceed the estimate."""
        if self.stopped:
            return
        waited_s = LOST_S * (self._moment.lost + len(self._cut))
        self.stopped = self._spending.exceeded(self._spent_s(), waited_s=waited_s)

    def _probe(self, rounds: list[list[Pair]], number: int, *, alone: bool = False) -> Steps[dict[Pair, LoadedReading]]:
        """Send rounds; if links are full, each only after the one before it has ended.

        Pairs that are measured `alone` may take all their time.
        """
        # A host that is done runs ahead into the next round of a schedule.
        parts = [[pairs] for pairs in rounds] if self._concurrency.full else [rounds] * bool(rounds)
        readings: dict[Pair, LoadedReading] = {}
        for part in parts:
            self._check()
            if self.stopped:
                break
            readings |= self._concurrency.take((yield from self._carry_out(part, number, alone=alone)))
            if left := self._streams.waiting(part):
                readings |= self._concurrency.take((yield from self._carry_out(left, number, alone=alone)))
        return readings

    def _carry_out(
        self,
        rounds: list[list[Pair]],
        number: int,
        *,
        alone: bool,
        share: bool = False,
        together: bool = False,
        start: tuple[float, float] | None = None,
    ) -> Steps[list[Sent]]:
        began_s = self._moment.now_s
        # A schedule with a host that is gone would wait for it again.
        gone = {self._index[name] for name in self._moment.away if name in self._index}
        rounds = [left for pairs in rounds if (left := [pair for pair in pairs if gone.isdisjoint(pair)])]
        brief = {
            pair
            for pairs in rounds
            for pair in pairs
            if start is not None or not (alone or self._concurrency.patient(pair))
        }
        schedule = self._plan.schedule(
            rounds,
            brief=brief,
            share=self._busy.probe if share else None,
            start=self._start(rounds) if together else start,
        )
        schedule = self._streams.instead(schedule, self._index)
        sent: list[Sent] = []
        event = yield SendRounds(schedule, self._plan.round_s)
        while isinstance(event, Answered):
            answer = event.answer
            pair = self._index[answer.source], self._index[answer.target]
            needs_tcp = self._streams.take(pair, answer)
            streamed = self._streams.carries(pair)
            self._spending.allow(
                answer.reply.seconds if streamed and answer.reply else self._trips.allowance_s(pair, answer.reply)
            )
            reading = read(answer, pair, self._plan.method, self._busy, self._streams)
            gap = gap_in(answer, reading)
            if gap is not None:
                reading = limited_by_host(reading, gap)
            # Throttled trains, and those that repeat them, do not show what trains cost.
            near = self._concurrency.mates(pair) or streamed or gap is not None or start is not None
            self._spending.take(answer.source, answer.bytes_sent, near=near)
            result = PathResult(reading, gap=gap)
            if answer.failure in OUT_OF_TOUCH:
                self._cut.add(frozenset(pair))
            if needs_tcp:
                self._total += 1
            elif answer.reply is not None:
                reply = answer.reply
                self._spending.allow(withheld_s(reply) if start is None and gap is None else reply.seconds)
                if reply.HasField("gated_train") and gap is None:
                    self._busy.take(reply.gated_train, self._links(pair), alone=alone)
                idle_s = self._idle_s(answer.source, answer.target, began_s + reply.started_s, reply.seconds)
                self._note_sending(pair, reading, answer.bytes_sent, began_s + reply.started_s + reply.seconds)
                result = path_result(reading, reply, idle_s, gap)
                sent.append(sent_as(pair, answer.round, reply, reading if gap is None else refused(str(gap))))
            self._take(number, pair, result)
            event = yield None
        if sent:
            self._spending.learn()
        return sent

    def _note_sending(self, pair: Pair, reading: Reading, size_bytes: int, end_s: float) -> None:
        """Note what a probe shows of its source's credit."""
        if reading.refusal or self._concurrency.mates(pair) or reading.verdict in LOWER_BOUNDS:
            return
        if pair in self._streams.refused:
            # Where no train is steady, a lower rate shows no credit that ran out.
            return
        hops = 0 if self._results.lengths is None else int(self._results.lengths[pair])
        self._sendings.take(Sending(pair, reading.goodput_bps, size_bytes, end_s, hops))
        # By the payload of MTU 1500: a few percent do not matter here.
        ahead_bytes = GOODPUT_PER_WIRE * reading.bucket_bytes
        if is_credit(ahead_bytes, reading.goodput_bps, reading.peak_bps):
            self._sendings.show(pair[0], Credit(reading.peak_bps, reading.goodput_bps, ahead_bytes))

    def _start(self, rounds: Iterable[Iterable[Pair]]) -> tuple[float, float]:
        """Return when trains that run together start, and their longest time, because a full link keeps them going."""
        reached = [self._concurrency.reached_bps(pair) for pairs in rounds for pair in pairs]
        usual_s = max((self._plan.method.typical(bps)[1] if bps > 0 else TRAIN_BRIEF_S for bps in reached), default=0.0)
        pause_s = max(PAUSE_S, self._trips.ready_s(pair for pairs in rounds for pair in pairs))
        return pause_s, min(TRAIN_BRIEF_S, STRETCHED * usual_s)

    def _idle_s(self, source: str, target: str, start_s: float, seconds: float) -> float:
        """Return how long both ends were idle before a probe: the time in which a token bucket could fill."""
        ends = ((source, "sent"), (target, "received"))
        idle_s = start_s - max(self._ends_s.get(end, -math.inf) for end in ends)
        self._ends_s |= dict.fromkeys(ends, start_s + seconds)
        return max(0.0, idle_s)

    def _take(self, number: int, pair: Pair, result: PathResult) -> None:
        self._results.add(number, *pair, result)
        if result.answered:
            self._effects.append(Keep(number, pair, result))
        self._done += 1
        self._effects.append(Report(self._done, self._total))


def _judged() -> Steps[bool]:
    """Return whether the snapshots so far suffice."""
    event = yield Judge()
    assert isinstance(event, Judged)
    return event.enough
