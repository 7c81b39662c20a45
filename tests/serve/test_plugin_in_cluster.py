"""A real scheduler with our plugin binds pods where `place` says, if the extender's scores tie: `make test-kubernetes`.

The nodes are objects without a kubelet, so that there can be many of them: pods are bound to them but never start.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import builders
from tests.serve.scheduler import PLUGIN, configuration, plugin_configuration
from tests.serve.served import serving_placement
from tests.shell import until

from gavotte.export import JobQuestion, export_job
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place import Effort, Question, decide, evaluate

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(400),
]
NAMESPACE = "default"
TIER = "fabric.topograph.run/tier-0"
TEST = "plugin-test"
"""Label of the pods and nodes of this module."""

GATES = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
BOUND_S = 60.0

# Bytes per second from `home`: drained nodes, the best three of those that are left, others, and one that is slow.
DRAINED = {f"drained{number}": 2e10 for number in range(3)}
BEST = {"best0": 10e9, "best1": 9.5e9, "best2": 9e9}
OTHERS = {f"other{number}": (6 + number / 2) * 1e9 for number in range(5)}
LEFT = {**BEST, **OTHERS, "slow": 5e7}
WORKERS = ["w0", "w1", "w2"]
SPREAD = builders.app("spread", *(("data", worker, 1_000_000_000) for worker in WORKERS))
PAIR = builders.app("pair", ("a", "b", 1_000_000_000), ("b", "a", 1_000_000_000))
RACKS = 8


@pytest.fixture
def core() -> Iterator[Any]:
    """The cluster. Pods and nodes of this module are deleted afterwards."""
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))
    try:
        yield core
    finally:
        delete_pods(core)
        core.delete_collection_node(label_selector=f"test={TEST}")


def delete_pods(core: Any) -> None:
    core.delete_collection_namespaced_pod(NAMESPACE, label_selector=f"test={TEST}", grace_period_seconds=0)
    until(lambda: not core.list_namespaced_pod(NAMESPACE, label_selector=f"test={TEST}").items)


def create_node(core: Any, name: str, cpus: float, **labels: str) -> None:
    """Create a node with room for pods that need this many processors."""
    core.create_node({"metadata": {"name": name, "labels": {"test": TEST, **labels}}})
    room = {"cpu": str(cpus), "memory": "8Gi", "pods": "9"}
    core.patch_node_status(name, {"status": {"capacity": room, "allocatable": room}})


def create_pod(core: Any, task: str, **fields: Any) -> None:
    """Create the pod of a task, for one processor on any node of this module."""
    spec = {
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "gavotte.test/pause:1", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"test": TEST},
        # Nodes without a kubelet are not ready.
        "tolerations": [{"operator": "Exists"}],
        **fields,
    }
    metadata = {"name": f"{TEST}-{task}", "labels": {"test": TEST, "gavotte.io/task": task}}
    core.create_namespaced_pod(NAMESPACE, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def bound(core: Any, tasks: Sequence[str], log: Path) -> dict[str, str]:
    """Wait until all of these tasks' pods are bound; return their nodes."""

    def nodes() -> dict[str, str]:
        pods = core.list_namespaced_pod(NAMESPACE, label_selector=f"test={TEST}").items
        return {pod.metadata.labels["gavotte.io/task"]: pod.spec.node_name for pod in pods if pod.spec.node_name}

    until(
        lambda: nodes().keys() >= set(tasks), BOUND_S, instead=lambda: log.read_text()[-2000:] if log.exists() else ""
    )
    return {task: node for task, node in nodes().items() if task in tasks}


@contextmanager
def scheduling(folder: Path, config: Mapping[str, Any]) -> Iterator[Path]:
    """Run our scheduler; give its log."""
    (folder / "config.json").write_text(json.dumps(config))
    program = shutil.which("gavotte-scheduler")
    assert program is not None
    with (folder / "log").open("wb") as log:
        line = [program, "--config", str(folder / "config.json"), "--secure-port=0", GATES]
        process = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield folder / "log"
    finally:
        process.terminate()
        process.wait(20)


def star(rates_bps: Mapping[str, float]) -> Network:
    """Return a Network of `home` and hosts with these rates from it, each with room for one task."""
    names = ["home", *rates_bps]
    rows = [
        [0.0 if m == n else rates_bps.get(m, 1e10) if n == "home" else rates_bps.get(n, 1e10) for n in names]
        for m in names
    ]
    return builders.network(names, rows, cpus=1.0, sharing="pipe")


def spread(rates_bps: Mapping[str, float]) -> Placement:
    """Return where `place` puts the workers, with the data at home."""
    return decide(Question(star(rates_bps), [SPREAD], allowed={"data": ["home"]}), Effort()).placement


