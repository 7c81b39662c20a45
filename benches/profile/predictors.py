"""Errors of the predictors of the next interval, by back-testing: on made weeks, and on a series that was really recorded."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np

from gavotte.profile import Count, Span, Traffic, predict


def diurnal(seed: int, *, days: int = 7, noise: float = 0.3, walk: float = 0.1) -> Traffic:
    """Hours of four pairs that follow the time of day, with noise of each hour and a walk that lasts."""
    draw = np.random.default_rng(seed)

    def spans() -> Iterator[Span]:
        level = np.zeros(4)
        for hour in range(24 * days):
            level = 0.8 * level + draw.normal(0, walk, 4)
            load = 2 + np.cos(2 * np.pi * (hour / 24 - np.arange(4) / 8))
            sizes = 1e9 * load * np.exp(level + draw.normal(0, noise, 4))
            pairs = {("a", f"b{n}"): Count.exact(round(float(size))) for n, size in enumerate(sizes)}
            yield Span(hour * 3600.0, (hour + 1) * 3600.0, pairs)

    return Traffic(("made",), ("a", *(f"b{n}" for n in range(4))), tuple(spans()))


def bench(seeds: int) -> None:
    """Prints each predictor's error."""
    print(
        f"\npredictors on a week of hours, seeds 0 to {seeds - 1}: bytes put to the wrong pair or missed, of those sent"
    )
    for noise, walk in ((0.1, 0.05), (0.3, 0.1), (0.1, 0.3)):
        found = [predict(diurnal(seed, noise=noise, walk=walk)).errors for seed in range(seeds)]
        told = ", ".join(f"{name} {statistics.mean(each[name] for each in found):.1%}" for name in found[0])
        print(f"noise {noise}, walk {walk}: {told}")
