"""Plans of broadcasts: priced by hosts' caps and groups, with a bound that no mechanism can beat."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders

from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.transfer.planning import MECHANISMS, far_apart, far_block_bytes, nothing_known, plan_broadcast

MB = 1_000_000


def star(uplinks: list[float], **fields: Any) -> Network:
    hosts = [{"name": f"h{i}", "egress_bps": rate, "ingress_bps": 100e6} for i, rate in enumerate(uplinks)]
    return builders.network(hosts, **fields)


def names(network: Network) -> list[str]:
    return network.names[1:]


def test_equal_hosts_make_a_chain_at_the_rate_of_one_port() -> None:
    network = star([100e6] * 21)
    plan = plan_broadcast(network, "h0", names(network), 50 * MB)
    assert plan.mechanism == "chain"
    assert plan.bound_s == pytest.approx(4.0)
    assert plan.predicted_s == pytest.approx(4.0, rel=0.02)
    assert plan.prices["tree"] == pytest.approx(8.0, rel=0.05)
    assert plan.port.startswith(("out of h0", "into "))


def test_a_slow_uplink_comes_last_in_the_chain() -> None:
    network = star([100e6, 25e6, 100e6, 100e6])
    plan = plan_broadcast(network, "h0", names(network), 50 * MB)
    assert plan.mechanism == "chain"
    assert plan.predicted_s == pytest.approx(4.0, rel=0.02)


def test_mixed_uplinks_share_the_work_in_proportion() -> None:
    network = star([50e6, 20e6, 50e6, 20e6, 30e6, 20e6])
    plan = plan_broadcast(network, "h0", names(network), 10 * MB)
    assert plan.mechanism == "packing"
    assert plan.prices["mesh"] == pytest.approx(1.08 * 5 * 80e6 / 190e6, rel=0.02)
    # Kumar and Ross: five copies by uplinks of 190 Mbit/s in all.
    assert plan.bound_s == pytest.approx(5 * 80e6 / 190e6)
    assert plan.port == "all uplinks together"


@pytest.mark.parametrize(
    ("size_bytes", "mechanism", "seconds"),
    # 1 GB takes 380 s at 20 Mbit/s after a credit of 50 MB. Three copies share all uplinks.
    [(50 * MB, "chain", 4.0), (1000 * MB, "packing", 3 * 8000 / (100 + 3 * 8000 / 380))],
)
def test_the_size_decides_between_burst_and_sustained_rate(size_bytes: int, mechanism: str, seconds: float) -> None:
    credit = {"egress_bps": 20e6, "ingress_bps": 100e6, "peak_bps": 100e6, "burst_bytes": 50 * MB}
    hosts = [{"name": "h0", "egress_bps": 100e6}, *({"name": f"h{i}", **credit} for i in range(1, 4))]
    network = builders.network(hosts)
    plan = plan_broadcast(network, "h0", names(network), size_bytes)
    assert plan.mechanism == mechanism
    assert plan.bound_s == pytest.approx(seconds)


@pytest.mark.parametrize(("receivers", "chosen"), [(20, "packing"), (50, "packing"), (200, "chain")])
def test_many_flows_are_for_few_receivers(receivers: int, chosen: str) -> None:
    # A chain takes 1.5 times what uplinks of 30 on average could, a mesh of 50 receivers 2.6 times.
    network = star([30e6] + [20e6, 40e6] * (receivers // 2))
    plan = plan_broadcast(network, "h0", names(network), 100 * MB)
    assert plan.mechanism == chosen
    if receivers > 64:
        with pytest.raises(GavotteError, match="a mesh of 200 receivers has too many connections"):
            plan_broadcast(network, "h0", names(network), 100 * MB, mechanism="mesh")


def test_each_rack_is_entered_once() -> None:
    hosts = [{"name": f"h{i}", "egress_bps": 100e6, "ingress_bps": 100e6} for i in range(9)]
    # Racks that do not contain neighbours in the list.
    groups = [
        {"name": f"rack{r}", "members": [f"h{i}" for i in range(9) if i % 3 == r], "up_bps": 50e6, "down_bps": 50e6}
        for r in range(3)
    ]
    network = builders.network(hosts, groups=groups, sharing="groups")
    plan = plan_broadcast(network, "h0", names(network), 10 * MB, mechanism="chain")
    assert plan.bound_s == pytest.approx(1.6)
    assert plan.predicted_s == pytest.approx(1.6, rel=0.03)


def test_a_neighbour_on_the_same_machine_is_no_uplink() -> None:
    hosts = [{"name": "a", "machine": "m"}, {"name": "b", "machine": "m"}, {"name": "c"}, {"name": "d"}]
    rates = [[None, 10e9, 1e8, 1e8], [10e9, None, 1e8, 1e8], [1e8, 1e8, None, 1e8], [1e8, 1e8, 1e8, None]]
    plan = plan_broadcast(builders.network(hosts, rates), "a", ["b", "c", "d"], 10 * MB)
    assert plan.bound_s is not None
    assert plan.bound_s >= 0.4
    assert plan.predicted_s is not None
    assert plan.predicted_s >= plan.bound_s


@given(st.lists(st.floats(1e6, 1e9), min_size=2, max_size=12), st.integers(1, 10**9))
def test_no_price_is_below_the_bound(uplinks: list[float], size_bytes: int) -> None:
    network = star(uplinks)
    for mechanism in MECHANISMS:
        plan = plan_broadcast(network, "h0", names(network), size_bytes, mechanism=mechanism)
        assert plan.predicted_s is not None
        assert plan.bound_s is not None
        assert plan.predicted_s >= plan.bound_s * (1 - 1e-9)


def test_a_mesh_has_the_latencies_of_two_hops_and_a_chain_those_of_all() -> None:
    uplinks = [60e6, 40e6, 50e6, 50e6]
    one_way_s = [[0.0 if m == n else 0.075 for n in range(4)] for m in range(4)]
    near, far = star(uplinks), star(uplinks, latency_s=one_way_s)
    plans = [plan_broadcast(network, "h0", names(network), 6 * MB) for network in (near, far)]
    added_s = {name: plans[1].prices[name] - plans[0].prices[name] for name in ("mesh", "chain", "binomial")}
    assert added_s == pytest.approx({"mesh": 0.15, "chain": 0.225, "binomial": 0.15}, abs=0.01)
    assert [far_apart(network, network.names) for network in (near, far)] == [False, True]
    # A far host passes on whole blocks of one first window.
    assert [plan.piece_bytes > far_block_bytes(far, far.names) for plan in plans] == [True, False]


@pytest.mark.parametrize(
    ("mtu_bytes", "ipv6", "payload_bytes"), [(1450, False, 1398), (1500, True, 1428), (1280, True, 1208)]
)
def test_a_block_between_far_hosts_and_its_headers_fill_ten_packets(
    mtu_bytes: int, ipv6: bool, payload_bytes: int
) -> None:
    hosts = [{"name": name, "ipv6": ipv6} for name in "abc"]
    network = builders.network(hosts, mtu_bytes=[[None, 1500, 1500], [1500, None, mtu_bytes], [9000, 1500, None]])
    assert 0.98 * 10 * payload_bytes < far_block_bytes(network, "bc") + 12 <= 10 * payload_bytes
    # Other pairs do not count.
    assert far_block_bytes(network, "ab") == 10 * (1428 if ipv6 else 1448) - 144


def test_what_is_not_known_is_not_priced() -> None:
    plan = plan_broadcast(nothing_known(["a", "b"]), "a", ["b"], MB)
    assert (plan.bound_s, plan.predicted_s, plan.prices) == (None, None, {})


def test_a_probe_of_a_moment_gives_an_estimate_and_no_bound() -> None:
    network = star([80e6, 80e6])
    known, probed = (plan_broadcast(network, "h0", ["h1"], 10 * MB, probed=probed) for probed in (False, True))
    assert [known.bound_s, probed.estimate_s] == [pytest.approx(1.0)] * 2
    assert [known.estimate_s, probed.bound_s] == [None, None]
    assert (probed.mechanism, probed.predicted_s) == (known.mechanism, known.predicted_s)
    assert known.ratio(2.0) == pytest.approx(2.0)
    assert probed.ratio(2.0) is None


def test_nonsense_is_refused() -> None:
    with pytest.raises(GavotteError, match="`q` is not a host"):
        plan_broadcast(star([1e6, 1e6]), "q", ["h1"], MB)
    with pytest.raises(GavotteError, match="named twice"):
        plan_broadcast(star([1e6, 1e6]), "h0", ["h1", "h1"], MB)
    with pytest.raises(GavotteError, match="no mechanism"):
        plan_broadcast(star([1e6, 1e6]), "h0", ["h1"], MB, mechanism="pigeon")  # type: ignore[arg-type]
