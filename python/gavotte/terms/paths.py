"""Return properties of all paths of a Network, as matrices with one row and one column per host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Network
from gavotte.tables import matrix
from gavotte.terms.goodput import MTU_BYTES, tcp_payload_bytes

Floats = npt.NDArray[np.float64]


def segments_bytes(network: Network) -> Floats:
    """Return (N, N) TCP payload of a full packet of each path; paths of unknown MTU have 1500 bytes."""
    size = len(network.hosts)
    mtu_bytes = matrix(network.mtu_bytes) if network.mtu_bytes else np.full((size, size), np.nan)
    headers_bytes = [MTU_BYTES - tcp_payload_bytes(ipv6=host.ipv6) for host in network.hosts]
    return np.asarray(np.where(np.isnan(mtu_bytes), MTU_BYTES, mtu_bytes) - np.array(headers_bytes))


def round_trips_s(network: Network) -> Floats:
    """Return (N, N) round trips without queues; 0 = unknown."""
    latency_s = np.nan_to_num(matrix(network.latency_s))
    return np.asarray(latency_s + latency_s.T)


def rates_bps(network: Network) -> Floats:
    """Return (N, N) rates of one connection; without one, the least cap of the pair's two hosts; inf = no limit."""
    size = len(network.hosts)
    out, into = (
        np.array([cap_bps or np.inf for cap_bps in caps])
        for caps in zip(*((host.egress_bps, host.ingress_bps) for host in network.hosts), strict=True)
    )
    rate_bps = matrix(network.rate_bps) if network.rate_bps else np.full((size, size), np.nan)
    return np.asarray(np.where(np.isnan(rate_bps), np.minimum(out[:, None], into[None, :]), rate_bps))
