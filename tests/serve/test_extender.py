"""The extender of Kubernetes' scheduler: scores of nodes, and the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.serve.served import Served, racks, serving

from gavotte.formats.app import write_app
from gavotte.formats.placement import write_placement
from gavotte.serve import Scores

NODES = [f"vm{number}" for number in range(5)]
APP = builders.app("job", ("a", "b", 1_000_000), ("b", "c", 10_000_000))
PLACEMENT = builders.placement({"a": "vm0", "b": "vm1", "c": "vm2"}, "job")


def test_the_planned_node_is_best_and_others_follow_by_the_time_to_the_peers() -> None:
    scores = Scores(racks(), PLACEMENT, [APP]).scores({"gavotte.io/task": "c"}, NODES)
    # b is on vm1: nothing to send if c is there, 0.08 s from its own rack, and 0.8 s from elsewhere.
    assert scores == {"vm0": 8, "vm1": 9, "vm2": 10, "vm3": 0, "vm4": 0}


def test_pods_are_known_by_their_task_or_their_number() -> None:
    scores = Scores(racks(), PLACEMENT, [APP])
    assert scores.task_of({"gavotte.io/task": "b"}) == "b"
    assert scores.task_of({"batch.kubernetes.io/job-completion-index": "2"}) == "c"
    assert scores.task_of({"apps.kubernetes.io/pod-index": "0"}) == "a"
    for labels in (
        {},
        {"gavotte.io/task": "z"},
        {"apps.kubernetes.io/pod-index": "3"},
        {"apps.kubernetes.io/pod-index": "x"},
    ):
        assert scores.task_of(labels) is None
        assert scores.scores(labels, NODES) == dict.fromkeys(NODES, 0)


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
    assert scores.scores({"gavotte.io/app": "two", "gavotte.io/task": "a"}, NODES)["vm3"] == 10
    assert scores.scores({"gavotte.io/app": "one", "apps.kubernetes.io/pod-index": "0"}, NODES)["vm0"] == 10


def test_nodes_that_were_not_measured_get_no_points() -> None:
    scores = Scores(racks(), PLACEMENT, [APP]).scores({"gavotte.io/task": "c"}, ["vm0", "new", "vm2"])
    assert scores == {"vm0": 0, "new": 0, "vm2": 10}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("served")
    write_app(folder / "j.app.toml", APP)
    write_placement(folder / "j.placement.json", PLACEMENT)
    with serving(folder, "--placement", "j.placement.json", "--app", "j.app.toml", network=racks()) as server:
        yield server


def pod(task: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": {"gavotte.io/task": task}}, "spec": {"containers": []}}


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
@pytest.mark.parametrize("body", ["", "[]", "{}", '{"pod": 3}', '{"pod": {"metadata": {"labels": {"a": 1}}}}'])
def test_damaged_questions_are_refused_in_one_line(served: Served, body: str) -> None:
    for path in ("/scheduler/prioritize", "/scheduler/filter"):
        answer = served.ask(path, body)
        assert answer.status == 400
        assert answer.text.startswith("request: ")
        assert answer.text.count("\n") == 1
