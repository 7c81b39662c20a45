"""Racks inferred from block transfer times: existing ones, none if there are none, and kept over runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gavotte.errors import FormatError
from gavotte.transfer.blocktimes import BlockTimes
from gavotte.transfer.clustering import infer_partitions, worth_it


def times(racks: int, hosts: int, *, between_s: float, seed: int) -> np.ndarray:
    """(N, N) times of 0.2 s within a rack, with noise and a third unknown; host i is in rack i % racks."""
    random = np.random.default_rng(seed)
    rack = np.arange(hosts) % racks
    seconds = np.where(np.equal.outer(rack, rack), 0.2, between_s) * random.lognormal(0, 0.25, (hosts, hosts))
    seconds[random.random((hosts, hosts)) < 0.33] = np.nan
    return np.asarray(seconds)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("racks", [1, 2, 3])
def test_racks_are_found_in_at_least_nine_of_ten_runs(racks: int) -> None:
    right = 0
    for seed in range(10):
        seconds = times(racks, 30, between_s=0.8, seed=seed)
        result = infer_partitions(seconds, seed=seed)
        right += result == [i % racks for i in range(30)]
        assert worth_it(seconds, result) == (len(set(result)) > 1)
    assert right >= 9


def test_too_little_is_told_nothing_from() -> None:
    assert infer_partitions(np.full((8, 8), np.nan), seed=1) == [0] * 8
    assert infer_partitions(np.full((3, 3), 0.2), seed=1) == [0] * 3
    assert not worth_it(np.full((8, 8), 0.2), [0, 0, 0, 0, 1, 1, 1, 1])


def test_times_are_kept_and_the_newest_count(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "times.json"
    kept = BlockTimes.read(path)
    names = [f"h{i}" for i in range(8)]
    for old in (True, False):
        for _ in range(50):
            for i, source in enumerate(names):
                for j, target in enumerate(names):
                    if i != j:
                        kept.add(source, target, 1e-7 if old or i % 2 == j % 2 else 9e-7)
    kept.write()
    partitions = BlockTimes.read(path).partitions(names, seed=1)
    assert list(partitions.values()) == [0, 1] * 4
    path.write_text('{"format": "gavotte/block-times/1", "times": {"a": {"b": [-1]}}}')
    with pytest.raises(FormatError, match="times"):
        BlockTimes.read(path)
