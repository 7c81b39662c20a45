"""A real srun in an allocation of lab hosts: ranks are where they were placed, and the exit status comes through."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.export.test_export_real import session, slurm  # noqa: F401 - fixtures
from tests.shell import GAVOTTE

from gavotte import lab
from gavotte.formats.app import write_app
from gavotte.formats.network import write_network

pytestmark = pytest.mark.lab

PROGRAM = 'echo "$SLURM_PROCID $(hostname)"; exit 7'


def launched(session: lab.Session, slurm: dict[str, str], folder: Path, *known: str) -> dict[str, Any]:  # noqa: F811
    """Launch two ranks of `x.app.toml` in an allocation of three hosts, check where they ran, and return the report."""
    words = ["launch", *known, f"--app={folder}/x.app.toml", f"--store={folder}/store", f"--json={folder}/run.json"]
    command = ["salloc", "--quiet", "-N", "3", str(GAVOTTE), *words, "--", "srun", "-n", "2", "sh", "-c", PROGRAM]
    ran: subprocess.CompletedProcess[str] = session.run(
        "a", command, capture_output=True, text=True, timeout=100, env=slurm | {"XDG_CACHE_HOME": str(folder)}
    )
    assert ran.returncode == 7, ran.stderr
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    assert dict(line.split() for line in ran.stdout.splitlines()) == {"0": run["order"][0], "1": run["order"][1]}
    assert run["status"] == 7
    return run


@pytest.mark.slow
def test_srun_starts_ranks_where_they_were_placed(
    session: lab.Session,  # noqa: F811
    slurm: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    rates = [[None, 1e6, 1e9], [1e6, None, 1e6], [1e9, 1e6, None]]
    write_network(tmp_path / "n.network.json", builders.network("abc", rates, cpus=1.0))
    write_app(tmp_path / "x.app.toml", builders.app("x", ("rank0", "rank1", 10**7)))
    run = launched(session, slurm, tmp_path, f"--network={tmp_path}/n.network.json")
    assert (sorted(run["order"]), run["default_order"], run["placed"]) == (["a", "c"], ["a", "b"], True)


def test_srun_without_an_allocation_is_one_line(tmp_path: Path) -> None:
    words = ["launch", "--hosts", "a,b", "--store", str(tmp_path / "s"), "--", "srun", "-n", "2", "hostname"]
    ran = subprocess.run([GAVOTTE, *words], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (
        1,
        "error: srun would wait for hosts of its own choice; run `gavotte launch` inside salloc or sbatch\n",
    )
