"""Orders of host names, compared with those of Slurm and of PyTorch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gavotte.place.name_order import c10d_order, slurm_order

HOSTS = ["n10", "n9", "n2", "rack10-n1", "rack2-n10", "rack2-n9"]

COMPLETED = """
import json, sys
from datetime import timedelta
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    _DistributedRendezvousOpExecutor, _NodeDesc, _RendezvousState, RendezvousSettings, RendezvousTimeout
)
nodes = {name: _NodeDesc(name, 1, 0) for name in json.loads(sys.argv[1])}
state = _RendezvousState()
state.participants = dict.fromkeys(nodes.values(), 0)

class Holder:
    pass

Holder.state = state
settings = RendezvousSettings("job", 1, len(nodes), RendezvousTimeout(), timedelta(seconds=5), 3)
executor = _DistributedRendezvousOpExecutor(next(iter(nodes.values())), Holder(), settings)
executor._state = state
executor._mark_rendezvous_complete()
print(json.dumps(sorted(nodes, key=lambda name: state.participants[nodes[name]])))
"""
"""Completes a rendezvous of hosts by PyTorch's own code, and prints the hosts by their node ranks."""

numbers = st.sampled_from(["", "0", "00", "1", "01", "001", "2", "9", "09", "10", "010", "99", "100"])
names = st.builds(
    "".join, st.tuples(st.sampled_from(["n", "rack", "n-"]), numbers, st.sampled_from(["", "-n", "x"]), numbers)
)


def test_slurm_sorts_by_numbers_and_c10d_by_text() -> None:
    assert slurm_order(HOSTS) == ["n2", "n9", "n10", "rack2-n9", "rack2-n10", "rack10-n1"]
    assert c10d_order(HOSTS) == ["n10", "n2", "n9", "rack10-n1", "rack2-n10", "rack2-n9"]
    assert slurm_order(["n08", "n10", "n9", "n"]) == ["n", "n9", "n08", "n10"]


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The settings that `scontrol` wants to see before it sorts names."""
    if shutil.which("scontrol") is None:
        pytest.skip("no Slurm")
    path = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    path.write_text("ClusterName=c\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=all Nodes=ALL\n")
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(names, min_size=2, max_size=2, unique=True))
def test_slurm_sorts_two_names_so(slurm_conf: Path, hosts: list[str]) -> None:
    def scontrol(*words: str) -> str:
        line = ["scontrol", "show", *words]
        environment = {"SLURM_CONF": str(slurm_conf), "PATH": "/usr/bin:/bin"}
        return subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    assert scontrol("hostnames", scontrol("hostlistsorted", ",".join(hosts))).split() == slurm_order(hosts)


def test_torch_sorts_names_so() -> None:
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            break
    else:
        pytest.skip("no PyTorch")
    ran = subprocess.run([python, "-c", COMPLETED, json.dumps(HOSTS)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == c10d_order(HOSTS)
