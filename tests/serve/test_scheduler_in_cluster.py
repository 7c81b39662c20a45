"""A real scheduler of Kubernetes asks the extender, and binds pods where the Placement says: `make test-kubernetes`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.serve.scheduler import configuration
from tests.serve.served import serving

from gavotte.formats.app import write_app
from gavotte.formats.placement import write_placement

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(300),
]
PLANNED = {"a": "node2", "b": "node2", "c": "node1", "d": "node2"}
BOUND_S = 60.0


def test_pods_are_bound_where_the_placement_says(tmp_path: Path) -> None:
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))
    tasks = list(PLANNED)
    write_app(tmp_path / "j.app.toml", builders.app("j", *((a, b, 1_000_000) for a in tasks for b in tasks if a != b)))
    write_placement(tmp_path / "j.placement.json", builders.placement(PLANNED, "j"))
    network = builders.network(["node1", "node2"], 1e9)
    with serving(tmp_path, "--placement", "j.placement.json", "--app", "j.app.toml", network=network) as served:
        config = configuration(os.environ["KUBECONFIG"], served.base)
        (tmp_path / "config.json").write_text(json.dumps(config))
        program = shutil.which("kube-scheduler")
        assert program is not None
        with (tmp_path / "log").open("wb") as log:
            line = [program, "--config", str(tmp_path / "config.json"), "--secure-port=0"]
            scheduler = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT)
        try:
            for number, task in enumerate(tasks):
                # Two are known by their task, two by their number in a job.
                labels = (
                    {"gavotte.io/task": task}
                    if number % 2
                    else {"batch.kubernetes.io/job-completion-index": str(number)}
                )
                container = {"name": "c", "image": "gavotte.test/pause:1"}
                spec = {"schedulerName": "gavotte", "containers": [container], "automountServiceAccountToken": False}
                metadata = {"name": f"placed-{task}", "labels": labels | {"test": "placed"}}
                core.create_namespaced_pod("default", {"metadata": metadata, "spec": spec})
            end = time.monotonic() + BOUND_S
            while True:
                pods = core.list_namespaced_pod("default", label_selector="test=placed").items
                bound = {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}
                if len(bound) == len(tasks):
                    break
                assert time.monotonic() < end, (tmp_path / "log").read_text()[-2000:]
                time.sleep(0.5)
            assert bound == {f"placed-{task}": node for task, node in PLANNED.items()}
            assert 'path="/scheduler/prioritize",status="200"} 4\n' in served.ask("/metrics").text
        finally:
            core.delete_collection_namespaced_pod("default", label_selector="test=placed", grace_period_seconds=0)
            scheduler.terminate()
            scheduler.wait(20)
