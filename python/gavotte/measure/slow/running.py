"""Carry out the plan of a search for slow hosts, by probes that go through agents."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gavotte.agents import Fleet, Neighbour, enrolled
from gavotte.agents.losses import Losses
from gavotte.agents.schedule import Step, carry_out
from gavotte.errors import AgentError
from gavotte.formats.parts.counting import counted, listed
from gavotte.formats.parts.rates import format_rate
from gavotte.measure.adapt.guaranteed import guarantees_warning, run_warnings
from gavotte.measure.adapt.overlap import MIN_OVERLAP_S, together
from gavotte.measure.carry.fleet_carrier import FleetCarrier
from gavotte.measure.plan.rounds import packed
from gavotte.measure.question import ProbeSession
from gavotte.measure.slow.planning import SlowPlan
from gavotte.measure.slow.searching import FEWEST, Round, SearchResult, find_slow
from gavotte.measure.slow.uplinks import Racks, find_slow_uplinks
from gavotte.measure.slow.verdicts import End, Verdict
from gavotte.tables import Tabular
from gavotte.terms import Pair

WIDE_SPREAD = 0.10
"""Relative standard deviation of a probe from which on something other than hosts limits pairs."""


@dataclass(frozen=True)
class SlowEnd:
    """One direction of a host, or of a rack's uplink, compared with the others.

    Attributes:
        name: the host or the rack.
        kind: whether it is a host or an uplink.
        direction: `sends` or `receives`.
        rate_bps: TCP goodput in bit/s; NaN = no answer. An uplink's is the sum of the hosts that sent at the same time.
        median_bps: median of the others in bit/s: of its class, if hosts differ by design.
        share: the rate divided by that median.
        low: lower end of the share's interval, which holds for all of the search together.
        high: upper end of it.
        probes: number of probes that show it.
        verdict: `fine`, `below`, `cannot tell` or `no answer`.
        first_share: the share at first, if it was below the others then but not when it was probed again; else NaN.
    """

    name: str
    kind: str
    direction: str
    rate_bps: float
    median_bps: float
    share: float
    low: float
    high: float
    probes: int
    verdict: Verdict
    first_share: float = math.nan


@dataclass(frozen=True)
class NamedPair:
    """A pair that is slow although both of its hosts are fine. Rates and shares are as in `SlowEnd`."""

    source: str
    target: str
    rate_bps: float
    share: float
    low: float
    high: float
    probes: int


@dataclass(frozen=True)
class RateClass:
    """Hosts that are equally fast in one direction: their number and their median rate in bit/s."""

    kind: str
    direction: str
    rate_bps: float
    members: int


@dataclass(frozen=True)
class SlowHosts(Tabular):
    """Result and cost of a search for slow hosts.

    Attributes:
        ends: both directions of each host, then of each uplink.
        pairs: slow pairs of hosts that are fine.
        classes: classes of equally fast hosts and uplinks.
        below: share by which a host must be below the median of the others to count as slow.
        error: chance that any verdict is false.
        spread: relative standard deviation of one probe.
        rounds: number of rounds, in which each host sends at most once and receives at most once.
        probes: number of probes.
        pair_chance: chance that a single slow pair was probed at all, 0 to 1.
        seconds: wall time of the probing.
        bytes_sent: payload bytes sent by all hosts.
        seed: seed of all random choices.
        no_uplinks: why uplinks were not compared; empty = they were.
        left_out: racks with too few hosts to compare them.
        missing: hosts whose agents could not be used, with the reason.
        lost: hosts that vanished meanwhile, with the reason.
        stopped: why the search ended before all was decided; empty = it did not.
        beside: other runs that moved bytes between the hosts meanwhile.
        guaranteed_bps: wire rate that a guarantee grants each host whose sending it limits.
    """

    ends: list[SlowEnd]
    pairs: list[NamedPair]
    classes: list[RateClass]
    below: float
    error: float
    spread: float
    rounds: int
    probes: int
    pair_chance: float
    seconds: float
    bytes_sent: int
    seed: int
    no_uplinks: str = ""
    left_out: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    beside: list[Neighbour] = field(default_factory=list)
    guaranteed_bps: dict[str, float] = field(default_factory=dict)

    @property
    def slow(self) -> list[SlowEnd]:
        """Directions that are certainly below the others."""
        return [end for end in self.ends if end.verdict == "below"]

    @property
    def silent(self) -> list[str]:
        """Hosts that do not answer in one direction or both, the missing and the lost ones included."""
        quiet = [end.name for end in self.ends if end.verdict == "no answer" and end.kind == "host"]
        return list(dict.fromkeys([*self.missing, *self.lost, *quiet]))

    @property
    def all_fine(self) -> bool:
        """Whether no host, uplink or pair is slow, and every host answers."""
        return not (self.slow or self.pairs or self.silent)

    @property
    def unseen(self) -> str:
        """What the search could not see, in one line."""
        hosts = len({end.name for end in self.ends if end.kind == "host"} - set(self.silent))
        percent = f"{100 * self.pair_chance:.2g}" if self.pair_chance < 0.1 else f"{100 * self.pair_chance:.0f}"
        parts = [f"a single slow pair: {percent} % of the {hosts * (hosts - 1)} pairs were probed"]
        parts.append(f"a host less than {100 * self.below:g} % below the others, or one that is slow at other times")
        parts.append(f"uplinks: {self.no_uplinks}" if self.no_uplinks else "an uplink that its hosts do not fill")
        return "not seen: " + "; ".join(parts)

    @property
    def warnings(self) -> list[str]:
        """Reasons why verdicts are missing or less reliable, one sentence each."""
        return list(_warnings(self))

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per direction of each host and uplink. Rates are TCP goodput in bit/s."""
        return [vars(end) for end in self.ends]


