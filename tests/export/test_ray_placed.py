"""Real Ray nodes have the exported labels, and place tasks and the bundles of a Placement by them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.export.test_export import placement
from tests.export.test_topologies import PODS
from tests.shell import until

from gavotte.export import export, export_network

PYTHON = os.environ.get("GAVOTTE_RAY", "")
"""A Python that has Ray."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PYTHON, reason="`make test-ray` runs it with real Ray"),
]

ENVIRONMENT = os.environ | {"RAY_AUTH_MODE": "disabled"}
"""Nodes on loopback need no token, which Ray would keep in the home folder."""

PROGRAM = """
import json, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
rack = {"fabric.topograph.run/tier-0": "pod-hosts"}
task = ray.remote(lambda: "ran").options(num_cpus=1, label_selector=rack)
result = ray.get(task.remote(), timeout=60)
group = ray.util.placement_group([{"CPU": 1}], topology_strategy={"ray.io/gpu-domain": "STRICT_PACK"})
labels = next(node["Labels"] for node in ray.nodes() if node["Labels"]["gavotte.io/host"] == "c")
print(json.dumps([labels, result, group.wait(60)]))
"""

BUNDLES = """
import json, sys, ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
group = ray.util.placement_group(**json.loads(sys.argv[2]))
if not group.wait(float(sys.argv[3])):
    print("null")
    sys.exit()
where = ray.remote(num_cpus=1)(lambda: ray.get_runtime_context().get_node_id())
bundles = [PlacementGroupSchedulingStrategy(group, bundle) for bundle in range(group.bundle_count)]
nodes = ray.get([where.options(scheduling_strategy=bundle).remote() for bundle in bundles], timeout=60)
hosts = {node["NodeID"]: node["Labels"]["gavotte.io/host"] for node in ray.nodes()}
print(json.dumps([hosts[node] for node in nodes]))
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Start Ray as the hosts `c` and `d` of the pods would be started; yield the address of its head, and end both."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    head = f"127.0.0.1:{port}"
    # Ray's sockets are in this folder, and the kernel limits the length of their names.
    with (
        tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder,
        started("c", Path(folder), "--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"),
        started("d", Path(folder), f"--address={head}", "--min-worker-port=20000", "--max-worker-port=20999"),
    ):
        yield head


@contextmanager
def started(host: str, folder: Path, *options: str) -> Iterator[None]:
    """Start a node of Ray with the labels that a host of the pods gets, and two CPUs."""
    line = export_network(PODS, "ray").splitlines()[PODS.names.index(host)]
    assert line.startswith(f'ssh -n {host} ray start --address="$RAY_HEAD" --labels=')
    small = ["--num-cpus=2", "--object-store-memory=80000000", "--disable-usage-stats", "--block"]
    log = folder / f"{host}.log"
    with log.open("wb") as stream:
        command = [
            str(Path(PYTHON).with_name("ray")),
            "start",
            "--node-ip-address=127.0.0.1",
            *options,
            *small,
            f"--labels={line.split('--labels=')[1]}",
        ]
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=ENVIRONMENT, start_new_session=True)
    try:
        until(lambda: "will now block forever" in log.read_text(), deadline_s=120, instead=log.read_text)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def answer(program: str, *words: str) -> Any:
    """Run a program with Ray's Python, and return the JSON of its last line."""
    line = [PYTHON, "-c", program, *words]
    ran = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_ray_keeps_the_labels_and_schedules_by_them(address: str) -> None:
    labels, task, placed = answer(PROGRAM, address)
    assert (task, placed) == ("ran", True)
    assert (
        labels.items()
        >= {
            "ray.io/gpu-domain": "pod-hosts",
            "fabric.topograph.run/tier-0": "pod-hosts",
            "fabric.topograph.run/tier-1": "pod",
            "fabric.topograph.run/tier-2": "root",
            "accelerator.topograph.run/domain": "m1",
            "gavotte.io/host": "c",
        }.items()
    )


def test_the_bundles_of_a_placement_are_on_its_hosts(address: str) -> None:
    for hosts in (["d", "c", "c"], ["c", "d"]):
        assert answer(BUNDLES, address, export(placement(hosts), "ray"), "60") == hosts
    assert answer(BUNDLES, address, export(placement(["c", "e"]), "ray"), "3") is None, "no node has the label of `e`"
