"""Errors of the predictors of the next interval, by back-testing: on made weeks, and on a recorded series."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Gravity:
    """Parameters of a synthetic traffic matrix over days.

    The model is published:

    - Gravity with exponentially distributed node totals: Roughan, CCR 35(5), 2005, on simple synthesis of matrices.
    - Its modulation in time, by the hour and the day of the week: Tune and Roughan, SIGCOMM 2015.
    - Noise whose variance is proportional to the mean: Norros' model, as the latter paper uses it.

    Bursts of pairs with Pareto sizes come on top.

    Attributes:
        nodes: number of nodes; each sends to each other.
        days: length of the series.
        every_s: length of an interval.
        swing: amplitude of the daily cycle, as a share of the mean.
        weekend: level of Saturday and Sunday, as a share of a weekday's.
        spread: noise: standard deviation of a pair of mean size, as a share of its mean.
        memory: correlation of the noise from one hour to the next.
        bursts: bursts of each pair in a day.
    """

    nodes: int = 12
    days: int = 28
    every_s: float = 3600.0
    swing: float = 0.5
    weekend: float = 0.6
    spread: float = 0.15
    memory: float = 0.7
    bursts: float = 0.5


def gravity(seed: int, given: Gravity) -> Traffic:
    """Return a series of the modulated gravity model. Nodes are in three time zones, which shifts their daily cycles."""
    draw = np.random.default_rng(seed)
    count = given.nodes
    out, into = draw.exponential(1.0, count), draw.exponential(1.0, count)
    mean = np.outer(out / out.sum(), into / into.sum()) * 1e9 * count**2
    np.fill_diagonal(mean, 0.0)
    zone_s = 3600.0 * draw.choice([0, 3, 6], count)
    noise = np.zeros((count, count))
    extra = np.zeros((count, count))
    left = np.zeros((count, count), int)
    kept = given.memory ** (given.every_s / 3600.0)
    typical = mean.sum() / (count * (count - 1))
    names = [f"n{number}" for number in range(count)]
    spans = []
    for step in range(round(given.days * DAY_S / given.every_s)):
        time_s = step * given.every_s
        day = 1 + given.swing * np.sin(2 * np.pi * (time_s + zone_s) / DAY_S)
        week = given.weekend if int(time_s // DAY_S) % 7 in (5, 6) else 1.0
        now = mean * week * (day[:, None] + day[None, :]) / 2
        noise = kept * noise + np.sqrt(1 - kept**2) * draw.normal(0, 1, noise.shape)
        # The variance grows with the mean, so small pairs are relatively noisier.
        sent = now + given.spread * np.sqrt(typical * now) * noise
        begin = (left == 0) & (draw.random(left.shape) < given.bursts * given.every_s / DAY_S)
        extra = np.where(begin, mean * draw.pareto(1.5, extra.shape), np.where(left > 0, extra, 0.0))
        left = np.where(begin, draw.geometric(0.5, left.shape), np.maximum(left - 1, 0))
        sent = np.maximum(sent + np.where(left > 0, extra, 0.0), 0.0)
        pairs = {
            (names[a], names[b]): Count.exact(round(float(sent[a, b])))
            for a in range(count)
            for b in range(count)
            if a != b and sent[a, b] >= 1
        }
        spans.append(TrafficSpan(time_s, time_s + given.every_s, pairs))
    return Traffic(("gravity",), tuple(names), tuple(spans))


def matrices(path: Path, every_s: float) -> Traffic:
    """Return a recorded traffic matrix: a CSV with a row for each interval and a column for each pair of N nodes.

    Columns go by source, then by target, as the public series of Abilene and GEANT have them. A header and a column of
    times are skipped.
    """
    rows = [[_number(cell) for cell in line.split(",")] for line in path.read_text().splitlines() if line.strip()]
    table = [[cell for cell in row if cell is not None] for row in rows if sum(cell is not None for cell in row) > 1]
    count = math.isqrt(min(map(len, table)))
    names = [f"n{number}" for number in range(count)]
    spans = []
    for step, row in enumerate(table):
        cells = row[-count * count :]
        pairs = {
            (names[at // count], names[at % count]): Count.exact(round(size))
            for at, size in enumerate(cells)
            if at // count != at % count and size >= 1
        }
        spans.append(TrafficSpan(step * every_s, (step + 1) * every_s, pairs))
    return Traffic((str(path),), tuple(names), tuple(spans))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


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


MODELS = {
    "gravity model, 4 weeks of hours": Gravity(),
    "the same, without bursts and weekends": Gravity(bursts=0.0, weekend=1.0),
    "2 weeks of quarters of an hour": Gravity(days=14, every_s=900.0),
    "4 weeks of hours, twice the noise, 2 bursts a day": Gravity(spread=0.3, bursts=2.0),
}


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
    for what, model in MODELS.items():
        errors = [predict(gravity(seed, model)).errors for seed in range(max(1, seeds // 3))]
        _tell(what, {name: statistics.mean(each[name] for each in errors) for name in errors[0]}, rows)
    tasks = read_tasks(PAGERANK / "ranks.hosts")
    for every_s, day_s in PERIODS_S:
        recorded = profile("pcap", PAGERANK / "pagerank.pcap.gz", tasks, name="job", every_s=every_s).traffic
        _show(f"recorded PageRank (MPI), {len(recorded.spans)} x {every_s} s, day {day_s} s", recorded, day_s, rows)
    if trace is None or not trace.exists():
        print("without --trace FB2010-1Hr-150-0.txt: no recorded hour of a data centre")
        return
    if trace.suffix == ".csv":
        for every_s in (300.0, 900.0):
            _show(f"{trace.name}, as intervals of {every_s:.0f} s", matrices(trace, every_s), DAY_S, rows)
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
