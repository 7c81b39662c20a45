"""The front door of the simulator: nouns and arrays in, finish times out, one clear line if there are none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.builders import MB, MBIT

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.place import evaluate
from gavotte.simulate import Background, Conditions, Flows, rates, read_flows, simulate, write_finish
from gavotte.simulate.lossy import path_loss
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.loss import connection_bps


def topology(**fields: Any) -> Topology:
    """Hosts a and b share machine pm0, c and d are alone in another rack; 8 Mbit/s, uplinks too."""
    return builders.topology(
        [
            {"name": "a", "machine": "pm0", "egress": "2mbit"},
            {"name": "b", "machine": "pm0"},
            {"name": "c", "switch": "tor1", "rate": "8mbit"},
            {"name": "d", "switch": "tor1", "rate": "8mbit", "ingress": "1mbit"},
        ],
        switches=["core", {"name": "tor0", "up": "8mbit"}, {"name": "tor1", "up": "8mbit", "down": "4mbit"}],
        machine=[{"name": "pm0", "switch": "tor0", "rate": "8mbit", "machine_rate": "16mbit"}],
        **fields,
    )


def network(size: int, *, sharing: str = "hose", egress_bps: float = 8 * MBIT, latency_s: float = 0.0) -> Network:
    """Equal hosts; pairs are faster than hosts."""
    return builders.network(size, 16 * MBIT, latency_s, sharing=sharing, egress_bps=egress_bps)


def flows(*rows: tuple[int, int, int, float], **columns: Any) -> Flows:
    """Rows of source, target, bytes and start."""
    source, target, size, start = zip(*rows, strict=True)
    return Flows(np.array(source), np.array(target), np.array(size), np.array(start), **columns)


@pytest.mark.parametrize(
    ("pair", "mbit"),
    [((0, 1), 16), ((0, 2), 2), ((1, 2), 4), ((2, 1), 8), ((2, 3), 1), ((1, 3), 1), ((3, 3), math.inf)],
)
def test_the_slowest_link_on_the_way_counts(pair: tuple[int, int], mbit: float) -> None:
    assert rates(topology(), flows((*pair, 1, 0.0)))[0] == pytest.approx(mbit * MBIT)


def test_links_are_named_with_what_they_carried() -> None:
    done = simulate(topology(), flows((1, 2, MB, 0.0), (2, 2, MB, 1.5)))
    assert done.finish_s.tolist() == [2.0, 1.5]
    bottleneck = done.links[done.bottleneck[0]]
    assert bottleneck.name == "link from core down to tor1"
    assert (bottleneck.bytes, bottleneck.rate_bps) == (MB, 4 * MBIT)
    assert (bottleneck.busy_s, bottleneck.utilisation) == (2.0, 1.0)
    assert done.bottleneck[1] == -1
    assert done.end_s == 2.0


def test_payload_is_less_than_the_wire_carries() -> None:
    wire = simulate(topology(), flows((1, 2, MB, 0.0)))
    tcp = simulate(topology(), flows((1, 2, MB, 0.0)), Conditions(payload_share=GOODPUT_PER_WIRE))
    assert tcp.finish_s[0] == pytest.approx(wire.finish_s[0] / GOODPUT_PER_WIRE)


def test_a_flow_takes_one_of_several_uplinks_and_many_take_all() -> None:
    switches: list[builders.Named] = ["core", {"name": "tor", "up": "8mbit", "uplinks": 4}]
    fabric = builders.topology([{"name": "a", "switch": "tor"}, "b"], switches=switches)
    assert rates(fabric, flows((0, 1, 1, 0.0))).tolist() == [8 * MBIT]
    assert rates(fabric, flows(*[(0, 1, 1, 0.0)] * 64)).sum() == pytest.approx(32 * MBIT)
    # Two flows may meet on one link while others are idle: the seed decides.
    sums = {rates(fabric, flows(*[(0, 1, 1, 0.0)] * 2), seed=seed).sum() for seed in range(16)}
    assert sums == {8 * MBIT, 16 * MBIT}


def test_flows_share_by_weight_up_to_their_caps() -> None:
    three = flows(
        (0, 1, 1, 0),
        (0, 1, 1, 0),
        (0, 2, 1, 0),
        weight=np.array([1.0, 2.0, 5.0]),
        cap_bps=[math.inf, math.inf, 2 * MBIT],
    )
    assert rates(network(3), three) / MBIT == pytest.approx([2.0, 4.0, 2.0])


def test_phases_and_edges_order_flows() -> None:
    three = flows((0, 1, MB, 0.0), (1, 2, 2 * MB, 0.0), (2, 0, MB, 0.0))
    lag = network(3, latency_s=0.5)
    assert simulate(lag, three, phase=[0, 0, 1]).finish_s.tolist() == [1.5, 2.5, 4.0]
    assert simulate(lag, three, edges=[(0, 2)]).finish_s.tolist() == [1.5, 2.5, 3.0]
    with pytest.raises(GavotteError, match="waits for itself"):
        simulate(lag, three, edges=[(0, 2), (2, 0)])
    with pytest.raises(GavotteError, match="one of them"):
        simulate(lag, three, edges=[(0, 2)], phase=[0, 0, 1])


def test_background_depends_on_the_seed_alone() -> None:
    others = [Background(0, 2, poisson=(5.0, 1e5)), Background(0, 1, on_off=(0.2, 0.3), cap_bps=MBIT)]
    one, same, other = (
        simulate(network(3), flows((0, 1, 10 * MB, 0.0)), Conditions(background=others, seed=seed)).finish_s[0]
        for seed in (1, 1, 2)
    )
    assert one == same != other
    with pytest.raises(GavotteError, match="either `poisson` or `on_off`"):
        simulate(network(3), flows((0, 1, MB, 0.0)), Conditions(background=[Background(0, 1)]))


def test_an_early_end_leaves_flows_unfinished() -> None:
    done = simulate(network(2), flows((0, 1, MB, 0.0), (0, 1, 9 * MB, 1.5)), Conditions(until_s=2.0))
    assert done.finish_s[0] == 1.0
    assert math.isnan(done.finish_s[1])
    assert done.end_s == 2.0
    assert done.links[0].bytes == pytest.approx(1.5 * MB)


def test_columns_of_the_right_type_are_not_copied() -> None:
    source, target = np.zeros(3, np.uint32), np.ones(3, np.uint32)
    size, start = np.full(3, MB, np.uint64), np.zeros(3)
    three = Flows(source, target, size, start)
    assert three.source is source
    assert three.bytes is size
    assert three.start_s is start
    assert simulate(network(2), three).finish_s.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("bad", [np.array([-1]), np.array([1.5]), np.array([2.0**40])])
def test_numbers_that_a_cast_would_change_are_refused(bad: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ValueError, match="`source` must hold whole numbers"):
        Flows(bad, np.array([0]), np.array([1]), np.array([0.0]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"weight": [0.0]}, "the weight of flow 0 is 0; it must be from 0.001 to 1000"),
        ({"weight": [1.0, 1.0]}, "the column `weight` has 2 entries, but 1 are needed"),
        ({"cap_bps": [-1.0]}, "cap_bps of flow 0 is -1; it must be above zero bit/s (infinity means no cap)"),
    ],
)
def test_a_mistake_is_one_line(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(GavotteError) as caught:
        simulate(network(2), flows((0, 1, 1, 0.0), **columns))
    assert str(caught.value) == message


def test_flow_lists_and_finish_times_are_files(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text("id,src,dst,bytes,start_s\nx,vm0,1,1000000,0.5\ny,1,vm0,2000000,0\n")
    traffic = read_flows(path, ["vm0", "vm1"])
    done = simulate(network(2), traffic)
    write_finish(tmp_path / "finish.csv", traffic.names, done.finish_s)
    assert (tmp_path / "finish.csv").read_text() == "id,finish_s\nx,1.5\ny,2\n"
    path.write_text("id,source,target,bytes,start_s\nx,vm0,vm2,1,0\n")
    with pytest.raises(FormatError) as caught:
        read_flows(path, ["vm0", "vm1"])
    expected = "line 2: target: no host `vm2`; did you mean `vm1`?"
    assert str(caught.value) == f"{path}: {expected}"
    with pytest.raises(FormatError, match="no such file"):
        read_flows(tmp_path / "none.csv", [])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 10 * MB)), min_size=1, max_size=12))
def test_no_run_is_shorter_than_the_completion_time(rows: list[tuple[int, int, int]]) -> None:
    hosts = network(4)
    app = builders.app(
        "all", *((f"t{s}", f"t{t}", size) for s, t, size in rows), tasks=[f"t{i}" for i in range(4)], cpus=0
    )
    placed = evaluate(hosts, [app], {f"t{i}": f"vm{i}" for i in range(4)})
    done = simulate(hosts, flows(*((s, t, size, 0.0) for s, t, size in rows)))
    assert done.end_s >= placed.completion_s * (1 - 1e-9)


def test_a_flow_over_a_lossy_path_gets_what_one_connection_does() -> None:
    losses = {"a": 0.005, "b": 0.005, "c": 0.0}
    hosts = [{"name": name, "loss": loss, "rate": "100mbit", "latency": "5ms"} for name, loss in losses.items()]
    lossy = builders.topology(hosts)
    done = simulate(lossy, flows((0, 1, 10 * MB, 0.0), (2, 1, 10 * MB, 0.0)))
    loss, half = 1 - 0.995**2, 0.005
    expected_s = [0.01 + 80 * MBIT / connection_bps(each, 0.02, 1448) for each in (loss, half)]
    assert done.finish_s == pytest.approx(expected_s)
    assert path_loss(lossy, 0, 1) == pytest.approx(loss)
    assert path_loss(lossy, 0, 0) == 0.0


def test_losses_of_switches_count_on_the_way_through_their_links() -> None:
    tree: list[builders.Named] = ["core", {"name": "tor0", "loss": 0.01}, {"name": "tor1", "loss": 0.02}]
    hosts: list[builders.Named] = [
        {"name": "a", "switch": "tor0"},
        {"name": "b", "switch": "tor0"},
        {"name": "c", "switch": "tor1", "loss": 0.1},
    ]
    made = builders.topology(hosts, switches=tree)
    assert path_loss(made, 0, 1) == 0.0
    assert path_loss(made, 0, 2) == pytest.approx(1 - 0.99 * 0.98 * 0.9)
