"""Predict the rate of one TCP connection on a path that loses packets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Network
from gavotte.tables import matrix, nullable
from gavotte.terms.paths import round_trips_s, segments_bytes
from gavotte.terms.policer import TIMEOUT_S, buckets_bytes, policed_bps

Floats = npt.NDArray[np.float64]

CUBIC_C, CUBIC_BETA = 0.4, 0.7
"""RFC 9438, sections 4.5 and 4.6: growth in packets/s^3, and share of the window that is left after a loss."""

TIMEOUT_SHARE = 0.2
"""Share of the timeouts of Padhye's model that happen: RACK and tail loss probes (RFC 8985) avoid the others.

`make bench-loss` compares: between 0.1 and 3 % at 2 to 40 ms, one connection reaches 0.8 to 1.1 of the predicted rate.
"""


def connection_bps(loss: npt.ArrayLike, round_trip_s: npt.ArrayLike, segment_bytes: npt.ArrayLike) -> Floats:
    """Return the goodput in bit/s that one CUBIC connection reaches where packets are lost at random.

    1. RFC 9438, section 5.1, figure 5, gives the mean window of CUBIC. Where it is small, CUBIC grows as Reno does,
       whose window is the root of 3 / (2 p) packets (Mathis 1997). The larger of the two holds.
    2. Of the losses, 3 / window end in a timeout (Padhye 1998), of which `TIMEOUT_SHARE` are left.

    Args:
        loss: share p of packets that are lost, 0 to 1.
        round_trip_s: without queues.
        segment_bytes: TCP payload of a full packet.

    Returns:
        in the shape of the arguments, which are broadcast; infinite without loss or without a round trip.
    """
    share, trip_s = np.asarray(loss, dtype=np.float64), np.asarray(round_trip_s, dtype=np.float64)
    growth = CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))
    with np.errstate(divide="ignore", invalid="ignore"):
        cubic_packets = growth**0.25 * (trip_s / share) ** 0.75
        packets = np.maximum(np.sqrt(1.5 / share), np.maximum(cubic_packets, 1.0))
        waited_s = share * TIMEOUT_SHARE * np.minimum(1.0, 3 / packets) * (TIMEOUT_S + trip_s)
        rate_bps = 8 * np.asarray(segment_bytes) / (trip_s / packets + waited_s)
    return np.where((share > 0) & (trip_s > 0), rate_bps, np.inf)


def with_loss(network: Network) -> Network:
    """Return the Network whose pairs carry over one connection what random losses and policers leave of their rate.

    Several connections together still get the measured rate: each recovers from its own losses. The Network that is
    returned has no `loss` any more, since its rates include it.
    """
    policed = any(any(row) for row in network.policed)
    if not network.loss and not policed:
        return network
    if not network.rate_bps or not network.latency_s:
        return network.model_copy(update={"loss": []})
    rate_bps, trips_s, segments = matrix(network.rate_bps), round_trips_s(network), segments_bytes(network)
    several_bps = matrix(network.several_bps) if network.several_bps else np.full(rate_bps.shape, np.nan)
    loss = np.nan_to_num(matrix(network.loss)) if network.loss else np.zeros(rate_bps.shape)
    one_bps = connection_bps(loss, trips_s, segments)
    if policed:
        one_bps = np.minimum(one_bps, policed_bps(rate_bps, buckets_bytes(network), trips_s, segments))
    slower = one_bps < rate_bps
    if not slower.any():
        return network.model_copy(update={"loss": []}) if network.loss else network
    several_bps = np.where(slower, np.fmax(rate_bps, several_bps), several_bps)
    rates = {"rate_bps": np.where(slower, one_bps, rate_bps), "several_bps": several_bps}
    changed = {key: nullable(each) for key, each in rates.items()} | {"loss": []}
    if policed:
        # The policers of slower pairs are part of their rates now, so that they do not count twice.
        rows = zip(network.policed, slower.tolist(), strict=True)
        changed["policed"] = [[None if less else value for value, less in zip(*row, strict=True)] for row in rows]
    return network.model_copy(update=changed)
