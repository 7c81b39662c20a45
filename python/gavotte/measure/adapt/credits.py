"""Credits of hosts that run out during a measurement: which paths they concern, and which are measured again."""

from __future__ import annotations

import math

from gavotte.measure.adapt.results import with_credit
from gavotte.measure.adapt.state import State
from gavotte.measure.plan.credit import Sending
from gavotte.measure.plan.methods.method import LOWER_BOUNDS, Reading
from gavotte.terms import Pair
from gavotte.terms.credit import OWN, Credit, is_credit
from gavotte.terms.goodput import GOODPUT_PER_WIRE


def keep_credits(state: State) -> None:
    """Name credits that ran out between two snapshots, and never mix rates from before and after.

    1. Credits that ran out since the snapshot before are added to those that are known.
    2. A reading of C, in any snapshot, becomes the newest reading of r on its path, with C as the peak.
    3. Readings of r in this snapshot get the credit, so that it is named.
    """
    names, paths = state.plan.names, state.results.paths
    for source, credit in state.spent_credits.take(state.sendings).items():
        state.credits.setdefault(names[source], credit)
    for source, credit in ((state.index[name], credit) for name, credit in state.credits.items()):
        middle_bps = math.sqrt(credit.peak_bps * credit.rate_bps)
        known = sorted(at for at, path in paths.items() if at[1] == source and path.answered)
        known = [at for at in known if not state.concurrency.mates(at[1:])]
        spent = {at[1:]: paths[at] for at in known if paths[at].reading.goodput_bps < middle_bps}
        for at in known:
            path = spent.get(at[1:])
            if path is None:
                continue
            if paths[at].reading.goodput_bps >= middle_bps:
                paths[at] = with_credit(path, credit)
            elif at[0] == state.number and path.reading.goodput_bps >= OWN * credit.rate_bps:
                paths[at] = with_credit(paths[at], credit)


def note_sending(state: State, pair: Pair, reading: Reading, size_bytes: int, end_s: float) -> None:
    """Note what a probe shows of its source's credit."""
    if reading.refusal or state.concurrency.mates(pair) or reading.verdict in LOWER_BOUNDS:
        return
    if pair in state.plan.crossing:
        # It was not alone, so that a lower rate shows no credit that ran out.
        return
    if pair in state.streams.refused:
        # Where no train is steady, a lower rate shows no credit that ran out.
        return
    hops = 0 if state.results.lengths is None else state.results.lengths[pair]
    state.sendings.take(Sending(pair, reading.goodput_bps, size_bytes, end_s, hops))
    # By the payload of MTU 1500: a few percent do not matter here.
    ahead_bytes = GOODPUT_PER_WIRE * reading.bucket_bytes
    if is_credit(ahead_bytes, reading.goodput_bps, reading.peak_bps):
        state.sendings.show(pair[0], Credit(reading.peak_bps, reading.goodput_bps, ahead_bytes))
