"""Trees are read without the rest of Gavotte, and wrong files are reported."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collective.clouds import network

from gavotte.collective import plan
from gavotte.errors import FormatError
from gavotte.formats.collective import read_collective, write_collective


def trees_module() -> ModuleType:
    """Load the file alone: importing its package starts MPI."""
    path = Path(__file__).parents[2] / "python" / "gavotte" / "mpi" / "trees.py"
    spec = importlib.util.spec_from_file_location("trees_alone", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["trees_alone"] = module
    spec.loader.exec_module(module)
    return module


trees = trees_module()


def test_what_is_planned_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.tree.json"
    planned = plan(network(9), "allreduce", size_bytes=1 << 20, algorithm="search")
    write_collective(path, planned)
    read = trees.read_trees(path)
    assert [tree.operation for tree in read] == ["reduce", "broadcast"]
    for tree, stage in zip(read, planned.stages, strict=True):
        assert [list(below) for below in tree.children] == stage.children
        assert tree.root == stage.root
        assert sorted(tree.below(tree.root)) == list(range(9))
        assert len(tree.pieces(1 << 20)) == stage.segments


@pytest.mark.parametrize(("key", "value"), [("segments", 0), ("segments", -2), ("bytes", -1), ("segments", 1e400)])
def test_pieces_of_no_number_are_refused(key: str, value: float, tmp_path: Path) -> None:
    path = tmp_path / "c.tree.json"
    write_collective(path, plan(network(4), "broadcast", size_bytes=1 << 20, root="h0", algorithm="binomial"))
    content = json.loads(path.read_text())
    content["stages"][0][key] = value
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"is not a \*.tree.json"):
        trees.read_trees(path)


def test_two_roots_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.tree.json"
    planned = plan(network(4), "allgather", size_bytes=1 << 20, root="h0", algorithm="binomial")
    write_collective(path, planned)
    content = json.loads(path.read_text())
    content["stages"][1] |= {"order": [1, 0, 2, 3], "parent": [1, 1, 1, 1]}
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="two roots"):
        trees.read_trees(path)
    with pytest.raises(FormatError, match="one root"):
        read_collective(path)
    content["stages"] = [{**content["stages"][1], "order": [7, 0, 2, 3]}]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="order is invalid"):
        trees.read_trees(path)


def test_a_ring_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.tree.json"
    planned = plan(network(9), "allreduce", size_bytes=9 << 20, algorithm="ring", segments=16)
    write_collective(path, planned)
    (ring,) = trees.read_trees(path)
    (stage,) = planned.stages
    assert (ring.operation, ring.ring, ring.order) == ("allreduce", stage.ring, tuple(stage.order))
    assert ring.segment_bytes == stage.segment_bytes
    assert sorted(rank for group in ring.groups for rank in group) == list(range(9))
    assert [group[0] for group in ring.groups] == stage.order[: stage.ring]
    path.write_text(path.read_text().replace(f'"ring":{stage.ring}', '"ring":10'))
    with pytest.raises(ValueError, match="ring is invalid"):
        trees.read_trees(path)


@given(st.integers(0, 5000), st.integers(0, 700))
def test_pieces_cover_everything_once(size_bytes: int, segment_bytes: int) -> None:
    pieces = trees.Tree("broadcast", (0,), (0,), segment_bytes).pieces(size_bytes)
    assert sum(end - start for start, end in pieces) == size_bytes
    assert all(a[1] == b[0] for a, b in pairwise(pieces))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"stages": 3}',
        '{"stages": [{"operation": "x", "parent": [0, 0], "order": [0], "bytes": 1, "segments": 1}]}',
        '{"stages": [{"operation": "x", "parent": [0, 2, 1], "order": [0, 1, 2], "bytes": 1, "segments": 1}]}',
        '{"stages": [{"operation": "x", "parent": [0, 0], "order": [0, 1, 1], "bytes": 1, "segments": 1}]}',
        '{"stages": [{"operation": "x", "parent": [0], "order": [0], "bytes": 1, "segments": "many"}]}',
    ],
)
def test_wrong_files_name_themselves(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"wrong\.json"):
        trees.read_trees(path)
