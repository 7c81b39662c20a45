"""Messages that wait for each other: near hosts are faster although all rates are the same."""

from __future__ import annotations

from typing import Any

import pytest
from tests import builders

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort, Question, decide, evaluate, place
from gavotte.simulate import simulate_placement
from gavotte.terms.ramp import ramp_s

RATE_BPS = 1e9
NEAR_S, FAR_S = 1e-4, 2e-2


def zones(rate_bps: float | None = RATE_BPS) -> Network:
    """Two zones of two hosts each: hosts of one zone are near, and all rates are equal."""
    latency_s = [[FAR_S if i // 2 != j // 2 else NEAR_S for j in range(4)] for i in range(4)]
    caps = {} if rate_bps else {"egress_bps": RATE_BPS, "ingress_bps": RATE_BPS}
    return builders.network(4, rate_bps, latency_s, cpus=1.0, **caps)


def chatty(messages: int | None, size: int = 1_000_000, **fields: Any) -> App:
    """One task that sends another some messages, and a third task that takes room."""
    app = builders.app("app", ("x", "y", size), **fields)
    return app.model_copy(
        update={"transfer": [each.model_copy(update={"messages": messages}) for each in app.transfer]}
    )


@pytest.mark.parametrize("rate_bps", [RATE_BPS, None])
@pytest.mark.parametrize(("target", "latency_s"), [("vm1", NEAR_S), ("vm2", FAR_S)])
def test_each_message_takes_a_latency(rate_bps: float | None, target: str, latency_s: float) -> None:
    app = chatty(1000)
    placement = evaluate(zones(rate_bps), [app], {"x": "vm0", "y": target})
    assert placement.completion_s == pytest.approx(8e6 / RATE_BPS + 1000 * latency_s, rel=1e-3 if rate_bps else 0.1)
    assert placement.bound_s <= placement.completion_s
    assert simulate_placement(zones(rate_bps), [app], placement) == pytest.approx(8e6 / RATE_BPS + 1000 * latency_s)


@pytest.mark.parametrize("rate_bps", [RATE_BPS, None])
@pytest.mark.parametrize("pinned", ["vm0", "vm3"])
def test_tasks_with_many_small_messages_go_to_near_hosts(rate_bps: float | None, pinned: str) -> None:
    app = chatty(1000, constraints={"pin": {"x": pinned}})
    answer = decide(Question(zones(rate_bps), [app]), Effort(seed=1))
    assert answer.placement.assignment["y"] == {"vm0": "vm1", "vm3": "vm2"}[pinned]
    assert answer.explanation.completion_s == pytest.approx(answer.placement.completion_s)


def test_messages_of_different_tasks_wait_at_the_same_time() -> None:
    app = chatty(1000)
    twice = builders.app("app", ("x", "y", 1_000_000), ("u", "v", 1_000_000))
    twice = twice.model_copy(
        update={"transfer": [app.transfer[0], twice.transfer[1].model_copy(update={"messages": 10})]}
    )
    placement = evaluate(
        builders.network(2, RATE_BPS, FAR_S, cpus=2.0), [twice], {"x": "vm0", "u": "vm0", "y": "vm1", "v": "vm1"}
    )
    assert placement.completion_s == pytest.approx(8e6 / RATE_BPS + 1000 * FAR_S)


def test_streams_go_to_near_hosts_as_far_connections_start_slowly() -> None:
    app = chatty(None, constraints={"pin": {"x": "vm0"}})
    start_s = float(ramp_s(1e6, RATE_BPS, 2 * FAR_S, 1448))
    assert start_s > 5 * FAR_S
    far = evaluate(zones(), [app], {"x": "vm0", "y": "vm2"})
    assert far.completion_s == pytest.approx(8e6 / RATE_BPS + start_s)
    assert simulate_placement(zones(), [app], far) == pytest.approx(far.completion_s)
    answer = decide(Question(zones(), [app]), Effort(seed=1))
    assert answer.placement.assignment["y"] == "vm1"
    assert answer.explanation.completion_s == pytest.approx(answer.placement.completion_s)


def test_long_streams_are_placed_without_regard_to_latency() -> None:
    app = chatty(None, size=10**10)
    question = Question(zones(), [app])
    assert not question.depends_on_use
    assert evaluate(zones(), [app], {"x": "vm0", "y": "vm2"}).completion_s == pytest.approx(8e10 / RATE_BPS)
    assert place(zones(), [app]).optimal


def test_phases_with_moves_count_messages_once() -> None:
    app = builders.app("app", ("x", "y", 1_000_000, 0), ("y", "x", 2_000_000, 1), constraints={"apart": [["x", "y"]]})
    app = app.model_copy(update={"transfer": [each.model_copy(update={"messages": 100}) for each in app.transfer]})
    placement = decide(Question(zones(), [app], state_bytes={"x": 1, "y": 1}), Effort(seed=1)).placement
    # 3 MB, and 200 messages between hosts of one zone.
    assert placement.completion_s == pytest.approx(24e6 / RATE_BPS + 200 * NEAR_S, rel=1e-3)
