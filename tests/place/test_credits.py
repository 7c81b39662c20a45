"""Hosts with credits: `place` counts on C while it lasts, and on r for applications that send more."""

from __future__ import annotations

import pytest
from tests import builders

from gavotte.formats.network import Network
from gavotte.place import evaluate, place
from gavotte.terms.credit import with_credits

CREDIT_BYTES = 100_000_000


def cloud() -> Network:
    """One host that sends at 200 Mbit/s for 100 MB and then at 50, one that always sends at 100, and a receiver."""
    bursty = {"name": "bursty", "egress_bps": 5e7, "peak_bps": 2e8, "burst_bytes": CREDIT_BYTES}
    steady = {"name": "steady", "egress_bps": 1e8, "peak_bps": 4e8, "burst_bytes": 32_768}
    rates = [[None, 5e7, 5e7], [1e8, None, 1e8], [1e9, 1e9, None]]
    return builders.network([bursty, steady, "sink"], rates)


@pytest.mark.parametrize(
    ("size", "host", "seconds"),
    [(50_000_000, "bursty", 2.0), (100_000_000, "bursty", 4.0), (1_000_000_000, "steady", 80.0)],
)
def test_the_bytes_of_an_application_decide_between_burst_and_sustained_rate(
    size: int, host: str, seconds: float
) -> None:
    app = builders.app("app", ("from", "to", size), constraints={"pin": {"to": "sink"}})
    found = place(cloud(), [app], seed=1)
    assert found.assignment["from"] == host
    assert found.completion_s == pytest.approx(seconds)


def test_far_beyond_the_credit_the_sustained_rate_counts() -> None:
    app = builders.app("app", ("from", "to", 10_000_000_000))
    found = evaluate(cloud(), [app], {"from": "bursty", "to": "sink"})
    # (b + r t) bytes by time t.
    assert found.completion_s == pytest.approx(8 * (10_000_000_000 - CREDIT_BYTES) / 5e7)


def test_shallow_buckets_and_paths_that_others_limit_change_nothing() -> None:
    app = builders.app("app", ("from", "to", 50_000_000))
    network = cloud()
    rates = [[None, 1e7, 5e7], [1e8, None, 1e8], [1e9, 1e9, None]]
    found = with_credits(network.model_copy(update={"rate_bps": rates}), [app])
    assert found.rate_bps == [[None, 1e7, pytest.approx(2e8)], [1e8, None, 1e8], [1e9, 1e9, None]]
    assert [host.egress_bps for host in found.hosts] == [pytest.approx(2e8), 1e8, None]
    assert with_credits(network, []) is network
