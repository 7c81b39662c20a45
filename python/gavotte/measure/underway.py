"""A measurement in progress: snapshot by snapshot, with what is learnt of shared links on the way."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from gavotte.agents import Fleet
from gavotte.agents.losses import Losses
from gavotte.agents.schedule import OUT_OF_TOUCH, carry_out
from gavotte.errors import AgentError
from gavotte.formats.evidence import Evidence
from gavotte.formats.history import Floats, History
from gavotte.measure.again import changed
from gavotte.measure.answers import read, sent_as
from gavotte.measure.busy import Busy
from gavotte.measure.company import EVERYTHING, Beside, Company, Sent
from gavotte.measure.cost import LOST_S, CostLimits, Most
from gavotte.measure.filling import Filling
from gavotte.measure.journal import Journal
from gavotte.measure.methods import TRAIN_BRIEF_S
from gavotte.measure.opening import FULL, PAUSE_S, STRETCHED, Opening, opening
from gavotte.measure.planning import AHEAD, MOST_AHEAD, MeasurementPlan
from gavotte.measure.results import PathResult, Results, path_result
from gavotte.measure.rounds import packed
from gavotte.measure.sharing.carrier import Carrier, FleetCarrier
from gavotte.measure.sharing.paths import path_lengths
from gavotte.measure.spending import Spending
from gavotte.terms import Pair, Progress
from gavotte.terms.hierarchy import hierarchy_of

logger = logging.getLogger(__name__)

AGAIN = 3
"""Times that a doubtful path is measured again at most; more than one only while it has no rate."""

LOOK_S = 0.5
"""How often a pause between two snapshots looks whether anybody is left."""


class Underway:
    """Carries a plan out.

    Attributes:
        again: probes beyond the first of a path and snapshot.
        seconds: of probing.
        doubtful: pairs of the last snapshot that a limit kept from being measured alone.
        busy: pairs of the last snapshot of which only TCP's share beside others' traffic is told.
        untested: links that pairs may share of which nothing is known, with the pairs that were to cross them together.
        stopped: why it ended early; empty = it did not.
    """

    def __init__(
        self,
        fleet: Fleet,
        plan: MeasurementPlan,
        limits: CostLimits,
        results: Results,
        journal: Journal | None,
        progress: Progress | None,
        *,
        most: Most | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        """Has sent nothing yet.

        Args:
            fleet: enrolled agents.
            plan: what to do.
            limits: what it may cost.
            results: where answers go; those of before are kept.
            journal: where they go, too.
            progress: told of each path that is done.
            most: when it is to end, whether it is done or not; None = as reckoned.
            carrier: fills links; None = the fleet.
        """
        self._fleet = fleet
        self._carrier = carrier
        self._plan = plan
        self._results = results
        self._journal = journal
        self._progress = progress
        self._index = {name: i for i, name in enumerate(plan.names)}
        self._done = 0
        self._total = plan.count * sum(map(len, plan.rounds(0, self._here())))
        self._losses = Losses()
        self._ends_s: dict[tuple[str, str], float] = {}
        self._company = Company(len(plan.names), plan.links, tolerance=plan.method.tolerance)
        self._busy = Busy(plan.method)
        self._opening: Opening | None = None
        self._filling: Filling | None = None
        self._spending = Spending(plan, limits, most or plan.most(limits))
        self._cut: set[frozenset[int]] = set()
        self.again = 0
        self.seconds = 0.0
        self.doubtful: list[Pair] = []
        self.busy: list[Pair] = []
        self.untested: dict[str, list[Pair]] = {}
        self.stopped = ""

    def run(self, *, again: bool, enough: Callable[[History], bool] | None) -> None:
        """Takes all snapshots.

        Args:
            again: measure doubtful paths again, alone.
            enough: asked after each snapshot; true ends the run.
        """
        begin = time.monotonic()
        wanted = self._results.count
        for number in range(wanted):
            if number not in self._results.times_s:
                self._pause(begin + number * self._plan.every_s)
            self._rejoin()
            if self._is_over(number):
                return
            self._began_s, self._before_s = time.monotonic(), self.seconds
            self._snapshot(number, again=again)
            self.seconds = self._spent_s()
            self._results.count = number + 1
            if self.stopped or (enough is not None and number + 1 < wanted and enough(self._results.history())):
                return
            self._results.count = wanted

    def _pause(self, until: float) -> None:
        """Waits for the next snapshot, but not when nobody is left to take it."""
        while (left := until - time.monotonic()) > 0 and not self._fleet.is_alone():
            time.sleep(min(left, LOOK_S))

    def _rejoin(self) -> None:
        """Goes on with hosts whose agents were started anew."""
        for name in self._fleet.rejoin():
            self._losses.back(name)

    def _is_over(self, number: int) -> bool:
        """Whether nobody is left to take this snapshot: what the earlier ones found stays, and none is empty.

        Raises:
            AgentError: when they found nothing.
        """
        if not self._fleet.is_alone():
            return False
        silent = dict.fromkeys(sorted(self._fleet.silent), "its agent does not answer any more")
        gone = silent | self._fleet.away
        told = "; ".join(f"{name}: {reason}" for name, reason in list(gone.items())[:2])
        wanted, self._results.count = self._results.count, number
        reason = f"fewer than two agents are left after {number} of {wanted} snapshots ({told})"
        if not any(self._results.answered(each) for each in range(number)):
            raise AgentError(reason, hint="start the agents and measure again")
        logger.warning(reason)
        self.stopped = reason
        return True

    def _now_s(self) -> float:
        """Unix time, never before the last snapshot's: a clock that was set back would turn their order round."""
        now_s, last_s = time.time(), max(self._results.times_s.values(), default=0.0)
        if now_s < last_s:
            logger.warning("the clock was set back by %.0f s; times go on from the last snapshot's", last_s - now_s)
        return max(now_s, last_s)

    @property
    def bytes_sent(self) -> int:
        """Payload so far."""
        return self._spending.bytes_sent

    def shared(self) -> dict[str, float]:
        """Links that were found full, with what they were seen to carry, bit/s; 0 = not told."""
        return {
            link: max((e.sum_bps for e in self.evidence() if e.subject == link), default=0.0)
            for link in sorted(self._company.full)
            if self._filling is not None and self._filling.crowding.knows(link)
        }

    def evidence(self) -> tuple[Evidence, ...]:
        """What the experiments on shared links told, and where there is nothing to tell."""
        if self._filling is None:
            return ()
        rate, crowding = self._rates(), self._filling.crowding
        return (*crowding.records(rate), *(crowding.untold(*each, rate) for each in self.untested.items()))

    def _rates(self) -> Floats:
        """(N, N) bit/s, the last of each path; NaN = none."""
        rate = np.full((len(self._plan.names),) * 2, np.nan)
        for (_, i, j), path in sorted(self._results.paths.items()):
            if path.answered:
                rate[i, j] = path.reading.goodput_bps
        return rate

    def _here(self) -> set[int]:
        """Only hosts that answer take part: a dead one would cost every peer its waiting time."""
        return {self._index[host.name] for host in self._fleet.hosts}

    def _spent_s(self) -> float:
        return self._before_s + time.monotonic() - self._began_s

    def _snapshot(self, number: int, *, again: bool) -> None:
        if number not in self._results.times_s:
            self._results.times_s[number] = self._now_s()
            if self._journal is not None:
                self._journal.begin(number, self._results.times_s[number])
        logger.info("snapshot %d of %d", number, self._results.count)
        known = {(i, j) for (at, i, j), path in self._results.paths.items() if at == number and path.answered}
        self._done += len(known)
        todo = self._plan.rounds(number, self._here(), known)
        if not again:
            self._probe(todo, number, alone=True)
            return
        readings: dict[Pair, Beside] = {}
        looked: Counter[Pair] = Counter()
        self._busy, self.busy = Busy(self._plan.method), []
        if self._filling is None and len(self._here()) > 2 and todo and self._look() and not self._plan.links:
            todo = self._open(todo, readings, looked, number)
        if self._company.found:
            todo = self._company.rounds(todo)
        ahead, most = AHEAD, max(AHEAD, math.ceil(MOST_AHEAD * len(todo)))
        while todo and not self.stopped:
            part, todo, found = todo[:ahead], todo[ahead:], self._company.found
            readings |= self._probe(part, number)
            self._once_more(self._doubts(number, readings, looked), readings, looked, number)
            ahead = min(most, 2 * ahead)
            if self._company.found > found:
                ahead, todo = AHEAD, self._company.rounds(todo)
            if self._busy.now:
                left = ([pair for pair in pairs if not self._busy.hopeless(self._links(pair))] for pairs in todo)
                todo = [pairs for pairs in left if pairs]
        while not self.stopped and (pairs := self._doubts(number, readings, looked)):
            if not self._once_more(pairs, readings, looked, number):
                break
        if self._busy.now:
            self._take_shares(number, () if self._busy.proves else readings)
            return
        if not self.stopped:
            self._once_more(
                [pair for pair in changed(self._results, number) if not looked[pair]], readings, looked, number
            )
        self.doubtful = [pair for pair, told in readings.items() if self._company.doubtful(pair, told)]
        self._confirm()

    def _open(
        self, todo: list[list[Pair]], readings: dict[Pair, Beside], looked: Counter[Pair], number: int
    ) -> list[list[Pair]]:
        """Whether links are shared shows at once where pairs cross them together, and then one by one.

        Returns:
            the rounds that are left.
        """
        first = self._opening = opening(todo, self._company)
        readings |= self._probe(first.ends, number)
        beside: list[Pair] = []
        for pairs in first.tests:
            if self.stopped:
                break
            sent = self._carry_out([pairs], number, alone=False, together=True)
            first.take(sent)
            readings |= (told := self._company.take(sent))
            beside += [pair for pair in told if told[pair].links and not self._company.as_alone(pair, told[pair])]
            self._check()
        self._once_more(beside, readings, looked, number, full=FULL)
        return first.rest

    def _test_again(self) -> None:
        """Fills links of which the first rounds told nothing, for longer: at first together, then each by itself."""
        for turn in itertools.count():
            if self._opening is None or (filling := self._filling) is None:
                return
            untested = self._opening.untested(self._rates(), self._plan.method)
            self.untested = {
                link: pairs
                for link, pairs in untested.items()
                if link not in self._company.full and not filling.crowding.free(link)
            }
            todo = filling.crowding.left(self.untested)
            if not todo or self.stopped or self._spending.share or self._plan.only is not None:
                return
            self._check()
            if turn == 0:
                for aims in self._opening.by_test({link: self.untested[link] for link in todo}):
                    filling.cross(aims, self._rates(), spare_bytes=self._spare_bytes())
                    self._check()
            elif not self._fill(dict.fromkeys(todo, math.inf), sure=True):
                return

    def _take_shares(self, number: int, told: Iterable[Pair]) -> None:
        """Tells what TCP gets beside others' traffic on paths without a rate; of those `told` it is what was read."""
        logger.warning("snapshot %d: others fill the network; TCP's share is told of paths without a rate", number)
        lacking = [pair for pair in self._lacking(number) if self._affords(pair)]
        left = packed(lacking, {})
        most = max(AHEAD, math.ceil(MOST_AHEAD * len(left)))
        while left and not self.stopped:
            part, left = left[:most], left[most:]
            self._carry_out(part, number, alone=True, share=True)
            self._check()
        self.busy = sorted({*lacking, *told}.difference(self._lacking(number)))

    def _links(self, pair: Pair) -> frozenset[str]:
        return self._company.links(pair) | {EVERYTHING}

    def _lacking(self, number: int) -> list[Pair]:
        """Pairs without a rate, of hosts that take part."""
        known = {(i, j) for (at, i, j), path in self._results.paths.items() if at == number and path.answered}
        return [pair for pairs in self._plan.rounds(number, self._here(), known) for pair in pairs]

    def _look(self) -> bool:
        """Finds machines and racks. Returns whether pairs without a common host can share any of their links."""
        names = self._plan.names
        self._results.lengths = path_lengths(self._fleet, names, seed=self._plan.seed)
        tree = hierarchy_of(names, self._results.lengths)
        trains = self._plan.method.name == "train"
        carrier = self._spending.carrier = self._carrier or FleetCarrier(self._fleet, names, trains=trains)
        self._filling = Filling(carrier, tree, self._company, trains=trains, seed=self._plan.seed)
        return self._company.see(tree)

    def _doubts(self, number: int, readings: dict[Pair, Beside], looked: Counter[Pair]) -> list[Pair]:
        """Pairs to measure again, alone: once, or while they have no rate."""
        here = self._here()
        doubts: list[Pair] = []
        for pair, told in readings.items():
            # What a train alone does not tell, others are beside.
            if self._busy.now:
                break
            if not here.issuperset(pair) or not self._company.doubtful(pair, told):
                continue
            known = self._results.paths.get((number, *pair))
            if looked[pair] < (AGAIN if known is None or not known.answered else 1):
                doubts.append(pair)
        return doubts

    def _once_more(
        self,
        pairs: Sequence[Pair],
        readings: dict[Pair, Beside],
        looked: Counter[Pair],
        number: int,
        *,
        full: float = 1.0,
    ) -> bool:
        """Measures pairs again with nothing beside them, and learns from how they differ; returns whether it could.

        A link where somebody lost is taken to carry `full` of what was on it.
        """
        pairs = [pair for pair in pairs if self._affords(pair)]
        # Paths without any answer come first.
        pairs = pairs[: max(0, int(self._spare_bytes() / max(self._spending.each_bytes(self._done), 1)))]
        if not pairs:
            return False
        logger.info("snapshot %d: measures %d paths once more, apart", number, len(pairs))
        self._rejoin()
        self.again += len(pairs)
        self._total += len(pairs)
        looked.update(pairs)
        compared: list[tuple[Beside, float]] = []
        for lone in self._company.apart(pairs, readings):
            if self._busy.now:
                break
            apart = self._probe([lone], number, alone=True)
            if twice := [pair for pair in self._busy.unsure(readings, apart) if self._affords(pair)]:
                self.again += len(twice)
                self._total += len(twice)
                self._busy.compare(apart, self._probe([twice], number, alone=True))
            for pair, told in apart.items():
                if pair in readings:
                    compared.append((readings[pair], told.rate_bps))
                if math.isfinite(told.rate_bps):
                    # Whatever else was sent meanwhile, no link was shared.
                    readings[pair] = Beside(told.rate_bps)
        blamed: dict[str, float] = {}
        for beside, alone_bps in compared if self._busy.proves or not self._busy.now else ():
            blamed |= self._company.compare(beside, alone_bps)
        if blamed and not self._busy.now:
            self._fill({link: full * load_bps for link, load_bps in blamed.items()})
        return True

    def _spare_bytes(self) -> float:
        """What may be sent beside the paths that are left."""
        return self._spending.spare_bytes(self._done, self._total - self._done)

    def _affords(self, pair: Pair) -> bool:
        """Whether the source's share of a byte limit suffices for another probe."""
        return self._spending.affords(self._plan.names[pair[0]])

    def _fill(self, links: Mapping[str, float], *, sure: bool = False) -> bool:
        """Finds what links carry; returns whether that was tried: not where paths would then cost more than was said.

        Args:
            links: with what was on them when somebody lost, bit/s.
            sure: where it stays unknown whether a link is shared, it is not taken to be.
        """
        if self._filling is None or self.stopped or self._spending.share:
            return False
        return self._filling.fill(links, self._rates(), self._here(), spare_bytes=self._spare_bytes(), sure=sure)

    def _confirm(self) -> None:
        """Fills each full link until two sums agree, and others once: an oversubscribed rack is seldom the only one."""
        if not self._spending.share and not self.stopped and (others := self._company.untested()):
            self._fill(others)
        self._test_again()
        while self._filling is not None and not self.stopped:
            todo = self._filling.crowding.unsettled(self._company.full)
            if not todo or self._spending.share:
                return
            self._check()
            if not self._fill(todo):
                return

    def _check(self) -> None:
        """Ends the measurement where it would cost far more than was said."""
        if self.stopped:
            return
        waited_s = LOST_S * (len(self._fleet.lost) + len(self._cut))
        self.stopped = self._spending.exceeded(self._spent_s(), waited_s=waited_s)

    def _probe(self, rounds: list[list[Pair]], number: int, *, alone: bool = False) -> dict[Pair, Beside]:
        """Sends rounds; where links are full, each only once the one before it has ended.

        Pairs that are measured `alone` may take all their time.
        """
        # Whoever is done runs ahead into the next round of a schedule.
        parts = [[pairs] for pairs in rounds] if self._company.full else [rounds] * bool(rounds)
        told: dict[Pair, Beside] = {}
        for part in parts:
            self._check()
            if self.stopped:
                break
            told |= self._company.take(self._carry_out(part, number, alone=alone))
        return told

    def _carry_out(
        self, rounds: list[list[Pair]], number: int, *, alone: bool, share: bool = False, together: bool = False
    ) -> list[Sent]:
        began_s = time.monotonic()
        # A schedule with a host that is gone would wait for it anew.
        gone = {self._index[name] for name in self._fleet.away if name in self._index}
        rounds = [left for pairs in rounds if (left := [pair for pair in pairs if gone.isdisjoint(pair)])]
        brief = {pair for pairs in rounds for pair in pairs if not (alone or self._company.patient(pair))}
        schedule = self._plan.schedule(
            rounds,
            brief=brief,
            share=self._busy.probe if share else None,
            start=self._start(rounds) if together else None,
        )
        sent: list[Sent] = []
        for answer in carry_out(self._fleet, schedule, round_s=self._plan.round_s, losses=self._losses):
            pair = self._index[answer.source], self._index[answer.target]
            self._spending.take(answer.source, answer.bytes_sent, near=self._company.mates(pair))
            reading = read(answer, self._plan.method, self._busy)
            result = PathResult(reading)
            if answer.failure in OUT_OF_TOUCH:
                self._cut.add(frozenset(pair))
            if answer.reply is not None:
                reply = answer.reply
                if reply.HasField("gated_train"):
                    self._busy.take(reply.gated_train, self._links(pair), alone=alone)
                idle_s = self._idle_s(answer.source, answer.target, began_s + reply.started_s, reply.seconds)
                result = path_result(reading, reply, idle_s)
                sent.append(sent_as(pair, answer.round, reply, reading))
            self._take(number, *pair, result)
        if sent:
            self._spending.learn()
        return sent

    def _start(self, rounds: Iterable[Iterable[Pair]]) -> tuple[float, float]:
        """When trains that go together start, and how long they may take: those that share a full link find no end."""
        reached = [self._company.reached_bps(pair) for pairs in rounds for pair in pairs]
        usual_s = max((self._plan.method.typical(bps)[1] if bps > 0 else TRAIN_BRIEF_S for bps in reached), default=0.0)
        return PAUSE_S, min(TRAIN_BRIEF_S, STRETCHED * usual_s)

    def _idle_s(self, source: str, target: str, start_s: float, seconds: float) -> float:
        """How long both ends had been idle before a probe: so long could a token bucket fill."""
        ends = ((source, "sent"), (target, "received"))
        idle_s = start_s - max(self._ends_s.get(end, -math.inf) for end in ends)
        self._ends_s |= dict.fromkeys(ends, start_s + seconds)
        return max(0.0, idle_s)

    def _take(self, number: int, source: int, target: int, result: PathResult) -> None:
        self._results.add(number, source, target, result)
        if self._journal is not None and result.answered:
            self._journal.add(number, source, target, result)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
