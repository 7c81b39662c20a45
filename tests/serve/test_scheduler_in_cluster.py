"""A real scheduler of Kubernetes asks the extender, and binds pods where the Placement says: `make test-kubernetes`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.serve.conversation import PLANNED, RECORDED, placing, recording
from tests.serve.scheduler import configuration
from tests.serve.served import serving
from tests.shell import until

from gavotte.formats.app import write_app
from gavotte.formats.placement import write_placement

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(300),
]
BOUND_S = 60.0


@contextmanager
def scheduling(folder: Path, base: str) -> Iterator[None]:
    """Run a scheduler that asks the extender at this address, until the end of the block."""
    (folder / "config.json").write_text(json.dumps(configuration(os.environ["KUBECONFIG"], base)))
    program = shutil.which("kube-scheduler")
    assert program is not None
    with (folder / "log").open("wb") as log:
        line = [program, "--config", str(folder / "config.json"), "--secure-port=0"]
        scheduler = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        scheduler.terminate()
        scheduler.wait(20)


def pod(name: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Return a pod that the scheduler above is to bind."""
    container = {"name": "c", "image": "gavotte.test/pause:1"}
    spec |= {"schedulerName": "gavotte", "containers": [container], "automountServiceAccountToken": False}
    return {"metadata": {"name": name, "labels": labels | {"test": "placed"}}, "spec": spec}


def bound(core: Any, count: int, folder: Path) -> dict[str, str]:
    """Return the nodes of the pods, once there are that many."""
    end = time.monotonic() + BOUND_S
    while True:
        pods = core.list_namespaced_pod("default", label_selector="test=placed").items
        nodes = {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}
        if len(nodes) == count:
            return nodes
        assert time.monotonic() < end, (folder / "log").read_text()[-2000:]
        time.sleep(0.5)


@pytest.fixture
def core() -> Iterator[Any]:
    """A client of the cluster. The test's pods are deleted after it."""
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))
    yield core
    core.delete_collection_namespaced_pod("default", label_selector="test=placed", grace_period_seconds=0)
    until(lambda: not core.list_namespaced_pod("default", label_selector="test=placed").items)


def test_pods_are_bound_where_the_placement_says(tmp_path: Path, core: Any) -> None:
    # `GAVOTTE_RECORD=yes` writes the conversation that `test_conversation.py` repeats.
    kept = RECORDED if os.environ.get("GAVOTTE_RECORD") else tmp_path
    with (
        placing(tmp_path) as served,
        recording(served, kept / "extender.json") as base,
        scheduling(tmp_path, base),
    ):
        for number, task in enumerate(PLANNED):
            # Two are known by their task, two by their number in a job.
            numbered = {"batch.kubernetes.io/job-completion-index": str(number), "batch.kubernetes.io/job-name": "j"}
            labels = {"gavotte.io/task": task} if number % 2 else numbered
            core.create_namespaced_pod("default", pod(f"placed-{task}", labels))
        assert bound(core, len(PLANNED), tmp_path) == {f"placed-{task}": node for task, node in PLANNED.items()}
        assert 'path="/scheduler/prioritize",status="200"} 4\n' in served.ask("/metrics").text


def test_pods_follow_a_peer_whose_planned_node_is_full(tmp_path: Path, core: Any) -> None:
    # Both are to be on node2, between which and node1 the network is slow.
    write_app(tmp_path / "j.app.toml", builders.app("j", ("a", "b", 1_000_000_000), ("a", "c", 1_000_000_000)))
    write_placement(tmp_path / "j.placement.json", builders.placement(dict.fromkeys("abc", "node2"), "j"))
    network = builders.network(["node1", "node2"], 1e9)
    words = ("--scheduler-extender", "--placement", "j.placement.json", "--app", "j.app.toml", "--watch-pods")
    full = {"nodeSelector": {"kubernetes.io/hostname": "node1"}}
    with serving(tmp_path, *words, network=network) as served, scheduling(tmp_path, served.base):
        core.create_namespaced_pod("default", pod("placed-a", {"gavotte.io/task": "a"}, **full))
        core.create_namespaced_pod("default", pod("placed-b", {"gavotte.io/task": "b"}))
        assert bound(core, 2, tmp_path) == {"placed-a": "node1", "placed-b": "node1"}
    assert "Traceback" not in served.complaints
    # A new service knows it from the cluster.
    with serving(tmp_path, *words) as served, scheduling(tmp_path, served.base):
        core.create_namespaced_pod("default", pod("placed-c", {"gavotte.io/task": "c"}))
        assert bound(core, 3, tmp_path)["placed-c"] == "node1"
        core.delete_namespaced_pod("placed-a", "default", grace_period_seconds=0)
        core.delete_namespaced_pod("placed-c", "default", grace_period_seconds=0)
        until(lambda: len(bound(core, 1, tmp_path)) == 1)
        core.create_namespaced_pod("default", pod("placed-c", {"gavotte.io/task": "c"}))
        assert bound(core, 2, tmp_path)["placed-c"] == "node2"
    assert "warning" not in served.complaints


def test_jobs_of_other_names_are_not_placed(tmp_path: Path, core: Any) -> None:
    from kubernetes import client

    write_app(tmp_path / "j.app.toml", builders.app("placed-j", ("a", "b", 1_000_000)))
    write_placement(tmp_path / "j.placement.json", builders.placement({"a": "node2", "b": "node1"}, "placed-j"))
    batch: Any = client.BatchV1Api(core.api_client)
    network = builders.network(["node1", "node2"], 1e9)
    names = ("placed-j", "other-j")
    with (
        serving(tmp_path, "--placement", "j.placement.json", "--app", "j.app.toml", network=network) as served,
        scheduling(tmp_path, served.base),
    ):
        try:
            for name in names:
                template = pod("", {}, restartPolicy="Never")
                job = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
                batch.create_namespaced_job("default", {"metadata": {"name": name}, "spec": job})
            bound(core, 4, tmp_path)
            pods = core.list_namespaced_pod("default", label_selector="test=placed").items
            scores = {}
            for each in pods:
                about = each.metadata
                document = {"metadata": {"name": about.name, "namespace": "default", "labels": about.labels}}
                answer = served.ask("/scheduler/prioritize", {"pod": document, "nodenames": ["node1", "node2"]}).json
                key = about.labels["job-name"], about.labels["batch.kubernetes.io/job-completion-index"]
                scores[key] = {each["host"]: each["score"] for each in answer}, each.spec.node_name
            assert scores["placed-j", "0"] == ({"node1": 0, "node2": 10}, "node2")
            assert scores["placed-j", "1"] == ({"node1": 10, "node2": 0}, "node1")
            for index in "01":
                assert scores["other-j", index][0] == {"node1": 0, "node2": 0}
        finally:
            for name in names:
                batch.delete_namespaced_job(name, "default", propagation_policy="Background")
