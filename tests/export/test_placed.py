"""A Placement for frameworks that place tasks themselves, as text and as the frameworks follow it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.export.test_export import placement
from tests.export.test_topologies import PODS
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.export import FORMATS, export, export_network
from gavotte.formats.network import write_network
from gavotte.formats.placement import write_placement


def two_apps() -> Any:
    keys = {"sort/map-0": "a", "sort/map-1": "b", "grep/map-0": "b"}
    return placement([]).model_copy(update={"apps": ["sort", "grep"], "assignment": keys})


def test_each_task_is_a_pod_that_requires_its_node() -> None:
    pods = list(yaml.safe_load_all(export(two_apps(), "kubernetes")))
    assert [pod["metadata"] for pod in pods] == [
        {"name": "sort-map-0", "labels": {"gavotte.io/app": "sort", "gavotte.io/task": "map-0"}},
        {"name": "sort-map-1", "labels": {"gavotte.io/app": "sort", "gavotte.io/task": "map-1"}},
        {"name": "grep-map-0", "labels": {"gavotte.io/app": "grep", "gavotte.io/task": "map-0"}},
    ]
    affinities = [pod["spec"]["affinity"]["nodeAffinity"] for pod in pods]
    assert affinities == [
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
                ]
            }
        }
        for host in ("a", "b", "b")
    ]


def test_names_that_pods_cannot_have_are_replaced_or_refused() -> None:
    (pod,) = yaml.safe_load_all(export(builders.placement({"Map_0": "a"}, "sort"), "kubernetes"))
    assert pod["metadata"]["name"].startswith("x")
    assert pod["metadata"]["labels"]["gavotte.io/task"] == "Map_0"
    with pytest.raises(GavotteError, match="host `Node_1` cannot be a node of Kubernetes"):
        export(placement(["Node_1"]), "kubernetes")
    alike = placement([]).model_copy(update={"apps": ["a", "a-b"], "assignment": {"a/b-c": "x", "a-b/c": "x"}})
    with pytest.raises(GavotteError, match="tasks `a/b-c` and `a-b/c` would both be the pod `a-b-c`; rename one"):
        export(alike, "kubernetes")


def test_bundles_of_ray_name_hosts_by_the_label_that_the_network_gives_them() -> None:
    document = json.loads(export(placement(["b", "a", "b"]), "ray"))
    assert document["bundles"] == [{"CPU": 1}] * 3
    assert [selector["gavotte.io/host"] for selector in document["bundle_label_selector"]] == ["b", "a", "b"]
    for host, line in zip(PODS.names, export_network(PODS, "ray").splitlines(), strict=True):
        assert f",gavotte.io/host={host}," in line


def test_dask_gets_the_host_of_each_task() -> None:
    assert json.loads(export(placement(["b", "a"]), "dask")) == {"t0": "b", "t1": "a"}


def test_the_hosts_of_a_placement_are_one_rack(tmp_path: Path) -> None:
    script = tmp_path / "racks.sh"
    script.write_text(export(placement(["b", "a", "b"]), "hadoop-rack"))
    ran = subprocess.run(["sh", script, "a", "c", "b.example.com"], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["/placed", "/default-rack", "/placed"]


@pytest.mark.parametrize("form", ["ray", "hadoop-rack"])
def test_the_kind_of_the_file_decides_what_is_written(form: str, tmp_path: Path) -> None:
    placed, network = tmp_path / "p.placement.json", tmp_path / "n.network.json"
    write_placement(placed, placement(["b", "a"]))
    write_network(network, PODS)
    for source, text in ((placed, export(placement(["b", "a"]), form)), (network, export_network(PODS, form))):
        result = CliRunner().invoke(gavotte, ["export", str(source), "--format", form])
        assert (result.exit_code, result.stdout) == (0, text)
    refused = CliRunner().invoke(gavotte, ["export", str(network), "--format", "dask"])
    assert refused.exit_code == 1
    assert "is a Network" in str(refused.exception)


@pytest.mark.parametrize(
    ("old", "new"),
    [("slurm-topology", "slurm-conf"), ("kubernetes-labels", "topograph-labels"), ("diktyo-network", "diktyo")],
)
def test_earlier_names_of_formats_stay_valid(old: str, new: str, tmp_path: Path) -> None:
    network = tmp_path / "n.network.json"
    nodes = [{"name": name, "labels": {"topology.kubernetes.io/zone": f"z-{name}"}} for name in "ab"]
    write_network(network, builders.network(nodes, 1e9, 1e-4))
    shown = [CliRunner().invoke(gavotte, ["export", str(network), "--format", name]) for name in (old, new)]
    assert shown[0].exit_code == 0, shown[0].output
    assert shown[0].output == shown[1].output
    assert shown[0].stdout


WRITES = """
import os
with open("rank-" + os.environ["RANK"], "w") as file:
    file.write(" ".join(os.environ[name] for name in ("GROUP_RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE")))
