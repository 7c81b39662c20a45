"""Networks and Histories that tests share."""

from __future__ import annotations

import numpy as np

from gavotte.formats.history import History
from gavotte.formats.network import FORMAT, Host, Network


def network(size: int, seed: int = 0) -> Network:
    """Hosts of very unequal pairs, 100 to 1000 Mbit/s, 0.1 to 1 ms."""
    generator = np.random.default_rng(seed)
    rate_bps, latency_s = generator.uniform(1e8, 1e9, (size, size)), generator.uniform(1e-4, 1e-3, (size, size))
    return Network(
        format=FORMAT,
        hosts=[Host(name=f"h{i}") for i in range(size)],
        rate_bps=[[None if i == j else float(rate_bps[i, j]) for j in range(size)] for i in range(size)],
        latency_s=[[None if i == j else float(latency_s[i, j]) for j in range(size)] for i in range(size)],
    )


def history(of: Network, snapshots: int, noise: float, seed: int = 0) -> History:
    """Snapshots of a Network whose times vary by a lognormal factor."""
    generator = np.random.default_rng(seed)
    size = len(of.hosts)
    rate_bps = np.array(of.rate_bps, dtype=np.float64)
    factor = np.exp(generator.normal(0, noise, (snapshots, size, size)))
    return History(
        alpha_s=np.repeat(np.array(of.latency_s, dtype=np.float64)[None], snapshots, axis=0),
        beta_Bps=rate_bps / 8 / factor,
        time_s=np.arange(snapshots, dtype=np.float64),
        hosts=tuple(of.names),
        hops=np.zeros((size, size), dtype=np.int64),
        cpus=np.ones(size),
        memory_bytes=np.zeros(size, dtype=np.int64),
    )
