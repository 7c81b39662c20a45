"""Real MPI jobs: sources agree on one run, and a job placed by its own profile is as much faster as predicted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benches import mpi
from benches.profile.job import MpiJob, Size, matrices, standing, watched
from benches.profile.loop import profiled
from benches.profile.loop import run as run_job
from tests import builders

from gavotte import lab
from gavotte.formats.app import read_app
from gavotte.place import evaluate, place

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(not mpi.available("openmpi"), reason="no Open MPI"),
]

LAUNCHING_BYTES = 10_000
"""Most bytes of mpirun's own messages to each host."""


@pytest.mark.rare
def test_sources_agree_on_one_run() -> None:
    with standing(MpiJob, Size(tasks=3, mbit=100, unit_bytes=200_000, sampling=10), seed=0) as job:
        _, seen = watched(job, ("pcap", "live", "pmpi"))
        wanted = job.matrix
    off = ~np.eye(3, dtype=bool)
    for source, result in seen.items():
        more = (matrices(result, 3)[0] - wanted)[off]
        assert np.all(more >= 0), source
        assert np.all(more <= 0.01 * wanted[off] + (0 if source == "pmpi" else LAUNCHING_BYTES)), source


SWITCHES: list[str | dict[str, str]] = ["core", {"name": "tor0", "up": "20mbit"}, {"name": "tor1", "up": "20mbit"}]
CLOUD = [{"name": f"h{n}", "switch": f"tor{n // 2}", "egress": "100mbit"} for n in range(4)]
HOSTS = ["h0", "h1", "h2", "h3"]


def test_a_job_placed_by_its_own_profile_is_faster_by_what_was_said(tmp_path: Path) -> None:
    """Ranks 0 and 2, and 1 and 3, exchange; before they are placed, each pair is split between the racks."""
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[[0, 2, 1, 3], [2, 0, 3, 1]] = 2_000_000
    (tmp_path / "matrix.json").write_text(json.dumps(matrix.tolist()))
    # Two pairs share an uplink.
    rates = [[95e6 if source // 2 == target // 2 else 9.5e6 for target in range(4)] for source in range(4)]
    network = builders.network(HOSTS, rates)
    with lab.session(builders.topology(CLOUD, switches=SWITCHES)) as session:
        mpi.loss_based(session, HOSTS)
        path, before_s = profiled(session, HOSTS, tmp_path)
        app = read_app(path)
        chosen = place(network, [app]).assignment
        after_s = run_job(session, [chosen[f"rank{rank}"] for rank in range(4)], tmp_path)
    assert app.total_bytes == pytest.approx(matrix.sum(), rel=0.02)
    given = evaluate(network, [app], {f"rank{rank}": host for rank, host in enumerate(HOSTS)})
    predicted = 1 - evaluate(network, [app], chosen).completion_s / given.completion_s
    assert predicted > 0.8
    assert 1 - after_s / before_s == pytest.approx(predicted, abs=0.2)
