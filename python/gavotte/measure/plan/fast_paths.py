"""Paths too fast for trains or for one connection: how many probes by TCP they take, and of how many bytes."""

from __future__ import annotations

MOST_STEPS = 8
"""Numbers of connections that are tried: 1, 2, 4, ..., 32, with the first and the last step repeated."""

FAST_BPS = 1.2e9
"""From this rate on, several connections are tried although a train found the rate of its single flow.

No known limit of single flows is lower, and a host of 1 Gbit/s has none.
"""

HOST_BYTES = 1_900_000_000
"""A snapshot has each host send at most about this many bytes, trains included, where paths are fast."""

MOST_STREAM_BYTES, LEAST_STREAM_BYTES = 64_000_000, 8_000_000
"""Of one probe of this kind, all its connections together. 64 MB take 20 ms at 25 Gbit/s."""


def stream_bytes(paths: int, train_bytes: int) -> int:
    """Return how many bytes one probe may send.

    Args:
        paths: number of paths that a host sends on.
        train_bytes: most bytes that a train on each of them takes.
    """
    spare = (HOST_BYTES - paths * train_bytes) // probes_of_host(paths)
    return min(max(spare, LEAST_STREAM_BYTES), MOST_STREAM_BYTES)


def probes_of_host(paths: int) -> int:
    """Return how many probes of this kind a host sends at most: all steps on its first path, two on each other path."""
    return MOST_STEPS + 2 * (paths - 1)
