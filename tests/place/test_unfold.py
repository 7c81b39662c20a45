"""A sequence with migrations, written for replay: no bytes are lost, and all go where they should."""

from __future__ import annotations

from collections import Counter

import pytest
from tests import builders
from tests.builders import MB

from gavotte import lab
from gavotte.formats.app import App
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.place import Effort
from gavotte.place.sequence import InSequence, sequence, unfold
from gavotte.run import run
from gavotte.simulate import Advance, simulate_placement
from gavotte.terms.goodput import GOODPUT_PER_WIRE

STATE = MB
SIZES = {"one": 15 * MB, "two": 30 * MB}
RATES = {"a": 100e6 * GOODPUT_PER_WIRE, "b": 200e6 * GOODPUT_PER_WIRE, "c": 150e6 * GOODPUT_PER_WIRE}
COST_S = 8 * STATE / RATES["a"]


def network() -> Network:
    """The small cloud of the lab: a sends 100, b 200, c 150 Mbit/s; a and b share a machine."""
    hosts = [
        {"name": name, "cpus": 2.0, "egress_bps": rate, "machine": "pm1" if name == "c" else "pm0"}
        for name, rate in RATES.items()
    ]
    return builders.network(hosts)


def apps() -> list[App]:
    """Two senders that each need a whole host, to c: the first takes the fast one, and ends long before the second."""
    tasks: list[builders.Named] = [{"name": "x", "cpus": 2.0}, "y"]
    return [
        builders.app(name, ("x", "y", SIZES[name]), tasks=tasks, arrival_s=arrival_s, constraints={"pin": {"y": "c"}})
        for name, arrival_s in (("one", 0.0), ("two", 0.1))
    ]


def in_sequence() -> InSequence:
    return sequence(network(), apps(), Advance(network()), every_s=0.8, migration_s=COST_S)


def test_a_migration_becomes_a_second_task_and_a_transfer_of_state() -> None:
    done = in_sequence()
    assert [(move.app, move.task, move.source, move.target) for r in done.reviews for move in r.decision.moves] == [
        ("two", "x", "a", "b")
    ]
    (one, two), placement = unfold(apps(), done, lambda source, target: STATE)
    assert one.transfer == apps()[0].transfer
    before, state, after = two.transfer
    assert [(t.source, t.target, t.phase) for t in two.transfer] == [("x", "y", 0), ("x", "x@2", 1), ("x@2", "y", 2)]
    assert before.bytes + after.bytes == SIZES["two"]
    # At the review, 0.7 s after its arrival.
    assert before.bytes == pytest.approx(0.7 * RATES["a"] / 8, rel=1e-6)
    assert state.bytes == STATE
    assert {key: placement.assignment[key] for key in ("two/x", "two/x@2", "two/y")} == {
        "two/x": "a",
        "two/x@2": "b",
        "two/y": "c",
    }
    # Bytes within a machine cross no cap, so the state is free and the rest is as forecast.
    replayed_s = simulate_placement(network(), [one, two], placement)
    assert replayed_s == pytest.approx(0.1 + done.running_s["two"] - COST_S, rel=1e-3)


@pytest.mark.slow
def test_bytes_are_kept_over_phases_reviews_and_moves() -> None:
    moved = 0
    for seed in range(6):
        ways = [("x", "y", 0), ("y", "z", 0), ("z", "x", 1), ("x", "y", 1)]
        loads = [
            builders.app(
                f"app{number}",
                *((a, b, (seed + 1) * (number + k + 2) * MB, phase) for k, (a, b, phase) in enumerate(ways)),
                arrival_s=0.3 * number,
                constraints={"apart": [["x", "y", "z"]]},
            )
            for number in range(2)
        ]
        done = sequence(
            network(),
            loads,
            Advance(network()),
            every_s=0.2,
            migration_s=0.0,
            effort=Effort(method="random", seed=seed, time_limit_s=1.0),
        )
        unfolded, placement = unfold(loads, done, lambda source, target: STATE)
        for app, own in zip(loads, unfolded, strict=True):
            moves = sum(move.app == app.name for review in done.reviews for move in review.decision.moves)
            assert own.total_bytes == app.total_bytes + moves * STATE
            sums: Counter[tuple[str, str]] = Counter()
            for transfer in own.transfer:
                source, target = transfer.source.split("@")[0], transfer.target.split("@")[0]
                if source != target:
                    sums[source, target] += transfer.bytes
            wanted: Counter[tuple[str, str]] = Counter()
            for transfer in app.transfer:
                wanted[transfer.source, transfer.target] += transfer.bytes
            assert sums == wanted
            final = {task.split("@")[0]: placement.assignment[f"{app.name}/{task}"] for task in _names(own)}
            assert final == done.final[app.name]
            moved += moves
    assert moved > 0


def _names(app: App) -> list[str]:
    return [task.name for task in app.task]


@pytest.mark.lab
def test_a_migration_runs_for_real(small_cloud: lab.Session) -> None:
    """The shapers' rates bound both runs from below; the benchmark shows which is faster."""
    done = in_sequence()
    unfolded, placement = unfold(apps(), done, lambda source, target: STATE)
    inventory = read_inventory(small_cloud.hosts_file)
    stayed = run(done.placement, apps(), inventory)
    moved = run(placement, unfolded, inventory)
    assert stayed.bytes == sum(SIZES.values())
    assert moved.bytes == stayed.bytes + STATE
    carried = (done.transfer for done in moved.transfers)
    where = [(each.source, each.target, each.bytes) for each in carried if each.app == 1]
    sent = [transfer.bytes for transfer in unfolded[1].transfer]
    assert where == [("a", "c", sent[0]), ("a", "b", sent[1]), ("b", "c", sent[2])]
    bucket = 65_536  # each bucket lets 32 kB through at once, and its last packet on credit
    stay_s = 8 * (SIZES["two"] - bucket) / RATES["a"]
    move_s = 8 * (sent[0] - bucket) / RATES["a"] + 8 * (sent[2] - bucket) / RATES["b"]
    assert stayed.apps["two"] > 0.99 * stay_s
    assert moved.apps["two"] > 0.99 * move_s
