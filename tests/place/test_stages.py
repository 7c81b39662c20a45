"""Stages of the search: a longer limit continues where a shorter one ends, and the limit covers the whole command."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from tests import builders
from tests.builders import MB

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort, Question, after_s, decide, evaluate
from gavotte.place.effort import LEAST_LIMIT_S


def tangle(tasks: int, hosts: int) -> tuple[Network, App]:
    """Return tasks with three random partners each, on full hosts with different caps."""
    rng = np.random.default_rng(3)
    caps = rng.uniform(1e8, 1e9, hosts)
    net = builders.network(
        [
            {"name": f"vm{m}", "cpus": tasks / hosts, "egress_bps": float(cap), "ingress_bps": float(cap)}
            for m, cap in enumerate(caps)
        ],
        None,
    )
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, tasks, (3 * tasks, 2)) if a != b}
    flows = ((f"t{a}", f"t{b}", int(rng.integers(MB, 50 * MB))) for a, b in sorted(pairs))
    return net, builders.app("tangle", *flows)


@pytest.mark.parametrize(("tasks", "hosts"), [(32, 8), (400, 200)])
def test_a_longer_limit_is_at_least_as_good(tasks: int, hosts: int) -> None:
    net, app = tangle(tasks, hosts)
    question = Question(net, [app])
    times_s = [
        decide(question, Effort("search", time_limit_s=limit_s, repeatable=True)).placement.completion_s
        for limit_s in (0.1, 0.2, 0.4, 0.8)
    ]
    assert times_s == sorted(times_s, reverse=True)


def test_auto_does_not_stop_while_its_placement_is_unproven() -> None:
    net, app = tangle(32, 8)
    answer = decide(Question(net, [app]), Effort(time_limit_s=1.0))
    assert answer.placement.optimal or answer.stopped


def test_seconds_before_the_search_count() -> None:
    net, app = tangle(400, 200)
    late = decide(Question(net, [app]), Effort(time_limit_s=5.0, spent_s=5.0))
    assert late.stopped
    assert set(late.placement.assignment) == {task.name for task in app.task}
    effort = Effort(time_limit_s=5.0, spent_s=1.5, kept_s=0.5)
    assert effort.remaining.time_limit_s == 3.0
    assert Effort(time_limit_s=1.0, spent_s=4.0).remaining.time_limit_s == LEAST_LIMIT_S


def test_what_follows_the_search_takes_little_where_files_are_read_fast() -> None:
    _, app = tangle(400, 200)
    transfers = len(app.transfer)
    assert after_s([app], 10.0) == pytest.approx(1e-5 * transfers)
    assert after_s([app], 10.0, reading_s=0.001) == pytest.approx(0.002)
    assert after_s([app], 0.01, reading_s=1.0) == pytest.approx(0.003)


def test_the_limit_of_the_command_starts_with_its_process() -> None:
    code = "from gavotte.cli.elapsed import begin, elapsed_s; print(elapsed_s()); begin(); print(elapsed_s())"
    done = subprocess.run(
        [sys.executable, "-c", f"import time; time.sleep(0.3); {code}"], capture_output=True, text=True
    )
    before_s, after_s = map(float, done.stdout.split())
    assert before_s == 0.0
    assert after_s >= 0.3


def test_few_placements_are_proven_without_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a solver was started")

    monkeypatch.setattr("gavotte.place.exact.solver.Solver.__enter__", started)
    net = builders.network(
        8, [[None if m == n else 1e8 * (1 + (3 * m + 5 * n) % 7) for n in range(8)] for m in range(8)]
    )
    app = builders.app("ring", ("a", "b", 50 * MB), ("b", "c", 40 * MB), ("c", "a", 30 * MB))
    answers = {method: decide(Question(net, [app]), Effort(method)) for method in ("auto", "search", "greedy")}
    best_s = min(
        evaluate(net, [app], dict(zip("abc", hosts, strict=True))).completion_s
        for hosts in itertools.permutations(net.names, 3)
    )
    assert answers["auto"].placement.optimal
    assert answers["search"].placement.completion_s == answers["auto"].placement.completion_s == best_s
    assert {answer.placement.bound_s for answer in answers.values()} == {best_s}
