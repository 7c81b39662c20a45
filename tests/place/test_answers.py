"""Properties of an answer: bound, gap, bottleneck, runner-up, worth; and that it is the same every time."""

from __future__ import annotations

import json
import math
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.builders import MB, MBIT
from tests.place.clouds import cloud, ring
from tests.shell import GAVOTTE
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.network import Sharing, write_network
from gavotte.formats.placement import read_placement
from gavotte.place import (
    METHODS,
    Effort,
    Question,
    Running,
    build_instance,
    decide,
    evaluate,
    explain,
    place,
    worth,
)
from gavotte.place.attempt import ENDLESS_STEPS, Attempt, search, seconds


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "optimal", "search", "ilp"])
def test_same_seed_same_answer_at_any_thread_count(method: str) -> None:
    answers = [
        decide(
            Question(cloud(), [ring("abcdefgh")]),
            Effort(method, seed=7, threads=threads, time_limit_s=2.0, clock=lambda: 0.0, repeatable=True),
        )
        for threads in (1, 2, 5)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert not answers[0].stopped


def test_optimal_is_proven_and_never_above_the_others() -> None:
    best = decide(Question(cloud(), [ring()]), Effort("optimal"))
    assert best.placement.optimal
    assert best.gap == 0.0
    for method in ("search", "greedy", "random", "round-robin", "min-machines"):
        assert place(cloud(), [ring()], method).completion_s >= best.placement.completion_s * (1 - 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["hose", "pipe", "groups"])
def test_the_bound_is_the_same_for_all_methods(sharing: Sharing) -> None:
    rng = np.random.default_rng(3)
    hosts = [{"name": f"vm{m}", "cpus": 2.0, "egress_bps": 8 * MBIT * (m + 1)} for m in range(5)]
    groups = [{"name": "rack", "members": ["vm0", "vm1"], "up_bps": 8 * MBIT}]
    net = builders.network(hosts, rng.uniform(4e6, 4e7, (5, 5)), sharing=sharing, groups=groups)
    app = ring("abcdefghi")
    by_method = {
        m: decide(Question(net, [app]), Effort(m, time_limit_s=1.0, repeatable=True))
        for m in ("search", "greedy", "round-robin")
    }
    bounds = {round(answer.placement.bound_s, 9) for answer in by_method.values()}
    assert len(bounds) == 1
    assert bounds.pop() > 0


@pytest.mark.parametrize("cores", [2.0, 2.5])
def test_a_search_starts_from_every_baseline(cores: float) -> None:
    net = cloud(4, cpus=cores)
    app = ring("abcdefgh")
    best_s = min(place(net, [app], method).completion_s for method in METHODS[-4:])
    instance = build_instance(net, [app], net.sharing)
    match = instance.core.search(0, 1, 1, math.inf, [])
    assert instance.core.evaluate(match.hosts).seconds <= best_s


def test_a_signal_gets_the_best_placement_so_far() -> None:
    net, app = cloud(12, cpus=8.0), ring("abcdefghijklmnopqrstuvwxyz")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        answer = decide(Question(net, [app]), Effort("search", time_limit_s=600.0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert answer.interrupted or answer.placement.optimal
    assert set(answer.placement.assignment) == set("abcdefghijklmnopqrstuvwxyz")


def test_a_watch_sees_best_and_bound_approach() -> None:
    seen: list[tuple[float, float, float]] = []
    answer = decide(
        Question(cloud(), [ring("abcdefgh")]), Effort(time_limit_s=2.0, watch=lambda *row: seen.append(row))
    )
    assert seen
    assert seen[-1][0] >= answer.placement.bound_s
    assert all(bound_s <= answer.placement.completion_s for _, bound_s, _ in seen)
    assert all(0 <= share <= 1 for _, _, share in seen)


def test_a_search_ends_when_its_placement_is_proven() -> None:
    rng = np.random.default_rng(1)
    net = builders.network(12, rng.uniform(1e7, 1e9, (12, 12)), sharing="pipe")
    tasks = "abcdefghijkl"
    app = builders.app("all", *((a, b, MB) for a in tasks for b in tasks if a < b))
    instance = Question(net, [app]).instance
    best_s = decide(Question(net, [app]), Effort("search", time_limit_s=2.0)).placement.completion_s
    seen: list[float] = []
    attempt = Attempt(Effort("search", time_limit_s=8.0, watch=lambda best_s, *_: seen.append(best_s)))
    attempt.bound_s = best_s
    solution = search(instance, attempt, steps=ENDLESS_STEPS)
    assert not solution.stopped
    assert seconds(instance, solution.hosts) == best_s
    # One report as the search sees it, one as the search ends, one of its result.
    assert seen.count(best_s) <= 3


def test_auto_says_what_it_chose() -> None:
    answer = decide(Question(cloud(), [ring()]))
    assert (answer.placement.method, answer.chosen) == ("auto", "optimal")


def test_phases_add_up() -> None:
    one = ring("ab", cpus=2.0)
    later = [transfer.model_copy(update={"phase": phase}) for phase in (0, 3) for transfer in one.transfer]
    both = one.model_copy(update={"transfer": later})
    assert place(cloud(), [both], "optimal").completion_s == pytest.approx(
        2 * place(cloud(), [one], "optimal").completion_s
    )


def test_explanation_names_bytes_slack_and_the_next_move() -> None:
    hosts = dict(zip("abcdef", ("vm0", "vm0", "vm1", "vm1", "vm2", "vm2"), strict=True))
    given = evaluate(cloud(), [ring()], hosts)
    explanation = explain(Question(cloud(), [ring()]), given)
    assert explanation.bottleneck.startswith("egress of vm0: 2.00 MB at 8.00 Mbit/s")
    assert [(row.source, row.target, row.bytes, row.share) for row in explanation.crossing] == [("b", "c", 2 * MB, 1.0)]
    assert explanation.links[0].slack_s == 0.0
    assert explanation.links[1].slack_s == pytest.approx(explanation.links[0].seconds - explanation.links[1].seconds)
    move = explanation.runner_up
    assert move is not None
    assert move.gain_s == pytest.approx(given.completion_s - move.completion_s)
    moved = hosts | {task: to for task, _, to in move.moves}
    assert evaluate(cloud(), [ring()], moved).completion_s == pytest.approx(move.completion_s)
    assert explanation.gap == pytest.approx(1 - explanation.bound_s / given.completion_s)


def test_running_applications_hold_room_and_delay() -> None:
    present = evaluate(cloud(), [ring("xy", cpus=2.0)], {"x": "vm3", "y": "vm2"})
    running = [Running([ring("xy", cpus=2.0)], present)]
    placement = place(cloud(), [ring("ab", cpus=2.0)], running=running)
    assert set(placement.assignment.values()) == {"vm0", "vm1"}
    light = [Running([ring("xy", cpus=0.5)], present)]
    beside = evaluate(cloud(), [ring("ab", cpus=1.5)], {"a": "vm3", "b": "vm0"}, running=light)
    # a's 1 MB waits for x's 1 MB at vm3 (32 Mbit/s); b's 2 MB have vm0 (8 Mbit/s) alone.
    assert beside.completion_s == pytest.approx(2.0)
    explanation = explain(Question(cloud(), [ring("ab", cpus=1.5)], running=light), beside)
    loaded = next(link for link in explanation.links if link.link == "egress of vm3")
    assert (loaded.bytes, loaded.load_bytes) == (MB, MB)
    assert loaded.seconds == pytest.approx(0.5)
    assert evaluate(cloud(), [ring("ab", cpus=1.5)], {"a": "vm3", "b": "vm0"}).bottleneck.startswith("egress of vm0")
    for method in ("optimal", "ilp"):
        best = place(cloud(), [ring("abc", cpus=1.5)], method, running=light)
        again = evaluate(cloud(), [ring("abc", cpus=1.5)], best.assignment, running=light)
        assert best.completion_s == again.completion_s
    with pytest.raises(GavotteError, match="no host for task `a`"):
        place(cloud(), [ring("ab")], running=[Running([ring("ab")], present)])
    with pytest.raises(GavotteError, match="still to come"):
        Running([ring("xy")], present, share=1.5)


def test_worth_is_beyond_doubt_on_an_uneven_network_and_none_on_an_even_one() -> None:
    placement = place(cloud(), [ring()])
    gain = worth(Question(cloud(), [ring()]), placement)
    assert gain is not None
    assert gain.worthwhile
    assert gain.low < gain.gain < gain.high
    assert gain.rate_spread > 0.1
    apart = ring(cpus=2.0)
    even = [host.model_copy(update={"egress_bps": 8 * MBIT}) for host in cloud(6).hosts]
    flat = cloud(6).model_copy(update={"hosts": even})
    none = worth(Question(flat, [apart]), place(flat, [apart]))
    assert none is not None
    assert not none.worthwhile
    assert none.unknown.startswith("how long the job computes and waits is unknown")
    assert gain.unknown == ""


def test_no_verdict_on_a_job_comes_from_the_networks_time_alone(tmp_path: Path) -> None:
    write_network(tmp_path / "n.network.json", cloud().model_copy(update={"latency_s": []}))
    tiny = ring()
    tiny = tiny.model_copy(update={"transfer": [t.model_copy(update={"bytes": t.bytes // MB}) for t in tiny.transfer]})
    write_app(tmp_path / "a.app.toml", tiny)
    inputs = ["place", str(tmp_path / "n.network.json"), str(tmp_path / "a.app.toml")]
    before = tmp_path / "before.placement.json"
    first = CliRunner().invoke(gavotte, [*inputs, "--method", "round-robin", "-o", str(before)])
    assert first.exit_code == 0, first.output
    ran = ["--ran", str(before), "--took"]
    alone, short, long = (
        CliRunner().invoke(gavotte, [*inputs, *more]) for more in ([], [*ran, "0.05"], [*ran, "3.31"])
    )
    assert "will do" not in alone.output
    assert "how long the job computes and waits is unknown" in alone.stderr
    assert "--ran and --took" in alone.stderr
    assert "of 0.05 s: the placement of the run will do" in short.stderr
    assert "of 3.31 s: one run under it decides" in long.stderr
    for each in (short, long):
        assert "how long the job computes and waits" not in each.stderr
    document = json.loads(CliRunner().invoke(gavotte, [*inputs, *ran, "3.31", "--json"]).stdout)
    assert document["forecast"]["verdict"].endswith("one run under it decides")
    assert document["worth"]["unknown"]


def test_worth_has_a_floor_in_seconds() -> None:
    # Without latencies, which would decide the time of few bytes.
    near = cloud().model_copy(update={"latency_s": []})
    placement = place(near, [ring()])
    gain = worth(Question(near, [ring()]), placement)
    assert gain is not None
    assert gain.saving_s == pytest.approx(gain.baseline_s - placement.completion_s)
    assert gain.saving_s == pytest.approx(gain.gain * gain.baseline_s)
    tiny = ring()  # the same shape, so the same gain, of a millionth of the bytes
    tiny = tiny.model_copy(update={"transfer": [t.model_copy(update={"bytes": t.bytes // MB}) for t in tiny.transfer]})
    none = worth(Question(near, [tiny]), place(near, [tiny]))
    assert none is not None
    assert none.gain == pytest.approx(gain.gain)
    assert not none.worthwhile
    assert none.reason.startswith("on the network, only ")
    assert none.reason.endswith(" are at stake, below the floor of 0.1 s")
    assert none.unknown
    asked = worth(Question(near, [tiny]), place(near, [tiny]), least_saving_s=none.saving_s / 2)
    assert asked is not None
    assert asked.worthwhile
    with pytest.raises(GavotteError, match="least saving"):
        worth(Question(cloud(), [ring()]), placement, least_saving_s=-1.0)


def test_the_goal_of_latency_is_told(tmp_path: Path) -> None:
    write_network(tmp_path / "n.network.json", cloud())
    write_app(tmp_path / "a.app.toml", ring())
    inputs = [str(tmp_path / "n.network.json"), str(tmp_path / "a.app.toml"), "--time-limit", "2", "--goal", "latency"]
    result = CliRunner().invoke(gavotte, ["place", *inputs])
    assert result.exit_code == 0, result.output
    assert "latency: " in result.output


@pytest.mark.slow
def test_command_line_explains_and_repeats_itself(tmp_path: Path) -> None:
    write_network(tmp_path / "n.network.json", cloud())
    write_app(tmp_path / "a.app.toml", ring())
    runner = CliRunner()
    inputs = [str(tmp_path / "n.network.json"), str(tmp_path / "a.app.toml"), "--time-limit", "2", "--untimed"]
    texts = []
    for threads in ("1", "3"):
        output = tmp_path / f"{threads}.placement.json"
        result = runner.invoke(gavotte, ["place", *inputs, "--threads", threads, "-o", str(output)])
        assert result.exit_code == 0, result.output
        texts.append(output.read_bytes())
    assert texts[0] == texts[1]
    shown = runner.invoke(gavotte, ["place", *inputs, "--explain"])
    for words in ("on the bottleneck", "links in use, slowest first", "next-best", "proven optimal"):
        assert words in shown.output
    document = json.loads(runner.invoke(gavotte, ["place", *inputs, "--explain", "--json"]).stdout)
    assert document["gap"] == 0.0
    assert document["explanation"]["crossing"]
    assert document["worth"]["worthwhile"]
    dear = [*inputs, "--least-saving", "1e6"]
    assert "below the floor of 1e+06 s" in runner.invoke(gavotte, ["place", *dear, "--explain"]).output
    assert not json.loads(runner.invoke(gavotte, ["place", *dear, "--json"]).stdout)["worth"]["worthwhile"]
    placed = read_placement(tmp_path / "1.placement.json")
    assert document["assignment"] == placed.assignment
    present = f"{tmp_path / '1.placement.json'}:{tmp_path / 'a.app.toml'}"
    write_app(tmp_path / "b.app.toml", ring("xy"))
    inputs[1] = str(tmp_path / "b.app.toml")
    beside = runner.invoke(gavotte, ["place", *inputs, "--running", present, "--only", "x=vm*", "--json"])
    assert beside.exit_code == 0, beside.output
    wrong = runner.invoke(gavotte, ["place", *inputs, "--only", "x"])
    assert "--only: cannot read `x`" in str(wrong.exception)


@pytest.mark.slow
def test_ctrl_c_gets_the_best_placement_so_far(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    hosts = [{"name": f"vm{m}", "cpus": 3.0} for m in range(16)]
    write_network(tmp_path / "n.json", builders.network(hosts, rng.uniform(1e6, 1e9, (16, 16)), sharing="pipe"))
    flows = [(f"t{a}", f"t{b}", int(rng.integers(1, MB))) for a in range(40) for b in range(40) if (a + 3 * b) % 7 == 1]
    write_app(tmp_path / "a.app.toml", builders.app("some", *flows))
    out = tmp_path / "p.placement.json"
    command = [str(GAVOTTE), "place", str(tmp_path / "n.json"), str(tmp_path / "a.app.toml")]
    line = [*command, "--method", "search", "--time-limit", "600", "-o", str(out)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert "searching for up to 600 s" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        output = child.stderr.read()
        assert child.wait(60) == 130
    assert "interrupted; this is the best placement found so far" in output
    assert read_placement(out).completion_s > 0


@pytest.mark.slow
def test_a_limit_that_has_passed_leaves_no_time_for_comparing(tmp_path: Path) -> None:
    pairs = [(f"t{a}", f"t{b}", MB) for a in range(110) for b in range(110) if a != b]
    write_app(tmp_path / "a.app.toml", builders.app("all", *pairs))
    hosts = [{"name": f"vm{m}", "cpus": 3.0, "egress_bps": (m + 1) * MBIT} for m in range(50)]
    write_network(tmp_path / "n.network.json", builders.network(hosts, None))
    # The process takes longer to start.
    line = [str(GAVOTTE), "place", "n.network.json", "a.app.toml", "--time-limit", "0.15", "--json"]
    late = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(late.stdout)["worth"] is None
    assert "no time is left to compare with placing blindly" in late.stderr
    counted = subprocess.run(
        [*line, "--repeatable"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(counted.stdout)["worth"]["gain"] > 0


def test_a_search_of_full_hosts_starts_from_a_partition() -> None:
    grid = [(f"t{a}", f"t{b}") for a in range(16) for b in (a + 1, a + 4) if b < 16 and (b % 4 or b != a + 1)]
    app = builders.app("grid", *((a, b, MB) for x, y in grid for a, b in ((x, y), (y, x))))
    hosts = [{"name": f"vm{m}", "cpus": 4.0, "egress_bps": 8 * MBIT, "ingress_bps": 8 * MBIT} for m in range(4)]
    net = builders.network(hosts, None)
    instance = build_instance(net, [app], "hose")
    match = instance.even().search(0, 1_000_000, 1, math.inf, [])
    numbers = [int(task.removeprefix("t")) for task in instance.tasks]
    blocks = [sorted(t for t, at in zip(numbers, match.hosts, strict=True) if at == host) for host in range(4)]
    # The quarters of the grid: each sends four of its neighbours one megabyte each.
    assert sorted(blocks) == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert decide(
        Question(net, [app]), Effort(time_limit_s=2.0, repeatable=True)
    ).placement.completion_s == pytest.approx(4.0)
