"""Logistic regression on Dask in a lab, as in section 7.5 of Orchestra's paper.

Each iteration broadcasts the weights and shuffles the parts of the gradient.

    python examples/dask/regression.py [--features 500000] [--iterations 5] [--ways gavotte dask]

It prints a JSON line a way: the median seconds of an iteration and of its broadcast, and the loss, the same for all.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np
from cluster import Send, in_lab, parser, senders
from distributed import Client, wait

POINTS = 200
"""Points of one worker; each has this many features that are not 0."""

PRESENT = 50


def points(seed: int, features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indices and values of the features of some points, (POINTS, PRESENT) each, and their classes, -1 or 1."""
    draw = np.random.default_rng(seed)
    places = draw.integers(0, features, (POINTS, PRESENT))
    values = draw.normal(size=(POINTS, PRESENT))
    return places, values, np.where((values * np.cos(places)).sum(axis=1) > 0, 1.0, -1.0)


def gradient(part: tuple[np.ndarray, np.ndarray, np.ndarray], weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return gradient and loss of one worker's points."""
    places, values, classes = part
    margins = classes * (weights[places] * values).sum(axis=1)
    slopes = -classes / (1.0 + np.exp(margins))
    sums = np.zeros_like(weights)
    np.add.at(sums, places.ravel(), (slopes[:, None] * values).ravel())
    return sums, float(np.log1p(np.exp(-margins)).sum())


def slice_of(result: tuple[np.ndarray, float], number: int, count: int) -> np.ndarray:
    """Return a worker's part of one slice, which the shuffle moves."""
    return np.array_split(result[0], count)[number]


def added(*slices: np.ndarray) -> np.ndarray:
    """Return one slice of the whole gradient."""
    return np.sum(slices, axis=0)


def loss_of(result: tuple[np.ndarray, float]) -> float:
    """Return the loss alone."""
    return result[1]


def descend(client: Client, send: Send, features: int, iterations: int) -> tuple[list[float], list[float], float]:
    """Return the seconds of each iteration and of its broadcast, and the last loss."""
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    count = len(workers)
    parts = [client.submit(points, i, features, workers=[at], pure=False) for i, at in enumerate(workers)]
    wait(parts)
    weights, took, sent_s, loss = np.zeros(features), [], [], 0.0
    for _ in range(iterations):
        begin = time.monotonic()
        known = send(weights)
        sent_s.append(time.monotonic() - begin)
        own = [
            client.submit(gradient, part, known, workers=[at], pure=False)
            for part, at in zip(parts, workers, strict=True)
        ]
        whole = []
        for number, at in enumerate(workers):
            pieces = [client.submit(slice_of, result, number, count, pure=False) for result in own]
            whole.append(client.submit(added, *pieces, workers=[at], pure=False))
        loss = sum(client.gather([client.submit(loss_of, result, pure=False) for result in own]))
        weights = weights - 0.1 * np.concatenate(client.gather(whole))
        took.append(time.monotonic() - begin)
        del known
    return took, sent_s, loss


def main() -> None:
    """Run in a new lab, or in the cluster that `--at` names."""
    given = parser(__doc__, features=500_000, iterations=5).parse_args()
    if given.at is None:
        words = ["--features", str(given.features), "--iterations", str(given.iterations)]
        words += ["--workers", str(given.workers), "--ways", *given.ways]
        in_lab(__file__, words, workers=given.workers, mbit=given.mbit)
        return
    with senders(given.at, given.hosts, given.workers) as (client, outcome):
        for way in given.ways:
            took, sent_s, loss = descend(client, outcome[way], given.features, given.iterations)
            result = {"way": way, "features": given.features, "iterations": given.iterations}
            result |= {"iteration_s": statistics.median(took), "broadcast_s": statistics.median(sent_s)}
            print(json.dumps(result | {"loss": round(loss, 6)}), flush=True)


if __name__ == "__main__":
    main()
