"""Errors of the predictors of the next interval, by back-testing: on made weeks, and on a recorded series."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from gavotte.profile import DAY_S, Count, Traffic, TrafficSpan, predict, profile, read_profile, read_tasks

PAGERANK = Path(__file__).parents[2] / "python" / "gavotte" / "demo" / "pagerank"
PREDICTORS = ("previous", "time-of-day", "combined")
PERIODS_S = ((0.5, 2.5), (1.0, 5.0))


def diurnal(seed: int, *, days: int = 7, noise: float = 0.3, walk: float = 0.1) -> Traffic:
    """Return hours of four pairs that follow the time of day, with noise of each hour and a walk that lasts."""
    draw = np.random.default_rng(seed)

    def spans() -> Iterator[TrafficSpan]:
        level = np.zeros(4)
        for hour in range(24 * days):
            level = 0.8 * level + draw.normal(0, walk, 4)
            load = 2 + np.cos(2 * np.pi * (hour / 24 - np.arange(4) / 8))
            sizes = 1e9 * load * np.exp(level + draw.normal(0, noise, 4))
            pairs = {("a", f"b{n}"): Count.exact(round(float(size))) for n, size in enumerate(sizes)}
            yield TrafficSpan(hour * 3600.0, (hour + 1) * 3600.0, pairs)

    return Traffic(("made",), ("a", *(f"b{n}" for n in range(4))), tuple(spans()))


def coflows(path: Path, every_s: float) -> Traffic:
    """Return racks of the public coflow trace (Facebook, 2010), bytes by their coflow's arrival."""
    sums: defaultdict[int, defaultdict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for line in path.read_text().splitlines()[1:]:
        words = line.split()
        interval, mappers = int(float(words[1]) / 1e3 // every_s), words[3 : 3 + int(words[2])]
        for word in words[4 + len(mappers) :]:
            reducer, _, megabytes = word.partition(":")
            for mapper in mappers:
                sums[interval][mapper, reducer] += round(float(megabytes) * 1e6 / len(mappers))
    racks = sorted({rack for pairs in sums.values() for pair in pairs for rack in pair}, key=int)
    spans = [
        TrafficSpan(n * every_s, (n + 1) * every_s, {pair: Count.exact(size) for pair, size in sums[n].items()})
        for n in range(max(sums) + 1)
    ]
    return Traffic((str(path),), tuple(racks), tuple(spans))


def bench(seeds: int, trace: Path | None, rows: list[list[str]]) -> None:
    """Print each predictor's error, and add a row a series."""
    print(
        f"\npredictors on a week of hours, seeds 0 to {seeds - 1}: bytes put to the wrong pair or missed, of those sent"
    )
    for noise, walk in ((0.1, 0.05), (0.3, 0.1), (0.1, 0.3)):
        matches = [predict(diurnal(seed, noise=noise, walk=walk)).errors for seed in range(seeds)]
        _tell(
            f"made week, noise {noise}, walk {walk}",
            {name: statistics.mean(each[name] for each in matches) for name in matches[0]},
            rows,
        )
    tasks = read_tasks(PAGERANK / "ranks.hosts")
    for every_s, day_s in PERIODS_S:
        recorded = profile("pcap", PAGERANK / "pagerank.pcap.gz", tasks, name="job", every_s=every_s).traffic
        _show(f"recorded PageRank (MPI), {len(recorded.spans)} x {every_s} s, day {day_s} s", recorded, day_s, rows)
    if trace is None or not trace.exists():
        print("without --trace FB2010-1Hr-150-0.txt: no recorded hour of a data centre")
        return
    if trace.suffix == ".json":
        recorded = read_profile(trace)
        _show(f"{trace.name}, {len(recorded.spans)} intervals", recorded, DAY_S, rows)
        return
    for every_s in (60.0, 300.0):
        recorded = coflows(trace, every_s)
        _show(f"{trace.name}, {len(recorded.spans)} x {every_s:.0f} s, day 900 s", recorded, 900.0, rows)


def _show(what: str, series: Traffic, day_s: float, rows: list[list[str]]) -> None:
    _tell(what, predict(series, day_s=day_s).errors, rows)


def _tell(what: str, errors: Mapping[str, float], rows: list[list[str]]) -> None:
    rows.append([what, *(f"{errors[name]:.1%}" if name in errors else "" for name in PREDICTORS)])
    print(f"{what}: " + ", ".join(f"{name} {error:.1%}" for name, error in errors.items()))
