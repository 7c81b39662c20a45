"""Hosts with credits: `place` counts on C while it lasts, and on r for applications that send more."""

from __future__ import annotations

import pytest
from tests import builders

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort, Question, decide, evaluate, place
from gavotte.terms.usage import before_use

CREDIT_BYTES = 100_000_000


def cloud(cpus: float = 1.0) -> Network:
    """One host that sends at 200 Mbit/s for 100 MB and then at 50, one that always sends at 100, and a receiver."""
    bursty = {"name": "bursty", "egress_bps": 5e7, "peak_bps": 2e8, "burst_bytes": CREDIT_BYTES}
    steady = {"name": "steady", "egress_bps": 1e8, "peak_bps": 4e8, "burst_bytes": 32_768}
    rates = [[None, 5e7, 5e7], [1e8, None, 1e8], [1e9, 1e9, None]]
    return builders.network([bursty, steady, "sink"], rates, cpus=cpus)


@pytest.mark.parametrize(
    ("size", "host", "seconds"),
    [(50_000_000, "bursty", 2.0), (100_000_000, "bursty", 4.0), (1_000_000_000, "steady", 80.0)],
)
def test_the_bytes_of_an_application_decide_between_burst_and_sustained_rate(
    size: int, host: str, seconds: float
) -> None:
    app = builders.app("app", ("from", "to", size), constraints={"pin": {"to": "sink"}})
    placement = place(cloud(), [app], seed=1)
    assert placement.assignment["from"] == host
    assert placement.completion_s == pytest.approx(seconds)


def test_far_beyond_the_credit_the_sustained_rate_counts() -> None:
    app = builders.app("app", ("from", "to", 10_000_000_000))
    placement = evaluate(cloud(), [app], {"from": "bursty", "to": "sink"})
    # (b + r t) bytes by time t.
    assert placement.completion_s == pytest.approx(8 * (10_000_000_000 - CREDIT_BYTES) / 5e7)


def test_shallow_buckets_and_paths_that_others_limit_change_nothing() -> None:
    app = builders.app("app", ("from", "to", 50_000_000))
    network = cloud()
    rates = [[None, 1e7, 5e7], [1e8, None, 1e8], [1e9, 1e9, None]]
    used = before_use(network.model_copy(update={"rate_bps": rates}), [app])
    assert used.rate_bps == [[None, 1e7, pytest.approx(2e8)], [1e8, None, 1e8], [1e9, 1e9, None]]
    assert [host.egress_bps for host in used.hosts] == [pytest.approx(2e8), 1e8, None]
    unused = before_use(network, [])
    assert (unused.rate_bps, [host.egress_bps for host in unused.hosts]) == (network.rate_bps, [5e7, 1e8, None])
    steady = network.of_hosts([1, 2])
    assert before_use(steady, [app]) is steady


def test_the_bytes_of_all_tasks_on_a_host_count_together() -> None:
    app = builders.app("app", ("a", "to", 50_000_000), ("b", "to", 50_000_000), ("c", "to", 50_000_000))
    placed = dict.fromkeys("abc", "bursty") | {"to": "sink"}
    network = cloud(cpus=4)
    # The credit lasts for the first 133 MB of 150: 100 MB are gone 8 s before r alone would have sent them.
    assert evaluate(network, [app], placed).completion_s == pytest.approx(8 * 50e6 / 5e7)
    alone = placed | dict.fromkeys("bc", "sink")
    assert evaluate(network, [app], alone).completion_s == pytest.approx(8 * 50e6 / 2e8)


def three_senders() -> App:
    """Three tasks that send 100 MB each to the receiver: one of them fits into the credit, three use it up."""
    transfers = [(name, "to", 100_000_000) for name in "abc"]
    return builders.app(
        "app", *transfers, constraints={"pin": {"to": "sink"}, "apart": [[name, "to"] for name in "abc"]}
    )


def test_tasks_that_would_use_up_a_credit_together_go_elsewhere() -> None:
    answer = decide(Question(cloud(cpus=4), [three_senders()]), Effort(seed=1))
    placement = answer.placement
    again = evaluate(cloud(cpus=4), [three_senders()], placement.assignment)
    assert placement.completion_s == pytest.approx(again.completion_s)
    # All three from one host take 32 s (100 MB of credit) or 24 s (steady); two and one take 16 s or 4 s.
    assert placement.completion_s == pytest.approx(16.0)
    assert placement.bound_s <= placement.completion_s
    assert answer.explanation.completion_s == pytest.approx(placement.completion_s)


@pytest.mark.slow
def test_moves_between_phases_are_timed_by_the_same_rates() -> None:
    app = builders.app(
        "app",
        ("a", "b", 90_000_000, 0),
        ("b", "a", 90_000_000, 1),
        constraints={"apart": [["a", "b"]]},
    )
    unmoved = decide(Question(cloud(), [app]), Effort(seed=1)).placement
    moving = decide(Question(cloud(), [app], state_bytes={"a": 1, "b": 1}), Effort(seed=1)).placement
    assert moving.bound_s <= moving.completion_s <= unmoved.completion_s * (1 + 1e-9)


@pytest.mark.slow
def test_the_worth_compares_placements_by_the_rates_that_each_gets() -> None:
    answer = decide(Question(cloud(cpus=4), [three_senders()]), Effort(seed=1))
    gain = answer.worth(rate_error=0.0)
    assert gain is not None
    assert gain.baseline_s - gain.saving_s == pytest.approx(answer.placement.completion_s)
