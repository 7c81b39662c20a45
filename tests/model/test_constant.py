"""A History becomes a Network: summaries over times, machines from hops, caps from the best rates."""

from __future__ import annotations

import numpy as np
import pytest
from tests.model.synthetic import history

from gavotte.errors import GavotteError
from gavotte.model import model


@pytest.mark.parametrize(
    ("method", "mbit"), [("last", 400.0), ("min", 400.0), ("median", 200.0), ("mean", 8 / (0.14 / 3))]
)
def test_summaries_are_of_seconds_per_byte(method: str, mbit: float) -> None:
    values = np.array([100e6, 200e6, 400e6])[:, None, None] / 8 * np.ones((3, 2, 2))
    network = model(history(values), method=method)
    rate = network.rate_bps[0][1]
    assert rate is not None
    expected = 3 / (1 / 100e6 + 1 / 200e6 + 1 / 400e6) if method == "mean" else mbit * 1e6
    assert rate == pytest.approx(expected)
    assert network.rate_bps[0][0] is None


def test_last_falls_back_to_the_newest_value() -> None:
    values = np.ones((2, 2, 2)) * 1e6
    values[0, 0, 1] = 3e6
    values[1, 0, 1] = np.nan
    assert model(history(values), method="last").rate_bps[0][1] == pytest.approx(24e6)


def test_hosts_one_hop_apart_share_a_machine_and_do_not_tell_the_cap() -> None:
    values = np.ones((1, 3, 3)) * 1e7
    values[0, 0, 1] = values[0, 1, 0] = 5e8
    network = model(history(values, [[0, 1, 4], [1, 0, 4], [4, 4, 0]]))
    assert network.hosts[0].machine == network.hosts[1].machine != network.hosts[2].machine
    assert [host.egress_bps for host in network.hosts] == [pytest.approx(8e7)] * 3


def test_a_pair_never_measured_is_named() -> None:
    values = np.ones((1, 3, 3)) * 1e6
    values[0, 1, 2] = np.nan
    with pytest.raises(GavotteError, match="h1 to h2"):
        model(history(values))
