"""Labels of a real cluster's nodes follow the Network: `make test-kubernetes`."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import builders
from tests.serve.served import serving
from tests.shell import gavotte, until

from gavotte.formats.network import write_network
from gavotte.serve.labelling import EVERY_S, MARK

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(300),
]
MANIFEST = Path(__file__).parents[2] / "packaging" / "kubernetes" / "labels.yaml"
NAME, NAMESPACE = "gavotte-labels", "gavotte-labels-test"
TIER = "fabric.topograph.run/tier-0"
NEW_RACKS = [{"name": "three", "members": ["node1"]}, {"name": "two", "members": ["node2"]}]
RACKS = [{"name": "one", "members": ["node1"]}, {"name": "two", "members": ["node2"]}]


def test_labels_of_nodes_follow_the_network(tmp_path: Path) -> None:
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))

    def labels() -> dict[str, str | None]:
        nodes = core.list_node().items
        return {node.metadata.name: (node.metadata.labels or {}).get(TIER) for node in nodes}

    both = builders.network(["node1", "node2"], 1e9, groups=RACKS)
    with serving(tmp_path, "--label-nodes", network=both) as served:
        until(lambda: labels() == {"node1": "one", "node2": "two"}, instead=labels)
        write_network(tmp_path / "n.network.json", builders.network(["node1", "other"], 1e9, groups=[RACKS[0]]))
        until(lambda: labels() == {"node1": "one", "node2": None}, instead=labels)
    assert "Traceback" not in served.complaints
    with serving(tmp_path, "--label-nodes", network=both):
        until(lambda: labels() == {"node1": "one", "node2": "two"}, instead=labels)
    done = gavotte("serve", "--remove-labels", env=os.environ)
    assert (done.returncode, done.stderr) == (0, "labels removed from 2 nodes\n")
    assert labels() == {"node1": None, "node2": None}


def api_server() -> int:
    """Return the process of the cluster's API server, which runs in this namespace of processes."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (folder / "cmdline").read_bytes().partition(b"\0")[0].endswith(
            b"kube-apiserver"
        ):
            return int(folder.name)
    raise AssertionError("no API server runs")


@contextmanager
def away(log: Path) -> Iterator[None]:
    """Kill the API server for the block, and start it again as it was."""
    process = api_server()
    words = Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    os.kill(process, signal.SIGKILL)
    try:
        yield
    finally:
        # It serves the tests after this one, too.
        with log.open("wb") as written:
            subprocess.run(["setsid", "-f", *words], stdout=written, stderr=written, check=True)


def account(core: Any, folder: Path) -> str:
    """Return a kubeconfig of the account of the manifest."""
    token = core.create_namespaced_service_account_token(NAME, NAMESPACE, {"spec": {"audiences": None}})
    config = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    config["users"][0]["user"] = {"token": token.status.token}
    (folder / "account").write_text(json.dumps(config))
    return str(folder / "account")


def test_the_account_of_the_manifest_keeps_labels_while_the_api_server_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    api = cluster.connected("")
    core: Any = client.CoreV1Api(api)
    access: Any = client.RbacAuthorizationV1Api(api)
    apps: Any = client.AppsV1Api(api)
    parts = {
        each["kind"]: each
        for each in yaml.safe_load_all(MANIFEST.read_text().replace(": gavotte\n", f": {NAMESPACE}\n"))
    }
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.create_namespace({"metadata": {"name": NAMESPACE, "labels": enforced}})
    try:
        core.create_namespaced_service_account(NAMESPACE, parts["ServiceAccount"])
        access.create_cluster_role(parts["ClusterRole"])
        access.create_cluster_role_binding(parts["ClusterRoleBinding"])
        # The API server takes the Deployment, and its pod keeps the restricted profile. No image of it is here to run.
        apps.create_namespaced_deployment(NAMESPACE, parts["Deployment"], dry_run="All", field_validation="Strict")
        pod = {"metadata": {"name": NAME}, "spec": parts["Deployment"]["spec"]["template"]["spec"]}
        core.create_namespaced_pod(NAMESPACE, pod, dry_run="All", field_validation="Strict")
        monkeypatch.setenv("KUBECONFIG", account(core, tmp_path))
        own: Any = client.CoreV1Api(cluster.connected(""))
        for refused in (own.list_pod_for_all_namespaces, own.list_namespace, lambda: own.delete_node("node1")):
            with pytest.raises(client.ApiException) as raised:
                refused()
            assert raised.value.status == 403
        _keeps(own, tmp_path)
    finally:
        until(lambda: _ready(api.configuration.host))
        access.delete_cluster_role_binding(NAME)
        access.delete_cluster_role(NAME)
        core.delete_namespace(NAMESPACE)


def _keeps(core: Any, folder: Path) -> None:
    """Check that labels come back after an outage, and that a command removes all of them."""

    def labels() -> dict[str, str | None]:
        return {node.metadata.name: (node.metadata.labels or {}).get(TIER) for node in core.list_node().items}

    with serving(folder, "--label-nodes", network=builders.network(["node1", "node2"], 1e9, groups=RACKS)) as served:
        until(lambda: labels() == {"node1": "one", "node2": "two"}, instead=labels)
        core.patch_node("node1", {"metadata": {"labels": {TIER: None}}})
        with away(folder / "apiserver"):
            # The service notices, since it looks at all nodes meanwhile.
            write_network(folder / "n.network.json", builders.network(["node1", "node2"], 1e9, groups=NEW_RACKS))
            time.sleep(5)
            assert served.ask("/healthz").status == 200
        until(lambda: _ready(core.api_client.configuration.host), 60)
        until(lambda: labels() == {"node1": "three", "node2": "two"}, EVERY_S, instead=labels)
        # Someone removes and changes labels: they come back when all nodes are looked at again.
        core.patch_node("node1", {"metadata": {"labels": {TIER: None}}})
        core.patch_node("node2", {"metadata": {"labels": {TIER: "wrong"}}})
        until(lambda: labels() == {"node1": "three", "node2": "two"}, EVERY_S + 20, instead=labels)
    assert served.complaints.count("Kubernetes did not label nodes") == 1, served.complaints
    assert "Kubernetes labels nodes again\n" in served.complaints
    assert "Traceback" not in served.complaints
    done = gavotte("serve", "--remove-labels", "--context", "c", env=os.environ)
    assert (done.returncode, done.stderr) == (0, "labels removed from 2 nodes\n")
    for node in core.list_node().items:
        assert not [key for key in node.metadata.labels if "topograph" in key]
        assert MARK not in (node.metadata.annotations or {})


def _ready(host: str) -> bool:
    """Return whether the API server answers."""
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(f"{host}/readyz", timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
