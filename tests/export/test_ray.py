"""A real Ray starts with the exported labels, and places tasks and bundles by them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.export.test_topologies import PODS
from tests.shell import until

from gavotte.export import export_network

RAY = shutil.which("ray")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(RAY is None, reason="no Ray")]

PROGRAM = """
import json, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
rack = {"fabric.topograph.run/tier-0": "pod-hosts"}
task = ray.remote(lambda: "ran").options(num_cpus=1, label_selector=rack)
result = ray.get(task.remote(), timeout=60)
group = ray.util.placement_group([{"CPU": 1}], topology_strategy={"ray.io/gpu-domain": "STRICT_PACK"})
labels = ray.nodes()[0]["Labels"]
print(json.dumps([labels, result, group.wait(60)]))
"""


@pytest.fixture
def address() -> Iterator[str]:
    """Start Ray as host `c` of the pods would be started; yield the address of its head, and end it."""
    assert RAY is not None
    line = export_network(PODS, "ray").splitlines()[2]
    assert line.startswith('ssh -n c ray start --address="$RAY_HEAD" --labels=')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Ray's sockets are in this folder, and the kernel limits the length of their names.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        head = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=1", f"--temp-dir={folder}"]
        small = ["--object-store-memory=80000000", "--include-dashboard=false", "--disable-usage-stats", "--block"]
        log = Path(folder) / "start.log"
        with log.open("wb") as stream:
            command = [RAY, "start", *head, *small, f"--labels={line.split('--labels=')[1]}"]
            process = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
        try:
            until(lambda: "will now block forever" in log.read_text(), deadline_s=120)
            yield f"127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def test_ray_keeps_the_labels_and_schedules_by_them(address: str) -> None:
    assert RAY is not None
    python = Path(RAY).resolve().with_name("python")
    ran = subprocess.run([python, "-c", PROGRAM, address], capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr
    labels, task, placed = json.loads(ran.stdout.splitlines()[-1])
    assert (task, placed) == ("ran", True)
    assert (
        labels.items()
        >= {
            "ray.io/gpu-domain": "pod-hosts",
            "fabric.topograph.run/tier-0": "pod-hosts",
            "fabric.topograph.run/tier-1": "pod",
            "fabric.topograph.run/tier-2": "root",
            "accelerator.topograph.run/domain": "m1",
        }.items()
    )
