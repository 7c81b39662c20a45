"""A real slurmctld reads the exported switches, and keeps jobs within them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests import builders
from tests.export.test_export_real import cluster, session  # noqa: F401 - a fixture

from gavotte import lab
from gavotte.export import export_network

pytestmark = pytest.mark.lab

LONG = "rack" * 20
GROUPS = [
    {"name": "pod", "members": ["a", "b", "c"]},
    {"name": LONG, "members": ["a", "c"], "parent": "pod", "up_bps": 1e9, "down_bps": 5e8},
]


@pytest.mark.slow
def test_slurm_reads_the_switches_and_keeps_a_job_within_one(
    session: lab.Session,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "topology.conf").write_text(export_network(builders.network("abc", groups=GROUPS), "slurm-conf"))
    with cluster(session, tmp_path, TopologyPlugin="topology/tree") as environment:
        shown = run(session, ["scontrol", "show", "topology"], environment)
        switches = {
            fields["SwitchName"]: fields
            for fields in (dict(word.split("=", 1) for word in line.split()) for line in shown.splitlines())
        }
        (rack,) = switches.keys() - {"pod", "pod-hosts"}
        assert rack.startswith("x"), "the group's own name is too long for Slurm"
        assert switches[rack] == {"SwitchName": rack, "Level": "0", "LinkSpeed": "500", "Nodes": "a,c"}
        assert switches["pod-hosts"]["Nodes"] == "b"
        assert switches["pod"]["Level"] == "1"
        assert switches["pod"]["Nodes"] == "a,b,c"
        assert sorted(switches["pod"]["Switches"].split(",")) == sorted(["pod-hosts", rack])
        job = ["srun", "--nodes=2", "--ntasks=2", "--switches=1", "sh", "-c", 'echo "$(hostname) $SLURM_TOPOLOGY_ADDR"']
        lines = run(session, job, environment).splitlines()
        assert sorted(lines) == [f"a pod.{rack}.a", f"c pod.{rack}.c"]


def run(session: lab.Session, command: list[str], environment: Mapping[str, str]) -> str:  # noqa: F811
    """Run a command of Slurm on the controller's host and return what it prints."""
    ran: subprocess.CompletedProcess[str] = session.run(
        "a", command, capture_output=True, text=True, timeout=60, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
