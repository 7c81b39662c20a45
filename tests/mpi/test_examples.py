"""N-body and CG across lab hosts: the same result whichever way the bytes go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benches.mpi import available, launch
from tests.collective.clouds import network

from gavotte import lab
from gavotte.collective import plan
from gavotte.formats.collective import write_collective
from gavotte.formats.topology import Topology

pytestmark = pytest.mark.lab

EXAMPLES = Path(__file__).parents[2] / "examples"
RANKS = ["h0", "h1", "h2", "h3"]
CLOUD = {
    "format": "gavotte/topology/1",
    "switch": [{"name": "s"}],
    "host": [{"name": name, "switch": "s", "rate": "1gbit"} for name in RANKS],
}


@pytest.mark.skipif(not available("openmpi"), reason="no Open MPI")
def test_every_exchange_gives_the_same_result(tmp_path: Path) -> None:
    tree = tmp_path / "all.tree.json"
    write_collective(tree, plan(network(4), "allgather", size_bytes=32 * 1024, algorithm="search", steps=500))
    programs = {"nbody": ["--steps", "3", "--bodies", "128"], "cg": ["--size", "16384", "--shift", "5"]}
    with lab.session(Topology.model_validate(CLOUD), agents=False) as session:
        for program, words in programs.items():
            found = []
            for how in ("allgather", "gather-broadcast", str(tree)):
                line: list[str | Path] = [EXAMPLES / program / f"{program}.py", *words, "--exchange", how]
                ran = launch(session, "openmpi", line, ranks=RANKS, scratch=tmp_path, timeout_s=60)
                assert ran.stdout.startswith("{"), ran.stderr
                found.append(json.loads(ran.stdout))
            assert {told["ranks"] for told in found} == {4}
            assert len({(told["steps"], told["checksum"]) for told in found}) == 1, found
            assert found[0]["steps"] >= 3
            assert all(0 < told["communication_s"] <= told["total_s"] for told in found)
