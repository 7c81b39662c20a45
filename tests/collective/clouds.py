"""Networks and Histories that tests share."""

from __future__ import annotations

import numpy as np
from tests import builders

from gavotte.formats.history import History
from gavotte.formats.network import Network


def network(size: int, seed: int = 0) -> Network:
    """Hosts of very unequal pairs, 100 to 1000 Mbit/s, 0.1 to 1 ms."""
    generator = np.random.default_rng(seed)
    rate_bps, latency_s = generator.uniform(1e8, 1e9, (size, size)), generator.uniform(1e-4, 1e-3, (size, size))
    return builders.network([f"h{i}" for i in range(size)], rate_bps, latency_s)


def history(of: Network, snapshots: int, noise: float, seed: int = 0) -> History:
    """Snapshots of a Network whose times vary by a lognormal factor."""
    generator = np.random.default_rng(seed)
    rate_bps, latency_s = (np.array(rows, dtype=np.float64) for rows in (of.rate_bps, of.latency_s))
    factor = np.exp(generator.normal(0, noise, (snapshots, *rate_bps.shape)))
    return builders.history(rate_bps / 8 / factor, latency_s)
