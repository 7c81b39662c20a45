"""The order in which Slurm gives ranks to nodes, which `gavotte ranks` compares with its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import builders
from tests.export.test_export_real import cluster, ranks

from gavotte import lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_slurm_gives_ranks_to_nodes_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    with (
        lab.session(builders.topology(["n10", "n9", "n2", "a10"]), agents=False) as session,
        cluster(session, tmp_path) as env,
    ):
        result = ranks(session, ["srun", "--nodes=4", "--ntasks=4"], "SLURM_PROCID", env=env)
    assert [result[rank] for rank in range(4)] == ["a10", "n2", "n9", "n10"]
