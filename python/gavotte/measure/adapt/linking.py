"""Look for links that pairs may share, let pairs cross them together, and fill them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gavotte.formats.parts.evidence import Evidence
from gavotte.measure.adapt.busy import Busy
from gavotte.measure.adapt.crossing import by_test, untested
from gavotte.measure.adapt.events import Counted, CountRouters, FindTiers, Steps, Tiered
from gavotte.measure.adapt.experiments import Experiments
from gavotte.measure.adapt.filling import Filling
from gavotte.measure.adapt.sending import probe, send_rounds
from gavotte.measure.adapt.state import State
from gavotte.measure.plan.concurrency import Concurrency
from gavotte.measure.plan.labelled import hides_routers, with_labels
from gavotte.measure.plan.opening import opening
from gavotte.measure.plan.pair_rates import PairRates
from gavotte.measure.plan.path_plan import PathPlan
from gavotte.measure.plan.rounds import packed
from gavotte.measure.plan.sparse import further_pairs, sparse_pairs_of
from gavotte.terms import Pair
from gavotte.terms.held_out import OFF
from gavotte.terms.hierarchy import hierarchy_of

WORTH = 0.75
"""Few pairs are measured only if they are at most this share of all: otherwise all cost hardly more."""

MOST_OFF = 0.05
"""Largest share of held-out pairs that may be off. With more, pairs have limits of their own: all or further ones are
measured."""


def look(state: State) -> Steps[bool]:
    """Find machines and racks. Return whether pairs without a common host can share any of their links."""
    names = state.plan.names
    event = yield CountRouters(state.plan.seed, few=state.plan.sparse)
    assert isinstance(event, Counted)
    compared = with_labels(event.lengths, names, state.plan.labels)
    state.results.lengths, state.results.hidden = compared.lengths, compared.by_labels
    if compared.note:
        state.warnings.append(compared.note)
    for pair, round_trip_s in event.round_trips_s.items():
        state.trips.take(pair, round_trip_s)
    if state.plan.sparse and not compared.by_labels and hides_routers(event.lengths):
        yield from _look_by_round_trips(state)
    blocked = state.streams.blocked
    blocked |= event.blocked
    state.cut |= event.cut
    if 2 * len(blocked) > math.perm(len(state.here()), 2):
        # Most readings will be TCP's, which scatter more than trains'.
        state.method = state.streams.method
        state.traffic = Busy(state.method)
        state.concurrency = Concurrency(len(names), state.plan.links, tolerance=state.method.tolerance)
    tree = state.tree = hierarchy_of(names, state.results.lengths)
    trains = state.method.can_pause and not blocked
    experiments = Experiments(trains=trains, round_trips=state.trips, time_s=state.moment.unix_s)
    state.spending.experiments = experiments
    state.filling = Filling(experiments, tree, state.concurrency, trains=trains, seed=state.plan.seed)
    return state.concurrency.see(tree)


def _look_by_round_trips(state: State) -> Steps[None]:
    """Find racks by round trips."""
    event = yield FindTiers(state.plan.seed)
    assert isinstance(event, Tiered)
    for pair, round_trip_s in event.tiers.round_trips_s.items():
        state.trips.take(pair, round_trip_s)
    if event.tiers.breaks_s:
        state.results.lengths, state.results.hidden = event.tiers.lengths, True
    state.warnings.append(event.tiers.note)


def choose_few_pairs(state: State) -> list[list[Pair]]:
    """Choose few pairs by the racks that are known now, and return the rounds of those without a rate."""
    if state.tree is not None:
        state.plan = state.plan.of_pairs(sparse_pairs_of(state.tree, state.here(), seed=state.plan.seed))
    return _planned(state, state.plan)


def settle_for_few(state: State) -> list[list[Pair]] | None:
    """Choose few pairs if racks' links turned out to limit their hosts, and if that saves many of all pairs.

    Returns:
        the rounds of those without a rate; None = the plan stays.
    """
    if not state.plan.undecided or state.tree is None or not state.concurrency.full:
        return None
    hosts = state.here()
    few = sparse_pairs_of(state.tree, hosts, seed=state.plan.seed)
    only, every = few.shown | few.held_out | state.known, math.perm(len(hosts), 2)
    if len(only) > WORTH * every:
        return None
    return _planned(state, replace(state.plan, scale="structure", held_out=few.held_out, only=only))


def return_to_all(state: State) -> list[list[Pair]]:
    """Plan all pairs again. Return the rounds of those without a rate."""
    return _planned(state, replace(state.plan, scale="pairs", held_out=frozenset(), only=None))


def add_further(state: State) -> list[list[Pair]]:
    """Choose further pairs, unless a budget has no room for them. Return the rounds of those without a rate."""
    plan = state.plan
    further = further_pairs(state.here(), seed=plan.seed) - state.known
    if not further:  # an earlier snapshot has chosen them
        return []
    off, count = _off(state)
    finding = f"{off} of {count} held-out pairs are not as fast as their hosts and racks' links allow"
    if not state.spending.extend(len(further), done=state.done, spent_s=state.spent_s()):
        state.warnings.append(f"{finding}, and the budget has no room for further pairs")
        return []
    state.warnings.append(f"{finding}; {len(further)} further pairs were added, to guess others from")
    return _planned(state, replace(plan, only=(plan.only or frozenset()) | further, crossing=plan.crossing - further))


def mispredicted(state: State) -> bool:
    """Return whether more held-out pairs than `MOST_OFF` are not as fast as their hosts and the links between them."""
    off, count = _off(state)
    return off > MOST_OFF * count


def _off(state: State) -> tuple[int, int]:
    """Return how many held-out pairs are off by more than `OFF`, and how many can be compared."""
    rate_bps = state.rates()
    expected_bps = {pair: state.concurrency.expected_bps(pair) for pair in sorted(state.plan.held_out)}
    errors = [rate_bps[pair] / bps - 1 for pair, bps in expected_bps.items() if bps > 0 and pair in rate_bps]
    return int(sum(abs(error) > OFF for error in errors)), len(errors)


def _planned(state: State, plan: PathPlan) -> list[list[Pair]]:
    """Continue with another plan. Return the rounds of its pairs without a rate."""
    state.plan = plan
    state.results.only, state.results.held_out = plan.only, plan.held_out
    todo = plan.rounds(state.number, state.here(), state.known)
    state.total = state.done + plan.count * sum(map(len, todo))
    return todo


def cross_links(state: State, todo: list[list[Pair]]) -> Steps[tuple[list[list[Pair]], list[Pair]]]:
    """Let pairs cross links together.

    Returns:
        the remaining rounds, and the pairs that carried less than alone or are not known alone. If few pairs show the
        rates of all, these are just enough to cross each link on which any of them was.
    """
    crossing = state.plan.crossing
    first = state.opening = opening([*todo, *packed(sorted(crossing), {})], state.concurrency)
    state.crossed = []
    state.total += sum(pair in crossing for pairs in first.tests for pair in pairs)
    state.readings |= yield from probe(state, first.ends)
    slowed: list[Pair] = []
    streamed: list[list[Pair]] = []
    for pairs in first.tests:
        if state.stopped:
            break
        if state.method.can_pause and (blocked := state.streams.blocked.intersection(pairs)):
            # Unlike trains, TCP does not wait until the others have connected.
            streamed.append(sorted(blocked))
            pairs = [pair for pair in pairs if pair not in blocked]
        if not pairs:
            continue
        sent = yield from send_rounds(state, [pairs], alone=False, together=True)
        state.crossed.append({probe.pair: probe for probe in sent})
        state.readings |= (concurrent_readings := state.concurrency.take(sent))
        slowed += [
            pair
            for pair in concurrent_readings
            if concurrent_readings[pair].links and not state.concurrency.as_alone(pair, concurrent_readings[pair])
        ]
        streamed += state.streams.waiting([pairs])
        state.check()
    state.readings |= yield from probe(state, streamed)
    if not state.plan.sparse:
        return first.rest, slowed
    rest = [left for pairs in first.rest if (left := [pair for pair in pairs if pair not in crossing])]
    few = _one_of_each_link(state, slowed)
    # The others wait until links are known: alone, each would take as long as a round.
    later = [pair for pair in slowed if pair not in crossing and pair not in few]
    state.total += len(later)
    return [*rest, *([pair] for pair in later)], few


def _one_of_each_link(state: State, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the first pairs that cross all links which any of the pairs crosses."""
    crossed = set[str]()
    few = []
    for pair in pairs:
        if not crossed.issuperset(links := state.concurrency.links(pair)):
            crossed |= links
            few.append(pair)
    return few


