"""The search by which the preloaded library tunes itself, under sanitizers: it finds valid trees and rings."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from gavotte.formats.history import Floats


class Search:
    """The C search in a process of its own."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def find(self, per_byte_ps: Floats, root: int, size_bytes: int) -> list[list[float]]:
        """Return the numbers of a tree, a chain, two rings and the binomial tree, as search.c prints them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        row = " ".join(f"{value:.6g}" for value in per_byte_ps.ravel())
        self._process.stdin.write(f"{len(per_byte_ps)} {root} {size_bytes} 200000\n{row}\n")
        self._process.stdin.flush()
        lines = [self._process.stdout.readline() for _ in range(5)]
        if not lines[-1]:
            raise AssertionError(self._process.communicate()[1])
        return [[float(word) for word in line.split()] for line in lines]

    def close(self) -> None:
        """Let it end, which also reports leaks."""
        _, message = self._process.communicate(timeout=30)
        assert self._process.returncode == 0, message


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Search]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    program, source = tmp_path_factory.mktemp("search") / "search", Path(__file__).with_name("search.c")
    with resources.as_file(resources.files("gavotte.collective") / "shim_search.h") as header:
        line = [compiler, "-g", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{header.parent}"]
        line += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", str(program), str(source), "-lm"]
        made = subprocess.run(line, capture_output=True, text=True, timeout=100)
    if made.returncode and "sanitize" in made.stderr and "cannot find" in made.stderr:
        pytest.skip("no sanitizers")
    assert made.returncode == 0, made.stderr
    present = Search(program)
    yield present
    present.close()


def rates(seed: int, ranks: int) -> Floats:
    """Return times of a byte in ps: each host has a rate of its own, some pairs are slower."""
    generator = np.random.default_rng(seed)
    host = generator.uniform(100_000, 400_000, ranks)
    return np.maximum(host[:, None], np.where(generator.random((ranks, ranks)) < 0.2, 800_000, 0))


@given(st.integers(0, 1000), st.integers(3, 24), st.integers(30_000, 5_000_000))
@examples(30)
def test_plans_are_trees_and_rings_of_all_ranks(search: Search, seed: int, ranks: int, size_bytes: int) -> None:
    root = seed % ranks
    *plans, (binomial_s,) = search.find(rates(seed, ranks), root, size_bytes)
    for number, (seconds, count, *lists) in enumerate(plans):
        parent, order = ([int(each) for each in part] for part in (lists[:ranks], lists[ranks:]))
        assert sorted(order) == list(range(ranks))
        assert 0 < seconds < float("inf")
        first = order[0]
        assert parent[first] == first
        if number < 2:
            assert first == root
            assert all(parent[rank] in order[:place] for place, rank in enumerate(order) if place)
        else:
            members = order[: int(count)]
            assert len(members) >= 2
            assert all(parent[rank] == before for before, rank in pairwise(members))
            assert all(parent[rank] in members for rank in order[int(count) :])
        if number == 1:
            assert all(parent[rank] == before for before, rank in pairwise(order))
    # In one piece, as few pieces would be, a tree that was searched for is not slower than one by rank.
    assert plans[0][0] <= 1.05 * binomial_s


def test_slow_senders_become_leaves(search: Search) -> None:
    per_byte_ps = np.full((8, 8), 100_000.0)
    per_byte_ps[[2, 5]] = 10_000_000.0
    tree, chain, ring, _, (binomial_s,) = search.find(per_byte_ps, 0, 1_000_000)
    assert not {2, 5} & {int(above) for above in tree[2:10]}
    assert int(chain[-1]) in (2, 5)
    assert int(ring[1]) == 6, "both hang"
    assert tree[0] < binomial_s / 10
