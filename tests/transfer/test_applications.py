"""Data of programs: objects that survive the way to a Dask worker, and matrices that make sense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests import builders

from gavotte.errors import GavotteError
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.transfer import Broadcast, Shuffle, read_copy
from gavotte.transfer.dask import PAYS_FROM_BYTES, Rates, packed, pays_from_bytes, unpack

CLOUD = builders.network([{"name": name, "egress_bps": 8e6} for name in "abc"])


@pytest.mark.parametrize(
    "data", [None, "ü", {"a": [1, 2]}, np.arange(1000).reshape(10, 100), {"x": np.zeros(0), "y": np.ones((3, 3))}]
)
def test_an_object_is_the_same_after_the_way(data: object, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    with path.open("wb") as file:
        file.writelines(packed(data))
    content = read_copy(path)
    path.unlink()
    np.testing.assert_equal(unpack(content), data)


def test_an_array_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(b"".join(packed(np.arange(100_000))))
    result = unpack(read_copy(path))
    assert not result.flags.owndata
    assert result.ctypes.data % 64 == 0


@pytest.mark.parametrize("content", [b"", b"123", b"\xff" * 100, bytes(8), (5).to_bytes(8, "little") + b"x" * 40])
def test_what_is_no_object_is_told(content: bytes) -> None:
    with pytest.raises(GavotteError, match="not written by a `Scatter`"):
        unpack(memoryview(content))


def test_a_matrix_is_flows() -> None:
    shuffle = Shuffle(builders.inventory("abc"), CLOUD)
    matrix = np.zeros((3, 3), dtype=np.int64)
    matrix[0, 2], matrix[1, 0] = 2_000_000, 5
    flows = [HostBytes("a", "c", 2_000_000), HostBytes("b", "a", 5)]
    assert shuffle.flows(matrix) == flows
    assert shuffle.flows({("a", "c"): 2_000_000, ("b", "a"): 5, ("c", "b"): 0}) == flows
    assert shuffle.bound_s(matrix) == pytest.approx(2.0)
    for wrong, message in (
        (np.zeros((2, 3)), "a matrix of 2 x 3 for 3 hosts"),
        (7, "a matrix of one number"),
        (np.full((3, 3), 0.5), "whole numbers"),
        (np.full((3, 3), np.nan), "whole numbers"),
        (-matrix, "-2000000 bytes from a to c"),
    ):
        with pytest.raises(GavotteError, match=message):
            shuffle.flows(wrong)


def test_a_broadcast_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    inventory = builders.inventory("abc")
    with pytest.raises(GavotteError, match="has no host `q`"):
        Broadcast(inventory, "q")
    with pytest.raises(GavotteError, match="not a plain file name"):
        Broadcast(inventory, "a").send(b"1", "x/y")
    with pytest.raises(GavotteError, match="No such file"):
        read_copy(tmp_path / "nothing")


def test_the_size_from_which_a_broadcast_pays_falls_with_the_number_of_workers() -> None:
    assert [pays_from_bytes(count) for count in sorted(PAYS_FROM_BYTES)] == sorted(
        PAYS_FROM_BYTES.values(), reverse=True
    )
    assert pays_from_bytes(1) == float("inf")
    assert pays_from_bytes(3) == PAYS_FROM_BYTES[2]
    assert pays_from_bytes(100) == PAYS_FROM_BYTES[max(PAYS_FROM_BYTES)]


def test_rates_need_a_host_of_the_network() -> None:
    network = builders.network("ab", [[1e9] * 2] * 2)
    with pytest.raises(GavotteError, match="the inventory has no host of the Network, such as `a`"):
        Rates(network, builders.inventory("c"))
