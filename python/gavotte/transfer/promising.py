"""Promise transfers of the controller their deadlines, or say why not."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.parts.rates import format_rate
from gavotte.transfer.admission import ON_HOST, crowded_host
from gavotte.transfer.orders import Coflow, deadline_shortage

SHARE = 0.95
"""Most of each link's rate that is promised. The rest covers paces that TCP does not quite reach."""

START_S = 1.5
"""Time in which a transfer does not move: its agents are enrolled, its connections opened, its last bytes reported."""

SPARE_S = 0.5
"""Time by which transfers with a promise are paced to end before their deadline."""


def paced_due_s(left_s: float) -> float:
    """Return the seconds in which a transfer is paced to end, given those until its deadline."""
    return max(left_s - SPARE_S, left_s / 2)


def promise_refusal(
    network: Network, new: Coflow, hosts: Collection[str], others: Sequence[tuple[Collection[str], Coflow]]
) -> GavotteError | None:
    """Return why a deadline cannot be promised; None if it can.

    Args:
        network: hosts and the links between them.
        new: the transfer with its deadline, just submitted.
        hosts: its hosts.
        others: hosts and description of each unfinished transfer.
    """
    promised = [(own, coflow) for own, coflow in others if coflow.guaranteed and coflow.due_s > 0]
    host = crowded_host(hosts, [own for own, _ in promised])
    if host is not None:
        return GavotteError(
            f"the deadline cannot be promised: {ON_HOST} transfers with promises use {host}",
            hint="submit it again when one has ended, or use `--late demote`",
        )
    coflows = [coflow for _, coflow in promised]
    timely = replace(new, due_s=new.due_s - START_S)
    short = deadline_shortage(network, coflows, timely, share=SHARE)
    if short is None:
        return None
    earliest = "a later one"
    if math.isfinite(short.earliest_s):
        earliest = f"{math.ceil(10 * (short.earliest_s + START_S + SPARE_S)) / 10:g} s or more"
    needed = "more than any rate" if timely.due_s <= 0 else format_rate(short.needed_bps)
    return GavotteError(
        f"the deadline cannot be promised: {short.link} would have to carry {needed}, "
        f"and earlier promises leave {format_rate(short.left_bps)}",
        hint=f"use {earliest}, or `--late demote` to queue the transfer without a promise",
    )
