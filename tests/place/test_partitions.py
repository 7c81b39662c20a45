"""Starts of the search by partitioners that are installed: METIS, KaHIP and Mt-KaHyPar."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests import builders
from tests.builders import MB, MBIT
from tests.shell import until

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort, Question, decide
from gavotte.place.partitions import starts
from gavotte.place.partitions.starts import PARTITIONERS, Partitioner, Partitions

SMALL = 40


def clusters(count: int, size: int, seed: int = 0) -> App:
    """Return clusters of tasks in random order; each task exchanges much with its cluster and little with any other."""
    random = Random(seed)
    names = [f"t{number}" for number in range(count * size)]
    random.shuffle(names)
    near = [(names[a], names[a // size * size + (a + 1) % size], 20 * MB) for a in range(len(names))]
    far = [(names[a], names[(a + size) % len(names)], MB) for a in range(len(names))]
    return builders.app("clusters", *near, *far, tasks=sorted(names))


def hosts(count: int, cpus: float, *, unequal: bool = False) -> Network:
    named = [{"name": f"vm{m}", "cpus": cpus + (m % 2 if unequal else 0)} for m in range(count)]
    each = {"egress_bps": 80 * MBIT, "ingress_bps": 80 * MBIT}
    return builders.network([host | each for host in named], sharing="hose")


def laid(partitions: Partitions) -> np.ndarray:
    """Return the next partition's placement."""
    partitions.begin()
    taken: list[np.ndarray] = []

    def take() -> bool:
        at = partitions.take()
        if at is not None:
            taken.append(at)
        return bool(taken)

    until(take, 60)
    return taken[0]


@pytest.mark.parametrize("unequal", [False, True], ids=["alike", "unequal"])
@pytest.mark.parametrize("partitioner", PARTITIONERS, ids=lambda partitioner: partitioner.name)
def test_each_partitioner_finds_clusters(partitioner: Partitioner, unequal: bool) -> None:
    pytest.importorskip(partitioner.package)
    if partitioner.alike and unequal:
        pytest.skip("knows only blocks of one size")
    core = Question(hosts(SMALL, 10, unequal=unequal), [clusters(SMALL, 10)]).instance.core
    with Partitions(core, 3, lambda: 100.0, [partitioner]) as partitions:
        time_s = core.evaluate(laid(partitions)).seconds
    # A host that has a whole cluster exchanges 10 MB with the next two.
    assert time_s < 0.5 * core.evaluate(core.place("round-robin", 0)).seconds


def test_units_that_stay_together_are_one_node() -> None:
    pytest.importorskip("pymetis")
    app = clusters(10, 8)
    pairs = [{"tasks": [f"t{number}", f"t{number + 1}"]} for number in range(0, 80, 2)]
    bound = app.model_copy(update={"constraints": app.constraints.model_validate({"together": pairs})})
    core = Question(hosts(10, 10), [bound]).instance.core
    first, _, _, size, _ = core.unit_graph()
    assert len(first) == 41
    assert set(size) == {2e9}
    with Partitions(core, 0, lambda: 100.0) as partitions:
        at = laid(partitions)
    assert np.isfinite(core.evaluate(at).seconds)


def test_a_partitioner_that_fails_costs_nothing_but_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "installed", lambda: [Partitioner("unknown", "none", 0.0)])
    question = Question(hosts(SMALL, 12), [clusters(SMALL, 10)])
    with Partitions(question.instance.core, 0, lambda: 100.0) as partitions:
        partitions.begin()
        child = partitions._child
        assert child is not None
        assert child.wait(60) == 1
        assert partitions.take() is None
        assert partitions._child is not child
        last = partitions._child
    assert last is not None
    assert last.poll() is not None
    assert np.isfinite(decide(question, Effort(time_limit_s=0.5)).total_s)


def test_the_search_uses_partitions_unless_it_must_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    begin = Partitions.begin

    def counted(self: Partitions) -> None:
        begun.append(1)
        begin(self)

    monkeypatch.setattr(Partitions, "begin", counted)
    question = Question(hosts(SMALL, 12), [clusters(SMALL, 10)])
    decide(question, Effort(time_limit_s=0.5, repeatable=True))
    assert begun == []
    decide(question, Effort(time_limit_s=0.5))
    assert begun != []


def test_a_partitioner_that_takes_too_long_is_not_started() -> None:
    core = Question(hosts(SMALL, 12), [clusters(SMALL, 10)]).instance.core
    with Partitions(core, 0, lambda: 0.01) as partitions:
        partitions.begin()
        assert partitions.take() is None
        assert partitions._child is None


KILLED = """
import sys, time
sys.path.insert(0, {root!r})
from tests.place.test_partitions import PARTITIONERS, Partitions, Question, clusters, hosts
core = Question(hosts(400, 12), [clusters(400, 10)]).instance.core
partitions = Partitions(core, 0, lambda: 100.0, PARTITIONERS[:1])
partitions.begin()
print(partitions._child.pid, flush=True)
time.sleep(60)
"""


def test_the_child_of_a_killed_search_ends_and_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("mtkahypar")
    script = KILLED.format(root=str(Path(__file__).parents[2]))
    env = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=env) as search:
        assert search.stdout is not None
        child = Path("/proc") / search.stdout.readline().decode().strip()
        until(lambda: b"mtkahypar" in (child / "maps").read_bytes())
        search.kill()
        search.wait()
    until(lambda: not child.exists() or (child / "stat").read_text().split()[2] == "Z", 5)
    assert list(tmp_path.iterdir()) == []
