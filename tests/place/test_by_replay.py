"""Placements of traced jobs by replayed time, where bytes alone mislead."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from tests import builders
from tests.shell import gavotte
from tests.traces import compute, trace

from gavotte.cli.traces import job_of
from gavotte.errors import GavotteError
from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.trace import Irecv, Isend, Loop, MpiTrace, Recv, Send, Wait
from gavotte.place import Effort, Goal, Question, Running, decide, order_ranks
from gavotte.simulate import JobReplay

RECORDED = Path(__file__).parents[1] / "profile" / "recorded" / "loops.trace"
EFFORT = Effort(time_limit_s=2.0, repeatable=True)


def halves(hosts: int = 4, **fields: float) -> Network:
    """Return hosts in two halves, with fast pairs inside and slow ones between."""
    half = [2 * at // hosts for at in range(hosts)]
    rates = [[None if m == n else 80e6 if half[m] == half[n] else 8e6 for n in range(hosts)] for m in range(hosts)]
    return builders.network(hosts, rates, sharing="pipe", **{"cpus": 1.0, **fields})


def hidden() -> MpiTrace:
    """Return a job in which rank 0 sends more to rank 1, behind its computing, than it exchanges with rank 2."""
    send, receive = Isend(1, 60_000, 1, 0, 0, "standard", 0.0), Irecv(0, 60_000, 1, 0, 0, 0.0)
    ask, answer = Send(2, 30_000, 2, 0, "standard", 0.0), Recv(2, 30_000, 3, 0, 0.0)
    first = (send, compute(0.1), ask, answer, Wait((0,), 0.0))
    second = (receive, compute(0.1), Wait((0,), 0.0))
    third = (Recv(0, 30_000, 2, 0, 0.0), Send(0, 30_000, 3, 0, "standard", 0.0))
    return trace([Loop(10, first)], [Loop(10, second)], [Loop(10, third)], [compute(0.1)])


def application(**fields: object) -> App:
    transfers = [("r0", "r1", 600_000), ("r0", "r2", 300_000), ("r2", "r0", 300_000)]
    return builders.app("job", *transfers, tasks=["r0", "r1", "r2", "r3"], **fields)  # type: ignore[arg-type]


def together(assignment: dict[str, str], one: str, other: str) -> bool:
    """Return whether two tasks are in one half of four hosts."""
    first_half = {"vm0", "vm1"}
    return (assignment[one] in first_half) == (assignment[other] in first_half)


def test_the_replay_finds_messages_that_computing_hides() -> None:
    network = halves()
    by_bytes = decide(Question(network, [application()]), EFFORT)
    assert together(by_bytes.placement.assignment, "r0", "r1")
    assert by_bytes.replayed is None
    job = JobReplay(network, hidden())
    answer = decide(Question(network, [application()], job=job), EFFORT)
    placed, times = answer.placement, answer.replayed
    assert together(placed.assignment, "r0", "r2")
    assert placed.completion_s > by_bytes.placement.completion_s
    assert not placed.optimal
    assert placed.bound_s <= by_bytes.placement.completion_s
    assert times is not None
    assert times.ended
    assert times.seconds == job.seconds([placed.assignment[f"r{rank}"] for rank in range(4)])
    assert times.by_bytes_s == job.seconds([by_bytes.placement.assignment[f"r{rank}"] for rank in range(4)])
    assert times.seconds < 0.8 * times.by_bytes_s
    assert answer.explanation.replayed == times
    assert answer.worth() is None
    assert decide(answer.question, EFFORT).placement.assignment == placed.assignment


@pytest.mark.parametrize(
    "constraints",
    [
        {"pin": {"r0": "vm0", "r1": "vm1"}},
        {"apart": [["r0", "r2"]], "together": [["r0", "r1"]]},
        {"max_latency": [{"source": "r0", "target": "r1", "seconds": 0.001}]},
        {"max_hosts": 2},
    ],
    ids=["pin", "apart", "max_latency", "max_hosts"],
)
def test_constraints_are_kept(constraints: dict[str, object]) -> None:
    far = [[0.0005 if m // 2 == n // 2 else 0.01 for n in range(4)] for m in range(4)]
    network = halves(cpus=2.0).model_copy(update={"latency_s": far})
    app = application(constraints=constraints)
    answer = decide(Question(network, [app], job=JobReplay(network, hidden())), EFFORT)
    assigned = answer.placement.assignment
    assert answer.replayed is not None
    if "pin" in constraints:
        assert (assigned["r0"], assigned["r1"]) == ("vm0", "vm1")
    if "apart" in constraints:
        assert assigned["r0"] == assigned["r1"] != assigned["r2"]
    if "max_latency" in constraints:
        assert together(assigned, "r0", "r1")
    assert max(list(assigned.values()).count(host) for host in network.names) <= 2
    assert len(set(assigned.values())) <= int(str(constraints.get("max_hosts", 4)))


class Fake:
    """A job whose times a function of the hosts gives."""

    ranks = 4

    def __init__(self, seconds: object) -> None:
        self.seconds = seconds


def test_tasks_that_share_a_host_move_together() -> None:
    app = application(constraints={"together": [["r0", "r1"]]})
    # Only the host of the pair counts, and single moves of its tasks break the rule.
    job = Fake(lambda hosts: 2.0 - (hosts[0] == "vm3"))
    answer = decide(Question(halves(cpus=2.0), [app], job=job), EFFORT)  # type: ignore[arg-type]
    assert answer.placement.assignment["r0"] == answer.placement.assignment["r1"] == "vm3"


def test_a_small_saving_changes_nothing() -> None:
    by_bytes = decide(Question(halves(), [application()]), EFFORT).placement.assignment
    job = Fake(lambda hosts: 1.0 if hosts == [by_bytes[f"r{rank}"] for rank in range(4)] else 0.995)
    answer = decide(Question(halves(), [application()], job=job), EFFORT)  # type: ignore[arg-type]
    assert answer.placement.assignment == by_bytes
    assert answer.replayed is not None
    assert answer.replayed.saving == 0.0


def test_a_price_of_a_broken_rule_counts() -> None:
    app = application(constraints={"labels": [{"tasks": ["r0"], "key": "disk", "values": ["ssd"], "price_s": 0.5}]})
    network = halves()
    hosts = [each.model_copy(update={"labels": {"disk": "ssd"}}) for each in network.hosts[:1]] + network.hosts[1:]
    network = network.model_copy(update={"hosts": hosts})
    for saved_s, host in ((0.4, "vm0"), (0.6, "vm3")):
        job = Fake(lambda order, saved_s=saved_s: 2.0 - saved_s * (order[0] == "vm3"))
        answer = decide(Question(network, [app], job=job), EFFORT)  # type: ignore[arg-type]
        assert answer.placement.assignment["r0"] == host


def test_a_signal_ends_the_replays_with_the_best_so_far() -> None:
    calls = count()

    def seconds(_: Sequence[str]) -> float:
        if next(calls) == 6:
            raise KeyboardInterrupt
        return 10.0 - next(calls)

    answer = decide(Question(halves(), [application()], job=Fake(seconds)), EFFORT)  # type: ignore[arg-type]
    assert answer.interrupted
    assert answer.replayed is not None
    assert answer.replayed.seconds < answer.replayed.by_bytes_s
    stopped = decide(Question(halves(), [application()], job=Fake(stop)), EFFORT)  # type: ignore[arg-type]
    assert stopped.interrupted
    assert stopped.replayed is None


def stop(_: Sequence[str]) -> float:
    raise KeyboardInterrupt


def test_what_a_replay_cannot_answer_is_refused() -> None:
    network, job = halves(), JobReplay(halves(), hidden())
    asked = Question(network, [application()], job=job)
    cases = [
        (replace(asked, apps=[application(), application(arrival_s=1.0)]), Goal(), "2 applications are to be placed"),
        (replace(asked, apps=[builders.app("x", ("a", "b", 1))]), Goal(), "4 ranks, and application `x` has 2 tasks"),
        (asked, Goal("hosts"), "not the least hosts"),
        (replace(asked, running=[Running([], builders.placement({}))]), Goal(), "running applications"),
        (replace(asked, state_bytes={"r0": 1}), Goal(), "moves between phases"),
    ]
    for question, goal, message in cases:
        with pytest.raises(GavotteError, match=message):
            decide(question, EFFORT, goal)


def test_an_order_of_ranks_by_replay() -> None:
    network = halves()
    job = JobReplay(network, hidden())
    by_bytes = order_ranks(network, application(), EFFORT)
    order = order_ranks(network, application(), EFFORT, job=job)
    assert by_bytes.replayed is None
    assert order.replayed is not None
    assert order.replayed.given_s == job.seconds(["vm0", "vm1", "vm2", "vm3"])
    assert order.replayed.seconds == job.seconds(order.hosts) < 0.8 * order.replayed.given_s
    with pytest.raises(GavotteError, match="4 ranks, and application `x` has 2 tasks"):
        order_ranks(network, builders.app("x", ("a", "b", 1)), EFFORT, job=job)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with a Network, and with the App of the recorded trace."""
    write_network(tmp_path / "n.network.json", halves())
    write_app(tmp_path / "a.app.toml", recorded_app())
    return tmp_path