def _warnings(result: SlowHosts) -> Iterator[str]:
    """Yield the warnings of a search, the most general first."""
    yield from (f"{host}: {reason}" for host, reason in result.missing.items())
    yield from (f"lost {host}: {reason}" for host, reason in result.lost.items())
    yield from run_warnings(result.beside, result.guaranteed_bps, "rates may be low")
    yield from guarantees_warning(result.guaranteed_bps, "rates from there")
    if result.stopped:
        yield f"{result.stopped}: some hosts may lack a verdict"
    if result.spread > WIDE_SPREAD:
        yield (
            f"probes of one host differ by {100 * result.spread:.0f} %: other traffic, or uplinks that hosts share; "
            "measure when it has ended, or name the racks with --network"
        )
    for kind, direction in dict.fromkeys((each.kind, each.direction) for each in result.classes):
        own = [each for each in result.classes if (each.kind, each.direction) == (kind, direction)]
        if len(own) > 1:
            parts = [f"{each.members} at {format_rate(each.rate_bps)}" for each in own]
            yield f"{kind}s differ by design ({direction}: {listed(parts)}); each is compared with its own class"
    for end in result.ends:
        if end.first_share < 1:
            yield (
                f"{end.name}: {end.direction} {100 * (1 - end.first_share):.0f} % below the others at first, but not "
                "when it was probed again"
            )