"""


def torch_python() -> str | None:
    """Return a Python that has PyTorch."""
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            return python
    return None


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_torchrun_numbers_all_ranks_in_their_order(hosts: list[str]) -> None:
    lines = [line for line in export(placement(hosts), "torchrun").splitlines() if line.startswith("ssh")]
    words = [dict(word[2:].split("=", 1) for word in line.split() if word.startswith("--")) for line in lines]
    assert [options["node_rank"] for options in words] == [str(node) for node in range(len(lines))]
    assert {(options["nnodes"], options["master_addr"]) for options in words} == {(str(len(lines)), hosts[0])}
    nodes = [(line.split()[2], int(options["nproc_per_node"])) for line, options in zip(lines, words, strict=True)]
    assert [host for host, count in nodes for _ in range(count)] == hosts


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_real_torchrun_starts_the_ranks_where_the_placement_has_them(tmp_path: Path) -> None:
    python = torch_python()
    if python is None:
        pytest.skip("no PyTorch")
    # `ssh` starts the line on this machine: the hosts' names and torchrun are what is tried.
    (tmp_path / "ssh").write_text('#!/bin/sh\nNODE=$2; export NODE; shift 2; exec sh -c "$*"\n')
    (tmp_path / "torchrun").write_text(f'#!/bin/sh\nexec {python} -m torch.distributed.run "$@"\n')
    for name in ("ssh", "torchrun"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "writes.py").write_text(WRITES)
    hosts = ["localhost", "localhost", "b", "localhost"]
    (tmp_path / "job.sh").write_text(export(placement(hosts), "torchrun"))
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    # Without these two options PyTorch 1.13 fails under Python 3.11.
    environment["PROGRAM"] = "--redirects=1 --tee=1 writes.py"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        environment["PORT"] = str(probe.getsockname()[1])
    environment.pop("PYTHONPATH", None)
    line = ["sh", "job.sh"]
    ran = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    ranks = [(tmp_path / f"rank-{rank}").read_text() for rank in range(len(hosts))]
    assert ranks == ["0 0 4 localhost", "0 1 4 localhost", "1 0 4 b", "2 0 4 localhost"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_dask_runs_each_task_on_its_worker() -> None:
    distributed = pytest.importorskip("distributed")
    options = {"nthreads": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    workers = {name: {"cls": distributed.Worker, "options": options} for name in ("a", "b", "vm-2")}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0", "host": "127.0.0.1", "port": 0}}
    hosts = ["b", "a", "vm-2", "b", "vm-2"]
    document = json.loads(export(placement(hosts), "dask"))
    with (
        distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(3, timeout=30)
        tasks = [
            client.submit(lambda _: distributed.get_worker().name, task, workers=host, pure=False)
            for task, host in document.items()
        ]
        assert client.gather(tasks) == hosts


def test_a_script_of_torchrun_fails_with_its_ranks(tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text('#!/bin/sh\n[ "$2" = a ] || exit 7\n')
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "job.sh").write_text(export(placement(["b", "a"]), "torchrun"))
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PROGRAM": "x.py"}
    assert subprocess.run(["sh", "job.sh"], cwd=tmp_path, env=environment, check=False).returncode == 7
    environment.pop("PROGRAM")
    ran = subprocess.run(["sh", "job.sh"], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (ran.returncode != 0, b"PROGRAM" in ran.stderr) == (True, True)


def test_a_format_that_leaves_something_says_how_to_undo_it(tmp_path: Path) -> None:
    source = tmp_path / "p.placement.json"
    write_placement(source, placement(["b", "a"]))
    for form, known in FORMATS.items():
        result = CliRunner().invoke(gavotte, ["export", str(source), "--format", form, "--json"])
        document = json.loads(result.stdout)
        assert document.get("undo", "") == known.undo.format(file="FILE")
        assert "usage" in document
