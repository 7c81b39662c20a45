"""Phases and predictions of a series; merging and comparing of profiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches.profile.predictors import Gravity, gravity
from tests.profile.frames import A, B, C, pcap_bytes, tcp
from tests.shell import gavotte

from gavotte.errors import GavotteError
from gavotte.profile import Count, Traffic, TrafficSpan, app_of, compare, merge, phases, predict

HOUR_S = 3600.0


def series(sizes: Callable[[int], dict[tuple[str, str], float]], intervals: int, every_s: float = 1.0) -> Traffic:
    spans = [
        TrafficSpan(n * every_s, (n + 1) * every_s, {pair: Count.exact(round(size)) for pair, size in sizes(n).items()})
        for n in range(intervals)
    ]
    return Traffic(("series",), ("x", "y", "z"), tuple(spans))


def test_phases_are_where_the_pattern_changes() -> None:
    draw = np.random.default_rng(3)

    def sizes(n: int) -> dict[tuple[str, str], float]:
        noise = draw.uniform(0.8, 1.2)
        return {("x", "y"): 1e6 * noise} if n < 20 or n >= 50 else {("y", "z"): 4e6 * noise, ("x", "y"): 1e5}

    result = series(sizes, 80)
    assert phases(result) == [(0, 20), (20, 50), (50, 80)]
    app = app_of(result, name="job").app
    assert sorted({transfer.phase for transfer in app.transfer}) == [0, 1, 2]
    assert sum(t.bytes for t in app.transfer if t.phase == 1 and t.source == "y") == pytest.approx(30 * 4e6, rel=0.1)
    assert app.total_bytes == result.bytes


@pytest.mark.parametrize("seed", range(5))
def test_noise_has_no_phases(seed: int) -> None:
    draw = np.random.default_rng(seed)
    result = series(lambda _: {("x", "y"): draw.uniform(5e5, 2e6), ("y", "z"): draw.exponential(1e6)}, 100)
    assert phases(result) == [(0, 100)]


def diurnal(days: int, seed: int, *, noise: float = 0.1) -> Traffic:
    """Hours of traffic that follow the time of day, with noise of each hour and pair."""
    draw = np.random.default_rng(seed)

    def sizes(n: int) -> dict[tuple[str, str], float]:
        hour = 2 + np.cos(2 * np.pi * n / 24)
        return {
            ("x", "y"): 1e9 * hour * draw.lognormal(0, noise),
            ("y", "z"): 1e9 * (3 - hour / 2) * draw.lognormal(0, noise),
        }

    return series(sizes, 24 * days, HOUR_S)


def test_the_time_of_day_predicts_what_follows_it() -> None:
    prediction = predict(diurnal(7, 1))
    assert set(prediction.errors) == {"previous", "time-of-day", "combined"}
    assert prediction.errors["time-of-day"] < prediction.errors["previous"]
    assert prediction.errors["combined"] < prediction.errors["previous"]
    assert prediction.tested["previous"] == 24 * 7 - 1
    assert prediction.tested["time-of-day"] == 24 * 6
    assert prediction.pairs["x", "y"] == pytest.approx(3e9, rel=0.25), "the next hour is midnight's"


def test_a_walk_is_predicted_by_its_last_step() -> None:
    draw = np.random.default_rng(5)
    level = [1e9]

    def sizes(_: int) -> dict[tuple[str, str], float]:
        level[0] *= draw.lognormal(0, 0.15)
        return {("x", "y"): level[0]}

    prediction = predict(series(sizes, 24 * 7, HOUR_S))
    assert prediction.errors["previous"] < prediction.errors["time-of-day"]
    assert prediction.method in ("previous", "combined")


def test_a_short_series_is_no_prediction() -> None:
    with pytest.raises(GavotteError, match="needs a series of three intervals"):
        predict(series(lambda _: {("x", "y"): 1.0}, 2))
    with pytest.raises(GavotteError, match="a day of 1 s has no interval of 3600 s"):
        predict(diurnal(1, 1), day_s=1.0)


def whole(**sizes: int) -> Traffic:
    counts = {(pair[0], pair[1]): Count.exact(size) for pair, size in sizes.items()}
    return Traffic(("run",), ("x", "y", "z"), (TrafficSpan(None, None, counts),))


def test_profiles_differ_by_the_share_that_moved() -> None:
    comparison = compare(whole(xy=600, yz=400), whole(xy=1200, yz=800))
    assert (comparison.moved_share, comparison.volume_ratio, comparison.verdict) == (0, 2, "alike")
    comparison = compare(whole(xy=600, yz=400), whole(xy=300, yz=400, zx=300))
    assert comparison.moved_share == pytest.approx(0.3)
    assert comparison.verdict == "different"
    assert comparison.pairs[0] == ("x", "y", 0.6, 0.3)


def sampled(width: int) -> Traffic:
    """Return a sampled profile, whose intervals reach this many bytes to each side."""
    counts = {("x", "y"): Count(550, 550 - width, 550 + width), ("y", "z"): Count(450, 450 - width, 450 + width)}
    return Traffic(("s",), ("x", "y", "z"), (TrafficSpan(None, None, counts),))


def test_wide_intervals_show_neither_a_change_nor_that_there_is_none() -> None:
    comparison = compare(whole(xy=600, yz=400), sampled(200))
    assert (comparison.verdict, comparison.low_share) == ("cannot tell", 0)
    assert comparison.high_share == pytest.approx(0.25)
    assert comparison.detectable_share == pytest.approx(0.15)
    # The share of 5 % must be known to 5 %, and is to 20 %.
    assert comparison.times == 16
    assert compare(whole(xy=600, yz=400), sampled(40)).verdict == "alike"
    assert compare(whole(xy=900, yz=100), sampled(200)).verdict == "different"
    with pytest.raises(GavotteError, match="has no bytes between two tasks"):
        compare(whole(xy=1), whole(xx=5))


def test_runs_merge_to_their_mean() -> None:
    result = merge([whole(xy=600), whole(xy=1200, yz=50)])
    assert result.counts == {("x", "y"): Count(900, 600, 1200), ("y", "z"): Count(25, 0, 50)}


@pytest.mark.slow
def test_the_commands(tmp_path: Path) -> None:
    frames = [tcp(A, B, 1000, seq=n * 1000) for n in range(3)] + [tcp(B, C, 1000, seq=n * 1000) for n in range(3)]
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(frames))
    (tmp_path / "b.pcap").write_bytes(pcap_bytes(frames[:3]))
    done = gavotte("profile", "pcap", "a.pcap", "--every", "0.001", "--json", "-o", "a.app.toml", cwd=tmp_path).stdout
    assert len(json.loads(done)["series"]) >= 5
    (tmp_path / "a.json").write_text(done)
    gavotte("profile", "pcap", "b.pcap", "-o", "b.app.toml", cwd=tmp_path)
    same = gavotte("profile", "diff", "a.json", "a.app.toml", "--json", cwd=tmp_path)
    assert (same.returncode, json.loads(same.stdout)["verdict"]) == (0, "alike")
    other = gavotte("profile", "diff", "a.json", "b.app.toml", "--json", cwd=tmp_path)
    assert (other.returncode, json.loads(other.stdout)["moved_share"]) == (3, 0.5)
    wide = json.loads(done) | {"series": []}
    wide["pairs"] = [pair | {"low_bytes": 1000, "high_bytes": 9000} for pair in wide["pairs"]]
    (tmp_path / "wide.json").write_text(json.dumps(wide))
    open_ = gavotte("profile", "diff", "a.json", "wide.json", cwd=tmp_path)
    assert open_.returncode == 4
    assert "cannot tell: " in open_.stderr
    merged = gavotte("profile", "merge", "a.json", "b.app.toml", "-o", "m.app.toml", "--json", cwd=tmp_path)
    assert {pair["bytes"] for pair in json.loads(merged.stdout)["pairs"]} == {3000, 1500}
    document = json.loads(gavotte("profile", "predict", "a.json", "--json", cwd=tmp_path).stdout)
    assert document["errors"]["previous"] >= 0
    (tmp_path / "bad.json").write_text('{"pairs": [{}]}')
    bad = gavotte("profile", "diff", "a.json", "bad.json", cwd=tmp_path)
    assert bad.returncode == 1
    assert "is not a profile" in bad.stderr


def test_the_synthetic_matrix_is_a_gravity_model_with_days_and_weekends() -> None:
    model = replace(Gravity(), nodes=5, days=14, spread=0.0, bursts=0.0)
    made = gravity(3, model)
    assert made.spans == gravity(3, model).spans
    assert made.spans != gravity(4, model).spans
    sent = np.zeros((5, 5))
    for (source, target), count in made.counts.items():
        sent[int(source[1:]), int(target[1:])] = count.bytes
    # In a gravity model the cross ratio of four pairs without common ends is 1; nodes' time zones change it a little.
    assert sent[0, 2] * sent[1, 3] == pytest.approx(sent[0, 3] * sent[1, 2], rel=0.02)
    totals = [sum(count.bytes for count in span.counts.values()) for span in made.spans]
    days = np.array(totals).reshape(14, 24).sum(axis=1)
    assert days[5] == pytest.approx(model.weekend * days[4], rel=1e-6)
    hours = np.array(totals[:24])
    assert hours.max() > 1.5 * hours.min()
    bursty = gravity(3, replace(model, bursts=5.0))
    assert max(sum(count.bytes for count in span.counts.values()) for span in bursty.spans) > 1.5 * max(totals)
