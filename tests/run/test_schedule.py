"""Placement and applications must belong together; then every byte has its way."""

from __future__ import annotations

from typing import Any

import pytest

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.placement import Placement
from gavotte.run import schedule


def app(name: str = "a", **extra: Any) -> App:
    return App.model_validate(
        {
            "format": "gavotte/app/1",
            "name": name,
            "task": [{"name": "x"}, {"name": "y"}],
            "transfer": [
                {"source": "x", "target": "y", "bytes": 10, "phase": 5},
                {"source": "y", "target": "x", "bytes": 20, "phase": 2},
                {"source": "y", "target": "x", "bytes": 0, "phase": 2},
            ],
            **extra,
        }
    )


def placement(apps: list[str], assignment: dict[str, str]) -> Placement:
    return Placement(
        apps=apps,
        method="greedy",
        assignment=assignment,
        completion_s=1,
        bound_s=0,
        optimal=False,
        bottleneck="",
        elapsed_s=0,
        seed=0,
    )


def test_phases_are_ranked_and_empty_transfers_left_out() -> None:
    todo = schedule(placement(["a"], {"x": "h0", "y": "h1"}), [app()])
    assert [(m.source, m.target, m.bytes, m.phase) for m in todo.moves] == [("h0", "h1", 10, 1), ("h1", "h0", 20, 0)]
    assert todo.phases == (2,)
    assert todo.bytes_sent("h1") == 20


def test_several_applications_have_prefixed_tasks_and_relative_arrivals() -> None:
    keys = {f"{name}/{task}": "h0" for name in "ab" for task in "xy"}
    todo = schedule(placement(["b", "a"], keys), [app("a", arrival_s=5.0), app("b", arrival_s=2.0)])
    assert todo.arrivals_s == (0.0, 3.0)
    assert todo.tasks == (("b/x", "b/y"), ("a/x", "a/y"))


@pytest.mark.parametrize(
    ("placed", "apps", "said"),
    [
        (placement(["a"], {"x": "h0"}), [app()], "no host for task 'y'"),
        (placement(["b"], {}), [app()], "'b', which was not given"),
        (placement(["a"], {"x": "h", "y": "h"}), [app(), app("c")], "'c' is not in the placement"),
        (placement(["a"], {"x": "h", "y": "h"}), [app(), app()], "same name"),
    ],
)
def test_what_does_not_belong_together(placed: Placement, apps: list[App], said: str) -> None:
    with pytest.raises(GavotteError, match=said):
        schedule(placed, apps)
