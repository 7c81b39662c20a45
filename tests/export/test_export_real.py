"""Real launchers in a lab: each rank runs on the host in the Placement."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.export.test_export import placement
from tests.shell import until

from gavotte import lab
from gavotte.export import export

pytestmark = pytest.mark.lab

HOSTS = ["c", "a", "a", "b", "c", "a"]
"""Neither sorted nor in one piece for each host."""


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(builders.topology("abc"), agents=False) as session:
        yield session


def ranks(session: lab.Session, command: list[str], variable: str, **options: Any) -> dict[int, str]:
    """Run a launcher; each rank prints its number and host: the host's name and its address must agree."""
    program = ["sh", "-c", f'echo "${variable} $(hostname) $(hostname -I)"']
    ran: subprocess.CompletedProcess[str] = session.run(
        session.status().hosts[0].name, [*command, *program], capture_output=True, text=True, timeout=90, **options
    )
    message = [line.split() for line in ran.stdout.splitlines() if line.strip()]
    assert ran.returncode == 0, ran.stderr
    addresses = {host.name: host.address for host in session.status().hosts}
    assert all(addresses[host] == address for _, host, address in message)
    assert len(message) == len({rank for rank, _, _ in message})
    return {int(rank): host for rank, host, _ in message}


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


SLURM = ("/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged")


def slurm_conf(session: lab.Session, folder: Path, **more: str) -> str:
    """Return the settings of a cluster with its controller on the first host, touching nothing outside `folder`."""
    addresses = {host.name: host.address for host in session.status().hosts}
    first = next(iter(addresses))
    settings = {
        "ClusterName": "lab",
        "SlurmctldHost": f"{first}({addresses[first]})",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder / 'munge.sock'}",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/pgid",
        "TaskPlugin": "task/none",
        "ReturnToService": 2,
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "SlurmdParameters": "config_overrides",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool-%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd-%n.pid",
        **more,
    }
    nodes = [f"NodeName={n} NodeAddr={address} NodeHostname={n} CPUs=4" for n, address in addresses.items()]
    lines = [*(f"{key}={value}" for key, value in settings.items()), *nodes, "PartitionName=all Nodes=ALL Default=YES"]
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def slurm(session: lab.Session, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run Slurm on the lab's hosts; yield the environment for its commands."""
    with cluster(session, tmp_path) as environment:
        yield environment


@contextmanager
def cluster(session: lab.Session, tmp_path: Path, **more: str) -> Iterator[dict[str, str]]:
    """Run Slurm with further settings on the lab's hosts; yield the environment for its commands."""
    if not all(Path(program).exists() for program in SLURM):
        pytest.skip("no Slurm")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons want to be root, and the lab's is one in name only")
    controller, node, munged = SLURM
    config = tmp_path / "slurm.conf"
    config.write_text(slurm_conf(session, tmp_path, **more))
    (tmp_path / "state").mkdir()
    key = tmp_path / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(64))
    files = {"key-file": key, **{f"{kind}-file": tmp_path / f"munge.{kind}" for kind in ("pid", "log", "seed")}}
    options = [f"--{name}={path}" for name, path in {**files, "socket": tmp_path / "munge.sock"}.items()]
    environment = {**os.environ, **session.environment(), "SLURM_CONF": str(config)}
    hosts = [host.name for host in session.status().hosts]
    lines = [
        (hosts[0], [munged, "--foreground", "--force", *options]),
        (hosts[0], [controller, "-D", "-f", str(config)]),
    ]
    lines += [(host, [node, "-D", "-N", host, "-f", str(config)]) for host in hosts]
    with ExitStack() as stack, (tmp_path / "log").open("wb") as log:
        for host, line in lines:
            process = session.exec(host, line, stdout=log, stderr=log, env=environment)
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
            if line[0] == munged:
                until(lambda: (tmp_path / "munge.sock").exists())
        until(lambda: idle(session, environment) == len(hosts))
        yield environment


def idle(session: lab.Session, environment: dict[str, str]) -> int:
    """Return the number of nodes that accept jobs."""
    command = ["sinfo", "--noheader", "--Node", "--format=%t"]
    done: subprocess.CompletedProcess[str] = session.run(
        session.status().hosts[0].name, command, capture_output=True, text=True, timeout=30, env=environment
    )
    return done.stdout.count("idle\n")


def test_slurm_runs_each_task_where_it_was_placed(session: lab.Session, slurm: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(export(placement(HOSTS), "slurm"))
    command = ["srun", "--distribution=arbitrary", f"--ntasks={len(HOSTS)}"]
    result = ranks(session, command, "SLURM_PROCID", env={**slurm, "SLURM_HOSTFILE": str(file)})
    assert result == dict(enumerate(HOSTS))
