"""Kubernetes' own scheduler starts the pods of a Placement on their nodes, as the printed line says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.shell import until

from gavotte.export import FORMATS, export

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl"),
    pytest.mark.timeout(300),
]
PAUSE = "gavotte.test/pause:1"


def shell(line: str, folder: Path) -> str:
    ran = subprocess.run(["sh", "-ec", line], cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def nodes_of(pods: Any) -> dict[str, str]:
    return {pod.metadata.labels["gavotte.io/task"]: pod.spec.node_name for pod in pods.items}


def test_each_pod_runs_on_the_node_of_its_task(tmp_path: Path) -> None:
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))
    placed = {"map-0": "node2", "map-1": "node2", "reduce": "node1", "lost": "node9"}
    known = FORMATS["kubernetes"]
    (tmp_path / "FILE").write_text(export(builders.placement(placed, "bound"), "kubernetes"))
    use = known.usage.format(file="FILE").partition(", with ")[0].replace("NAME", PAUSE)
    selector = {"label_selector": "gavotte.io/app=bound"}
    try:
        shell(use, tmp_path)
        until(lambda: sum(map(bool, nodes_of(core.list_namespaced_pod("default", **selector)).values())) == 3, 60)
        nodes = nodes_of(core.list_namespaced_pod("default", **selector))
        assert nodes == placed | {"lost": None}, "a pod without its node waits"
    finally:
        shell(known.undo.format(file="FILE") + " --grace-period=0 --force", tmp_path)
    until(lambda: not core.list_namespaced_pod("default", **selector).items, 60)