class _Prober:
    """An oracle that probes pairs through a fleet, and counts the cost."""

    def __init__(self, fleet: Fleet, plan: SlowPlan, session: ProbeSession) -> None:
        self.bytes_sent = 0
        self._fleet = fleet
        self._plan = plan
        self._session = session
        self._names = [host.name for host in fleet.hosts]
        self._index = {name: number for number, name in enumerate(self._names)}
        self._losses = Losses()
        self._carrier = FleetCarrier(fleet, self._names, trains=True)
        self._begun_s = time.monotonic()
        self._rounds = 0

    @property
    def seconds(self) -> float:
        """Time since the first probe, in seconds."""
        return time.monotonic() - self._begun_s

    def proceed(self) -> bool:
        """Return whether the limits allow more rounds."""
        return self._plan.within(self.bytes_sent, self.seconds)

    def in_turns(self, rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        """Probe pairs in turns, so that no host sends and receives at the same time."""
        turns = [packed(pairs, {}) for pairs in rounds]
        rates = iter(self._sent([turn for parts in turns for turn in parts]))
        merged = [{pair: rate for _ in parts for pair, rate in next(rates).items()} for parts in turns]
        self._advance(len(rounds))
        return list(merged)

    def together(self, rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        """Send on all pairs of a round at the same time, as the experiments on shared links do."""
        rates = [self._in_common(pairs) for pairs in rounds]
        self._advance(len(rounds))
        return list(rates)

    def _in_common(self, pairs: Round) -> dict[Pair, float]:
        """Return what each pair carried in the time in which all of them were sending.

        Probes that start without waiting for each other would count time in which the others do not fill the uplink:
        their sum was 163 on an uplink of 96 Mbit/s.
        """
        before = self._carrier.bytes_sent
        series = self._carrier.carry([[pair] for pair in pairs], {}, "disjoint")
        self.bytes_sent += self._carrier.bytes_sent - before
        if not series:
            return {}
        outcome = together(list(series.values()))
        return dict(zip(series, outcome.rate_bps, strict=True)) if outcome.overlap_s >= MIN_OVERLAP_S else {}

    def _advance(self, rounds: int) -> None:
        self._rounds += rounds
        if self._session.progress is not None:
            self._session.progress(self._rounds, max(self._rounds, self._plan.rounds[0]))

    def _sent(self, turns: Sequence[Round]) -> list[dict[Pair, float]]:
        """Send a schedule, and return the rate of each pair that answers in each turn."""
        away, method = self._fleet.away, self._plan.question.method
        schedule = [
            [
                Step(self._names[s], self._names[t], method.probe)
                for s, t in pairs
                if self._names[s] not in away and self._names[t] not in away
            ]
            for pairs in turns
        ]
        rates: list[dict[Pair, float]] = [{} for _ in turns]
        for answer in carry_out(self._fleet, schedule, round_s=self._plan.round_s, losses=self._losses):
            self.bytes_sent += answer.bytes_sent
            if answer.reply is None or answer.error:
                continue
            rate_bps = method.read(answer.reply).goodput_bps
            if 0 < rate_bps < math.inf:
                rates[answer.round][self._index[answer.source], self._index[answer.target]] = rate_bps
        return rates


def search(plan: SlowPlan, session: ProbeSession | None = None) -> SlowHosts:
    """Find the hosts and uplinks that are below the others, by the probes of a plan.

    Args:
        plan: plan of the search, with its expected cost.
        session: settings of the run.

    Raises:
        GavotteError: when the budget is too small.
        AgentError: when fewer than three agents can be used, or no pair answers.
    """
    session, question = session or ProbeSession(), plan.question
    plan.check()
    with enrolled(question.inventory, plan.budget, purpose="hosts slow", take_over=session.take_over) as fleet:
        names = [host.name for host in fleet.hosts]
        if len(names) < FEWEST:
            raise AgentError(f"only {counted(len(names), 'agent')} can be used, but the search needs {FEWEST} hosts")
        guaranteed_bps = fleet.guaranteed_bps()
        prober = _Prober(fleet, plan, session)
        hosts = find_slow(
            len(names),
            prober.in_turns,
            threshold=plan.threshold,
            pools=plan.pools_among(names),
            proceed=prober.proceed,
            seed=question.seed,
        )
        if not hosts.hit:
            raise AgentError("no pair of hosts answered; `gavotte hosts check` names the reasons")
        racks = plan.racks_among(names, _fine_hosts(hosts))
        uplinks = _search_uplinks(plan, prober, racks) if racks.enough and not hosts.stopped else None
        answer = _answer(plan, names, hosts, (racks, uplinks))
        return replace(
            answer,
            seconds=prober.seconds,
            bytes_sent=prober.bytes_sent,
            missing=dict(fleet.missing),
            lost=dict(fleet.lost),
            beside=fleet.beside(),
            guaranteed_bps=guaranteed_bps | fleet.guaranteed_bps(),
        )


def _search_uplinks(plan: SlowPlan, prober: _Prober, racks: Racks) -> SearchResult:
    """Compare the uplinks of racks, by hosts that are not slow."""
    return find_slow_uplinks(
        racks, prober.together, threshold=plan.threshold, proceed=prober.proceed, seed=plan.question.seed
    )


def _answer(
    plan: SlowPlan, names: Sequence[str], hosts: SearchResult, compared: tuple[Racks, SearchResult | None]
) -> SlowHosts:
    """Return the verdicts with names, without the cost and the hosts that are missing."""
    question, (racks, uplinks) = plan.question, compared
    ends, classes = _named(hosts, names, "host")
    searches = [hosts]
    if uplinks is not None:
        searches.append(uplinks)
        more_ends, more_classes = _named(uplinks, racks.names, "uplink")
        ends, classes = ends + more_ends, classes + more_classes
    return SlowHosts(
        ends=ends,
        pairs=[NamedPair(names[each.source], names[each.target], *each.values) for each in hosts.pairs],
        classes=classes,
        below=question.threshold.below,
        error=question.threshold.error,
        spread=hosts.spread,
        rounds=sum(each.rounds for each in searches),
        probes=hosts.probes + (uplinks.probes * racks.pairs if uplinks else 0),
        pair_chance=hosts.pair_chance,
        seconds=0.0,
        bytes_sent=0,
        seed=question.seed,
        no_uplinks="" if uplinks is not None else _why_no_uplinks(plan, racks, stopped=hosts.stopped),
        left_out=list(racks.left_out) if uplinks is not None else [],
        stopped="the budget is spent" if any(each.stopped for each in searches) else "",
    )


def _why_no_uplinks(plan: SlowPlan, racks: Racks, *, stopped: bool) -> str:
    """Return why the uplinks of racks were not compared."""
    if plan.question.known is None:
        return "--network names the racks"
    if stopped:
        return "the budget is spent"
    return f"the Network has {counted(len(racks.names), 'rack')} with enough hosts, but the search needs {FEWEST}"


def _fine_hosts(result: SearchResult) -> list[int]:
    """Return the hosts of which no direction is slow or silent."""
    size = len(result.judged.ends) // 2
    bad = {number % size for number in (*result.judged.numbers("below"), *result.judged.numbers("no answer"))}
    return [number for number in range(size) if number not in bad]


def _named(result: SearchResult, names: Sequence[str], kind: str) -> tuple[list[SlowEnd], list[RateClass]]:
    """Return the verdicts and the classes of a search with names: both directions of the first, then of the next."""
    first = {(end.host, end.direction): end.share for end in result.passing}

    def named(end: End) -> SlowEnd:
        return SlowEnd(
            names[end.host],
            kind,
            end.direction,
            end.rate_bps,
            end.median_bps,
            end.share,
            end.low,
            end.high,
            end.probes,
            end.verdict,
            first.get((end.host, end.direction), math.nan),
        )

    size = len(names)
    ends = [named(result.judged.ends[number + way * size]) for number in range(size) for way in (0, 1)]
    classes = [
        RateClass(kind, direction, each.rate_bps, each.hosts)
        for direction, own in zip(("sends", "receives"), result.judged.classes, strict=True)
        for each in own
    ]
    return ends, classes
