"""How answers are read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.played import inventory
from typer.testing import CliRunner

from gavotte.agents import agent_pb2 as pb
from gavotte.cli.verbs import app
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.inventory import write_inventory
from gavotte.measure import METHODS, alpha_beta, bulk, choreo, jain_index
from gavotte.measure.calibrate import (
    BURSTS,
    PACKETS,
    PAYLOADS,
    CalibrationQuestion,
    best_of,
    calibrate,
    calibrated,
    plan_calibration,
    trains_of,
)
from gavotte.measure.plan.methods.pingpong import PINGPONG_BYTES


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
    # Until the answer of one byte is back: one more latency.
    sizes = [pb.SizeTimes(bytes=size, seconds=[2e-4 + (size - 1) / 1e7]) for size in PINGPONG_BYTES]
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


def test_bytes_that_a_lost_packet_held_back_do_not_raise_a_far_rate() -> None:
    # Round trips of 150 ms at 30 Mbit/s. The first window has what a loss before it held back.
    bins = [500_000] + [37_500] * 104
    flow = pb.FlowResult(bytes=sum(bins), seconds=1.05, bin_bytes=bins)
    result = pb.BulkResult(goodput_bps=8 * sum(bins) / 1.05, flows=[flow])
    rates_bps = [bulk().read(pb.ProbeReply(rtt_s=rtt_s, bulk=result)).goodput_bps for rtt_s in (0.15, 0.0002)]
    assert rates_bps == pytest.approx([30e6, result.goodput_bps])


def test_tcp_leaves_out_its_start_with_and_without_a_limit_of_bytes() -> None:
    assert all(bulk(max_bytes=most).probe.bulk.settled for most in (0, 1_000_000))


def test_choreo_trains_take_any_shape_that_agents_take() -> None:
    method = choreo(bursts=20, packets=2000)
    assert (method.probe.burst_train.bursts, method.probe.burst_train.packets) == (20, 2000)
    assert method.bytes_per_path == 20 * 2000 * 1472
    for shape in ({"bursts": 0}, {"packets": 1}, {"bursts": 1000, "packets": 2000}, {"payload_bytes": 3}):
        with pytest.raises(GavotteError, match="a train cannot have"):
            choreo(**shape)


@pytest.mark.parametrize("rate_bps", [19e6, 38e6, 191e6])
def test_what_a_slow_path_loses_takes_no_time(rate_bps: float) -> None:
    # In labs 0.100 to 0.108 s, for any path (`make bench-dry-run`); the estimate was 0.145.
    assert choreo().typical(rate_bps)[1] == pytest.approx(0.102, rel=0.15)


def test_a_calibration_says_how_to_measure(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"trains": [], "best": {"bursts": 20, "packets": 500, "payload_bytes": 1200}}')
    assert calibrated(file).probe.burst_train == choreo(bursts=20, packets=500, payload_bytes=1200).probe.burst_train
    file.write_text('[{"bursts": 20, "packets": 500}]')
    with pytest.raises(FormatError, match="is no calibration; use a file that `gavotte measure calibrate -o"):
        calibrated(file)
    file.write_text('{"best": null}')
    with pytest.raises(FormatError, match="no train answered"):
        calibrated(file)
    file.write_text('{"best": {"bursts": -1, "packets": 500}}')
    with pytest.raises(FormatError, match=r"c\.json: best: a train cannot have -1 bursts"):
        calibrated(file)


def test_calibration_refuses_what_measuring_refuses() -> None:
    with pytest.raises(GavotteError, match="a train cannot have 1000 bursts of 20000 packets"):
        calibrate(plan_calibration(CalibrationQuestion(inventory("ab"), bursts=[1000], packets=[20_000])))


def test_a_train_that_answered_on_one_path_of_six_is_not_the_best() -> None:
    seldom, always = ((10, 50, 1472), [0.01]), ((20, 50, 1472), [0.05] * 6)
    assert best_of(trains_of(dict([seldom, always]))) == trains_of(dict([always]))[0]
    assert best_of(trains_of({(10, 50, 1472): []})) is None


def test_the_grid_is_that_of_the_papers_figure() -> None:
    assert (BURSTS, max(PACKETS), PAYLOADS) == ((10, 20, 50), 4000, (1472,))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--bursts", "20"], "only choreo has bursts"),
        (["--method", "choreo", "--calibration", "c.json", "--packets", "9"], "--calibration has bursts and packets"),
        (["--method", "choreo", "--bursts", "1000", "--packets", "2000"], "a train cannot have 1000 bursts"),
    ],
)
def test_shapes_that_make_no_sense(tmp_path: Path, more: list[str], message: str) -> None:
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, inventory(["a", "b"]))
    refused = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "--dry-run", *more])
    assert isinstance(refused.exception, GavotteError)
    assert message in str(refused.exception)
