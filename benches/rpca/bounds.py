"""How far trees and rings are from a bound that no schedule can beat, and so how much could be gained."""

from __future__ import annotations

import argparse

import numpy as np
from benches.rpca import traces
from benches.rpca.stats import saved

from gavotte.collective import TreeSearch, plan
from gavotte.formats.collective import Operation
from gavotte.formats.history import Floats

BLOCK_BYTES = 8_000_000
MESSAGE_BYTES = 1_000_000
"""Bytes of all ranks together in an allgather: the most that the RPCA paper's N-body exchanges; and an allreduction's
vector.
"""
SPREAD = (20e6, 70e6)
"""Bit/s of hosts whose own caps limit them."""


def scatter_bound_s(per_byte_s: Floats, root: int, block_bytes: float) -> float:
    """Return the bound by the root: every block leaves it, one message at a time, at its fastest pair's rate."""
    fastest = np.delete(per_byte_s[root], root).min()
    return float(traces.ALPHA_S + (len(per_byte_s) - 1) * block_bytes * fastest)


def exchange_bound_s(per_byte_s: Floats, sent_bytes: float) -> float:
    """Return the bound by all bytes to send, shared among senders in proportion to their fastest pairs."""
    own = np.where(np.eye(len(per_byte_s), dtype=bool), np.inf, per_byte_s)
    return float(sent_bytes / (1 / own.min(axis=1)).sum())


def limits(arguments: argparse.Namespace) -> None:
    """Print scatter, allgather and allreduce next to their bounds."""
    print(
        f"\nPossible gain, {arguments.seeds} clouds. Bound of a scatter ({BLOCK_BYTES / 1e6:g} MB a host): the root "
        f"sends all blocks over its fastest pair. Of an allgather ({MESSAGE_BYTES / 1e6:g} MB in all) and allreduce "
        f"({MESSAGE_BYTES / 1e6:g} MB): all senders together. A gather is a scatter on the way back"
    )
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    for size in (64, 196):
        for kind in ("pairs", "hoses"):
            times: dict[Operation, dict[str, list[float]]] = {}
            for seed in seeds:
                for operation, row in _cloud(size, kind, seed).items():
                    for name, seconds in row.items():
                        times.setdefault(operation, {}).setdefault(name, []).append(seconds)
            for operation, rows in times.items():
                _tell(size, kind, operation, {name: np.array(seconds) for name, seconds in rows.items()})


def _cloud(size: int, kind: str, seed: int) -> dict[Operation, dict[str, float]]:
    """Return predicted seconds and the bound of each operation in one cloud."""
    generator = np.random.default_rng(seed)
    per_byte_s = traces.constant(size, generator)
    if kind == "hoses":
        per_byte_s = np.repeat(8 / generator.uniform(*SPREAD, (size, 1)), size, axis=1)
    network = traces.network_of(per_byte_s)
    root = int(generator.integers(size))
    moved = float((size - 1) * MESSAGE_BYTES)
    cases: tuple[tuple[Operation, int, tuple[str, ...], float], ...] = (
        ("scatter", BLOCK_BYTES, ("search",), scatter_bound_s(per_byte_s, root, BLOCK_BYTES)),
        ("allgather", MESSAGE_BYTES // size, ("search", "ring"), exchange_bound_s(per_byte_s, moved)),
        ("allreduce", MESSAGE_BYTES, ("search", "ring"), exchange_bound_s(per_byte_s, 2 * moved)),
    )
    values: dict[Operation, dict[str, float]] = {}
    for operation, size_bytes, algorithms, bound_s in cases:
        times: dict[str, float] = {}
        for algorithm in algorithms:
            top = f"h{root}" if operation == "scatter" else None
            made = plan(
                network, operation, size_bytes=size_bytes, root=top, algorithm=algorithm, search=TreeSearch(seed=seed)
            )
            times = made.baselines_s | {algorithm: made.predicted_s} | times
        values[operation] = times | {"bound": bound_s}
    return values


def _tell(size: int, kind: str, operation: Operation, rows: dict[str, Floats]) -> None:
    beside = "fnf" if operation == "scatter" else "rank-ring"
    most = saved(rows["bound"], rows[beside])
    print(f"  N = {size}, {kind} limit, {operation}: nothing can save more than {most} % of {beside}")
    for name in sorted(rows, key=lambda name: rows[name].mean()):
        over = 100 * (rows[name] / rows["bound"]).mean() - 100
        print(
            f"    {name:<12} {rows[name].mean():>9.4f} s  {over:>7.1f} % above the bound  "
            f"{saved(rows[name], rows[beside]) if name != beside else '':>14} % less than {beside}",
            flush=True,
        )
