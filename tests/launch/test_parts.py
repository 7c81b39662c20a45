"""Parts of a launch without hosts: keys, folders of runs, children, predictions."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import builders
from tests.shell import until

from gavotte.cli.lists import with_values
from gavotte.errors import GavotteError
from gavotte.formats.record import Record
from gavotte.launch.counting import collect, compiler_of, variables
from gavotte.launch.jobs import Job
from gavotte.launch.past import Past, disproved, past_of, predict
from gavotte.launch.planning import age_text, steady
from gavotte.launch.running import run
from gavotte.launch.scratch import run_folder, sweep
from gavotte.launch.shelf import Shelf
from gavotte.launch.watching import names_of_ranks
from gavotte.place import order_ranks


def test_a_key_is_of_program_arguments_and_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {Job(program, ranks).key for program in (["sh"], ["sh", "1"], ["sh", "1", "2"]) for ranks in (2, 3)}
    assert len(keys) == 6
    assert {len(key) for key in keys} == {12}
    assert Job(["sh", "a b"], 2).text == "sh 'a b'"
    assert len({Job(["sh"], 2, options).key for options in ((), ("1",), ("2",), ("2", "module"))}) == 4
    # A program is known again by its path, wherever the command is given.
    (tmp_path / "solver").write_text("#!/bin/sh\n")
    (tmp_path / "solver").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert Job(["./solver"], 2).key == Job([str(tmp_path / "solver")], 2).key
    assert Job(["nowhere\udcff"], 2).text == "'nowhere?'"


def test_a_folder_of_a_run_goes_with_it(tmp_path: Path) -> None:
    with run_folder(tmp_path / "deep" / "root") as folder:
        (folder / "order").write_text("a\n")
        assert sweep(folder.parent) == 0
    assert list((tmp_path / "deep" / "root").iterdir()) == []
    with pytest.raises(GavotteError, match="name another folder by --scratch"), run_folder(Path("/dev/null/x")):
        pass


def test_a_folder_of_a_killed_run_goes_at_the_next_call(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom gavotte.launch.scratch import run_folder\n"
        "with run_folder(Path(sys.argv[1])):\n    print('up', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (folder,) = tmp_path.iterdir()
        old = time.time() - 100
        os.utime(folder / "lock", (old, old))
        assert sweep(tmp_path) == 0
        process.kill()
    until(lambda: sweep(tmp_path) == 1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_lock_is_young_or_left_over(tmp_path: Path) -> None:
    (tmp_path / "run-x").mkdir()
    assert sweep(tmp_path) == 0
    old = time.time() - 1000
    os.utime(tmp_path / "run-x", (old, old))
    assert sweep(tmp_path) == 1
    # A lock that was just made may not be held yet.
    (tmp_path / "run-y").mkdir()
    (tmp_path / "run-y" / "lock").touch()
    assert sweep(tmp_path) == 0
    with (tmp_path / "run-y" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(tmp_path / "run-y" / "lock", (old, old))
        assert sweep(tmp_path) == 0


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -TERM $$", 143), ("true", 0)])
def test_statuses_pass(script: str, status: int) -> None:
    assert run(["sh", "-c", script], dict(os.environ)).status == status


def test_what_cannot_be_started_is_one_line() -> None:
    with pytest.raises(GavotteError, match="cannot start `/nowhere/mpirun`"):
        run(["/nowhere/mpirun"], {})


def record(order: str, wall_s: float, status: int = 0) -> Record:
    return Record(kind="launch", metric="wall_s", value=wall_s, time_s=1.0, labels={"order": order, "status": status})


def test_runs_in_one_order_predict_the_next() -> None:
    past = past_of([record("a,b", 10.0), record("a,b", 3.0, 1), record("a,b", 12.0)])
    assert past == [Past(("a", "b"), 10.0), Past(("a", "b"), 12.0)]
    wall = predict(past, ["a", "b"], None, None, {})
    assert wall is not None
    assert wall.predicted_s == 11.0
    # Two values 9 % off their mean: the pooled scatter is 0.1286.
    assert wall.high_s == pytest.approx(11 * (1 + 1.96 * 0.12856 * 1.5**0.5), rel=1e-3)
    assert wall.low_s == pytest.approx(22 - wall.high_s)
    one = predict(past[:1], ["a", "b"], None, None, {})
    assert one is not None
    assert one.high_s - one.low_s == pytest.approx(2 * 10 * 1.96 * 0.05 * 2**0.5)
    assert predict(past, ["b", "a"], None, None, {}) is None
    assert predict([], ["a", "b"], None, None, {}) is None


def test_runs_in_another_order_predict_by_their_messages() -> None:
    network = builders.network(["a", "b", "c"], [[None, 8e6, 80e6], [8e6, None, 8e6], [80e6, 8e6, None]])
    app = builders.app("x", ("rank0", "rank1", 1_000_000))
    slots = {"a": 1, "b": 1, "c": 1}
    past = [Past(("a", "b"), 3.0), Past(("x", "y"), 9.0)]
    wall = predict(past, ["a", "c"], app, network, slots)
    assert wall is not None
    # Messages take 0.1 s instead of 1 s, and the other 2 s shrink alike, or nothing of it: computing may hide them.
    assert wall.low_s < 0.35
    assert 3.0 < wall.high_s < 3.1


def test_an_order_keeps_to_the_slots_and_is_compared_with_the_given_one() -> None:
    network = builders.network(["a", "b", "c"], [[None, 8e6, 80e6], [8e6, None, 80e6], [80e6, 80e6, None]])
    app = builders.app("x", ("rank0", "rank1", 1_000_000), ("rank2", "rank3", 1_000_000))
    order = order_ranks(network, app, slots={"a": 1, "b": 1, "c": 2}, given=["a", "c", "c", "b"])
    assert sorted(order.hosts) == ["a", "b", "c", "c"]
    assert order.given_s == pytest.approx(0.1)
    assert order.completion_s <= order.given_s
    worse = order_ranks(network, app, slots={"a": 1, "b": 1, "c": 2}, given=["a", "b", "c", "c"])
    assert worse.given_s == pytest.approx(1.0)
    assert worse.saving > 0.8


def test_an_earlier_order_stays_unless_another_is_better() -> None:
    rates = [[None, 8e6, 80e6, 80e6], [8e6, None, 80e6, 80e6], [80e6, 80e6, None, 80e6], [80e6, 80e6, 80e6, None]]
    network, app = builders.network("abcd", rates), builders.app("x", ("rank0", "rank1", 1_000_000))
    slots = dict.fromkeys("abcd", 1)
    order = order_ranks(network, app, slots=slots, given=["a", "b"])
    assert order.completion_s == pytest.approx(0.1)
    runs = [Past(("d", "b"), 2.0), Past(("c", "d"), 2.0), Past(("a", "b"), 3.0), Past(("x", "y"), 1.0)]
    assert steady(order, runs, network, app, slots).hosts == ["c", "d"]
    assert steady(order, [runs[2], Past(("c", "c"), 1.0)], network, app, slots) == order


def test_runs_outweigh_what_an_order_should_save() -> None:
    ours, own = ("c", "d"), ("a", "b")
    runs = [Past(own, 2.0, counted=True), Past(ours, 2.2), Past(("x", "y"), 9.0)]
    assert disproved(runs, ours, own) == ""  # One run may have met a busy network.
    words = disproved([*runs, Past(ours, 2.1), Past(own, 2.4)], ours, own)
    assert words == "runs took at least 2.1 s in another order, 2 s in the launcher's own"
    assert disproved([*runs, Past(ours, 1.9)], ours, own) == ""
    assert disproved([*runs, Past(ours, 2.1)], own, own) == ""
    assert disproved([Past(ours, 2.2), Past(ours, 2.2)], ours, own) == ""


COUNTS = "gavotte/pmpi/2 rank {rank} of {ranks}\nwire counted\nuncounted 0\n{other} 1000 0 0 0 0 0 0\nend\n"


def test_counts_of_all_ranks_make_an_app(tmp_path: Path) -> None:
    folder = tmp_path / "run-x"
    folder.mkdir()
    with pytest.raises(GavotteError, match="no rank left counts of its messages: is it an MPI program"):
        collect(folder, 2, "x")
    (folder / "job.0.pmpi").write_text(COUNTS.format(rank=0, ranks=2, other=1))
    with pytest.raises(GavotteError, match=f"1 of 2 ranks left no counts; name a folder .* if {tmp_path} is none"):
        collect(folder, 2, "x")
    (folder / "job.1.pmpi").write_text(COUNTS.format(rank=1, ranks=2, other=0))
    app, size, doubts = collect(folder, 2, "x")
    assert ([task.name for task in app.task], size, list(doubts)) == (["rank0", "rank1"], 2000, [])


def test_ranks_of_hosts_are_named() -> None:
    assert names_of_ranks(["b", "a"], 2) == {
        "b/rank:0": "host0",
        "b/rank:1": "host0",
        "a/rank:2": "host1",
        "a/rank:3": "host1",
    }
    unknown = names_of_ranks(["b", "a"], None)
    assert (unknown["b/rank:100"], unknown["a/rank:0"]) == ("host0", "host1")
    with pytest.raises(GavotteError, match="too many ranks to watch"):
        names_of_ranks([f"h{i}" for i in range(200)], None)


def test_a_users_own_preload_stays() -> None:
    counted = {"GAVOTTE_COUNTS": "/f/job", "GAVOTTE_TRACE": "/f/job"}
    assert variables(Path("/s.so"), Path("/f"), "/u.so") == {"LD_PRELOAD": "/s.so:/u.so", **counted}
    assert variables(Path("/s.so"), Path("/f"), "")["LD_PRELOAD"] == "/s.so"


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        GavotteError, match="no mpicc of this MPI library \\(openmpi\\); install its development package"
    ):
        compiler_of("openmpi", "mpirun")


def test_a_store_that_fails_warns_once(tmp_path: Path) -> None:
    warnings: list[str] = []
    shelf = Shelf(str(tmp_path / "none" / "store"), warnings.append, create=True)
    assert shelf.app("x") is None
    assert shelf.runs("x") == []
    shelf.keep_run(record("a,b", 1.0))
    assert len(warnings) == 1
    assert "this run does without the store: " in warnings[0]
    dry = Shelf(str(tmp_path / "store"), warnings.append, create=False)
    dry.keep_run(record("a,b", 1.0))
    assert (dry.runs(), len(warnings), list(tmp_path.iterdir())) == ([], 1, [])


def test_a_value_may_be_left_out() -> None:
    values = {"--json": "-"}
    assert with_values(["--json"], values) == ["--json", "-"]
    assert with_values(["--history", "--json", "--store", "s"], values) == ["--history", "--json", "-", "--store", "s"]
    assert with_values(["--json", "f", "--", "x", "--json"], values) == ["--json", "f", "--", "x", "--json"]


def test_ages_are_as_people_say_them() -> None:
    assert [age_text(each) for each in (3.2, 119, 600, 7200, 200_000)] == ["3 s", "119 s", "10 min", "2 h", "2 d"]