def fill(state: State, links: Mapping[str, float], *, sure: bool = False) -> Steps[bool]:
    """Measure the rates of links. Return whether it was tried: not if paths would then exceed the estimate.

    Args:
        state: the measurement.
        links: links with their load when a pair lost, bit/s.
        sure: if it stays unknown whether a link is shared, treat it as not shared.
    """
    if state.filling is None or state.stopped or state.spending.share:
        return False
    return (
        yield from state.filling.fill(links, state.rates(), state.here(), spare_bytes=state.spare_bytes(), sure=sure)
    )


def fill_others(state: State) -> Steps[None]:
    """Fill links of which nothing is known, if any is full: an oversubscribed rack is seldom the only one.

    Before most paths are measured, this saves repeating those that would lose on such a link.
    """
    if not state.spending.share and not state.stopped and (others := state.concurrency.untested()):
        yield from fill(state, others)


def confirm(state: State) -> Steps[None]:
    """Fill each full link until two sums agree, and others once."""
    yield from fill_others(state)
    yield from _test_again(state)
    while state.filling is not None and not state.stopped:
        todo = state.filling.crowding.unsettled(state.concurrency.full)
        if not todo or state.spending.share:
            return
        state.check()
        if not (yield from fill(state, todo)):
            return


def _test_again(state: State) -> Steps[None]:
    """Fill links without a result from the first rounds, for longer: at first together, then each alone."""
    for turn in itertools.count():
        if state.opening is None or (filling := state.filling) is None:
            return
        rates = _rates_alone(state)
        links = untested(state.opening, state.crossed, rates, state.plan.method)
        state.untested = {
            link: pairs
            for link, pairs in links.items()
            if link not in state.concurrency.full and not filling.crowding.free(link)
        }
        todo = filling.crowding.left(state.untested)
        if not todo or state.stopped or state.spending.share or (state.plan.only is not None and not state.plan.sparse):
            return
        state.check()
        if turn == 0:
            for aims in by_test(state.opening, {link: state.untested[link] for link in todo}):
                yield from filling.cross(aims, rates, spare_bytes=state.spare_bytes())
                state.check()
        elif not (yield from fill(state, dict.fromkeys(todo, math.inf), sure=True)):
            return


def shared(state: State) -> dict[str, float]:
    """Return links that were full, with the load that they were seen to carry, bit/s; 0 = unknown."""
    if state.filling is None:
        return {}
    sums_bps: dict[str, float] = {}
    for record in evidence(state):
        sums_bps[record.subject] = max(record.sum_bps, sums_bps.get(record.subject, 0.0))
    return {
        link: sums_bps.get(link, 0.0) for link in sorted(state.concurrency.full) if state.filling.crowding.knows(link)
    }


def _rates_alone(state: State) -> PairRates:
    """Return the rates of pairs alone.

    If few pairs show the rates of all, most that cross a link together were never measured alone.
    """
    if state.filling is None or not state.plan.sparse:
        return state.rates()
    return state.filling.expected(state.rates())


def evidence(state: State) -> tuple[Evidence, ...]:
    """Return the results of the experiments on shared links, including those without a result."""
    if state.filling is None:
        return ()
    rate, crowding = _rates_alone(state), state.filling.crowding
    return (*crowding.records(rate), *(crowding.untold(*each, rate) for each in state.untested.items()))
