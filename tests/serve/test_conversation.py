"""Requests that a real scheduler of Kubernetes 1.37 sent, as `test_scheduler_in_cluster.py` recorded them."""

from __future__ import annotations

from pathlib import Path

from tests.serve.conversation import RECORDED, ask_again, placing


def test_a_recorded_scheduler_gets_the_answers_that_it_followed(tmp_path: Path) -> None:
    with placing(tmp_path) as served:
        paths = ask_again(served, RECORDED / "extender.json")
    assert paths.count("/scheduler/prioritize") == 4
    assert "/scheduler/filter" in paths
