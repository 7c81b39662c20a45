"""Which host sends which block of a pull."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.builders import MBIT
from tests.examples import examples

from gavotte.errors import GavotteError
from gavotte.transfer import HostCache, PullQuestion
from gavotte.transfer.pulling import Nearness, shared_out

COUNT = 8


def blocks(*numbers: int) -> np.ndarray:
    have = np.zeros(COUNT, bool)
    have[list(numbers)] = True
    return have


def assigned(have: Mapping[str, np.ndarray], **rates: float) -> dict[str, list[int]] | None:
    missing = np.flatnonzero(~have["me"]).tolist()
    return shared_out(missing, have, "me", "origin", lambda name: rates.get(name, 1.0))


def test_the_source_sends_only_what_no_cache_has() -> None:
    have = {"origin": blocks(*range(8)), "me": blocks(0), "near": blocks(0, 1, 2, 3)}
    assert assigned(have) == {"near": [1, 2, 3], "origin": [4, 5, 6, 7]}
    # Without the source, nothing is complete.
    assert assigned({"me": blocks(0), "near": blocks(1, 2)}) is None


def test_a_faster_cache_sends_more() -> None:
    have = {"origin": blocks(*range(8)), "me": blocks(), "slow": blocks(*range(8)), "fast": blocks(*range(8))}
    shares = assigned(have, fast=3.0)
    assert shares is not None
    assert (len(shares["fast"]), len(shares["slow"])) == (6, 2)


def test_the_rack_comes_first() -> None:
    racks = [{"name": "rack0", "members": ["me", "near"], "up_bps": 8 * MBIT}]
    cloud = builders.network(["me", "near", "far"], egress_bps=8 * MBIT, groups=racks, sharing="groups")
    nearness = Nearness(cloud, "me", ["origin", "me", "near", "far"])
    have = {"me": blocks(), "near": blocks(*range(8)), "far": blocks(*range(8))}
    assert shared_out(range(8), have, "me", "origin", nearness.rate_bps) == {"near": list(range(8))}


@given(st.lists(st.lists(st.booleans(), min_size=COUNT, max_size=COUNT), min_size=2, max_size=6))
@examples(60)
def test_each_missing_block_comes_once_from_a_host_that_has_it(drawn: list[list[bool]]) -> None:
    have = {"me": np.array(drawn[0]), "origin": np.ones(COUNT, bool)}
    have |= {f"h{number}": np.array(own) for number, own in enumerate(drawn[1:])}
    shares = assigned(have)
    assert shares is not None
    assert sorted(block for own in shares.values() for block in own) == np.flatnonzero(~have["me"]).tolist()
    for name, own in shares.items():
        assert all(have[name][block] for block in own)
        assert name != "me"


def test_mistakes_are_one_line() -> None:
    inventory = builders.inventory("ab")
    with pytest.raises(GavotteError, match="the cache `cache` is not the absolute path of a folder"):
        HostCache("cache")
    with pytest.raises(GavotteError, match="a cache of 5 bytes holds no block"):
        HostCache("/cache", 5)
    cache = HostCache("/cache-{host}")
    assert cache.on("a") == "/cache-a"
    with pytest.raises(GavotteError, match="`a` has the object already"):
        _ = PullQuestion("/x", inventory, "a", "a", "/y", cache).names
    with pytest.raises(GavotteError, match="`z`"):
        _ = PullQuestion("/x", inventory, "a", "z", "/y", cache).names
