"""The extender of Kubernetes' scheduler: scores of nodes, and the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.serve.pods import Pods
from tests.serve.served import Served, racks, serving, serving_placement
from tests.serve.test_labelling import kubeconfig
from tests.shell import gavotte, until

from gavotte.formats.app import write_app
from gavotte.formats.network import write_network
from gavotte.formats.placement import write_placement
from gavotte.serve import Scores
from gavotte.serve.pods import CHOICE_S, PodNode, TaskNodes

NODES = [f"vm{number}" for number in range(5)]
APP = builders.app("job", ("a", "b", 1_000_000), ("b", "c", 10_000_000))
PLACEMENT = builders.placement({"a": "vm0", "b": "vm1", "c": "vm2"}, "job")


def test_the_planned_node_is_best_and_others_follow_by_the_time_to_the_peers() -> None:
    scores = Scores(racks(), PLACEMENT, [APP]).scores({"gavotte.io/task": "c"}, NODES)
    # b is on vm1: nothing to send if c is there, 0.08 s from its own rack, and 0.8 s from elsewhere.
    assert scores == {"vm0": 8, "vm1": 9, "vm2": 10, "vm3": 0, "vm4": 0}


JOB = {"batch.kubernetes.io/job-name": "job", "job-name": "job"}
INDEX = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"


def test_pods_are_known_by_their_task_or_their_number() -> None:
    scores = Scores(racks(), PLACEMENT, [APP])
    assert scores.task_of({"gavotte.io/task": "b"}) == "b"
    assert scores.task_of(JOB | {INDEX: "2"}) == "c"
    assert scores.task_of({"job-name": "job", INDEX: "1"}) == "b"
    assert scores.task_of({POD_INDEX: "0", "statefulset.kubernetes.io/pod-name": "job-0"}) == "a"
    for labels in (
        {},
        {"gavotte.io/task": "z"},
        JOB | {POD_INDEX: "3"},
        JOB | {POD_INDEX: "x"},
    ):
        assert scores.task_of(labels) is None
        assert scores.scores(labels, NODES) == dict.fromkeys(NODES, 0)


@pytest.mark.parametrize(
    "labels",
    [
        {INDEX: "2"},
        {POD_INDEX: "0"},
        {INDEX: "2", "batch.kubernetes.io/job-name": "other", "job-name": "job"},
        {POD_INDEX: "0", "statefulset.kubernetes.io/pod-name": "other-0"},
        {POD_INDEX: "0", "statefulset.kubernetes.io/pod-name": "job-replica-0"},
        {POD_INDEX: "0", "statefulset.kubernetes.io/pod-name": ""},
        JOB | {INDEX: "2", "gavotte.io/app": "other"},
    ],
)
def test_numbers_of_jobs_with_other_names_do_not_count(labels: dict[str, str]) -> None:
    scores = Scores(racks(), PLACEMENT, [APP])
    assert scores.task_of(labels) is None
    assert scores.scores(labels, NODES) == dict.fromkeys(NODES, 0)
    # A Job of another name can say that it is the application.
    assert scores.task_of({INDEX: "2", "batch.kubernetes.io/job-name": "run-7", "gavotte.io/app": "job"}) == "c"


def test_numbers_follow_the_order_of_the_application() -> None:
    placement = builders.placement({"c": "vm2", "b": "vm1", "a": "vm0"}, "job")
    assert Scores(racks(), placement, [APP]).task_of(JOB | {INDEX: "0"}) == "a"


def test_scores_follow_peers_that_are_elsewhere_than_planned() -> None:
    scores = Scores(racks(), PLACEMENT, [APP])
    task = {"gavotte.io/task": "c"}
    # b is where it was planned: nothing changes.
    assert scores.scores(task, NODES, {"b": "vm1", "a": "vm4"}) == scores.scores(task, NODES)
    # b is on vm3, in the rack of the planned vm2, from where c takes less time than planned.
    assert scores.scores(task, NODES, {"b": "vm3"}) == {"vm0": 0, "vm1": 0, "vm2": 10, "vm3": 9, "vm4": 0}
    # a and c are on vm3 and vm4. b takes longer from the planned vm1 than was planned.
    nodes = {"a": "vm3", "c": "vm4"}
    assert scores.scores({"gavotte.io/task": "b"}, NODES, nodes) == {"vm0": 0, "vm1": 0, "vm2": 1, "vm3": 1, "vm4": 10}
    # a, whose node was not measured, says nothing of b's.
    assert scores.scores({"gavotte.io/task": "b"}, NODES, {"a": "new"})["vm1"] == 10


def test_the_cluster_counts_more_than_a_choice_and_the_youngest_pod_most() -> None:
    now = [100.0]
    nodes = TaskNodes(lambda: now[0])
    task_of = Scores(racks(), PLACEMENT, [APP]).task_of
    nodes.choose("ns", "", "a", "vm4")
    now[0] += 10 * CHOICE_S
    assert nodes.of("ns", "", task_of) == {"a": "vm4"}
    assert nodes.of("other", "", task_of) == nodes.of("ns", "next run", task_of) == {}
    a, b = {"gavotte.io/task": "a"}, JOB | {INDEX: "1"}
    nodes.listed("tasks", {("ns", "p"): PodNode(a, "vm1", 2.0), ("ns", "older"): PodNode(a, "vm2", 1.0)})
    nodes.changed("numbers", ("ns", "q"), PodNode(b, "vm3"))
    nodes.changed("numbers", ("other", "q"), PodNode(b, "vm0"))
    assert nodes.of("ns", "", task_of) == {"a": "vm1", "b": "vm3"}
    nodes.changed("tasks", ("ns", "p"), None)
    nodes.changed("numbers", ("ns", "q"), PodNode(b, ""))
    assert nodes.of("ns", "", task_of) == {"a": "vm2"}
    # With a cluster, a choice that it does not confirm is dropped.
    nodes.choose("ns", "", "b", "vm4")
    assert nodes.of("ns", "", task_of) == {"a": "vm2", "b": "vm4"}
    now[0] += CHOICE_S + 1
    assert nodes.of("ns", "", task_of) == {"a": "vm2"}
    nodes.choose("ns", "", "b", "vm4")
    nodes.choose("ns", "", "b", "")
    assert nodes.of("ns", "", task_of) == {"a": "vm2"}


def test_pods_of_other_jobs_get_no_points() -> None:
    scores = Scores(racks(), PLACEMENT, [APP])
    assert scores.task_of({"gavotte.io/app": "job", "gavotte.io/task": "b"}) == "b"
    assert scores.task_of({"gavotte.io/app": "other", "gavotte.io/task": "b"}) is None
    # Number 0 of each role, not of the job.
    assert scores.task_of({"training.kubeflow.org/replica-index": "0"}) is None
    assert scores.task_of({"apps.kubernetes.io/pod-index": "9" * 5000}) is None


def test_several_applications_are_told_apart() -> None:
    placement = builders.placement({"one/a": "vm0", "two/a": "vm3"}, "one", "two")
    scores = Scores(racks(), placement)
    assert scores.task_of({"gavotte.io/task": "a"}) is None
    assert scores.task_of({"gavotte.io/task": "a", "batch.kubernetes.io/job-name": "two"}) == "two/a"
    assert scores.task_of({INDEX: "0", "batch.kubernetes.io/job-name": "one"}) == "one/a"
    assert scores.scores({"gavotte.io/app": "two", "gavotte.io/task": "a"}, NODES)["vm3"] == 10
    assert scores.scores({"gavotte.io/app": "one", "apps.kubernetes.io/pod-index": "0"}, NODES)["vm0"] == 10


def test_nodes_that_were_not_measured_get_no_points() -> None:
    scores = Scores(racks(), PLACEMENT, [APP]).scores({"gavotte.io/task": "c"}, ["vm0", "new", "vm2"])
    assert scores == {"vm0": 0, "new": 0, "vm2": 10}


def test_caps_say_how_fast_pairs_are_if_no_pair_has_a_rate() -> None:
    caps = {"egress_bps": 8e8, "ingress_bps": 8e8}
    hosts = [{"name": name, "machine": name[:3], **caps} for name in ("vm0", "vm1", "vm2", "vm3", "vm0b")]
    racks = [
        {"name": "r0", "members": ["vm0", "vm1", "vm0b"], "up_bps": 4e8, "down_bps": 4e8},
        {"name": "r1", "members": ["vm2", "vm3"], "up_bps": 4e8, "down_bps": 4e8},
    ]
    network = builders.network(hosts, groups=racks, sharing="groups")
    app = builders.app("job", ("a", "b", 10_000_000))
    scores = Scores(network, builders.placement({"a": "vm0", "b": "vm1"}, "job"), [app])
    times_s = [scores.seconds("b", node) for node in ("vm0", "vm0b", "vm1", "vm2")]
    assert times_s == pytest.approx([0.0, 0.0, 0.1, 0.2])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving_placement(tmp_path_factory.mktemp("served"), racks(), APP, PLACEMENT) as server:
        yield server


def pod(task: str, owner: str = "") -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "labels": {"gavotte.io/task": task}}
    owners = {"ownerReferences": [{"kind": "Job", "name": "job", "uid": owner}]} if owner else {}
    return {"metadata": metadata | owners, "spec": {"containers": []}}


def scored(served: Served, task: str, nodes: list[str] = NODES, owner: str = "") -> dict[str, int]:
    """Return what the scheduler gets for the pod of a task."""
    answer = served.ask("/scheduler/prioritize", {"pod": pod(task, owner), "nodenames": nodes})
    assert answer.status == 200
    return {each["host"]: each["score"] for each in answer.json}


@pytest.mark.slow
def test_the_scheduler_gets_scores_for_names_and_for_whole_nodes(served: Served) -> None:
    whole = {"items": [{"metadata": {"name": name}} for name in NODES]}
    for arguments in ({"pod": pod("b"), "nodenames": NODES}, {"Pod": pod("b"), "Nodes": whole}):
        answer = served.ask("/scheduler/prioritize", arguments)
        assert answer.status == 200
        assert {each["host"]: each["score"] for each in answer.json}["vm1"] == 10
    assert served.ask("/scheduler/filter", {"pod": pod("b"), "nodenames": NODES}).json == {"nodenames": NODES}
    for key in ("nodes", "Nodes"):
        assert served.ask("/scheduler/filter", {"pod": pod("b"), key: whole}).json == {"nodes": whole}


@pytest.mark.slow
def test_a_pod_that_cannot_be_on_its_planned_node_moves_its_peers(served: Served) -> None:
    assert scored(served, "b", owner="run 1")["vm1"] == 10
    # vm0 is full: of the nodes that are left, vm1 gets the most points for a, since b is there.
    assert scored(served, "a", NODES[1:], "run 1") == {"vm1": 9, "vm2": 0, "vm3": 0, "vm4": 0}
    # From vm1, b now takes less time than planned.
    assert scored(served, "b", owner="run 1")["vm1"] == 10
    # Where one node fits, the scheduler asks for no scores.
    served.ask("/scheduler/filter", {"pod": pod("a", "run 1"), "nodenames": ["vm4"]})
    assert scored(served, "b", owner="run 1") == {"vm0": 0, "vm1": 0, "vm2": 10, "vm3": 8, "vm4": 1}
    # The next run of the job starts afresh.
    assert scored(served, "b", owner="run 2")["vm1"] == 10


@pytest.mark.slow
def test_pods_of_a_cluster_are_known_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_app(tmp_path / "j.app.toml", APP)
    write_placement(tmp_path / "j.placement.json", PLACEMENT)
    words = ("--scheduler-extender", "--placement", "j.placement.json", "--app", "j.app.toml", "--watch-pods")
    pods = Pods()
    pods.put("a", {"gavotte.io/task": "a"}, "vm4")
    pods.put("else", {"app": "else"}, "vm0")
    moved = {"vm0": 0, "vm1": 0, "vm2": 10, "vm3": 8, "vm4": 1}
    with pods.answering() as port:
        kubeconfig(tmp_path / "config", port, monkeypatch)
        with serving(tmp_path, *words, "--context", "c", network=racks()) as served:
            assert scored(served, "b") == moved
            pods.put("a", {"gavotte.io/task": "a"}, "vm0")
            until(lambda: scored(served, "b")["vm1"] == 10)
            pods.put("a", {"gavotte.io/task": "a"}, "vm4")
            until(lambda: scored(served, "b") == moved)
            pods.put("a", {"gavotte.io/task": "a"}, "vm4", phase="Succeeded")
            until(lambda: scored(served, "b")["vm1"] == 10)
            pods.put("a", {"gavotte.io/task": "a"}, "vm4")
            until(lambda: scored(served, "b") == moved)
            pods.remove("a")
            until(lambda: scored(served, "b")["vm1"] == 10)
    assert "warning" not in served.complaints
    # The API server is away when the service starts, and later again.
    with serving(tmp_path, *words) as served:
        assert scored(served, "b")["vm1"] == 10
        pods.put("a", {"gavotte.io/task": "a"}, "vm4")
        with pods.answering(port):
            until(lambda: scored(served, "b") == moved)
        pods.put("a", {"gavotte.io/task": "a"}, "vm0")
        with pods.answering(port):
            until(lambda: scored(served, "b")["vm1"] == 10)
    assert "Traceback" not in served.complaints
    # At the start, and when each of the two servers ends.
    assert 1 <= served.complaints.count("Kubernetes did not list pods") <= 3, served.complaints


@pytest.mark.slow
def test_an_extender_needs_a_placement(tmp_path: Path) -> None:
    write_network(tmp_path / "n.network.json", racks())
    for words in (["--scheduler-extender"], ["--scheduler-extender", "--network", "n.network.json"], ["--watch-pods"]):
        done = gavotte("serve", "--port", "0", *words, cwd=tmp_path)
        assert done.returncode == 1
        assert (
            done.stderr == "error: the scheduler extender follows a Placement; name the Placement: --placement FILE\n"
        )


@pytest.mark.slow
@pytest.mark.parametrize("body", ["", "[]", "{}", '{"pod": 3}', '{"pod": {"metadata": {"labels": {"a": 1}}}}'])
def test_damaged_questions_are_refused_in_one_line(served: Served, body: str) -> None:
    for path in ("/scheduler/prioritize", "/scheduler/filter"):
        answer = served.ask(path, body)
        assert answer.status == 400
        assert answer.text.startswith("request: ")
        assert answer.text.count("\n") == 1
