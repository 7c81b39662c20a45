"""The answer after a signal, or after a time limit cuts the search. The real command runs, with its own handlers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.builders import MB
from tests.place.clouds import cloud, ring

from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import read_placement
from gavotte.place import Answer, Effort, Goal, Question, decide, methods
from gavotte.place.placing import solve
from gavotte.place.thrift import spend

pytestmark = pytest.mark.slow

SIGNALLED = """
import os, signal, sys, threading
import gavotte.place
from gavotte.cli import main

place, name, delay_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
module = __import__(place, fromlist=[name])
before, sent = getattr(module, name), []

def send():
    os.kill(os.getpid(), signal.SIGINT)

def signalled(*args, **options):
    if not sent:
        sent.append(True)
        threading.Timer(delay_s, send).start() if delay_s else send()
    return before(*args, **options)

setattr(module, name, signalled)
sys.argv = ["gavotte", *sys.argv[4:]]
main()
"""


def tangle(tasks: int = 40, hosts: int = 16) -> tuple[Network, App]:
    """Return enough tasks, with four random partners each, that no search ends early."""
    rng = np.random.default_rng(1)
    egress = [{"name": f"vm{m}", "cpus": 4.0, "egress_bps": float(rng.uniform(1e8, 1e9))} for m in range(hosts)]
    ways = [(i, int(j)) for i in range(tasks) for j in rng.integers(0, tasks, 4) if i != j]
    app = builders.app("tangle", *((f"t{i}", f"t{j}", int(rng.integers(MB, 100 * MB))) for i, j in ways))
    return builders.network(egress, rng.uniform(5e7, 1e9, (hosts, hosts)), sharing="hose"), app


def dense(tasks: int, hosts: int) -> tuple[Network, App]:
    """Tasks all to all."""
    rng = np.random.default_rng(1)
    flows = ((f"t{i}", f"t{j}", int(rng.integers(MB, 100 * MB))) for i in range(tasks) for j in range(tasks) if i != j)
    return tangle(tasks, hosts)[0], builders.app("dense", *flows)


@pytest.mark.rare
@pytest.mark.parametrize(
    ("place", "name", "delay_s", "method"),
    [
        ("gavotte.place.question", "build_instance", 0, "auto"),
        ("gavotte.place.placing", "check_sums", 0, "greedy"),
        ("gavotte.place.methods", "_bound", 0, "auto"),
        ("gavotte.place.methods", "_bound", 0.1, "auto"),
        ("gavotte.place.methods", "_bound", 0.4, "search"),
        ("gavotte.place.methods", "_bound", 0.4, "greedy"),
        ("gavotte.place.exact.highs", "solve_ilp", 0, "ilp"),
        ("gavotte.place.exact.cpsat", "prove", 0, "optimal"),
        ("gavotte.place.exact.cpsat", "prove", 0.7, "optimal"),
        ("gavotte.place.methods", "_partition", 0, "search"),
        ("gavotte.place.methods", "_partition", 0.1, "search"),
        ("gavotte.place.methods", "_partition", 3, "search"),
        ("gavotte.place.placing", "check_constraints", 0, "greedy"),
        ("gavotte.place.answer", "worth", 0, "greedy"),
    ],
)
def test_ctrl_c_at_any_moment_gets_a_placement(
    place: str, name: str, delay_s: float, method: str, tmp_path: Path
) -> None:
    network, app = tangle()
    write_network(tmp_path / "n.network.json", network)
    write_app(tmp_path / "a.app.toml", app)
    script, out = tmp_path / "signalled.py", tmp_path / "p.placement.json"
    script.write_text(SIGNALLED)
    limit = "30" if name in ("check_constraints", "worth") else "600"
    command = [sys.executable, str(script), place, name, str(delay_s), "place", str(tmp_path / "n.network.json")]
    command += [str(tmp_path / "a.app.toml"), "--method", method, "--time-limit", limit, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False)
    assert done.returncode == 130, done.stderr
    assert "interrupted; this is the best placement found so far" in done.stderr
    assert f"wrote {out}" in done.stderr
    assert "t39" in done.stdout
    placement = read_placement(out)
    assert placement.method == method
    assert placement.completion_s > 0


def test_ctrl_c_while_hosts_are_spared_keeps_the_least_time() -> None:
    network, app = cloud(), ring("abcdef", cpus=0.5)

    def solved(question: Question, effort: Effort) -> Answer:
        if question.limits.max_hosts is not None:
            raise KeyboardInterrupt
        return solve(question, effort)

    spent = spend(Question(network, [app]), Effort("greedy", time_limit_s=2.0), Goal("hosts", 10.0), solved)
    assert spent.interrupted
    assert set(spent.placement.assignment) == set("abcdef")


def test_a_short_limit_is_kept_where_all_tasks_exchange_bytes() -> None:
    network, app = dense(64, 32)
    begin_s = time.process_time()
    answer = decide(Question(network, [app]), Effort(time_limit_s=0.1))
    assert answer.stopped
    assert time.process_time() - begin_s < 4.0  # a tenth of a second was 10 s


def test_the_bound_is_the_same_for_all_methods_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "LEAST_S", 60.0)  # even on a busy machine
    network, app = tangle(20, 10)
    answers = [
        decide(Question(network, [app]), Effort(method, time_limit_s=0.5)) for method in ("search", "greedy", "random")
    ]
    assert len({answer.placement.bound_s for answer in answers}) == 1
    assert not any(answer.bound_stopped for answer in answers)
    counted = decide(Question(network, [app]), Effort("greedy", time_limit_s=0.5, repeatable=True))
    assert answers[0].placement.bound_s == counted.placement.bound_s


@pytest.mark.parametrize("method", ["auto", "search", "greedy", "random"])
def test_a_bound_that_is_cut_short_says_so_whatever_the_method(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "LEAST_S", 1e-9)
    monkeypatch.setattr(methods, "BOUND_SHARE", 1e-9)
    network, app = tangle()
    answer = decide(Question(network, [app]), Effort(method, time_limit_s=0.2))
    assert answer.stopped
    assert answer.bound_stopped
