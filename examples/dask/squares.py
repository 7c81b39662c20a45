"""Alternating least squares on Dask in a lab, as in section 7.5 of Orchestra's paper.

All ratings are broadcast once. Each half of an iteration broadcasts the factors from the other half.

    python examples/dask/squares.py [--users 3000] [--films 1000] [--iterations 3] [--ways gavotte dask]

It prints a JSON line a way: seconds of the broadcast of the ratings, the median seconds of an iteration, and the root
mean square error, the same for all.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np
from cluster import Send, in_lab, parser, senders
from distributed import Client

RANK = 8
DAMPING = 0.1


def ratings(users: int, films: int) -> np.ndarray:
    """Return (users, films) stars of low rank with noise; seed 0."""
    draw = np.random.default_rng(0)
    stars = draw.normal(size=(users, RANK)) @ draw.normal(size=(RANK, films))
    return stars + 0.1 * draw.normal(size=(users, films))


def solved(stars: np.ndarray, other: np.ndarray, first: int, last: int, by_film: bool) -> np.ndarray:
    """Return the factors of some users, or films, that fit the others' best."""
    rows = (stars.T if by_film else stars)[first:last]
    square = other.T @ other + DAMPING * np.eye(RANK)
    return np.linalg.solve(square, other.T @ rows.T).T


def alternate(client: Client, send: Send, users: int, films: int, iterations: int) -> tuple[float, list[float], float]:
    """Return the seconds of the first broadcast and of each iteration, and the error."""
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    stars = ratings(users, films)
    begin = time.monotonic()
    known = send(stars)
    first_s = time.monotonic() - begin
    factors = {True: np.random.default_rng(1).normal(size=(films, RANK)), False: np.empty((0, RANK))}
    took = []
    for _ in range(iterations):
        begin = time.monotonic()
        for by_film, count in ((False, users), (True, films)):
            other = send(factors[not by_film])
            cuts = np.linspace(0, count, len(workers) + 1).astype(int).tolist()
            parts = [
                client.submit(solved, known, other, m, n, by_film, workers=[at], pure=False)
                for m, n, at in zip(cuts, cuts[1:], workers, strict=False)
            ]
            factors[by_film] = np.concatenate(client.gather(parts))
        took.append(time.monotonic() - begin)
    error = float(np.sqrt(np.mean((stars - factors[False] @ factors[True].T) ** 2)))
    return first_s, took, error


def main() -> None:
    """Run in a new lab, or in the cluster that `--at` names."""
    given = parser(__doc__, users=3000, films=1000, iterations=3).parse_args()
    sizes = [given.users, given.films, given.iterations]
    if given.at is None:
        words = ["--users", str(given.users), "--films", str(given.films), "--iterations", str(given.iterations)]
        words += ["--workers", str(given.workers), "--ways", *given.ways]
        in_lab(__file__, words, workers=given.workers, mbit=given.mbit)
        return
    with senders(given.at, given.hosts, given.workers) as (client, outcome):
        for way in given.ways:
            first_s, took, error = alternate(client, outcome[way], *sizes)
            result = {"way": way, "ratings_bytes": 8 * given.users * given.films, "broadcast_s": first_s}
            print(json.dumps(result | {"iteration_s": statistics.median(took), "error": round(error, 6)}), flush=True)


if __name__ == "__main__":
    main()
