"""Programs move real bytes: objects in memory, matrices, and objects of a Dask cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests import builders

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import Broadcast, Shuffle, read_copy

pytestmark = pytest.mark.lab

EXAMPLES = Path(__file__).parents[2] / "examples" / "dask"
CLOUD = builders.topology([{"name": name, "egress": "50mbit"} for name in "abc"])
TRUTH = builders.network([{"name": name, "egress_bps": 50e6 * GOODPUT_PER_WIRE} for name in "abc"])


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    with lab.session(CLOUD, source="tests") as session:
        yield session


def test_objects_are_sent_again_and_again(cloud: lab.Session, tmp_path: Path) -> None:
    sending = Broadcast(read_inventory(cloud.hosts_file), "b", folder=str(tmp_path))
    for content in (os.urandom(500_000), bytearray(b"1"), memoryview(os.urandom(300_000))):
        result = sending.send(content)
        assert result.lost == {}
        assert {each.host: read_copy(each.path) == content for each in result.receivers} == {"a": True, "c": True}
        assert result.plan.bound_s is None
        assert result.plan.estimate_s is not None
    # Its ports were probed once.
    assert sending.network is not None
    assert sending.network.names == ["b", "a", "c"]


def test_a_matrix_is_moved(cloud: lab.Session) -> None:
    shuffle = Shuffle(read_inventory(cloud.hosts_file), TRUTH)
    matrix = np.array([[0, 300_000, 100_000], [50_000, 0, 0], [0, 1, 0]])
    result = shuffle.send(matrix)
    assert {(flow.source, flow.target): flow.bytes for flow in result.flows} == {
        ("a", "b"): 300_000,
        ("a", "c"): 100_000,
        ("b", "a"): 50_000,
        ("c", "b"): 1,
    }
    assert result.bound_s == pytest.approx(shuffle.bound_s(matrix))


@pytest.mark.parametrize(
    ("program", "words", "same"),
    [
        ("regression.py", ["--features", "60000", "--iterations", "2"], "loss"),
        ("squares.py", ["--users", "300", "--films", "200", "--iterations", "2"], "error"),
    ],
)
def test_the_papers_applications_find_the_same_either_way(program: str, words: list[str], same: str) -> None:
    line: list[str | Path] = [sys.executable, EXAMPLES / program, "--workers", "2", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    gavotte, dask = (json.loads(report) for report in done.stdout.splitlines())
    assert (gavotte["way"], dask["way"]) == ("gavotte", "dask")
    assert gavotte[same] == dask[same]
    assert 0 < gavotte["broadcast_s"] < 60
