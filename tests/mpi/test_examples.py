"""N-body and CG across lab hosts: the same result for every exchange."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benches.mpi import available, launch
from tests.builders import topology
from tests.collective.clouds import network

from gavotte import lab
from gavotte.collective import TreeSearch, plan
from gavotte.formats.collective import write_collective

pytestmark = pytest.mark.lab

EXAMPLES = Path(__file__).parents[2] / "examples"
RANKS = ["h0", "h1", "h2", "h3"]
CLOUD = topology([{"name": name, "rate": "1gbit"} for name in RANKS])


@pytest.mark.skipif(not available("openmpi"), reason="no Open MPI")
def test_every_exchange_gives_the_same_result(tmp_path: Path) -> None:
    ways = ["allgather", "gather-broadcast"]
    for algorithm in ("search", "ring"):
        ways.append(str(tmp_path / f"{algorithm}.tree.json"))
        planned = plan(network(4), "allgather", size_bytes=32 * 1024, algorithm=algorithm, search=TreeSearch(steps=500))
        write_collective(ways[-1], planned)
    programs = {"nbody": ["--steps", "3", "--bodies", "128"], "cg": ["--size", "16384", "--shift", "5"]}
    with lab.session(CLOUD, agents=False) as session:
        for program, words in programs.items():
            line: list[str | Path] = [EXAMPLES / program / f"{program}.py", *words, "--exchange", *ways]
            ran = launch(session, "openmpi", line, ranks=RANKS, scratch=tmp_path, timeout_s=100)
            assert ran.returncode == 0, ran.stderr
            results = [json.loads(report) for report in ran.stdout.splitlines()]
            assert [report["exchange"] for report in results] == ways
            assert {report["ranks"] for report in results} == {4}
            assert len({(report["steps"], report["checksum"]) for report in results}) == 1, results
            assert results[0]["steps"] >= 3
            assert all(0 < report["communication_s"] <= report["total_s"] for report in results)
