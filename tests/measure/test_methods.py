"""How answers are read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.agents import agent_pb2 as pb
from gavotte.measure import METHODS, alpha_beta, bulk, jain_index
from gavotte.measure.methods import PINGPONG_BYTES


@given(alpha=st.floats(1e-6, 1e-2), beta=st.floats(1e5, 1e10))
def test_a_true_line_is_found(alpha: float, beta: float) -> None:
    times = [alpha + size / beta for size in PINGPONG_BYTES]
    found_alpha, found_beta, residual = alpha_beta(PINGPONG_BYTES, times)
    assert found_alpha == pytest.approx(alpha, rel=1e-3)
    assert found_beta == pytest.approx(beta, rel=1e-3)
    assert residual < 1e-6


def test_jain() -> None:
    assert jain_index([5.0, 5.0, 5.0]) == pytest.approx(1.0)
    assert jain_index([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert math.isnan(jain_index([0.0]))


def test_pingpong_reads_latency_from_one_byte_and_bandwidth_from_the_largest() -> None:
    sizes = [pb.SizeTimes(bytes=size, seconds=[1e-4 + size / 1e7]) for size in PINGPONG_BYTES]
    reading = METHODS["pingpong"].read(pb.ProbeReply(ping_pong=pb.PingPongResult(sizes=sizes)))
    assert reading.alpha_s == pytest.approx(1e-4, rel=0.01)
    assert reading.goodput_bps == pytest.approx(8e7, rel=0.001)
    cut = METHODS["pingpong"].read(pb.ProbeReply(ping_pong=pb.PingPongResult(sizes=sizes[:2])))
    assert cut.refusal


def test_parallel_flows_have_a_fairness() -> None:
    flows = [pb.FlowResult(bytes=100, seconds=1.0), pb.FlowResult(bytes=300, seconds=1.0)]
    method = bulk(flows=2)
    assert method.probe.bulk.flows == 2
    reading = method.read(pb.ProbeReply(bulk=pb.BulkResult(goodput_bps=3200, flows=flows)))
    assert reading.jain == pytest.approx(0.8)
