"""A placement for each phase, where moving tasks costs less than it saves."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MB, MBIT
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.export import export
from gavotte.formats.app import App, Constraints, write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import Placement, read_placement
from gavotte.place import Answer, Effort, Question, decide, states
from gavotte.run import host_transfers
from gavotte.simulate import replay_placement
from gavotte.terms.unfolding import unfold

SQUARE = (("a", "b", 100 * MB, 0), ("c", "d", 100 * MB, 0), ("a", "c", 100 * MB, 3), ("b", "d", 100 * MB, 3))
"""The pairs that exchange bytes change between the phases: no placement on two hosts suits both."""


LIMIT_S = 0.2
"""As an amount of work: the result does not depend on how busy the machine is."""


def two_hosts() -> Network:
    return builders.network(2, cpus=2.0, egress_bps=800 * MBIT, ingress_bps=800 * MBIT)


def square(state_bytes: int | None) -> App:
    extra = {} if state_bytes is None else {"state_bytes": state_bytes}
    return builders.app("square", *SQUARE, tasks=[{"name": name, **extra} for name in "abcd"])


@pytest.mark.parametrize(
    ("state_bytes", "expected_s"), [(0, 0.0), (10 * MB, 0.1), (190 * MB, 1.9), (210 * MB, 2.0), (None, 2.0)]
)
def test_tasks_move_where_that_saves_more_than_it_costs(state_bytes: int | None, expected_s: float) -> None:
    """Two tasks exchange their hosts at once, each way over a link of its own: 0.1 s for 10 MB. Without, 2 s."""
    app = square(state_bytes)
    answer = decide(
        Question(two_hosts(), [app], state_bytes=states([app])), Effort(time_limit_s=LIMIT_S, repeatable=True)
    )
    placement = answer.placement
    assert placement.completion_s == pytest.approx(expected_s)
    assert bool(placement.moves) == (expected_s < 2.0)
    assert {(move.phase, move.bytes) for move in placement.moves} <= {(3, state_bytes)}
    assert len(placement.moves) in (0, 2)
    assert answer.unmoved_s == (None if state_bytes is None else pytest.approx(2.0))
    assert placement.bound_s <= expected_s + 1e-9


def moving(net: Network, apps: list[App], seed: int = 0) -> Answer:
    """Place with tasks that may move between phases."""
    effort = Effort(time_limit_s=LIMIT_S, seed=seed, repeatable=True)
    return decide(Question(net, apps, state_bytes=states(apps)), effort)


def takes_s(net: Network, ways: Sequence[tuple[int, int, int]]) -> float:
    """Return the time of transfers between hosts, by the definition of the completion time."""
    loads: Counter[tuple[str, int, int]] = Counter()
    rates: dict[tuple[str, int, int], float | None] = {}
    for m, n, size in ways:
        if m == n:
            continue
        keys = {("pair", m, n): net.rate_bps[m][n]}
        keys |= {("out", m, m): net.hosts[m].egress_bps, ("in", n, n): net.hosts[n].ingress_bps}
        for key, rate in keys.items():
            loads[key] += size
            rates[key] = rate
    return max((8 * size / rate for key, size in loads.items() if (rate := rates[key])), default=0.0)


def every_path_s(net: Network, app: App, state_bytes: Mapping[str, int]) -> float:
    """Return the least time over all hosts in each phase."""
    at = {task.name: index for index, task in enumerate(app.task)}
    phases = sorted({transfer.phase for transfer in app.transfer})
    rooms = [
        places
        for places in itertools.product(range(len(net.hosts)), repeat=len(at))
        if all(places.count(m) <= host.cpus for m, host in enumerate(net.hosts))
    ]
    ways = {
        phase: [(at[t.source], at[t.target], t.bytes) for t in app.transfer if t.phase == phase] for phase in phases
    }
    state = [state_bytes.get(task.name) for task in app.task]

    def moving_s(before: Sequence[int], after: Sequence[int]) -> float:
        if any(size is None and m != n for size, m, n in zip(state, before, after, strict=True)):
            return float("inf")
        return takes_s(net, [(m, n, size or 0) for size, m, n in zip(state, before, after, strict=True)])

    steps = {(one, other): moving_s(one, other) for one in rooms for other in rooms}
    best = dict.fromkeys(rooms, 0.0)
    for number, phase in enumerate(phases):
        stage = {places: takes_s(net, [(places[i], places[j], size) for i, j, size in ways[phase]]) for places in rooms}
        come = {new: min(best[old] + steps[old, new] for old in rooms) for new in rooms} if number else best
        best = {places: come[places] + stage[places] for places in rooms}
    return min(best.values())


def drawn(seed: int) -> tuple[Network, App]:
    """Four tasks on three hosts with two to four phases."""
    rng = random.Random(seed)
    net = builders.network(
        [{"name": f"vm{m}", "egress_bps": rng.uniform(2, 9) * 100 * MBIT, "cpus": 2.0} for m in range(3)],
        rate_bps=[[rng.uniform(2, 9) * 100 * MBIT for _ in range(3)] for _ in range(3)],
    )
    ways = [
        (*(f"t{i}" for i in rng.sample(range(4), 2)), rng.randint(10, 90) * MB, phase)
        for phase in range(rng.randint(2, 4))
        for _ in range(3)
    ]
    tasks = [{"name": f"t{i}", "state_bytes": rng.choice([0, 1, 10, 40]) * MB} for i in range(4)]
    return net, builders.app("drawn", *ways, tasks=tasks)


@pytest.mark.slow
def test_beside_the_best_of_all_paths() -> None:
    ratios = []
    for seed in range(12):
        net, app = drawn(seed)
        answer = decide(
            Question(net, [app], state_bytes=states([app])), Effort(time_limit_s=LIMIT_S, seed=seed, repeatable=True)
        )
        placement, best_s = answer.placement, every_path_s(net, app, states([app]))
        ratios.append(placement.completion_s / best_s)
        assert answer.unmoved_s is not None
        assert placement.completion_s <= answer.unmoved_s
        assert placement.bound_s <= best_s * (1 + 1e-9)
        assert replay_placement(net, [app], placement).completion_s >= best_s * (1 - 1e-6)
    assert min(ratios) >= 1 - 1e-9
    assert max(ratios) < 1.03
    assert sum(ratio < 1 + 1e-6 for ratio in ratios) >= 10


def test_what_stays_stays_and_rules_hold_in_each_phase() -> None:
    net = builders.network(3, cpus=2.0, egress_bps=800 * MBIT)
    app = square(MB).model_copy(update={"constraints": Constraints(apart=[["a", "d"]], max_hosts=2)})
    tasks = [task.model_copy(update={"state_bytes": None}) if task.name == "c" else task for task in app.task]
    app = app.model_copy(update={"task": tasks})
    placement = decide(
        Question(net, [app], state_bytes=states([app])), Effort(time_limit_s=LIMIT_S, repeatable=True)
    ).placement
    assert placement.moves
    assert "c" not in {move.task for move in placement.moves}
    assert len({*placement.assignment.values(), *(move.host for move in placement.moves)}) == 2
    at = dict(placement.assignment)
    for move in [None, *placement.moves]:
        at |= {} if move is None else {move.task: move.host}
        assert at["a"] != at["d"] or move is not placement.moves[-1]
    assert Counter(at.values()).most_common(1)[0][1] == 2


def test_bytes_go_from_where_tasks_are_then() -> None:
    app = square(10 * MB)
    placement = decide(
        Question(two_hosts(), [app], state_bytes=states([app])), Effort(time_limit_s=LIMIT_S, repeatable=True)
    ).placement
    (written,), whole = unfold([app], placement)
    assert replay_placement(two_hosts(), [app], placement).completion_s == pytest.approx(0.1)
    crossing = [each for each in host_transfers(placement, [app]).transfers if each.source != each.target]
    assert [(each.phase, each.bytes) for each in crossing] == [(1, 10 * MB)] * 2
    assert {each.target_task for each in crossing} == {f"{move.task}@2" for move in placement.moves}
    assert whole.moves == []
    assert sum(t.bytes for t in written.transfer) == 4 * 100 * MB + 2 * 10 * MB
    assert unfold([app], whole) == ([app], whole)
    with pytest.raises(GavotteError, match="moves between phases"):
        export(placement, "csv")
    strange = placement.model_copy(update={"moves": [placement.moves[0].model_copy(update={"task": "z"})]})
    with pytest.raises(GavotteError, match="which no application has"):
        unfold([app], strange)


@pytest.mark.slow
def test_several_applications_move_by_their_own_keys() -> None:
    apps = [square(MB), square(MB).model_copy(update={"name": "other"})]
    net = builders.network(4, cpus=2.0, egress_bps=800 * MBIT, ingress_bps=800 * MBIT)
    placement = decide(
        Question(net, apps, state_bytes=states(apps)), Effort(time_limit_s=LIMIT_S, repeatable=True)
    ).placement
    assert {move.task.partition("/")[0] for move in placement.moves} == {"square", "other"}
    assert placement.completion_s < 0.1
    replayed = replay_placement(net, apps, placement)
    assert replayed.completion_s >= placement.completion_s * (1 - 1e-6)


def test_phases_with_the_same_traffic_are_one() -> None:
    ways = [(source, target, size, phase) for phase in range(40) for source, target, size, _ in SQUARE[:2]]
    tasks = [{"name": name, "state_bytes": 0} for name in "abcd"]
    app = builders.app("steady", *ways, tasks=tasks)
    answer = decide(
        Question(two_hosts(), [app], state_bytes=states([app])), Effort(time_limit_s=LIMIT_S, repeatable=True)
    )
    assert answer.unmoved_s is None
    assert not answer.placement.moves
    assert (
        answer.placement.completion_s
        == decide(Question(two_hosts(), [app]), Effort(time_limit_s=LIMIT_S, repeatable=True)).placement.completion_s
    )


def test_state_is_that_of_the_task_or_else_of_the_option() -> None:
    tasks: list[dict[str, object]] = [{"name": "a", "state_bytes": 5}, {"name": "b", "memory_bytes": 7}, {"name": "c"}]
    app = builders.app("three", ("a", "b", 1), tasks=tasks)
    assert states([app]) == {"a": 5}
    assert states([app], 9) == {"a": 5, "b": 9, "c": 9}
    assert states([app], "memory") == {"a": 5, "b": 7, "c": 0}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    network, app = tmp_path / "n.network.json", tmp_path / "square.app.toml"
    write_network(network, two_hosts())
    write_app(app, square(None))
    return [str(network), str(app)]


def told(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(gavotte, list(words))
    return done.exit_code, done.stdout, done.stderr if done.exception is None else str(done.exception)


@pytest.mark.slow
def test_the_command_writes_moves_that_simulate_replays(files: list[str], tmp_path: Path) -> None:
    output = str(tmp_path / "p.placement.json")
    code, text, message = told(
        "place", *files, "--time-limit", "0.2", "--repeatable", "--state", "10485760", "-o", output
    )
    assert code == 0
    assert "before phase" in text
    assert "moves between phases save 1.9 s of 2 s" in message
    assert [move.bytes for move in read_placement(output).moves] == [10 << 20] * 2
    code, text, _ = told("simulate", output, files[1], "--network", files[0], "--json")
    assert code == 0
    assert json.loads(text)["completion_s"] == pytest.approx(8 * (10 << 20) / 800e6)
    code, text, message = told("place", *files, "--time-limit", "0.2", "--repeatable", "--state", "1gb", "--json")
    assert code == 0
    assert json.loads(text)["moves"] == []
    assert json.loads(text)["unmoved_s"] == pytest.approx(2.0)
    code, text, _ = told("place", *files, "--time-limit", "0.2", "--repeatable", "--json")
    assert code == 0
    assert json.loads(text)["unmoved_s"] is None
    assert told("place", *files, "--state", "1mb", "--goal", "hosts")[0] != 0
    assert "is not a size" in told("place", *files, "--state", "much")[2]


def test_a_file_without_moves_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.placement.json"
    content = json.loads(builders.placement({"a": "vm0"}).model_dump_json())
    del content["moves"]
    path.write_text(json.dumps(content))
    assert read_placement(path) == Placement.model_validate(content)
    assert read_placement(path).moves == []
