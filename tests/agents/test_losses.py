"""Which host has vanished, from the pairs that could not reach each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gavotte.agents.losses import CLOSED_S, Losses


def test_two_witnesses_are_enough() -> None:
    losses = Losses()
    losses.missed("a", "x", "no answer")
    assert losses.newly_lost() == {}
    losses.missed("b", "x", "no answer")
    assert losses.newly_lost() == {"x": "it and a and b cannot reach each other (no answer)"}
    assert losses.newly_lost() == {}


def test_of_one_pair_nobody_knows() -> None:
    losses = Losses()
    for _ in range(5):
        losses.missed("a", "b", "no answer")
        losses.missed("b", "a", "no answer")
    assert losses.newly_lost() == {}


def test_a_success_clears() -> None:
    losses = Losses()
    losses.missed("a", "x", "no answer")
    losses.met("x", "c")
    losses.missed("b", "x", "no answer")
    assert losses.newly_lost() == {}


def test_two_lost_hosts_do_not_blame_a_third() -> None:
    losses = Losses()
    losses.missed("x", "a", "no answer")
    losses.missed("b", "y", "no answer")
    losses.missed("y", "a", "no answer")
    losses.missed("c", "x", "no answer")
    assert "a" not in losses.newly_lost()
    losses.met("a", "b")
    losses.missed("d", "x", "no answer")
    losses.missed("d", "y", "no answer")
    losses.met("d", "b")
    losses.missed("b", "y", "no answer")
    losses.missed("e", "y", "no answer")
    assert set(losses.newly_lost()) <= {"x", "y"}


def test_one_that_only_complains_itself_is_not_lost() -> None:
    losses = Losses()
    losses.missed("x", "a", "no answer")
    losses.missed("x", "b", "no answer")
    assert losses.newly_lost() == {}
    losses.missed("a", "x", "timed out")
    assert list(losses.newly_lost()) == ["x"]


def test_a_host_that_reaches_others_stays_until_it_fails_to() -> None:
    losses = Losses()
    losses.missed("a", "x", "no answer")
    losses.missed("b", "x", "no answer")
    asked: list[str] = []

    def reaches(host: str) -> bool:
        asked.append(host)
        return True

    assert losses.newly_lost(reaches) == {}
    assert losses.newly_lost(reaches) == {}
    assert asked == ["x"]
    losses.missed("x", "a", "timed out")
    losses.missed("b", "x", "no answer")
    assert list(losses.newly_lost(lambda _: False)) == ["x"]


def test_what_a_lost_host_said_is_forgotten() -> None:
    losses = Losses()
    losses.missed("x", "a", "no answer")
    losses.gone("x", "agent gone")
    losses.missed("b", "a", "no answer")
    losses.missed("x", "c", "no answer")
    assert losses.newly_lost() == {}


names = st.sampled_from("abcdefg")


@given(st.lists(st.tuples(st.booleans(), names, names), max_size=60))
def test_a_host_that_meets_all_is_never_lost(events: list[tuple[bool, str, str]]) -> None:
    losses = Losses()
    for met, source, target in events:
        if met or "a" in (source, target):
            losses.met(source, target)
        elif source != target:
            losses.missed(source, target, "no answer")
        losses.newly_lost()
    assert "a" not in losses.lost


def test_a_direction_is_closed_after_two_failures_in_a_row_and_for_a_while() -> None:
    now_s = 100.0
    losses = Losses(lambda: now_s)
    losses.missed("a", "x", "timed out")
    losses.met("a", "x")
    losses.missed("a", "x", "timed out")
    assert not losses.closed("a", "x")
    losses.missed("a", "x", "timed out")
    assert losses.closed("a", "x").startswith("x is up, but accepts no TCP connection from a")
    assert not losses.closed("x", "a")
    now_s += CLOSED_S
    assert not losses.closed("a", "x")


def test_a_host_that_reaches_others_is_closed_to_those_that_missed_it() -> None:
    losses = Losses()
    losses.missed("a", "x", "no answer")
    losses.missed("b", "x", "no answer")
    assert losses.newly_lost(lambda _: True) == {}
    assert losses.closed("a", "x")
    assert losses.closed("b", "x")
    assert not losses.closed("c", "x")
    losses.missed("c", "x", "no answer")
    assert losses.closed("c", "x")
    losses.back("x")
    assert not losses.closed("a", "x")


def test_a_direction_without_its_interface_keeps_the_reason() -> None:
    losses = Losses()
    why = "this host has no interface `eth7`, which `fe80::1%eth7` names"
    losses.met("x", "a")
    losses.missed("a", "x", why)
    losses.missed("a", "x", why)
    losses.met("b", "x")
    assert losses.closed("a", "x") == why
    assert not losses.closed("x", "a")
