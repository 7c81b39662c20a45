"""A real srun in an allocation whose network is not known yet: `launch` measures it, and ranks avoid the slow host."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import builders
from tests.export.test_export_real import slurm  # noqa: F401 - a fixture
from tests.launch.test_launch_in_slurm import launched
from tests.shell import GAVOTTE

from gavotte import lab
from gavotte.formats.app import write_app

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    """Three hosts with agents, one of which is slow."""
    hosts = [{"name": name, "egress": "20mbit" if name == "b" else "100mbit"} for name in "abc"]
    with lab.session(builders.topology(hosts), source="tests") as session:
        yield session


def test_launch_measures_an_allocation_and_orders_its_ranks(
    session: lab.Session,
    slurm: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    write_app(tmp_path / "x.app.toml", builders.app("x", ("rank0", "rank1", 10**7), ("rank1", "rank0", 10**7)))
    run = launched(session, slurm, tmp_path, f"--hosts={session.hosts_file}")
    assert (sorted(run["order"]), run["default_order"], run["placed"]) == (["a", "c"], ["a", "b"], True)
    stored = [str(GAVOTTE), "history", "list", "--store", str(tmp_path / "store"), "--json"]
    listed = subprocess.run(stored, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(listed.stdout)
