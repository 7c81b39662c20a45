"""Rates of shuffles on a Network: Fig. 13 of the Orchestra paper, racks, and one line for each mistake."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import MBIT, network

from gavotte.errors import GavotteError
from gavotte.transfer import wss_bound, wss_rates
from gavotte.transfer.shuffling import credited, early, round_trips_s, slowest_flows, spread_s


@pytest.mark.parametrize(("private", "seconds"), [(2, 4), (3, 6), (4, 8)])
def test_fig_13_takes_what_the_paper_predicts(private: int, seconds: int) -> None:
    cloud = network(2 * private + 3, egress_bps=8 * MBIT, ingress_bps=8 * MBIT)
    names = cloud.names
    *_, shared, one, other = names
    flows = [(name, one, 1e6) for name in names[:private]] + [(name, other, 1e6) for name in names[private:-3]]
    flows += [(shared, one, private * 1e6), (shared, other, private * 1e6)]
    rates_bps, bound_s = wss_rates(cloud, flows)
    assert bound_s == pytest.approx(seconds)
    assert 8 * np.array([size for _, _, size in flows]) / rates_bps == pytest.approx([seconds] * len(flows))
    assert wss_bound(cloud, flows)[0] == bound_s


def test_the_links_of_racks_and_pairs_bind() -> None:
    racks = [{"name": "rack0", "members": ["vm0", "vm1"], "up_bps": 4 * MBIT, "down_bps": 80 * MBIT}]
    cloud = network(4, 2 * MBIT, egress_bps=8 * MBIT, groups=racks, sharing="groups")
    assert wss_bound(cloud, [("vm0", "vm1", 1e6), ("vm1", "vm1", 5e6)]) == (4.0, "path from vm0 to vm1")
    flows = [("vm0", "vm2", 1e6), ("vm0", "vm3", 1e6), ("vm1", "vm3", 1e6), ("vm2", "vm3", 0.0)]
    assert wss_bound(cloud, flows) == (6.0, "up link of rack0")
    assert list(wss_rates(cloud, flows)[0]) == pytest.approx([8e6 / 6] * 3 + [0.0])


def test_lossy_paths_count_connections_by_a_longer_round_trip() -> None:
    latency_s = [[0.0, 0.02, 0.02, 0.02]] + [[0.02] * 4] * 3
    loss = [[0.0, None, 0.001, 0.01]] + [[0.0] * 4] * 3
    cloud = network(4, MBIT, latency_s=latency_s, loss=loss)
    flows = [("vm0", "vm1", 1.0), ("vm0", "vm2", 1.0), ("vm0", "vm3", 1.0)]
    assert round_trips_s(cloud, flows) == pytest.approx([0.04] * 3)
    # At 1 % a window has 12 packets on average, at 0.1 % 39; 25 are needed where a first window has 10.
    assert spread_s(cloud, flows) == pytest.approx([0.04, 0.04, 0.04 * 25 / np.sqrt(150)])


def test_within_a_host_there_is_no_limit() -> None:
    rates_bps, bound_s = wss_rates(network(2, MBIT), [("vm0", "vm0", 1.0)])
    assert (list(rates_bps), bound_s) == ([np.inf], 0.0)


@pytest.mark.parametrize(("size_bytes", "seconds"), [(50e6, 2.0), (200e6, 16.0)])
def test_all_bytes_of_a_host_decide_between_its_burst_and_its_sustained_rate(size_bytes: float, seconds: float) -> None:
    # 200 Mbit/s until it is 100 MB ahead of 50.
    bursty = {"name": "bursty", "machine": "pm0", "egress_bps": 5e7, "peak_bps": 2e8, "burst_bytes": 100e6}
    cloud = network([bursty, {"name": "near", "machine": "pm0"}, "a", "b"], ingress_bps=1e9)
    flows = [("bursty", "a", size_bytes / 2), ("bursty", "b", size_bytes / 2), ("bursty", "near", 1e6)]
    bound_s, link = wss_bound(cloud, flows)
    assert link == "egress of bursty"
    assert bound_s == pytest.approx(seconds)
    rates_bps, paced_s = wss_rates(credited(cloud, flows), flows)
    assert paced_s == pytest.approx(seconds)
    assert rates_bps[0] == pytest.approx(4 * size_bytes / seconds)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (("vm0", "vm7", 1.0), "the network has no host `vm7`; did you mean `vm1`?"),
        (("vm0", "vm1", -1.0), "-1.0 bytes from `vm0` to `vm1`; use a number from 0 on"),
        (("vm0", "vm1", np.nan), "nan bytes from `vm0` to `vm1`; use a number from 0 on"),
    ],
)
def test_mistakes_are_one_line(flow: tuple[str, str, float], message: str) -> None:
    with pytest.raises(GavotteError) as caught:
        wss_rates(network(2, MBIT), [flow])
    assert str(caught.value) == message


def test_flows_over_the_slowest_link_are_distinguished() -> None:
    racks = [{"name": "rack0", "members": ["a", "b"], "up_bps": 4 * MBIT, "down_bps": 80 * MBIT}]
    cloud = network("abcd", egress_bps=8 * MBIT, ingress_bps=8 * MBIT, groups=racks, sharing="groups")
    flows = [("a", "c", 1e6), ("c", "d", 1e6), ("b", "d", 1e6), ("a", "b", 1e6), ("b", "c", 0.0)]
    assert slowest_flows(cloud, flows) == {0, 2}


def test_small_flows_end_before_the_others() -> None:
    cloud = network("abc", egress_bps=8 * MBIT, ingress_bps=80 * MBIT)
    flows = [("a", "b", 7.8e6), ("a", "c", 0.2e6), ("b", "c", 0.0)]
    rates_bps, bound_s = wss_rates(cloud, early(flows))
    assert bound_s == pytest.approx(8.8)
    assert rates_bps.sum() == pytest.approx(8 * MBIT)
    assert 8 * 0.2e6 / rates_bps[1] == pytest.approx(1.76)
    # Flows of similar sizes end together, at the bound.
    alike = [("a", "b", 2e6), ("a", "c", 1e6)]
    assert early(alike) == alike
