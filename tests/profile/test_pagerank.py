"""The example's application: right in itself, and its committed capture agrees with the program's counts."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.profile.profiled import from_pcap

from gavotte import lab
from gavotte.profile import read_tasks

EXAMPLE = Path(__file__).parents[2] / "examples" / "pagerank"
CAPTURE = Path(__file__).parents[2] / "python" / "gavotte" / "demo" / "pagerank"
RANKS = 16


def rmat() -> ModuleType:
    """The example's graphs. The program itself would start MPI in this process when imported."""
    spec = importlib.util.spec_from_file_location("rmat", EXAMPLE / "rmat.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dense_pagerank(vertices: int, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float64]:
    """The textbook's answer: the eigenvector of the whole matrix."""
    links = np.zeros((vertices, vertices))
    np.add.at(links, (target, source), 1)
    out = links.sum(axis=0)
    links[:, out > 0] /= out[out > 0]
    links[:, out == 0] = 1 / vertices
    matrix = np.eye(vertices) - 0.85 * links
    answer: NDArray[np.float64] = np.linalg.solve(matrix, np.full(vertices, 0.15 / vertices))
    return answer


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
@pytest.mark.parametrize("ranks", [1, 4, 5])
def test_the_ranks_agree_with_linear_algebra(tmp_path: Path, ranks: int) -> None:
    saved = tmp_path / "rank.npy"
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment["TMPDIR"] = str(tmp_path)
    mpirun = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
    mca = ["--mca", "btl", "tcp,self", "--mca", "mpi_yield_when_idle", "1"]
    job = [sys.executable, str(EXAMPLE / "pagerank.py"), "--scale", "9", "--iterations", "200", "--seed", "7"]
    command = [*mpirun, *mca, *job, "--tolerance", "1e-13", "--save", str(saved)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)

    graph = rmat().Graph(9, 16, 7)
    edges = [np.concatenate(ends) for ends in zip(*graph.chunks(), strict=True)]
    answer = np.load(saved)
    np.testing.assert_allclose(answer, dense_pagerank(graph.vertices, *edges), rtol=1e-9)
    assert report["sum"] == pytest.approx(1, abs=1e-12)
    assert report["change"] < 1e-13
    assert report["iterations"] < 200
    assert float(report["checksum"]) == pytest.approx(np.square(answer).sum(), rel=1e-9)

    bounds = graph.vertices * np.arange(ranks + 1) // ranks
    owner = np.searchsorted(bounds, np.arange(graph.vertices), side="right") - 1
    wanted = {(int(s), int(owner[t])) for s, t in zip(*edges, strict=True)}
    unique = Counter((int(owner[vertex]), rank) for vertex, rank in wanted)
    matrix = report["payload_bytes"]
    for a in range(ranks):
        for b in range(ranks):
            expected = unique[a, b] * 8 * report["iterations"] + unique[b, a] * 8 + 8
            assert matrix[a][b] == (expected if a != b else 0)


@pytest.fixture(scope="module")
def truth() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CAPTURE / "truth.json").read_text())
    return document


def test_the_capture_shows_what_the_program_sent(truth: dict[str, Any]) -> None:
    """Open MPI adds its headers and the start-up: 0.16 % in all, below 7 kB a pair."""
    hosts = read_tasks(CAPTURE / "ranks.hosts")
    app, report = from_pcap(CAPTURE / "pagerank.pcap.gz", hosts, name="pagerank")
    assert [task.name for task in app.task] == [f"rank-{rank}" for rank in range(RANKS)]
    assert (report.foreign_bytes, report.unseen_bytes, report.truncated) == (0, 0, False)
    seen = np.zeros((RANKS, RANKS))
    for transfer in app.transfer:
        seen[rank_of(transfer.source), rank_of(transfer.target)] = transfer.bytes
    sent = np.array(truth["payload_bytes"])
    assert np.all(seen >= sent), "every byte that the program sent was on the wire"
    assert np.all(seen - sent < 7_000)
    large = sent > 1_000_000
    assert large.sum() > 50
    assert np.all(seen[large] < 1.003 * sent[large])
    assert seen.sum() == pytest.approx(sent.sum(), rel=0.002)


def test_the_truth_belongs_to_the_program(truth: dict[str, Any]) -> None:
    """The matrix follows from the graph alone, so another run of the example finds it again."""
    graph = rmat().Graph(truth["scale"], truth["edge_factor"], truth["seed"])
    block = graph.vertices // RANKS
    wanted = np.zeros((graph.vertices, RANKS), dtype=bool)
    for source, target in graph.chunks():
        wanted[source, target // block] = True
    unique = wanted.reshape(RANKS, block, RANKS).sum(axis=1)
    expected = 8 * truth["iterations"] * unique + 8 * unique.T + 8
    np.fill_diagonal(expected, 0)
    assert expected.tolist() == truth["payload_bytes"]


def test_the_traffic_is_skewed(truth: dict[str, Any]) -> None:
    sent = np.array(truth["payload_bytes"])
    pairs = np.sort(sent[~np.eye(RANKS, dtype=bool)])
    assert sent.sum() > 150e6
    assert pairs[-24:].min() > 10 * pairs[:24].max()


def test_the_capture_is_small_enough_to_keep() -> None:
    assert (CAPTURE / "pagerank.pcap.gz").stat().st_size < 400_000


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
def test_tcpdump_reads_the_same_bytes() -> None:
    """tcpdump prints each segment's length; here, without loss, sums differ by retransmissions only."""
    hosts = read_tasks(CAPTURE / "ranks.hosts")
    with gzip.open(CAPTURE / "pagerank.pcap.gz") as stream:
        content = stream.read()
    command = ["tcpdump", "-nn", "-q", "-t", "-r", "-"]
    printed = subprocess.run(command, input=content, capture_output=True, timeout=60, check=True).stdout.decode()
    line = re.compile(r"IP (\S+)\.\d+ > (\S+)\.\d+: tcp (\d+)")
    sums: Counter[tuple[str, str]] = Counter()
    for source, target, count in line.findall(printed):
        sums[hosts[source], hosts[target]] += int(count)
    app, report = from_pcap(CAPTURE / "pagerank.pcap.gz", hosts, name="pagerank", min_bytes=0)
    for transfer in app.transfer:
        assert transfer.bytes <= sums[transfer.source, transfer.target]
    assert sum(sums.values()) == app.total_bytes + report.duplicate_bytes


@pytest.mark.rare
@pytest.mark.lab
@pytest.mark.skipif(not (shutil.which("mpirun") and shutil.which("tcpdump")), reason="mpirun or tcpdump is missing")
def test_the_capture_can_be_made_anew(tmp_path: Path) -> None:
    if not lab.supported():
        pytest.skip("this machine cannot hold a lab")
    command = [sys.executable, str(EXAMPLE / "capture.py"), str(tmp_path), "--", "--scale", "12", "--iterations", "5"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "ranks.hosts").read_text() == (CAPTURE / "ranks.hosts").read_text()
    app, report = from_pcap(tmp_path / "pagerank.pcap.gz", read_tasks(tmp_path / "ranks.hosts"), name="pagerank")
    sent = json.loads((tmp_path / "truth.json").read_text())["payload_bytes"]
    assert report.foreign_bytes == 0
    for transfer in app.transfer:
        assert transfer.bytes >= sent[rank_of(transfer.source)][rank_of(transfer.target)]


def rank_of(task: str) -> int:
    return int(task.removeprefix("rank-"))
