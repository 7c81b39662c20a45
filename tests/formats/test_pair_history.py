"""Histories of pairs: the same as matrices, without the pairs of which nothing is known."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.history import (
    History,
    PairHistory,
    Proof,
    in_fitting_form,
    read_history,
    read_pairs,
    write_history,
)
from gavotte.formats.parts.history_arrays import MAX_BYTES
from gavotte.formats.parts.lengths import Lengths


def few() -> PairHistory:
    """Three pairs of four hosts, in two racks."""
    return PairHistory(
        hosts=("a", "b", "c", "d"),
        time_s=np.array([1.0, 2.0]),
        pairs=np.array([[0, 1], [1, 2], [3, 0]]),
        values={
            "alpha_s": np.full((2, 3), 1e-4),
            "beta_Bps": np.array([[1e7, 2e7, np.nan], [1e7, np.nan, 3e7]]),
            "hops": np.array([2, 0, 4]),
            "held_out": np.array([0, 0, 1]),
        },
        lengths=Lengths.of_clusters(4, {2: np.array([0, 0, 2, 2]), 4: np.zeros(4, dtype=np.int64)}),
        cpus=np.array([4.0, 4.0, 2.0, 2.0]),
        memory_bytes=np.array([0, 0, 0, 1 << 30]),
        method="train",
    )


def same(one: PairHistory, other: PairHistory) -> bool:
    arrays = [one.arrays(), other.arrays()]
    assert arrays[0].keys() == arrays[1].keys()
    for key, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][key])
    return one.hosts == other.hosts and one.evidence == other.evidence and one.method == other.method


def test_a_file_of_pairs_is_read_as_pairs_and_as_matrices(tmp_path: Path) -> None:
    write_history(tmp_path / "h.npz", few())
    assert same(read_pairs(tmp_path / "h.npz"), few())
    whole = read_history(tmp_path / "h.npz")
    assert repr(few()) == "<PairHistory: 2 snapshots of 4 hosts, 3 paths measured by train>"
    assert whole.answered == few().answered == 3
    assert whole.beta_Bps[1, 3, 0] == 3e7
    assert np.isnan(whole.beta_Bps[0, 3, 0])
    assert whole.hops.tolist() == [[0, 2, 4, 4], [2, 0, 4, 4], [4, 4, 0, 2], [4, 4, 2, 0]]
    assert whole.held_out is not None
    assert np.argwhere(whole.held_out).tolist() == [[3, 0]]
    assert whole.proof is None


def test_matrices_and_pairs_say_the_same(tmp_path: Path) -> None:
    beta = np.full((1, 3, 3), np.nan)
    beta[0, 0, 1], beta[0, 2, 1] = 1e7, 2e7
    proof = Proof.empty(beta.shape)
    proof.low_Bps[0, 0, 1], proof.verdict[0, 0, 1] = 9e6, 1
    more: dict[str, Any] = {"mtu_bytes": np.zeros((3, 3), dtype=np.int64), "proof": proof}
    more["mtu_bytes"][2, 1] = 1400
    more["hop_addresses"] = np.full((3, 3, 2), "", dtype="<U9")
    more["hop_addresses"][0, 1] = "10.0.0.1", "10.0.0.2"
    history = builders.history(beta, hosts=("a", "b", "c"), **more)
    history.alpha_s[0][np.isnan(beta[0])] = np.nan
    listed = history.in_pairs()
    assert listed.pairs.tolist() == [[0, 1], [2, 1]]
    back = History.of_pairs(listed)
    for key, value in vars(history).items():
        if key == "proof":
            for name, array in vars(value).items():
                np.testing.assert_array_equal(getattr(back.proof, name), array)
        else:
            np.testing.assert_array_equal(getattr(back, key), value)
    write_history(tmp_path / "h.npz", history)
    assert same(read_pairs(tmp_path / "h.npz"), listed)
    assert isinstance(in_fitting_form(listed), History)


def test_hosts_can_be_left_out() -> None:
    left = few().without(["b"])
    assert left.hosts == ("a", "c", "d")
    assert left.pairs.tolist() == [[2, 0]]
    assert left.beta_Bps.tolist() == [[pytest.approx(np.nan, nan_ok=True)], [3e7]]
    assert left.paths().matrix().tolist() == [[0, 4, 4], [4, 0, 2], [4, 2, 0]]
    assert few().without([]).hosts == few().hosts
    with pytest.raises(GavotteError, match="`e`, which is not in the History"):
        few().without(["e"])
    with pytest.raises(GavotteError, match="no host is left"):
        few().without(["a", "b", "c", "d"])
    assert few().without(["a"]).lacks(few()) == 2


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("pairs", np.zeros((3, 3), dtype=np.int64), "pairs: is int64 of shape"),
        ("pairs", np.array([[0, 1], [1, 2], [3, 4]]), "pairs: names a host that is missing"),
        ("pairs", np.array([[0, 1], [0, 1], [3, 0]]), "pairs: are not in order"),
        ("pairs", np.array([[0, 0], [1, 2], [3, 0]]), "pairs: are not in order"),
        ("pairs", np.array([[0.5, 1], [1, 2], [3, 0]]), "pairs: is float64 of shape"),
        ("beta_Bps", np.zeros((2, 2)), "beta_Bps: has shape"),
        ("lengths", np.array([2, 2]), "lengths: are not in ascending order"),
        ("lengths", np.array([0, 2]), "lengths: are no path lengths"),
        ("clusters", np.zeros((2, 3), dtype=np.int64), "clusters: is int64 of shape"),
        ("held_out", np.array([0, 0, 2]), "held_out: contains unknown codes"),
        ("hops", np.array([0, 0, -2]), "hops: is int64 of shape"),
    ],
)
def test_damaged_pairs_are_refused_in_one_line(tmp_path: Path, key: str, value: Any, reason: str) -> None:
    write_history(tmp_path / "h.npz", few())
    arrays = dict(np.load(tmp_path / "h.npz"))
    np.savez(tmp_path / "h.npz", **arrays | {key: value})
    with pytest.raises(FormatError, match=f"h.npz: {reason}") as refused:
        read_pairs(tmp_path / "h.npz")
    assert "\n" not in str(refused.value)


def test_matrices_of_very_many_hosts_are_refused_with_a_remedy(tmp_path: Path) -> None:
    size = 12_000
    assert size * size * 8 * 3 > MAX_BYTES
    rng = random.Random(0)
    pairs = sorted({(rng.randrange(size // 2), rng.randrange(size // 2, size)) for _ in range(100)})
    many = replace(
        few(),
        hosts=tuple(f"h{number}" for number in range(size)),
        pairs=np.array(pairs),
        values={key: np.full((2, len(pairs)), 1e7) for key in ("alpha_s", "beta_Bps")},
        lengths=Lengths(size),
        cpus=np.ones(size),
        memory_bytes=np.zeros(size, dtype=np.int64),
    )
    assert in_fitting_form(many) is many
    write_history(tmp_path / "h.npz", many)
    assert read_pairs(tmp_path / "h.npz").answered == len(pairs)
    with pytest.raises(FormatError, match="hosts: are 12000, too many for matrices; use `gavotte model`"):
        read_history(tmp_path / "h.npz")
