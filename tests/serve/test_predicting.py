"""Predicted seconds for the scheduler plugin: of a pod on each node, and of a whole job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.serve.served import Served, racks, serving, serving_placement

from gavotte.formats.app import write_app
from gavotte.formats.placement import write_placement
from gavotte.place import evaluate

APP = builders.app("job", ("a", "b", 1_000_000), ("b", "c", 10_000_000))
PLACEMENT = builders.placement({"a": "vm0", "b": "vm1", "c": "vm2"}, "job")
TASK = "gavotte.io/task"

pytestmark = pytest.mark.slow


def pod(task: str, node: str) -> dict[str, Any]:
    return {"labels": {TASK: task}, "node": node}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving_placement(tmp_path_factory.mktemp("served"), racks(), APP, PLACEMENT) as server:
        yield server


def seconds(served: Served, *peers: dict[str, Any]) -> Any:
    question = {"labels": {TASK: "c"}, "nodes": ["vm0", "vm1", "vm2", "vm3", "new"], "peers": peers}
    return served.ask("/scheduler/seconds", question).json


def test_a_pod_is_priced_next_to_peers_as_planned(served: Served) -> None:
    # b is on vm1: nothing to send if c is there, too, 0.08 s from its own rack, and 0.8 s from elsewhere.
    priced = {"vm0": 0.08, "vm1": 0.0, "vm2": 0.8, "vm3": 0.8, "new": None}
    assert seconds(served) == {"planned": "vm2", "seconds": pytest.approx(priced)}
    assert seconds(served, pod("a", "vm4"))["seconds"] == pytest.approx(priced), "c exchanges nothing with a"


def test_a_pod_is_priced_next_to_peers_where_they_are(served: Served) -> None:
    priced = {"vm0": 0.8, "vm1": 0.8, "vm2": 0.08, "vm3": 0.0, "new": None}
    assert seconds(served, pod("b", "vm3")) == {"planned": "vm2", "seconds": pytest.approx(priced)}


def test_a_plan_that_peers_have_spoilt_does_not_count(served: Served) -> None:
    # b is planned in a's rack, and runs in another.
    question = {"labels": {TASK: "b"}, "nodes": ["vm1", "vm3"], "peers": [pod("a", "vm2"), pod("c", "vm2")]}
    answer = served.ask("/scheduler/seconds", question).json
    assert answer == {"planned": None, "seconds": pytest.approx({"vm1": 0.88, "vm3": 0.088})}


def test_pods_that_are_no_tasks_are_not_priced(served: Served) -> None:
    question = {"labels": {TASK: "z"}, "nodes": ["vm0"], "peers": []}
    assert served.ask("/scheduler/seconds", question).json == {"planned": None, "seconds": {}}
    assert served.ask("/scheduler/completion", {"pods": [pod("z", "vm0")]}).json == {"seconds": None}


def test_a_job_is_predicted_as_place_does_it(served: Served) -> None:
    # The scheduler knows how many pods fit, so that a host of one processor may have two.
    roomy = racks().model_copy(update={"hosts": [host.model_copy(update={"cpus": 2.0}) for host in racks().hosts]})
    for b, c in (("vm1", "vm0"), ("vm2", "vm3"), ("vm2", "vm0")):
        predicted_s = evaluate(roomy, [APP], {"a": "vm0", "b": b, "c": c}).completion_s
        answer = served.ask("/scheduler/completion", {"pods": [pod("b", b), pod("c", c)]}).json
        assert answer == {"seconds": pytest.approx(predicted_s)}
    assert served.ask("/scheduler/completion", {"pods": [pod("b", "new")]}).json == {"seconds": None}


def test_a_job_of_other_tasks_is_not_predicted(tmp_path: Path) -> None:
    write_app(tmp_path / "j.app.toml", builders.app("job", ("a", "new", 1_000_000)))
    write_placement(tmp_path / "j.placement.json", PLACEMENT)
    with serving(tmp_path, "--placement", "j.placement.json", "--app", "j.app.toml", network=racks()) as served:
        assert served.ask("/scheduler/completion", {"pods": [pod("a", "vm1")]}).json == {"seconds": None}


def test_a_job_without_its_apps_is_not_predicted(tmp_path: Path) -> None:
    write_placement(tmp_path / "j.placement.json", PLACEMENT)
    with serving(tmp_path, "--placement", "j.placement.json", network=racks()) as served:
        assert served.ask("/scheduler/completion", {"pods": [pod("b", "vm1")]}).json == {"seconds": None}
        assert seconds(served)["planned"] == "vm2"


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"labels": {"a": 1}, "nodes": []}', '{"pods": [{"node": 3}]}'])
def test_damaged_questions_are_refused_in_one_line(served: Served, body: str) -> None:
    for path in ("/scheduler/seconds", "/scheduler/completion"):
        answer = served.ask(path, body)
        assert answer.status == 400
        assert answer.text.startswith("request: ")
        assert answer.text.count("\n") == 1
