"""Stopped and resumed applications end when the simulator predicts for one uninterrupted run."""

from __future__ import annotations

import math
import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.builders import placement
from tests.examples import examples

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.simulate import Advance, replay_placement

HOSTS = [f"vm{m}" for m in range(5)]


app = partial(builders.app, tasks="abcd")


def network() -> Network:
    """Egress 8, 16, ... Mbit/s; vm3 and vm4 share a machine, inside which nothing is limited."""
    machines = [None, None, None, "pm", "pm"]
    return builders.network(
        [{"name": name, "egress_bps": 8e6 * (m + 1), "machine": machines[m]} for m, name in enumerate(HOSTS)]
    )


def drawn(seed: int) -> tuple[list[App], list[dict[str, str]]]:
    rng = random.Random(seed)
    apps = []
    for name in ("one", "two", "three")[: rng.randint(1, 3)]:
        pairs = [rng.sample("abcd", 2) for _ in range(6)]
        apps.append(app(name, *((a, b, rng.randint(0, 3_000_000), rng.randint(0, 2)) for a, b in pairs)))
    return apps, [{task: rng.choice(HOSTS) for task in "abcd"} for _ in apps]


@given(st.integers(0, 10_000), st.lists(st.floats(0.001, 1.0), max_size=5))
@examples(60)
def test_stops_change_nothing(seed: int, stops_s: list[float]) -> None:
    apps, places = drawn(seed)
    advance = Advance(network())
    keys = {
        key if len(apps) == 1 else f"{one.name}/{key}": host
        for one, where in zip(apps, places, strict=True)
        for key, host in where.items()
    }
    whole = replay_placement(network(), apps, placement(keys, *(one.name for one in apps))).apps
    in_one_go = advance(apps, places).finish_s
    assert in_one_go == pytest.approx([whole[one.name] for one in apps], rel=1e-6, abs=1e-9)
    left, now_s, ends_s = apps, 0.0, [math.inf] * len(apps)
    for stop_s in [*stops_s, math.inf]:
        done = advance(left, places, for_s=stop_s)
        ends_s = [min(end, now_s + more) for end, more in zip(ends_s, done.finish_s, strict=True)]
        assert all(
            0 <= after.bytes <= before.bytes
            for was, now in zip(left, done.apps, strict=True)
            for before, after in zip(was.transfer, now.transfer, strict=True)
        )
        left, now_s = done.apps, now_s + stop_s
    # Each stop rounds the rest of each transfer up to a byte: 1 us at 8 Mbit/s.
    assert ends_s == pytest.approx(in_one_go, rel=1e-6, abs=2e-4)
    assert sum(one.total_bytes for one in left) == 0


def test_a_pause_holds_one_back_and_leaves_the_link_to_others() -> None:
    both = [app("one", ("a", "b", 1_000_000, 0)), app("two", ("a", "b", 1_000_000, 0))]
    where = [{"a": "vm0", "b": "vm1", "c": "vm0", "d": "vm0"}] * 2
    advance = Advance(network())
    assert advance(both, where).finish_s == pytest.approx([2.0, 2.0])
    assert advance(both, where, pause_s=[0.0, 1.0]).finish_s == pytest.approx([1.0, 2.0])
    assert advance(both, where, pause_s=[0.0, 3.0]).finish_s == pytest.approx([1.0, 4.0])
    halfway = advance(both, where, pause_s=[0.0, 0.75], for_s=0.5)
    assert [one.total_bytes for one in halfway.apps] == [500_000, 1_000_000]
    assert halfway.finish_s == [math.inf, math.inf]


def test_a_later_phase_within_a_host_is_not_sent_early() -> None:
    phases = app("one", ("a", "b", 1_000_000, 0), ("c", "d", 1_000_000, 1))
    where = {"a": "vm0", "b": "vm1", "c": "vm2", "d": "vm2"}
    advance = Advance(network())
    halfway = advance([phases], [where], for_s=0.5).apps[0]
    assert [transfer.bytes for transfer in halfway.transfer] == [500_000, 1_000_000]
    assert advance([halfway], [where | {"d": "vm0"}]).finish_s == pytest.approx([0.5 + 8e6 / 24e6])


def test_nothing_to_send_ends_at_once() -> None:
    assert Advance(network())([app("one")], [dict.fromkeys("abcd", "vm0")]).finish_s == [0.0]


@pytest.mark.parametrize(
    ("where", "message"), [({"a": "vm0"}, "task `b` of `one` has no host"), ({"a": "vm9"}, "not a host of the network")]
)
def test_errors_are_one_line(where: dict[str, str], message: str) -> None:
    with pytest.raises(GavotteError, match=message):
        Advance(network())([app("one", ("a", "b", 1, 0))], [where])