def recorded_app(**fields: object) -> App:
    transfers = [(f"rank{rank}", f"rank{(rank + 1) % 4}", 1000) for rank in range(4)]
    return builders.app("x", *transfers, **fields)  # type: ignore[arg-type]


def test_the_command_replays_a_named_trace(files: Path) -> None:
    line = ["place", "n.network.json", "a.app.toml", "--time-limit", "3"]
    done = gavotte(*line, "--trace", RECORDED, "--json", "--explain", cwd=files)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert 0 < document["replayed"]["seconds"] <= document["replayed"]["by_bytes_s"]
    assert document["explanation"]["replayed"]["seconds"] == document["replayed"]["seconds"]
    shown = gavotte(*line, "--trace", RECORDED, cwd=files)
    assert "replayed: the job takes" in shown.stderr
    plain = gavotte(*line, "--json", cwd=files)
    assert json.loads(plain.stdout)["replayed"] is None
    ranks = gavotte(
        "ranks", "--network", "n.network.json", "--pattern", "a.app.toml", "--trace", RECORDED, "--json", cwd=files
    )
    assert ranks.returncode == 0, ranks.stderr
    document = json.loads(ranks.stdout)
    assert 0 < document["replayed"]["seconds"] <= document["replayed"]["given_s"]


def test_the_app_names_its_own_trace(files: Path) -> None:
    write_app(files / "a.app.toml", recorded_app(trace="x.trace"))
    line = ["place", "n.network.json", "a.app.toml", "--time-limit", "3", "--json"]
    missing = gavotte(*line, cwd=files)
    assert missing.returncode == 0
    assert "bytes alone decide: x.trace" in missing.stderr
    (files / "x.trace").write_bytes(RECORDED.read_bytes())
    for words, replayed in (([], True), (["--bytes-only"], False), (["--method", "greedy"], False)):
        done = gavotte(*line, *words, cwd=files)
        assert done.returncode == 0, done.stderr
        assert (json.loads(done.stdout)["replayed"] is not None) == replayed
    ranks = ["ranks", "--network", "n.network.json", "--pattern", "a.app.toml", "--json", "--time-limit", "3"]
    assert json.loads(gavotte(*ranks, cwd=files).stdout)["replayed"] is not None
    assert json.loads(gavotte(*ranks, "--bytes-only", cwd=files).stdout)["replayed"] is None


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--trace", "none.trace"], 1, "none.trace"),
        (["--trace", str(RECORDED)], 1, "ranks: has 4; App `y` has 2 tasks"),
        (["--trace", str(RECORDED), "--goal", "hosts"], 2, "--trace is for the least time alone"),
        (["--trace", str(RECORDED), "--bytes-only"], 2, "use either --trace or --bytes-only"),
        (["b.app.toml", "--trace", str(RECORDED)], 2, "--trace is of one job"),
    ],
)
def test_mistakes_are_one_line(files: Path, words: list[str], status: int, message: str) -> None:
    for name in "yb":
        write_app(files / f"{name}.app.toml", builders.app(name, ("r0", "r1", 1000)))
    done = gavotte("place", "n.network.json", "y.app.toml", *words, cwd=files)
    assert done.returncode == status
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_an_own_trace_that_cannot_be_replayed_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = recorded_app(trace="x.trace")
    (tmp_path / "x.trace").write_bytes(RECORDED.read_bytes())
    assert job_of(halves(), app, None, tmp_path / "a.app.toml") is not None
    other = builders.app("y", ("r0", "r1", 1), trace="x.trace")
    assert job_of(halves(), other, None, tmp_path / "a.app.toml") is None
    assert "bytes alone decide" in capsys.readouterr().err
    with pytest.raises(GavotteError, match="App `y` has 2 tasks"):
        job_of(halves(), other, tmp_path / "x.trace")
