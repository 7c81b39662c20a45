"""Placement and applications must belong together; every byte then has its path."""

from __future__ import annotations

from typing import Any

import pytest
from tests import builders
from tests.builders import placement

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.placement import Placement
from gavotte.run import host_transfers


def app(name: str = "a", **fields: Any) -> App:
    return builders.app(name, ("x", "y", 10, 5), ("y", "x", 20, 2), ("y", "x", 0, 2), **fields)


def test_phases_are_ranked_and_empty_transfers_left_out() -> None:
    todo = host_transfers(placement({"x": "h0", "y": "h1"}, "a"), [app()])
    assert [(t.source, t.target, t.bytes, t.phase) for t in todo.transfers] == [
        ("h0", "h1", 10, 1),
        ("h1", "h0", 20, 0),
    ]
    assert todo.phases == (2,)
    assert todo.bytes_sent("h1") == 20


def test_several_applications_have_prefixed_tasks_and_relative_arrivals() -> None:
    keys = {f"{name}/{task}": "h0" for name in "ab" for task in "xy"}
    todo = host_transfers(placement(keys, "b", "a"), [app("a", arrival_s=5.0), app("b", arrival_s=2.0)])
    assert todo.arrivals_s == (0.0, 3.0)
    assert todo.tasks == (("b/x", "b/y"), ("a/x", "a/y"))


@pytest.mark.parametrize(
    ("placed", "apps", "message"),
    [
        (placement({"x": "h0"}, "a"), [app()], "no host for task `y`"),
        (placement({}, "b"), [app()], "an application `b`"),
        (placement({"x": "h", "y": "h"}, "a"), [app(), app("c")], "`c` is not in the placement"),
        (placement({"x": "h", "y": "h"}, "a"), [app(), app()], "same name"),
    ],
)
def test_what_does_not_belong_together(placed: Placement, apps: list[App], message: str) -> None:
    with pytest.raises(GavotteError, match=message):
        host_transfers(placed, apps)
