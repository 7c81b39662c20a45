"""One TCP connection under random loss."""

from __future__ import annotations

import math

import pytest
from tests import builders

from gavotte.terms.loss import connection_bps, with_loss


def test_the_windows_are_those_of_the_rfc() -> None:
    # RFC 9438, figure 5: at a round trip of 0.1 s and packets of 1500 bytes, one loss in 10^4, 10^5 and 10^6 packets
    # leaves CUBIC 187, 1054 and 5926 packets.
    for loss, packets in ((1e-4, 187), (1e-5, 1054), (1e-6, 5926)):
        assert connection_bps(loss, 0.1, 1448) == pytest.approx(8 * 1448 * packets / 0.1, rel=1e-2)
    # Near by, CUBIC grows as Reno does, whose window is the root of 3 / (2 p). One loss of 20 waits for 0.21 s.
    windowless = 0.01 / math.sqrt(150) + 0.01 * 0.05 * 0.21
    assert connection_bps(0.01, 0.01, 1448) == pytest.approx(8 * 1448 / windowless, rel=0.01)
    assert connection_bps(0.0, 0.1, 1448) == math.inf
    assert connection_bps(0.01, 0.0, 1448) == math.inf


def test_lossy_pairs_have_rates_of_one_connection_and_of_several() -> None:
    loss = [[None, 0.01, None], [None, None, None], [None, None, None]]
    network = builders.network(3, 50e6, 0.02, loss=loss)
    used = with_loss(network)
    one_bps = connection_bps(0.01, 0.04, 1448)
    assert used.rate_bps[0][1] == pytest.approx(one_bps)
    assert used.several_bps[0][1] == 50e6
    assert used.rate_bps[1][0] == used.rate_bps[0][2] == 50e6
    plain = builders.network(3, 50e6, 0.02)
    assert with_loss(plain) is plain
    # A path that is slower anyway is not changed.
    slow = builders.network(3, 1e6, 0.02, loss=loss)
    assert with_loss(slow) == slow.model_copy(update={"loss": []})