def test_pods_get_the_nodes_that_place_says_although_the_extender_scores_them_alike(core: Any, tmp_path: Path) -> None:
    planned, left = spread(DRAINED | LEFT), spread(LEFT)
    assert {planned.assignment[worker] for worker in WORKERS} == set(DRAINED)
    assert {left.assignment[worker] for worker in WORKERS} == set(BEST)
    create_node(core, "home", 1)
    for name in LEFT:
        # By default, pods go where most is left.
        create_node(core, name, 1.5 if name in BEST else 4)
    create_pod(core, "data", nodeName="home")
    kubeconfig, log = os.environ["KUBECONFIG"], tmp_path / "log"

    def placed(scheduler: str, workers: Sequence[str] = WORKERS) -> dict[str, str]:
        for worker in workers:
            create_pod(core, worker, schedulerName=scheduler)
        nodes = bound(core, workers, log)
        for worker in workers:
            core.delete_namespaced_pod(f"{TEST}-{worker}", NAMESPACE, grace_period_seconds=0)
        until(lambda: len(core.list_namespaced_pod(NAMESPACE, label_selector=f"test={TEST}").items) == 1)
        return nodes

    def completion_s(nodes: Mapping[str, str]) -> float:
        return evaluate(star(LEFT), [SPREAD], {"data": "home", **nodes}).completion_s

    assert BEST.keys().isdisjoint(placed("default-scheduler").values())
    with serving_placement(tmp_path, star(DRAINED | LEFT), SPREAD, planned) as served:
        with scheduling(tmp_path, configuration(kubeconfig, served.base)):
            tied = placed("gavotte")
            assert BEST.keys().isdisjoint(tied.values())
            assert 'path="/scheduler/prioritize",status="200"} 3\n' in served.ask("/metrics").text
        with scheduling(tmp_path, plugin_configuration(kubeconfig, served.base)):
            nodes = placed("gavotte")
            assert set(nodes.values()) == set(BEST)
            assert pytest.approx(left.completion_s) == completion_s(nodes)
            assert completion_s(nodes) < completion_s(tied)
            assert 'path="/scheduler/seconds",status="200"} 3\n' in served.ask("/metrics").text
            served.process.terminate()
            served.process.wait(20)
            # Without answers, pods are scheduled as by default, and the log says so.
            assert placed("gavotte", ["w0"])["w0"] not in BEST
            assert f'Gavotte: scheduling without measured times: Post "{served.base}' in log.read_text()


RACK_HOSTS = {f"rack{rack}": [f"rack{rack}-{side}" for side in "ab"] for rack in range(RACKS)}


def racks(*fast: str) -> Network:
    """Return racks of two hosts, each with room for one task. Fast racks are ten times as fast as all other pairs."""
    names = [name for members in RACK_HOSTS.values() for name in members]
    quick = [set(RACK_HOSTS[rack]) for rack in fast]
    rows = [[0.0 if m == n else 1e10 if {m, n} in quick else 1e9 for n in names] for m in names]
    groups = [{"name": rack, "members": members} for rack, members in RACK_HOSTS.items()]
    return builders.network(names, rows, cpus=1.0, sharing="pipe", groups=groups)


def create_racks(core: Any) -> None:
    for rack, members in RACK_HOSTS.items():
        for name in members:
            create_node(core, name, 1.5, **{TIER: rack})


def test_a_pod_gets_a_node_near_its_peer_where_that_runs(core: Any, tmp_path: Path) -> None:
    network = racks(*RACK_HOSTS)
    create_racks(core)
    # Planned in one rack, but its peer was started in another by hand.
    placement = builders.placement({"a": "rack0-a", "b": "rack0-b"}, "pair")
    create_pod(core, "a", nodeName="rack5-a")
    with (
        serving_placement(tmp_path, network, PAIR, placement) as served,
        scheduling(tmp_path, plugin_configuration(os.environ["KUBECONFIG"], served.base)) as log,
    ):
        create_pod(core, "b", schedulerName="gavotte")
        assert bound(core, "b", log) == {"b": "rack5-b"}


@pytest.mark.parametrize("fastest", ["rack1", "rack6"])
def test_a_group_starts_in_the_rack_that_finishes_soonest(core: Any, tmp_path: Path, fastest: str) -> None:
    from kubernetes import client

    network = racks(fastest)
    placement = decide(Question(network, [PAIR]), Effort()).placement
    assert set(placement.assignment.values()) == set(RACK_HOSTS[fastest])
    create_racks(core)
    group = yaml.safe_load(export_job(JobQuestion(PAIR, network), "kubernetes-podgroup"))
    assert group["spec"]["schedulingConstraints"]["topology"] == [{"key": TIER}]
    name = group["metadata"]["name"]
    objects: Any = client.CustomObjectsApi(core.api_client)
    kind = ("scheduling.k8s.io", "v1beta1", NAMESPACE, "podgroups")
    with (
        serving_placement(tmp_path, network, PAIR, placement) as served,
        scheduling(tmp_path, plugin_configuration(os.environ["KUBECONFIG"], served.base)) as log,
    ):
        objects.create_namespaced_custom_object(*kind, group)
        try:
            for task in "ab":
                create_pod(core, task, schedulerName="gavotte", schedulingGroup={"podGroupName": name})
            assert set(bound(core, "ab", log).values()) == set(RACK_HOSTS[fastest])
            assert f'path="/scheduler/completion",status="200"}} {RACKS}\n' in served.ask("/metrics").text
        finally:
            delete_pods(core)
            objects.delete_namespaced_custom_object(*kind, name)
            until(lambda: not objects.list_namespaced_custom_object(*kind)["items"])


def test_the_sources_of_the_plugin_pass_their_own_tests() -> None:
    kept = PLUGIN.parents[2] / "target" / "kubernetes"
    environment = {
        "GOPATH": str(kept / "go"),
        "GOCACHE": str(kept / "gocache"),
        "GOFLAGS": "-modcacherw",
        "CGO_ENABLED": "0",
    }
    for words in (["gofmt", "-l", "."], ["go", "vet", "./..."], ["go", "test", "./..."]):
        finished = subprocess.run(
            words, cwd=PLUGIN, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        assert words[0] == "go" or not finished.stdout
