"""Topograph's node observer asks `gavotte serve` when nodes of a real cluster join.

GAVOTTE_NODE_OBSERVER names the program: `go build ./cmd/node-observer` in a copy of https://github.com/NVIDIA/topograph.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import builders
from tests.serve.served import serving
from tests.shell import until

from gavotte.export import export_network

OBSERVER = os.environ.get("GAVOTTE_NODE_OBSERVER", "")

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.skipif(not OBSERVER, reason="GAVOTTE_NODE_OBSERVER names no program"),
    pytest.mark.timeout(300),
]
LABEL = "test/observed"
NETWORK = builders.network(
    ["node1", "node2"],
    1e9,
    groups=[{"name": "one", "members": ["node1"]}, {"name": "two", "members": ["node2"]}],
)


def test_slurms_file_is_written_when_a_node_joins(tmp_path: Path) -> None:
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))
    target = tmp_path / "topology.conf"
    kubeconfig = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    server = kubeconfig["clusters"][0]["cluster"]
    host, _, port = server["server"].removeprefix("https://").partition(":")
    # Where a pod has its credentials; /run is the cluster's own.
    account = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    account.mkdir(parents=True)
    (account / "token").write_text(kubeconfig["users"][0]["user"]["token"])
    shutil.copy(server["certificate-authority"], account / "ca.crt")
    core.patch_node("node1", {"metadata": {"labels": {LABEL: "yes"}}})
    try:
        with serving(tmp_path, "--topology-file", target, network=NETWORK) as served:
            settings = {
                "generateTopologyUrl": f"{served.base}/v1/generate",
                "provider": {"name": "aws"},
                "engine": {"name": "slurm", "params": {"topologyConfigPath": str(target)}},
                "trigger": {"nodeSelector": {LABEL: "yes"}},
            }
            (tmp_path / "observer.yaml").write_text(yaml.safe_dump(settings))
            environment = os.environ | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
            with observing(tmp_path, environment):
                until(target.exists, 60, (tmp_path / "log").read_text)
                assert target.read_text() == export_network(NETWORK, "slurm-conf")
                target.unlink()
                core.patch_node("node2", {"metadata": {"labels": {LABEL: "yes"}}})
                until(target.exists, 60, (tmp_path / "log").read_text)
    finally:
        for node in ("node1", "node2"):
            core.patch_node(node, {"metadata": {"labels": {LABEL: None}}})
        shutil.rmtree("/var/run/secrets")
    assert "Topograph API is ready" in (tmp_path / "log").read_text()


@contextmanager
def observing(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run the node observer, and end it."""
    with (folder / "log").open("wb") as log:
        line = [OBSERVER, "-c", str(folder / "observer.yaml")]
        observer = subprocess.Popen(line, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        observer.terminate()
        observer.wait(20)
