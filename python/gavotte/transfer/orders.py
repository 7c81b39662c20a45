"""Orders of transfers: the rates that a policy gives to those that are under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.transfer.shuffling import Flow, flows_on

POLICIES = tuple(_core.order_names())
"""Rules by which transfers share a network; docs/concepts/transfers.md tells them apart."""


@dataclass(frozen=True)
class Coflow:
    """A transfer under way, which is done when all its flows are.

    Attributes:
        arrival_s: when it came, on any clock.
        flows: source and target host and the bytes left of each.
        class_: 0 is the highest.
        weight: its share where weights count.
        sent_bytes: what all its flows have sent, those that are done included.
    """

    arrival_s: float
    flows: Sequence[Flow]
    class_: int = 0
    weight: float = 1.0
    sent_bytes: float = 0.0


@dataclass(frozen=True)
class _Placed:
    """A Coflow with the places of its hosts."""

    arrival_s: float
    flows: list[tuple[int, int, float]]
    class_: int
    weight: float
    sent_bytes: float


@dataclass(frozen=True)
class OrderRates:
    """What a policy says.

    Attributes:
        rates_bps: for each coflow, one rate a flow; inf = nothing limits it.
        again_s: ask again after so many seconds at the latest, even if no coflow comes and no flow ends; inf = no need.
    """

    rates_bps: list[npt.NDArray[np.float64]] = field(default_factory=list)
    again_s: float = np.inf


def order_rates(network: Network, policy: str, coflows: Sequence[Coflow]) -> OrderRates:
    """The rates that a policy gives to transfers under way: the same code that `simulate_transfers` asks.

    No link gets more than its rate, and every flow is held back by a link that is full. The order of the input decides
    nothing but between coflows that arrived at once.

    Args:
        network: hosts and what joins them.
        policy: one of `POLICIES`.
        coflows: what is under way.

    Raises:
        GavotteError: for a policy or a host that there is not, or a number out of range.
    """
    for coflow in coflows:
        if not (0 < coflow.weight < np.inf and 0 <= coflow.class_ < 2**32 and 0 <= coflow.sent_bytes < np.inf):
            raise GavotteError(
                f"weight {coflow.weight}, class {coflow.class_}, {coflow.sent_bytes} bytes sent",
                hint="a weight is above 0, a class and bytes from 0 on",
            )
    # A flow that has ended wants nothing, though its coflow is still there: shares of it would idle.
    open_ = [np.array([flow[2] != 0 for flow in each.flows], bool) for each in coflows]
    placed = [
        _Placed(
            each.arrival_s,
            [flow for flow, wants in zip(flows_on(network, each.flows), own, strict=True) if wants],
            each.class_,
            each.weight,
            each.sent_bytes,
        )
        for each, own in zip(coflows, open_, strict=True)
        if own.any()
    ]
    try:
        rates_bps, again_s = _core.order_rates(_core.Network(network.cautious()), policy, placed)
    except ValueError as error:
        raise GavotteError(str(error)) from None
    rates = [np.zeros(len(own)) for own in open_]
    ends = np.cumsum([own.sum() for own in open_])
    for own, wants, given in zip(rates, open_, np.split(rates_bps, ends[:-1]), strict=False):
        own[wants] = given
    return OrderRates(rates, again_s)
