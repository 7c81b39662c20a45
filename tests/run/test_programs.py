"""The example that takes a real program from capture to rank file, on the smallest program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benches.mpi import available
from examples.programs import loop

from gavotte import lab
from gavotte.formats.app import read_app
from gavotte.formats.topology import Topology

NBODY = Path(__file__).parents[2] / "examples" / "nbody" / "nbody.py"
HOSTS = ["h0", "h1", "h2", "h3"]
CLOUD = {
    "format": "gavotte/topology/1",
    "switch": [{"name": "s"}],
    "host": [{"name": name, "switch": "s", "rate": "100mbit"} for name in HOSTS],
}


@pytest.mark.lab
@pytest.mark.skipif(not available("openmpi"), reason="no Open MPI")
def test_a_program_goes_from_capture_to_rank_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = (sys.executable, str(NBODY), "--steps", "3", "--bodies", "3000", "--exchange", "allgather")
    monkeypatch.setitem(loop.PROGRAMS, "nbody", loop.Program(line, ""))
    with lab.session(Topology.model_validate(CLOUD)) as session:
        whole = loop.Loop(session, "nbody", tmp_path, ranks=3)
        app = read_app(whole.profile())
        whole.gavotte("measure", "--hosts", "lab", "-o", "cloud.npz")
        whole.gavotte("model", "cloud.npz", "-o", "cloud.network.json")
        placement = whole.place(tmp_path / "cloud.network.json", "auto")
        ranks = whole.ranks(placement)
        whole.job(ranks)
    assert [task.name for task in app.task] == ["rank-00", "rank-01", "rank-02"]
    # Each rank holds a third of 3000 bodies, 960 bytes each and more, which the two others get at each step.
    assert app.total_bytes > 3 * 3 * 2 * 1000 * 960
    assert len(set(ranks)) == 3
    assert (tmp_path / "job" / "output").read_text()
