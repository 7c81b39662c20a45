"""Hosts of a real cluster by its kubeconfig: `make test-kubernetes`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.shell import gavotte

from gavotte.agents.kubeconfig import connected
from gavotte.agents.sources import from_kubeconfig

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(120),
]
ACCOUNT = "gavotte-lister"


def test_nodes_of_a_cluster_are_hosts() -> None:
    from kubernetes import client

    core: Any = client.CoreV1Api(connected(""))
    listing = from_kubeconfig("c")
    assert listing.absent == {}
    assert [(host.name, host.address) for host in listing.inventory.host] == [
        ("node1", "10.44.0.11"),
        ("node2", "10.44.0.12"),
    ]
    for host in listing.inventory.host:
        assert host.labels == {"topology.kubernetes.io/zone": f"zone{host.name[-1]}"}
        assert host.cpus == float(core.read_node(host.name).status.allocatable["cpu"])
        assert host.memory_bytes > 1 << 28
    core.patch_node("node2", {"spec": {"unschedulable": True}})
    try:
        done = gavotte("hosts", "list", "--hosts", "kubeconfig", env=os.environ)
        assert done.stderr == "warning: node2: left out: unschedulable\n"
        assert done.returncode == 0
        assert "node1  10.44.0.11  ssh://10.44.0.11" in done.stdout
    finally:
        core.patch_node("node2", {"spec": {"unschedulable": False}})


def test_an_account_needs_the_right_to_list_nodes(tmp_path: Path) -> None:
    from kubernetes import client

    api = connected("")
    core: Any = client.CoreV1Api(api)
    access: Any = client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account("default", {"metadata": {"name": ACCOUNT}})
    try:
        token = core.create_namespaced_service_account_token(ACCOUNT, "default", {"spec": {"audiences": None}})
        config = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
        config["users"][0]["user"] = {"token": token.status.token}
        (tmp_path / "config").write_text(json.dumps(config))
        words = ("hosts", "list", "--hosts", "kubeconfig")
        environment = os.environ | {"KUBECONFIG": str(tmp_path / "config")}
        done = gavotte(*words, env=environment)
        assert done.returncode == 1
        assert done.stderr.startswith("error: Kubernetes did not list its nodes: nodes is forbidden: User ")
        assert done.stderr.endswith("; ask for a role with the right to `nodes: list`\n")
        assert done.stderr.count("\n") == 1
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
        access.create_cluster_role({"metadata": {"name": ACCOUNT}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
        access.create_cluster_role_binding({"metadata": {"name": ACCOUNT}, "subjects": [subject], "roleRef": role})
        done = gavotte(*words, env=environment)
        assert done.returncode == 0, done.stderr
    finally:
        core.delete_namespaced_service_account(ACCOUNT, "default")
        for delete in (access.delete_cluster_role_binding, access.delete_cluster_role):
            try:
                delete(ACCOUNT)
            except client.ApiException as error:
                assert error.status == 404
