"""What packets lost at random leave of one TCP connection's rate."""

from __future__ import annotations

import math

from gavotte.formats.network import Network
from gavotte.terms.goodput import MTU_BYTES, tcp_payload_bytes

CUBIC_C, CUBIC_BETA = 0.4, 0.7
"""RFC 9438, sections 4.5 and 4.6: growth in packets/s^3, and what is left of the window after a loss."""

TIMEOUT_S = 0.2
"""Linux's shortest retransmission timeout, to which the round trip is added."""

TIMEOUTS = 0.2
"""Share of the timeouts of Padhye's model that happen: RACK and tail loss probes (RFC 8985) avoid the others.

`make bench-loss` compares: between 0.1 and 3 % at 2 to 40 ms, one connection reaches 0.8 to 1.1 of the predicted rate.
"""


def connection_bps(loss: float, round_trip_s: float, segment_bytes: int) -> float:
    """Return the goodput in bit/s that one CUBIC connection reaches where packets are lost at random.

    1. RFC 9438, section 5.1, figure 5, gives the mean window of CUBIC. Where it is small, CUBIC grows as Reno does,
       whose window is the root of 3 / (2 p) packets (Mathis 1997). The larger of the two holds.
    2. Of the losses, 3 / window end in a timeout (Padhye 1998), of which `TIMEOUTS` are left.

    Args:
        loss: share p of packets that are lost, 0 to 1.
        round_trip_s: without queues.
        segment_bytes: TCP payload of a full packet.

    Returns:
        infinite without loss or without a round trip.
    """
    if loss <= 0 or round_trip_s <= 0:
        return math.inf
    growth = CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))
    cubic_packets = math.pow(growth, 0.25) * math.pow(round_trip_s / loss, 0.75)
    packets = max(math.sqrt(1.5 / loss), cubic_packets, 1.0)
    waited_s = loss * TIMEOUTS * min(1.0, 3 / packets) * (TIMEOUT_S + round_trip_s)
    return 8 * segment_bytes / (round_trip_s / packets + waited_s)


def with_loss(network: Network) -> Network:
    """Return the Network whose lossy pairs carry over one connection what their loss leaves of it.

    Several connections together still get the measured rate: each recovers from its own losses. The Network that is
    returned has no `loss` any more, since its rates include it.
    """
    if not network.loss:
        return network
    if not network.rate_bps or not network.latency_s:
        return network.model_copy(update={"loss": []})
    size = range(len(network.hosts))
    rates = [list(row) for row in network.rate_bps]
    several = [list(row) for row in network.several_bps] or [[None] * len(size) for _ in size]
    lossy = [(m, n, loss) for m, row in enumerate(network.loss) for n, loss in enumerate(row) if loss and m != n]
    for m, n, loss in lossy:
        rate_bps = rates[m][n]
        if rate_bps is None:
            continue
        round_trip_s = sum(network.pair_latency_s(*pair) or 0.0 for pair in ((m, n), (n, m)))
        mtu_bytes = network.pair_mtu_bytes(m, n) or MTU_BYTES
        one_bps = connection_bps(loss, round_trip_s, tcp_payload_bytes(mtu_bytes, ipv6=network.hosts[n].ipv6))
        if one_bps < rate_bps:
            several[m][n] = max(rate_bps, several[m][n] or 0.0)
            rates[m][n] = one_bps
    several = several if any(map(any, several)) else []
    return network.model_copy(update={"rate_bps": rates, "several_bps": several, "loss": []})
