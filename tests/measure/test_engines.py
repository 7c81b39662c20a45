"""A second opinion on bulk rates, and other results of a bulk probe."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.measure import MeasureQuestion, bulk, carry_out, measure, plan_measurement

needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="no iperf3 here")


@pytest.mark.lab
@needs_iperf3
def test_iperf3_agrees(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    ends = inventory.model_copy(update={"host": [inventory.host[0], inventory.host[2]]})
    own = carry_out(plan_measurement(MeasureQuestion(ends, method=bulk(seconds=3), again=False)))
    # A path without a rate is measured again: on a busy machine iperf3's server was seen to hang up on its client.
    other = measure(ends, method=bulk(seconds=3, engine="iperf3"))
    assert not own.failures
    assert not other.failures
    # Host a has 100 Mbit/s.
    assert other.newest[0, 1].reading.goodput_bps == pytest.approx(own.newest[0, 1].reading.goodput_bps, rel=0.1)
    flow = other.newest[0, 1].flows[0]
    assert flow.congestion == "cubic"
    assert flow.rtt_s > 0
    assert 0 <= other.newest[0, 1].sender_cpu <= 1
    assert other.bytes_sent > 20_000_000


@pytest.mark.lab
@needs_iperf3
def test_iperf3_flows(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    result = carry_out(
        plan_measurement(MeasureQuestion(inventory, method=bulk(seconds=1, flows=3, engine="iperf3"), again=False))
    )
    assert not result.failures
    assert all(len(path.flows) == 3 for path in result.newest.values())


@pytest.mark.lab
def test_json_tells_of_cores_and_flows(small_cloud: lab.Session) -> None:
    hosts = small_cloud.hosts_file
    result = gavotte("measure", "--hosts", hosts, "--method", "bulk", "--flows", "2", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert len(report["flows"]) == 6
    for path in report["flows"]:
        assert len(path["flows"]) == 2
        for flow in path["flows"]:
            assert flow["cwnd_bytes"] > 0
            assert 0 < flow["min_rtt_s"] <= 2 * flow["rtt_s"]
    for key in ("sender_cpu", "receiver_cpu"):
        for i in range(3):
            assert report[key][i][i] is None
            assert all(0 <= report[key][i][j] <= 1 for j in range(3) if i != j)


@pytest.mark.lab
def test_trains_tell_of_cores(small_cloud: lab.Session) -> None:
    result = measure(read_inventory(small_cloud.hosts_file), method="choreo")
    assert all(not math.isnan(path.sender_cpu + path.receiver_cpu) for path in result.newest.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "netperf", "--method", "bulk"), "unknown engine `netperf`"),
        (("--engine", "iperf3"), "--engine iperf3 cannot measure with --method train"),
    ],
)
def test_a_wrong_engine_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    hosts = tmp_path / "two.hosts.toml"
    hosts.write_text(
        'format = "gavotte/hosts/1"\n'
        + "".join(f'[[host]]\nname = "{n}"\naddress = "10.0.0.{n}"\nagent = "unix:/x{n}"\n' for n in (1, 2))
    )
    result = gavotte("measure", "--hosts", hosts, *arguments, "--dry-run")
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
