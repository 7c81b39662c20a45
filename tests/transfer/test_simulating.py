"""Coflow traces under policies, from Python: files, both formats, a Network, and the synthetic hour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import MBIT, network
from tests.examples import examples

from gavotte.errors import FormatError, GavotteError
from gavotte.transfer import (
    POLICIES,
    Coflow,
    order_rates,
    read_trace,
    simulate_transfers,
    synthetic_trace,
    write_completions,
    write_trace,
)

TABLE = """coflow,arrival_s,source,target,bytes,class,weight
big,0,a,b,3000000,1,1
big,0,c,b,3000000,1,1
small,1,a,b,1000000,0,4
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # Only the ingress of b, 1 MB a second, limits.
        ("fair", [7.0, 3.0]),
        ("fifo", [6.0, 6.0]),
        ("sebf", [7.0, 1.0]),
        ("scf", [7.0, 1.0]),
        ("bssi", [7.0, 1.0]),
        ("priority", [7.0, 1 / 0.95]),
        ("weighted", [7.0, 1.25]),
    ],
)
def test_one_port_by_hand(table: Path, policy: str, expected: list[float]) -> None:
    done = simulate_transfers(read_trace(table), policy, port_bps=8 * MBIT)
    assert done.completion_s == pytest.approx(expected)
    assert done.alone_s == pytest.approx([6.0, 1.0])
    assert (done.average_s, done.max_s) == pytest.approx((sum(expected) / 2, max(expected)))
    assert done.to_records()[1]["finish_s"] == pytest.approx(1 + expected[1])


def test_the_links_of_a_network_count(table: Path) -> None:
    racks = [{"name": "rack0", "members": ["a", "c"], "up_bps": 4 * MBIT}]
    cloud = network(["c", "b", "a"], egress_bps=8 * MBIT, groups=racks, sharing="groups")
    trace = read_trace(table)
    assert simulate_transfers(trace, "fifo", network=cloud).completion_s == pytest.approx([12.0, 13.0])
    with pytest.raises(GavotteError, match=r"trace.csv: port `c` is not a host of the Network; name ports after"):
        simulate_transfers(trace, "fifo", network=network("ab", MBIT))
    with pytest.raises(GavotteError, match="give one of them"):
        simulate_transfers(trace, "fifo", network=cloud, port_bps=1.0)


def test_mistakes_are_one_line(table: Path, tmp_path: Path) -> None:
    trace = read_trace(table)
    with pytest.raises(GavotteError, match="there is no policy `lifo`; use one of fair, weighted"):
        simulate_transfers(trace, "lifo")
    with pytest.raises(GavotteError, match=r"-1 bit/s is not a rate of a port"):
        simulate_transfers(trace, "fair", port_bps=-1)
    with pytest.raises(GavotteError, match="the step -1 s is out of range"):
        simulate_transfers(trace, "fair", step_s=-1)
    with pytest.raises(FormatError, match=r"none.csv: no such file"):
        read_trace(tmp_path / "none.csv")
    table.write_text(TABLE + "big,0,a,b,much,1,1\n")
    with pytest.raises(FormatError, match=r"trace.csv: line 5: bytes: `much` does not fit; write a number of bytes"):
        read_trace(table)


