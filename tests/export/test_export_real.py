"""Real launchers in a lab: each rank runs on the host that the Placement says."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.export.test_export import placement

from gavotte import lab
from gavotte.export import export
from gavotte.formats.topology import Topology

pytestmark = pytest.mark.lab

HOSTS = ["c", "a", "a", "b", "c", "a"]
"""Neither sorted nor in one piece for each host."""

CLOUD = {
    "format": "gavotte/topology/1",
    "switch": [{"name": "s"}],
    "host": [{"name": name, "switch": "s"} for name in "abc"],
}


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(Topology.model_validate(CLOUD), agents=False) as session:
        yield session


def ranks(session: lab.Session, command: list[str], variable: str) -> dict[int, str]:
    """Runs a launcher; each rank says who it is and where: the host's name and its address must agree."""
    program = ["sh", "-c", f'echo "${variable} $(hostname) $(hostname -I)"']
    ran: subprocess.CompletedProcess[str] = session.run(
        "a", [*command, *program], capture_output=True, text=True, timeout=90
    )
    said = [line.split() for line in ran.stdout.splitlines() if line.strip()]
    assert ran.returncode == 0, ran.stderr
    addresses = {host.name: host.address for host in session.status().hosts}
    assert all(addresses[host] == address for _, host, address in said)
    assert len(said) == len({rank for rank, _, _ in said})
    return {int(rank): host for rank, host, _ in said}


@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="no Open MPI")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("openmpi", ["--rankfile"]),
        ("openmpi-seq", ["--bind-to", "none", "--mca", "rmaps", "seq", "--hostfile"]),
    ],
)
def test_open_mpi_runs_each_rank_where_it_was_placed(
    session: lab.Session, tmp_path: Path, name: str, options: list[str]
) -> None:
    hosts = HOSTS
    if name == "openmpi":  # binds each rank to a core of its own, of which the machine may have few
        hosts = ["c", "a", "b"] if (os.cpu_count() or 1) < 2 else ["c", "a", "a", "b", "c"]
    file = tmp_path / "hosts"
    file.write_text(export(placement(hosts), name))
    command = ["mpirun.openmpi", "--mca", "btl", "tcp,self", *options, str(file), "-np", str(len(hosts))]
    assert ranks(session, command, "OMPI_COMM_WORLD_RANK") == dict(enumerate(hosts))


@pytest.mark.skipif(shutil.which("mpiexec.hydra") is None, reason="no MPICH")
def test_mpich_runs_each_rank_where_it_was_placed(session: lab.Session, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(export(placement(HOSTS), "mpich"))
    command = ["mpiexec.hydra", "-f", str(file), "-n", str(len(HOSTS))]
    assert ranks(session, command, "PMI_RANK") == dict(enumerate(HOSTS))
