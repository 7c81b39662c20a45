"""Weighted shuffle scheduling (Orchestra, section 6.3): rates at which all flows of a shuffle end together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, unknown_host
from gavotte.terms.credit import sent_by_hosts, with_credits

FIRST_WINDOW = 10
"""Packets that a TCP connection sends in its first round trip."""

ROOM = 2.5
"""By how much the windows of a flow's connections exceed its rate where packets are lost, since windows vary."""

SMALL = 0.25
"""Share of the mean bytes left below which a flow of a shuffle is small."""

NEARLY = 1e-3
"""A link needs almost as long as the slowest if this share of all bytes in addition makes it the slowest."""

MOST_MORE = 4.0
"""Most times as many connections as without loss."""

Flow = tuple[str, str, float]
"""Source and target host, and the bytes left."""


def wss_rates(network: Network, flows: Sequence[Flow]) -> tuple[npt.NDArray[np.float64], float]:
    """Return rates in proportion to the bytes left, so that all flows end at the lower bound of the shuffle.

    Call it again as flows end or fall behind, with the Network that `credited` returned for all bytes. A pair of
    unknown rate counts as in `Network.cautious`.

    Args:
        network: hosts and the links between them.
        flows: bytes from host to host. Bytes within a host take no time.

    Returns:
        (F,) bit/s, inf = nothing limits that flow, 0 = nothing is left of it; and the bound in seconds: the longest
        time that any link needs for all that crosses it.

    Raises:
        GavotteError: for a host that the network does not have, bytes below zero, or a pair without any known limit.
    """
    rates_bps, bound_s, _ = _wss(network, flows)
    return rates_bps, bound_s


def wss_bound(network: Network, flows: Sequence[Flow]) -> tuple[float, str | None]:
    """Return the lower bound of a shuffle in seconds, and the link that decides it in words, None if nothing limits it.

    A host with a credit has its average rate over all bytes that it sends.

    Args:
        network: hosts and the links between them.
        flows: bytes from host to host.

    Raises:
        GavotteError: for a host that the network does not have, bytes below zero, or a pair without any known limit.
    """
    _, bound_s, link = _wss(credited(network, flows), flows)
    return bound_s, link


def early(flows: Sequence[Flow]) -> list[Flow]:
    """Return flows with at least `SMALL` of the mean bytes that unfinished flows have left.

    Rates for these let small flows end before the others. At the end, the last packet of a slow flow that is lost
    would cost a timeout, and no other flow would have bytes left for the link.
    """
    lefts = [left for _, _, left in flows if left > 0]
    least = SMALL * sum(lefts) / max(1, len(lefts))
    return [(source, target, max(left, least) if left > 0 else left) for source, target, left in flows]


def slowest_flows(network: Network, flows: Sequence[Flow]) -> frozenset[int]:
    """Return the indices of the flows that cross the link which decides the bound, or one that needs almost as long.

    Args:
        network: hosts and the links between them, for a host with a credit as `credited` returns them.
        flows: bytes from host to host.

    Raises:
        GavotteError: as `wss_rates`.
    """
    placed, core = flows_on(network, flows), _core.Network(network.cautious())
    bound_s = _core.wss(core, placed)[1]
    step = NEARLY * sum(left for _, _, left in placed)
    longer = []
    for index, (source, target, left) in enumerate(placed):
        # A flow decides the bound if the shuffle takes longer with a few more of its bytes.
        more = [*placed[:index], (source, target, left + step), *placed[index + 1 :]]
        if left > 0 and _core.wss(core, more)[1] > bound_s:
            longer.append(index)
    return frozenset(longer)


def credited(network: Network, flows: Sequence[Flow]) -> Network:
    """Return the Network in which each host with a credit has its average rate over all bytes of a shuffle.

    Raises:
        GavotteError: as `flows_on`.
    """
    return with_credits(network, sent_by_hosts(network, flows_on(network, flows)))


def _wss(network: Network, flows: Sequence[Flow]) -> tuple[npt.NDArray[np.float64], float, str | None]:
    placed = flows_on(network, flows)
    network.check_pairs((source, target) for source, target, left in placed if left)
    return _core.wss(_core.Network(network.cautious()), placed)


def round_trips_s(network: Network, flows: Sequence[Flow]) -> list[float]:
    """Return the round trip of each flow's path, from the Network's latencies; 0 = unknown.

    Raises:
        GavotteError: as `flows_on`.
    """
    return [
        (network.pair_latency_s(source, target) or 0.0) + (network.pair_latency_s(target, source) or 0.0)
        for source, target, _ in flows_on(network, flows)
    ]


def spread_s(network: Network, flows: Sequence[Flow]) -> list[float]:
    """Return the round trip by which agents count each flow's connections; 0 = unknown.

    It is that of the path, and longer where the path loses packets: a connection's window is then about the root of
    1.5 / loss packets, which may be less than the ten of a first window. The windows of all connections together
    carry `ROOM` times the flow's rate.

    Raises:
        GavotteError: as `flows_on`.
    """
    lost = [network.pair_loss(source, target) or 0.0 for source, target, _ in flows_on(network, flows)]
    more = [min(MOST_MORE, max(1.0, ROOM * FIRST_WINDOW * math.sqrt(loss / 1.5))) for loss in lost]
    return [seconds * factor for seconds, factor in zip(round_trips_s(network, flows), more, strict=True)]


def flows_on(network: Network, flows: Sequence[Flow]) -> list[tuple[int, int, float]]:
    """Return flows with the indices of their hosts.

    Raises:
        GavotteError: for a host that the network does not have, or bytes below zero.
    """
    at = {name: index for index, name in enumerate(network.names)}
    flows = [(known_as(source, at), known_as(target, at), left) for source, target, left in flows]
    for source, target, left in flows:
        for name in (source, target):
            if name not in at:
                raise unknown_host(name, at, "the network")
        if not 0 <= left < np.inf:
            raise GavotteError(f"{left} bytes from `{source}` to `{target}`", hint="use a number from 0 on")
    return [(at[source], at[target], float(left)) for source, target, left in flows]
