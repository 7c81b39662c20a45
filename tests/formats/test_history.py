"""Histories survive a round trip, and damaged ones are refused in one line."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.history import BY_TCP, History, Proof, read_history, write_history
from gavotte.formats.parts.evidence import Evidence


def example() -> History:
    beta = np.full((2, 3, 3), 1e7)
    beta[0, 0, 1] = np.nan
    fields: dict[str, Any] = {
        "hosts": ("a", "b", "c"),
        "cpus": np.array([4.0, 4.0, 2.0]),
        "memory_bytes": np.array([0, 0, 1 << 33]),
    }
    return builders.history(beta, hops=[[0, 1, 2], [1, 0, 2], [2, 2, 0]], method="choreo", **fields)


def test_round_trip(tmp_path: Path) -> None:
    history = example()
    write_history(tmp_path / "h.npz", history)
    back = read_history(tmp_path / "h.npz")
    for key, value in vars(history).items():
        np.testing.assert_array_equal(getattr(back, key), value)
    assert back.answered == 6


def test_a_host_left_out_leaves_with_all_that_is_told_of_it(tmp_path: Path) -> None:
    proof = Proof.empty((2, 3, 3))
    proof.low_Bps[...] = np.arange(18).reshape(2, 3, 3)
    rates = {"alone_bps": [1.0], "together_bps": [1.0], "sum_bps": 1.0, "low_bps": 1.0, "high_bps": 1.0}
    evidence = tuple(
        Evidence.model_validate(rates | {"pairs": [pair], "overlap_s": 1.0, "verdict": "unknown"})
        for pair in (("a", "b"), ("a", "c"))
    )
    addresses = np.arange(9).astype(np.str_).reshape(3, 3, 1)
    left = replace(example(), proof=proof, evidence=evidence, hop_addresses=addresses).without(["b"])
    assert left.hosts == ("a", "c")
    assert left.evidence == evidence[1:]
    assert left.hops.tolist() == [[0, 2], [2, 0]]
    assert left.cpus.tolist() == [4.0, 2.0]
    assert left.proof is not None
    assert left.proof.low_Bps[1].tolist() == [[9.0, 11.0], [15.0, 17.0]]
    assert left.hop_addresses is not None
    assert left.hop_addresses[..., 0].tolist() == [["0", "2"], ["6", "8"]]
    write_history(tmp_path / "h.npz", left)
    assert read_history(tmp_path / "h.npz").hosts == left.hosts
    with pytest.raises(GavotteError, match="no host is left"):
        left.without(["a", "c"])


def test_proofs_survive_and_unknown_verdicts_do_not(tmp_path: Path) -> None:
    proof = Proof.empty((2, 3, 3))
    proof.low_Bps[0, 0, 1] = 3.5
    proof.verdict[1, 2, 0] = 3
    write_history(tmp_path / "h.npz", replace(example(), proof=proof))
    back = read_history(tmp_path / "h.npz").proof
    assert back is not None
    for key, value in vars(proof).items():
        np.testing.assert_array_equal(getattr(back, key), value)
    proof.verdict[0, 0, 1] = 9
    write_history(tmp_path / "h.npz", replace(example(), proof=proof))
    with pytest.raises(FormatError, match="verdict"):
        read_history(tmp_path / "h.npz")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"alpha_s": None}, "alpha_s"),
        ({"beta_Bps": np.zeros((2, 3, 3))}, "beta_Bps"),
        ({"beta_Bps": np.full((2, 3, 3), -1.0)}, "beta_Bps"),
        ({"beta_Bps": np.full((2, 3, 3), np.inf)}, "beta_Bps"),
        ({"beta_Bps": np.full((2, 3, 4), 1.0)}, "beta_Bps"),
        ({"hosts": np.array(["a", "a", "c"])}, "hosts"),
        ({"hosts": np.array([1, 2, 3])}, "hosts"),
        ({"hosts": np.array(["a", "my host", "c"])}, "hosts[1]"),
        ({"hosts": np.array(["a" * 64, "b", "c"])}, "hosts[0]"),
        ({"alpha_s": np.full((2, 3, 3), 1.7e308)}, "alpha_s"),
        ({"beta_Bps": np.full((2, 3, 3), 1e307)}, "beta_Bps"),
        ({"beta_Bps": np.full((2, 3, 3), 0.01)}, "beta_Bps"),
        ({"time_s": np.array([1.0, np.nan])}, "time_s"),
        ({"hops": np.zeros((2, 2), dtype=int)}, "hops"),
        ({"hops": np.full((3, 3), -1)}, "hops"),
        ({"hops": np.full((3, 3), 256)}, "hops"),
        ({"hops": np.full((3, 3), 2**64 - 1, dtype=np.uint64)}, "hops"),
        ({"by_tcp": np.zeros((3, 3), dtype=np.int64)}, "by_tcp"),
        ({"by_tcp": np.full((2, 3, 3), 9)}, "by_tcp"),
        ({"mtu_bytes": np.full((2, 2), 1500)}, "mtu_bytes"),
        ({"mtu_bytes": np.full((3, 3), 1500.0)}, "mtu_bytes"),
        ({"mtu_bytes": np.full((3, 3), 67)}, "mtu_bytes"),
        ({"mtu_bytes": np.full((3, 3), -1)}, "mtu_bytes"),
        ({"mtu_bytes": np.full((3, 3), 65_537)}, "mtu_bytes"),
        ({"ipv6": np.zeros(2, dtype=np.bool_)}, "ipv6"),
        ({"ipv6": np.zeros(3)}, "ipv6"),
        ({"cpus": np.array([1.0, 0.0, 1.0])}, "cpus"),
        ({"cpus": np.array([1.0, 1e10, 1.0])}, "cpus"),
        ({"memory_bytes": np.full(3, 1 << 62)}, "memory_bytes"),
        ({"memory_bytes": np.full(3, 2**64 - 1, dtype=np.uint64)}, "memory_bytes"),
        ({"alpha_s": np.array(["x"])}, "alpha_s"),
    ],
)
def test_a_wrong_array_is_named(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    arrays = (
        {k: v for k, v in vars(example()).items() if v is not None}
        | {"hosts": np.array(["a", "b", "c"]), "method": np.array("x")}
        | change
    )
    path = tmp_path / "h.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    with pytest.raises(FormatError) as caught:
        read_history(path)
    assert caught.value.field == field
    assert caught.value.remedy


def test_optional_arrays_may_be_left_out(tmp_path: Path) -> None:
    history = example()
    keys = ("alpha_s", "beta_Bps", "time_s")
    np.savez(tmp_path / "h.npz", hosts=np.array(history.hosts), **{key: getattr(history, key) for key in keys})
    result = read_history(tmp_path / "h.npz")
    assert result.cpus.tolist() == [1.0, 1.0, 1.0]
    assert result.mtu_bytes is None
    assert result.mtu().tolist() == [[0] * 3] * 3


def test_mtus_survive_and_follow_their_hosts(tmp_path: Path) -> None:
    mtu_bytes = np.array([[0, 1400, 9000], [1400, 0, 1500], [0, 1500, 0]])
    write_history(tmp_path / "h.npz", replace(example(), mtu_bytes=mtu_bytes))
    history = read_history(tmp_path / "h.npz")
    assert history.mtu().tolist() == mtu_bytes.tolist()
    assert history.without(["b"]).mtu().tolist() == [[0, 9000], [0, 0]]


def test_the_family_of_addresses_survives_and_follows_the_hosts(tmp_path: Path) -> None:
    write_history(tmp_path / "h.npz", replace(example(), ipv6=np.array([False, True, True])))
    history = read_history(tmp_path / "h.npz")
    assert history.without(["b"]).over_ipv6().tolist() == [False, True]
    assert example().over_ipv6().tolist() == [False] * 3


def test_paths_measured_by_tcp_survive_and_follow_their_hosts(tmp_path: Path) -> None:
    by_tcp = np.zeros(example().beta_Bps.shape, dtype=np.int64)
    by_tcp[0, 2, 1] = BY_TCP.index("udp-blocked")
    write_history(tmp_path / "h.npz", replace(example(), by_tcp=by_tcp))
    history = read_history(tmp_path / "h.npz")
    assert history.measured_by_tcp("udp-blocked") == [(2, 1)]
    assert history.of_hosts([2, 1]).measured_by_tcp("udp-blocked") == [(0, 1)]
    assert example().measured_by_tcp("udp-blocked") == []


def test_damage_anywhere_is_one_line(tmp_path: Path) -> None:
    write_history(tmp_path / "h.npz", example())
    whole = (tmp_path / "h.npz").read_bytes()
    rng = random.Random(7)
    path = tmp_path / "damaged.npz"
    for _ in range(300):
        content = bytearray(whole[: rng.randrange(len(whole) + 1)] if rng.random() < 0.3 else whole)
        for _ in range(rng.randrange(1, 8)):
            if content:
                content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)
        try:
            read_history(path)
        except FormatError as error:
            assert "\n" not in str(error)


def test_what_would_fill_the_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.npz"
    arrays: dict[str, Any] = {
        "hosts": np.array(["a", "b"]),
        "time_s": np.array([1.0]),
        "alpha_s": np.full((1, 2, 2), 1e-4),
    }
    # A foreign array is not read, whatever its size.
    np.savez_compressed(path, **arrays, beta_Bps=np.full((1, 2, 2), 1e7), zeros=np.zeros(1 << 20))
    monkeypatch.setattr("gavotte.formats.parts.history_arrays.MAX_BYTES", 1 << 20)
    assert read_history(path).hosts == ("a", "b")
    np.savez_compressed(path, **arrays, beta_Bps=np.zeros((1, 1 << 10, 1 << 10)))
    with pytest.raises(FormatError, match="unpacks to"):
        read_history(path)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "h.npz"
    np.savez(path, hosts=np.array([{}], dtype=object))
    with pytest.raises(FormatError):
        read_history(path)


def test_a_bucket_is_whole_only_after_a_pause_that_fills_it() -> None:
    proof = replace(Proof.empty((1, 2, 2)), bucket_bytes=np.full((1, 2, 2), 1e6))
    rate = np.full((1, 2, 2), 10e6)
    # A bucket that was emptied 0.1 s ago holds exactly the 1 MB that came in since: its depth stays unknown.
    for idle_s, full in ((0.1, False), (0.2, True), (np.inf, True), (np.nan, False)):
        assert replace(proof, idle_s=np.full((1, 2, 2), idle_s)).bucket_full(rate).all() == full
