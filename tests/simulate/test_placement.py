"""Placements in the simulator: the same schedule as a run, with times by the fluid model."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.builders import MB, MBIT, placement

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import evaluate, place
from gavotte.simulate import Conditions, replay_placement, simulate_placement
from gavotte.terms.goodput import GOODPUT_PER_WIRE

app = partial(builders.app, tasks="xyz")


def network(size: int = 3) -> Network:
    """Equal hosts that send 8 Mbit/s; no pair is slower."""
    return builders.network(size, 16 * MBIT, 0.0, cpus=4.0, egress_bps=8 * MBIT)


SPREAD = {"x": "vm0", "y": "vm1", "z": "vm2"}


def test_phases_follow_each_other_and_gaps_in_their_numbers_cost_nothing() -> None:
    one = app("one", ("x", "y", MB, 0), ("x", "z", 2 * MB, 0), ("y", "z", MB, 7), ("z", "x", 3 * MB, 9))
    done = replay_placement(network(), [one], placement(SPREAD, "one"))
    assert done.simulation.finish_s[: done.transfers].tolist() == [2.0, 3.0, 4.0, 7.0]
    assert done.flows.names[:4] == ["x>y.0", "x>z.0", "y>z.7", "z>x.9"]
    assert done.completion_s == 7.0
    assert done.apps == {"one": 7.0}


def test_bytes_within_a_host_and_transfers_without_bytes_take_no_time() -> None:
    one = app("one", ("x", "y", 5 * MB, 0), ("x", "z", 0, 1), ("y", "z", MB, 2))
    done = replay_placement(network(), [one], placement({"x": "vm0", "y": "vm0", "z": "vm1"}, "one"))
    assert done.completion_s == 1.0
    assert done.transfers == 2


def test_applications_overlap_from_their_arrivals_on() -> None:
    two = [
        app("one", ("x", "y", 2 * MB, 0), arrival_s=10.0),
        app("two", ("x", "y", MB, 0), ("y", "x", MB, 1), arrival_s=11.0),
    ]
    keys = {f"{name}/{task}": host for name in ("one", "two") for task, host in SPREAD.items()}
    done = replay_placement(network(), two[::-1], placement(keys, "one", "two"))
    # One sends alone for a second; then both share until each has sent 1 MB more.
    assert done.apps == {"one": 3.0, "two": 3.0}
    assert done.completion_s == 4.0
    assert done.flows.names[0] == "one/x>one/y"


def test_an_application_without_transfers() -> None:
    assert simulate_placement(network(), [app("one")], placement(SPREAD, "one")) == 0.0
    two = [app("one", ("x", "y", MB, 0)), app("two", arrival_s=5.0)]
    keys = {f"{name}/{task}": host for name in ("one", "two") for task, host in SPREAD.items()}
    done = replay_placement(network(), two, placement(keys, "one", "two"))
    assert (done.completion_s, done.apps) == (5.0, {"one": 1.0, "two": 0.0})


def test_an_early_end_leaves_the_completion_time_open() -> None:
    one = app("one", ("x", "y", MB, 0), ("y", "z", MB, 1))
    done = replay_placement(network(), [one], placement(SPREAD, "one"), Conditions(until_s=1.5))
    assert math.isnan(done.completion_s)
    assert done.simulation.finish_s[0] == 1.0


def test_a_topology_carries_less_payload_than_its_rates() -> None:
    described = builders.topology([{"name": f"vm{m}", "egress": "8mbit"} for m in range(3)])
    one = app("one", ("x", "y", MB, 0))
    assert simulate_placement(described, [one], placement(SPREAD, "one")) == pytest.approx(1 / GOODPUT_PER_WIRE)
    described = described.model_copy(update={"addresses": "ipv6"})
    assert simulate_placement(described, [one], placement(SPREAD, "one")) == pytest.approx(1514 / 1428)


@pytest.mark.parametrize(
    ("apps", "assignment", "names", "message"),
    [
        ([app("one")], SPREAD, ["one", "two"], "the placement has an application `two`"),
        ([app("one"), app("two")], SPREAD, ["one"], "application `two` is not in the placement"),
        ([app("one"), app("one")], SPREAD, ["one"], "two applications have the same name"),
        ([app("one")], {"x": "vm0", "y": "vm1"}, ["one"], "the placement has no host for task `z`"),
        ([app("one")], {**SPREAD, "z": "vm9"}, ["one"], "task `z` is placed on `vm9`, which is not"),
    ],
)
def test_what_does_not_belong_together(
    apps: list[App], assignment: dict[str, str], names: list[str], message: str
) -> None:
    with pytest.raises(GavotteError) as caught:
        simulate_placement(network(), apps, placement(assignment, *names))
    assert str(caught.value).startswith(message)


TASKS = ("x", "y", "z")


@given(
    st.lists(
        st.tuples(st.sampled_from(TASKS), st.sampled_from(TASKS), st.integers(0, 10 * MB), st.integers(0, 3)).filter(
            lambda row: row[0] != row[1]
        ),
        max_size=12,
    ),
    st.tuples(*[st.integers(0, 2)] * 3),
)
def test_the_predicted_completion_is_a_lower_bound(
    rows: list[tuple[str, str, int, int]], hosts: tuple[int, ...]
) -> None:
    one: Any = app("one", *rows)
    assignment = {task: f"vm{host}" for task, host in zip(TASKS, hosts, strict=True)}
    placed = evaluate(network(), [one], assignment)
    assert simulate_placement(network(), [one], placed) >= placed.completion_s * (1 - 1e-9)


def test_placements_of_place_can_be_replayed() -> None:
    one = app("one", ("x", "y", 5 * MB, 0), ("y", "z", MB, 0))
    placed = place(network(), [one], "round-robin")
    assert simulate_placement(network(), [one], placed) >= placed.completion_s * (1 - 1e-9)
