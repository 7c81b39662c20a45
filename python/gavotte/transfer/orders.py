"""Orders of transfers: the rates that a policy gives to running transfers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.transfer.shuffling import Flow, flows_on

POLICIES = tuple(_core.order_names())
"""Rules by which transfers share a network; docs/concepts/transfers.md describes them."""


@dataclass(frozen=True)
class Coflow:
    """A running transfer, which is done when all its flows are.

    Attributes:
        arrival_s: when it arrived, on any clock.
        flows: source and target host and the bytes left of each.
        class_: 0 is the highest.
        weight: its share where weights count.
        sent_bytes: what all its flows have sent, including those that are done.
        due_s: seconds until its deadline; inf = none.
        guaranteed: whether its deadline was promised, so that it keeps the rates that it needs for it.
    """

    arrival_s: float
    flows: Sequence[Flow]
    class_: int = 0
    weight: float = 1.0
    sent_bytes: float = 0.0
    due_s: float = math.inf
    guaranteed: bool = False


@dataclass(frozen=True)
class _Placed:
    """A Coflow with the indices of its hosts."""

    arrival_s: float
    flows: list[tuple[int, int, float]]
    class_: int
    weight: float
    sent_bytes: float
    due_s: float
    guaranteed: bool


@dataclass(frozen=True)
class OrderRates:
    """A policy's decision.

    Attributes:
        rates_bps: for each coflow, one rate per flow; inf = nothing limits it.
        again_s: call again after this many seconds at the latest, even if no coflow arrives and no flow ends; inf = not
            necessary.
    """

    rates_bps: list[npt.NDArray[np.float64]] = field(default_factory=list)
    again_s: float = np.inf


def order_rates(network: Network, policy: str, coflows: Sequence[Coflow]) -> OrderRates:
    """Return the rates that a policy gives to running transfers, by the same code as `simulate_transfers`.

    No link gets more than its rate, and every flow is limited by a full link. The order of the input matters only
    between coflows that arrived at the same time.

    Args:
        network: hosts and the links between them.
        policy: one of `POLICIES`.
        coflows: running transfers.

    Raises:
        GavotteError: for an unknown policy or host, or a number out of range.
    """
    # A flow that has ended gets no share, though its coflow is still running: the share would idle.
    open_ = [np.array([flow[2] != 0 for flow in each.flows], bool) for each in coflows]
    placed = [each for each in (_placed(network, coflow) for coflow in coflows) if each.flows]
    try:
        rates_bps, again_s = _core.order_rates(_core.Network(network.cautious()), policy, placed)
    except ValueError as error:
        raise GavotteError(str(error)) from None
    rates = [np.zeros(len(own)) for own in open_]
    ends = np.cumsum([own.sum() for own in open_])
    for own, wants, shares in zip(rates, open_, np.split(rates_bps, ends[:-1]), strict=False):
        own[wants] = shares
    return OrderRates(rates, again_s)


def serving_order(network: Network, policy: str, coflows: Sequence[Coflow]) -> list[int]:
    """Return the order in which a policy serves transfers, as their indices; those at the front run if not all can.

    Where sizes decide, a transfer of unknown size, such as a broadcast that has not begun, is at the front.

    Args:
        network: hosts and the links between them.
        policy: one of `POLICIES`.
        coflows: running and waiting transfers.

    Raises:
        GavotteError: as `order_rates`.
    """
    placed = [_placed(network, coflow) for coflow in coflows]
    try:
        return _core.serving_order(_core.Network(network.cautious()), policy, placed)
    except ValueError as error:
        raise GavotteError(str(error)) from None


@dataclass(frozen=True)
class Shortage:
    """Why the deadline of a transfer cannot be promised.

    Attributes:
        link: readable name of the link that decides.
        needed_bps: the rate that the transfer needs there, in bit/s.
        left_bps: the rate that earlier promises leave there, in bit/s.
        earliest_s: the shortest deadline that could be promised now; inf = promises take the whole link.
    """

    link: str
    needed_bps: float
    left_bps: float
    earliest_s: float


def deadline_shortage(
    network: Network, coflows: Sequence[Coflow], new: Coflow, *, share: float = 1.0
) -> Shortage | None:
    """Return why a deadline cannot be promised while earlier promises are kept (Varys, section 5.3); None if it can.

    Args:
        network: hosts and the links between them.
        coflows: unfinished transfers.
        new: the transfer with the deadline.
        share: most of each link's rate that is promised, 0 to 1.

    Raises:
        GavotteError: as `order_rates`.
    """
    placed = [_placed(network, coflow) for coflow in (*coflows, new)]
    short = _core.deadline_shortage(_core.Network(network.cautious()), placed[:-1], placed[-1], share)
    return None if short is None else Shortage(*short)


def _placed(network: Network, coflow: Coflow) -> _Placed:
    """Return a coflow with the indices of its hosts, and without flows that have ended."""
    if not (0 < coflow.weight < np.inf and 0 <= coflow.class_ < 2**32 and 0 <= coflow.sent_bytes < np.inf):
        raise GavotteError(
            f"weight {coflow.weight}, class {coflow.class_}, {coflow.sent_bytes} bytes sent",
            hint="a weight is above 0, a class and bytes from 0 on",
        )
    flows = [flow for flow in flows_on(network, coflow.flows) if flow[2] != 0]
    return _Placed(
        coflow.arrival_s,
        flows,
        coflow.class_,
        coflow.weight,
        coflow.sent_bytes,
        coflow.due_s,
        coflow.guaranteed,
    )