def test_what_is_written_is_read_again(table: Path, tmp_path: Path) -> None:
    trace = read_trace(table)
    write_trace(tmp_path / "copy.csv", trace)
    copy = read_trace(tmp_path / "copy.csv")
    assert (copy.names, copy.ports, copy.flow_count, copy.bytes) == (trace.names, trace.ports, 3, 7e6)
    assert list(copy.classes) == [1, 0]
    done = simulate_transfers(trace, "fifo", port_bps=8 * MBIT)
    write_completions(tmp_path / "finish.csv", done)
    lines = (tmp_path / "finish.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["coflow", "big", "small"]
    assert [float(cell) for cell in lines[2].split(",")[1:]] == pytest.approx([7.0, 6.0])


def test_a_public_trace(tmp_path: Path) -> None:
    path = tmp_path / "public.txt"
    path.write_text("150 2\n1 0 2 0 1 1 149:250.0\n2 500 1 0 1 148:125.0\n")
    trace = read_trace(path)
    assert (len(trace), len(trace.ports), trace.flow_count) == (2, 150, 3)
    assert simulate_transfers(trace, "fifo").completion_s == pytest.approx([2.0, 1.75])


def test_a_trace_without_coflows(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("coflow,arrival_s,source,target,bytes\n")
    done = simulate_transfers(read_trace(path), "sebf")
    assert (done.average_s, done.p95_s, done.max_s, done.to_records()) == (0.0, 0.0, 0.0, [])


def test_the_synthetic_hour_has_the_public_ones_shape() -> None:
    for seed in range(3):
        trace = synthetic_trace(seed)
        coflow, source, target, size = trace.core.flows()
        width = np.bincount(coflow)
        longest = np.zeros(526)
        np.maximum.at(longest, coflow, size)
        short, narrow = longest < 5e6, width <= 50
        kinds = [int((a & b).sum()) for b in (narrow, ~narrow) for a in (short, ~short)]
        # Rounding to whole megabytes and whole ports moves some over the line.
        assert np.allclose(kinds, [309, 90, 59, 68], atol=30), kinds
        assert (len(width), len(trace.ports), int(max(source.max(), target.max()))) == (526, 150, 149)
        assert 650_000 < trace.flow_count < 750_000
        assert 20_000 < width.max() <= 22_500
        assert 25e12 < trace.bytes < 50e12
        assert 5 <= np.median(width) <= 20
        assert np.all(np.diff(trace.arrival_s) >= 0)
    assert synthetic_trace(1, share=0.1).bytes == synthetic_trace(1, share=0.1).bytes


@pytest.mark.slow
def test_orders_matter_as_on_the_public_hour() -> None:
    trace = synthetic_trace(1, share=0.2)
    done = {name: simulate_transfers(trace, name) for name in POLICIES}
    for each in done.values():
        assert np.all(each.completion_s >= each.alone_s * (1 - 1e-9))
    average_s = {name: each.average_s for name, each in done.items()}
    assert max(average_s["sebf"], average_s["bssi"]) < average_s["d-clas"] < average_s["fair"] < average_s["fifo"]


def test_a_step_changes_little() -> None:
    trace = synthetic_trace(0, share=0.05)
    exact, stepped = (simulate_transfers(trace, "fair", step_s=step_s).average_s for step_s in (0.0, 2.0))
    assert exact <= stepped * (1 + 1e-9)
    assert stepped <= exact + 2.0


def test_a_controller_asks_the_same_code() -> None:
    cloud = network("abc", egress_bps=8 * MBIT, ingress_bps=8 * MBIT)
    big = Coflow(0.0, [("a", "b", 3e6), ("c", "b", 3e6)], class_=1)
    small = Coflow(1.0, [("a", "b", 1e6), ("a", "a", 5.0)])
    message = order_rates(cloud, "sebf", [big, small])
    assert [list(rates) for rates in message.rates_bps] == [[0.0, 0.0], [8e6, np.inf]]
    assert message.again_s == np.inf
    message = order_rates(cloud, "d-clas", [big, small])
    assert message.again_s == pytest.approx(10.0)
    assert order_rates(cloud, "fair", []).rates_bps == []
    with pytest.raises(GavotteError, match="the network has no host `z`"):
        order_rates(cloud, "fair", [Coflow(0.0, [("a", "z", 1.0)])])
    with pytest.raises(GavotteError, match="a weight is above 0"):
        order_rates(cloud, "fair", [Coflow(0.0, [], weight=0.0)])


@examples(200)
@given(st.one_of(st.binary(max_size=200), st.text("0123456789:., \nabcoflw", max_size=200).map(str.encode)))
def test_any_bytes_are_read_or_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "any.csv"
    for start in (b"", b"coflow,arrival_s,source,target,bytes\n", b"3 1\n"):
        path.write_bytes(start + text)
        try:
            trace = read_trace(path)
        except FormatError as error:
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
        else:
            assert trace.flow_count >= 0


@pytest.mark.parametrize("policy", POLICIES)
def test_what_has_ended_holds_nothing_back_though_it_is_still_there(policy: str) -> None:
    cloud = network("abc", egress_bps=8e6, ingress_bps=8e6)
    left = Coflow(1.0, [("a", "b", 1e6), ("a", "c", 0.0), ("b", "c", 1e6)], sent_bytes=5e6)
    ended = Coflow(0.0, [("a", "b", 0.0), ("b", "c", 0.0)], sent_bytes=5e6)
    of_ended, of_left = order_rates(cloud, policy, [ended, left]).rates_bps
    assert of_ended.tolist() == [0.0, 0.0]
    assert of_left.tolist() == pytest.approx([8e6, 0.0, 8e6])
