"""Weights from TCP's round trips: the full queues, there and back, decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import builders
from tests.builders import MB

from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.simulate import Conditions, Flows, rates, replay_placement, simulate, tcp_weights


def flows(*pairs: tuple[int, int], **columns: Any) -> Flows:
    source, target = np.array(pairs, dtype=np.uint32).reshape(-1, 2).T
    return Flows(source, target, np.full(len(pairs), MB), np.zeros(len(pairs)), **columns)


def topology() -> Topology:
    """a and b behind a narrow uplink, c and d at the core; c receives less than others could send."""
    return builders.topology(
        [
            {"name": "a", "switch": "tor", "egress": "20mbit"},
            {"name": "b", "switch": "tor", "egress": "3mbit"},
            {"name": "c", "machine": "pm", "egress": "30mbit", "ingress": "12mbit"},
            {"name": "d", "machine": "pm", "egress": "30mbit"},
        ],
        switches=["core", {"name": "tor", "up": "10mbit"}],
        machine=[{"name": "pm", "switch": "core", "rate": "1gbit", "machine_rate": "50mbit"}],
    )


def network(sharing: str) -> Network:
    groups = [
        {"name": "rack", "members": ["vm0", "vm1"], "up_bps": 6e6, "down_bps": 6e6},
        {"name": "row", "members": ["vm0", "vm1", "vm2"], "up_bps": 1e9, "down_bps": 1e9},
    ]
    return builders.network(5, 16e6, 0.0, egress_bps=8e6, groups=groups, sharing=sharing)


def test_equal_paths_have_equal_weights() -> None:
    assert tcp_weights(topology(), flows((2, 0), (2, 0), (2, 0))) == pytest.approx([1.0, 1.0, 1.0])


def test_who_passes_two_full_queues_gets_half() -> None:
    # From a to d through the full uplink; from b to d through b's full egress as well.
    weight = tcp_weights(topology(), flows((0, 3), (0, 3), (0, 3), (1, 3)), base_s=1e-9)
    assert weight[0] / weight[3] == pytest.approx(1.0)  # b's fair share of 2.5 Mbit/s leaves its egress unfilled
    weight = tcp_weights(topology(), flows((0, 3), (1, 3)), base_s=1e-9)
    assert weight[0] / weight[1] == pytest.approx(2.0, rel=1e-3)
    assert rates(topology(), flows((0, 3), (1, 3), weight=weight)) / 1e6 == pytest.approx([7.0, 3.0], rel=1e-3)


def test_a_longer_path_has_less() -> None:
    hosts = [{"name": name, "latency": latency} for name, latency in (("a", "1ms"), ("b", "51ms"), ("c", "0s"))]
    hosts[2]["ingress"] = "10mbit"
    # Round trips of 2 and 102 ms through empty queues, and the one full queue of 50 ms.
    weight = tcp_weights(builders.topology(hosts), flows((0, 2), (1, 2)))
    assert weight[0] / weight[1] == pytest.approx(152 / 52, rel=1e-3)


def test_acknowledgements_wait_too() -> None:
    # Both fill the egress of c; acknowledgements from a wait behind what a sends to its neighbour.
    both = flows((2, 0), (2, 1), (0, 1))
    weight = tcp_weights(topology(), both, base_s=1e-9)
    assert weight[1] / weight[0] == pytest.approx(2.0, rel=1e-3)


def test_inside_a_machine_only_the_path_counts() -> None:
    weight = tcp_weights(topology(), flows((2, 3), (2, 0)), base_s=1e-9)
    assert weight == pytest.approx([1.0, 1.0])


def test_own_weights_multiply() -> None:
    weight = tcp_weights(topology(), flows((2, 0), (2, 0), weight=np.array([1.0, 3.0])))
    assert weight == pytest.approx([1.0, 3.0])


@pytest.mark.parametrize(("sharing", "ratio"), [("pipe", 1.0), ("hose", 1.0), ("groups", 2.0)])
def test_a_network_shares_what_it_says(sharing: str, ratio: float) -> None:
    # The egress of vm2 is full; the rack's link is full only if groups count.
    weight = tcp_weights(network(sharing), flows((2, 4), (2, 0), (3, 0)), base_s=1e-9)
    assert weight[0] / weight[1] == pytest.approx(ratio, rel=1e-3)


def test_more_queue_matters_more_than_the_way() -> None:
    pair = flows((0, 3), (1, 3))
    spread = [np.ptp(tcp_weights(topology(), pair, queue_s=0.01, base_s=base_s)) for base_s in (0.001, 0.1)]
    assert spread[0] > 5 * spread[1]


def test_no_flows_and_bad_flows() -> None:
    assert len(tcp_weights(topology(), flows())) == 0
    assert tcp_weights(topology(), flows((0, 0), (2, 0))).shape == (2,)
    with pytest.raises(GavotteError, match="flow 0"):
        tcp_weights(topology(), flows((0, 9)))


def test_the_simulator_takes_them() -> None:
    late = flows((2, 0), (2, 1), (0, 1))
    equal, tcp = (simulate(topology(), late, Conditions(tcp=tcp)).finish_s for tcp in (False, True))
    # The link to a and b is shared 1 to 2, so b's flow ends first; the other then has the link alone.
    assert equal[:2] == pytest.approx([1.6, 1.6])
    assert tcp[:2] == pytest.approx([1.6, 1.2], rel=0.01)


def test_phases_are_weighed_apart() -> None:
    app = builders.app("one", ("a", "d", MB), ("b", "d", MB, 1))
    placed = builders.placement({name: name for name in "abd"}, "one")
    done = replay_placement(topology(), [app], placed, Conditions(tcp=True))
    assert done.flows.weight is not None
    assert done.flows.weight == pytest.approx([1.0, 1.0, 1.0])
    assert done.completion_s == pytest.approx(0.8 + 8 / 3)
