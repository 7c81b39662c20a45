"""Synthetic clouds with a known constant, as Histories: hosts at random in racks of about four, pods of eight racks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gavotte.formats.app import App
from gavotte.formats.history import Floats, History
from gavotte.formats.network import FORMAT, Host, Network

ALPHA_S = 2e-4
NEAR, POD, FAR, MOST = 950e6, 620e6, 420e6, 1000e6
"""Bit/s in a rack, in a pod, further away, and at most."""
BAND = 0.05
"""Standard deviation of the logarithm of every value around its pair's constant."""
SLOW = 2.0
"""A slow-down takes 1 + Exp(2) times as long."""


@dataclass(frozen=True)
class Trace:
    """Snapshots to calibrate on, later ones for judging, and the truth."""

    calibration: History
    later: History
    truth: Network
    ranks: tuple[str, ...]


def constant(size: int, generator: np.random.Generator) -> Floats:
    """(N, N) seconds a byte."""
    rack = generator.integers(0, max(1, size // 4), size)
    pod = rack // 8
    rate = np.where(pod[:, None] == pod[None, :], POD, FAR)
    rate = np.where(rack[:, None] == rack[None, :], NEAR, rate)
    unlike = generator.normal(0, 0.10, (size, 1)) + generator.normal(0, 0.10, (1, size))
    rate = rate * np.exp(unlike + generator.normal(0, 0.15, (size, size)))
    return np.asarray(8 / np.minimum(rate, MOST), dtype=np.float64)


def snapshots(
    per_byte_s: Floats, count: int, slow_share: float, generator: np.random.Generator, *, slow: float = SLOW
) -> Floats:
    """Return (n, N, N) seconds a byte around a constant, a share of them slowed down."""
    shape = (count, *per_byte_s.shape)
    values = per_byte_s * np.exp(generator.normal(0, BAND, shape))
    return np.where(generator.random(shape) < slow_share, values * (1 + generator.exponential(slow, shape)), values)


def history_of(per_byte_s: Floats) -> History:
    """Return snapshots as a History."""
    count, size, _ = per_byte_s.shape
    diagonal = np.eye(size, dtype=bool)
    return History(
        alpha_s=np.where(diagonal, np.nan, np.full(per_byte_s.shape, ALPHA_S)),
        beta_Bps=np.where(diagonal, np.nan, 1 / per_byte_s),
        time_s=np.arange(count, dtype=np.float64),
        hosts=tuple(f"h{i}" for i in range(size)),
        hops=np.zeros((size, size), dtype=np.int64),
        cpus=np.ones(size),
        memory_bytes=np.zeros(size, dtype=np.int64),
    )


def network_of(per_byte_s: Floats) -> Network:
    """Return a constant as a Network."""
    size = len(per_byte_s)
    off = [[i != j for j in range(size)] for i in range(size)]
    return Network(
        format=FORMAT,
        hosts=[Host(name=f"h{i}") for i in range(size)],
        rate_bps=[[8 / float(per_byte_s[i, j]) if off[i][j] else None for j in range(size)] for i in range(size)],
        latency_s=[[ALPHA_S if off[i][j] else None for j in range(size)] for i in range(size)],
    )


def cut(history: History, start: int, end: int) -> History:
    """Return some of the snapshots."""
    return History(
        alpha_s=history.alpha_s[start:end],
        beta_Bps=history.beta_Bps[start:end],
        time_s=history.time_s[start:end],
        hosts=history.hosts,
        hops=history.hops,
        cpus=history.cpus,
        memory_bytes=history.memory_bytes,
    )


def task_graph(size: int, generator: np.random.Generator, degree: int = 8) -> App:
    """Each task sends 5 to 10 MB to some others (section V-A)."""
    transfers = [
        {"source": f"t{i}", "target": f"t{(i + int(step)) % size}", "bytes": int(generator.integers(5_000_000, 10_000_001))}
        for i in range(size)
        for step in generator.choice(np.arange(1, size), min(degree, size - 1), replace=False)
    ]  # fmt: skip
    tasks = [{"name": f"t{i}"} for i in range(size)]
    return App.model_validate({"format": "gavotte/app/1", "name": "graph", "task": tasks, "transfer": transfers})
