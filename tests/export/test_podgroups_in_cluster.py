"""Kubernetes' own scheduler starts an exported PodGroup in one measured rack, or not at all: `make test-kubernetes`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from tests import builders
from tests.export.test_jobs import tasks
from tests.shell import until

from gavotte.export import JobQuestion, Together, export_job

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(300),
]
NAMESPACE = "default"
TIER, ABOVE = "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"
RACKS = builders.network(
    [{"name": name, "cpus": 1.8} for name in ("node1", "node2")],
    groups=[{"name": "one", "members": ["node1"]}, {"name": "two", "members": ["node2"]}],
)
STAYS_S = 5.0


@pytest.fixture(scope="module")
def core() -> Iterator[Any]:
    """A cluster whose two nodes are racks."""
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))
    for node, rack in (("node1", "one"), ("node2", "two")):
        core.patch_node(node, {"metadata": {"labels": {TIER: rack, ABOVE: None}}})
    yield core
    for node in ("node1", "node2"):
        core.patch_node(node, {"metadata": {"labels": {TIER: None}}})


@contextmanager
def started(core: Any, cores: list[float], together: Together) -> Iterator[Any]:
    """Create an App's PodGroup and a pod for each task; give what returns the pods' nodes."""
    from kubernetes import client

    app = tasks(*cores)
    group = yaml.safe_load(export_job(JobQuestion(app, RACKS, together), "kubernetes-podgroup"))
    objects: Any = client.CustomObjectsApi(core.api_client)
    kind = ("scheduling.k8s.io", "v1beta1", NAMESPACE, "podgroups")
    kept = objects.create_namespaced_custom_object(*kind, group, field_validation="Strict")
    assert kept["spec"]["schedulingPolicy"] == group["spec"]["schedulingPolicy"]
    assert kept["spec"].get("schedulingConstraints") == group["spec"].get("schedulingConstraints"), "a gate is off"
    name = group["metadata"]["name"]
    pods = {"label_selector": "test=grouped"}
    try:
        for task in app.task:
            spec = {
                "schedulingGroup": {"podGroupName": name},
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "c",
                        "image": "gavotte.test/pause:1",
                        "resources": {"requests": {"cpu": f"{round(1000 * task.cpus)}m"}},
                    }
                ],
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
            metadata = {"name": f"{name}-{task.name}", "labels": {"test": "grouped"}}
            # The client's own model of a pod does not know the group yet.
            core.create_namespaced_pod(NAMESPACE, pod | {"metadata": metadata})
        yield lambda: [pod.spec.node_name for pod in core.list_namespaced_pod(NAMESPACE, **pods).items]
    finally:
        core.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0, **pods)
        objects.delete_namespaced_custom_object(*kind, name)
        until(lambda: not core.list_namespaced_pod(NAMESPACE, **pods).items)
        until(lambda: not objects.list_namespaced_custom_object(*kind)["items"])


def test_a_group_starts_in_one_rack(core: Any) -> None:
    with started(core, [0.8, 0.8], "required") as nodes:
        until(lambda: all(nodes()), instead=nodes)
        assert len(set(nodes())) == 1


def test_a_group_without_a_rack_is_spread(core: Any) -> None:
    """So the test above can fail."""
    with started(core, [0.8, 0.8], "unconstrained") as nodes:
        until(lambda: all(nodes()), instead=nodes)
        assert len(set(nodes())) == 2


def test_a_group_that_no_rack_has_room_for_does_not_start(core: Any) -> None:
    # Three pods fit on two nodes, but not in one rack: `export` names the tier above, which has both.
    group = yaml.safe_load(export_job(JobQuestion(tasks(0.8, 0.8, 0.8), RACKS), "kubernetes-podgroup"))
    assert group["spec"]["schedulingConstraints"]["topology"] == [{"key": ABOVE}]
    # The nodes lack that label, so that no domain has room.
    with started(core, [0.8, 0.8, 0.8], "required") as nodes:
        time.sleep(STAYS_S)
        assert nodes() == [None, None, None]
