"""Directions, UDP, packet sizes and paths of their own, with real packets in one lab."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.campaign.studies import scenario_text
from tests.shell import gavotte

from gavotte import lab
from gavotte.campaign import like_iperf3, plan, report, run
from gavotte.campaign.conditions import unclean
from gavotte.formats.campaign import read_campaign
from gavotte.formats.record import Sample, read_samples
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab

CLOUD = """format = "gavotte/topology/1"
[[switch]]
name = "core"
[[host]]
name = "a"
switch = "core"
rate = "200mbit"
[[host]]
name = "b"
switch = "core"
rate = "200mbit"
egress = "50mbit"
[[host]]
name = "bursts"
switch = "core"
rate = "100mbit"
egress = "20mbit"
burst = "6MB"
[[host]]
name = "far"
switch = "core"
rate = "200mbit"
latency = "20ms"
jitter = "1ms"
loss = 0.05
"""
HEAD = """format = "gavotte/campaign/1"
name = "traffic"
seconds = 0.6
repetitions = 1
[driver]
kind = "lab"
topology = "cloud.topology.toml"
"""
IPERF3 = shutil.which("iperf3") is not None
NUTTCP = shutil.which("nuttcp") is not None
OVS = shutil.which("ovs-vswitchd", path="/usr/sbin:/usr/bin") is not None
ROOT = os.geteuid() == 0


def study() -> str:
    udp = {"protocol": "udp", "rate": "4mbit"}
    scenarios = [
        scenario_text("ways", "pair", "a", "b", directions=["forward", "reverse", "both"]),
        scenario_text("voice", "pair", "a", "far", mtu_bytes=[576], **udp),
        scenario_text("sizes", "pair", "a", "b", mtu_bytes=[576, 1400]),
        scenario_text("cable", "veth", "a", "b"),
        scenario_text("credit", "pair", "bursts", "a", seconds=2.0),
    ]
    if IPERF3:
        scenarios += [
            scenario_text("sizes-iperf3", "pair", "a", "b", mtu_bytes=[1400], engine="iperf3"),
            scenario_text("voice-iperf3", "pair", "a", "far", engine="iperf3", **udp),
            scenario_text("each", "pair", "a", "b", connections=[2], engine="iperf3", program_each=True),
        ]
    if NUTTCP:
        scenarios.append(scenario_text("voice-nuttcp", "pair", "a", "far", engine="nuttcp", **udp))
    if ROOT:
        scenarios.append(scenario_text("gre", "gre", "a", "b"))
    if OVS:
        # The second finds what the first has left.
        scenarios.append(scenario_text("switch", "ovs", "a", "b", repetitions=2))
    return HEAD + "".join(scenarios)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Sample]]:
    folder = tmp_path_factory.mktemp("traffic")
    (folder / "cloud.topology.toml").write_text(CLOUD)
    path = folder / "study.campaign.toml"
    path.write_text(study())
    output = folder / "r.jsonl"
    done = run(plan(read_campaign(path)), output, lambda topology: lab.session(topology, source="tests"))
    assert not done.failed, done.failed
    return output, {sample.scenario: sample for sample in read_samples(output)}


def metric(sample: Sample, name: str) -> float:
    value = sample.metrics[name].value
    assert value is not None, name
    return value


@pytest.mark.rare
def test_each_direction_has_its_own_rate(taken: tuple[Path, dict[str, Sample]]) -> None:
    samples = taken[1]
    forward, reverse, both = samples["ways"], samples["ways-reverse"], samples["ways-both"]
    assert (reverse.source, reverse.target, both.source, both.target) == ("b", "a", "a,b", "b,a")
    assert 140e6 < forward.value < 210e6
    assert 40e6 < reverse.value < 60e6
    assert metric(both, "forward_bps") + metric(both, "reverse_bps") == pytest.approx(both.value)
    # The other direction's queue at b delays the acknowledgements of this one, so that it has between 9 and 150 Mbit/s.
    assert 30e6 < metric(both, "reverse_bps") < 60e6
    pairs = {(each["source"], each["target"]): each["capacity_bps"] for each in both.metadata["pairs"]}
    assert pairs == {("a", "b"): metric(both, "forward_bps"), ("b", "a"): metric(both, "reverse_bps")}


def test_a_credit_that_runs_out_is_named_with_both_rates(taken: tuple[Path, dict[str, Sample]]) -> None:
    sample = taken[1]["credit"]
    # The credit lasts half a second, of which a busy sender may miss a part: 11 % too little next to other work.
    assert 0.8 < metric(sample, "peak_bps") / (100e6 * GOODPUT_PER_WIRE) < 1.05
    # A busy receiver counts bytes late that came before the fall: 6 % too much next to two builds.
    assert metric(sample, "sustained_bps") == pytest.approx(20e6 * GOODPUT_PER_WIRE, rel=0.1)
    assert metric(sample, "credit_bytes") == pytest.approx(6e6, rel=0.2)
    assert metric(sample, "sustained_bps") < 0.7 * sample.value
    assert [line for line in unclean([sample]) if line.startswith("bursts: a credit ran out")]
    assert not any("sustained_bps" in other.metrics for name, other in taken[1].items() if name != "credit")


def test_packets_report_the_loss_and_delay_of_their_path(taken: tuple[Path, dict[str, Sample]]) -> None:
    samples = taken[1]
    voices = [name for name in samples if name.startswith("voice")]
    for name in voices:
        voice = samples[name]
        # Some 550 packets, or 210 of iperf3: of 5 %, chance alone makes 1 to 10 %.
        assert 0.01 < metric(voice, "loss") < 0.12, name
        assert voice.value == pytest.approx(4e6 * (1 - metric(voice, "loss")), rel=0.1), name
        assert voice.metadata["congestion_used"] == ""
    voice = samples["voice-mtu576"]
    assert 0.020 <= metric(voice, "least_delay_s") <= metric(voice, "delay_s") <= metric(voice, "high_delay_s")
    assert metric(voice, "delay_s") < 0.1
    assert 0 < metric(voice, "jitter_s") < 0.05
    # All hosts of a lab have one clock.
    assert abs(metric(voice, "clock_ahead_s")) <= metric(voice, "clock_error_s")
    if IPERF3:
        assert metric(samples["voice-iperf3"], "jitter_s") > 0


def test_segments_fit_the_mtu(taken: tuple[Path, dict[str, Sample]]) -> None:
    samples = taken[1]
    # Time stamps take 12 bytes of a segment.
    assert metric(samples["sizes-mtu576"], "segment_bytes") == 576 - 52
    assert metric(samples["sizes-mtu1400"], "segment_bytes") == 1400 - 52
    for sample in samples.values():
        if sample.scenario.startswith("sizes"):
            mtu = sample.metadata["mtu_bytes"]
            share = (mtu - 52) / (mtu + 14)
            assert sample.value < 1.15 * 200e6 * share, sample.scenario


def test_paths_of_their_own_carry_the_traffic(taken: tuple[Path, dict[str, Sample]]) -> None:
    samples = taken[1]
    link = 200e6 * GOODPUT_PER_WIRE
    # No shaper is on the cable, nor in the switch.
    assert samples["cable"].value > 2 * link
    assert samples["cable"].metadata["path"] == "veth"
    assert metric(samples["cable"], "hops") == 1
    if ROOT:
        assert 0.6 * link < samples["gre"].value < 1.15 * link
        assert metric(samples["gre"], "hops") == 1  # the routers between see GRE alone
        assert metric(samples["gre"], "segment_bytes") == 1476 - 52
    if OVS:
        assert samples["switch"].value > 0


def test_connections_have_processor_times(taken: tuple[Path, dict[str, Sample]]) -> None:
    output, samples = taken
    for side in ("sender", "receiver"):
        assert 0 < metric(samples["cable"], f"{side}_cpu_connection") <= 2
    if IPERF3:
        each = samples["each"]
        assert len(each.metadata["connection_cpu"]) == len(each.connection_bps) == 2
        mean = sum(times["sender"] for times in each.metadata["connection_cpu"]) / 2
        assert metric(each, "sender_cpu_connection") == pytest.approx(mean)
    pages = report(output.with_name("r.md"), list(samples.values()))
    assert {page.name for page in pages} >= {"r.md", "r.cpu.svg"}
    page = pages[0].read_text()
    assert "| loss |" in page
    assert "one way ms" in page


@pytest.mark.skipif(not IPERF3, reason="iperf3 is not installed")
def test_the_shape_of_iperf3_is_iperf3s_own(taken: tuple[Path, dict[str, Sample]]) -> None:
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", "20990", "-B", "127.0.0.1"], stdout=subprocess.DEVNULL)
    try:
        line = ["iperf3", "-c", "127.0.0.1", "-p", "20990", "-t", "1", "-J", "--connect-timeout", "5000"]
        for _ in range(20):
            real = json.loads(subprocess.run(line, capture_output=True, text=True, check=False).stdout)
            if "error" not in real:
                break
    finally:
        server.kill()
        server.wait()
    ours = like_iperf3(taken[1]["ways"])
    for part in ("start", "end"):
        assert set(ours[part]) <= {*real[part], "tcp_mss_default"}, part
    assert set(ours["end"]["sum_received"]) <= set(real["end"]["sum_received"])
    assert set(ours["end"]["streams"][0]["receiver"]) <= set(real["end"]["streams"][0]["receiver"])
    assert {"sum_sent", "sum_received", "streams", "cpu_utilization_percent"} <= set(ours["end"])


def test_rounds_write_a_file_each(tmp_path: Path) -> None:
    (tmp_path / "cloud.topology.toml").write_text(CLOUD)
    path = tmp_path / "study.campaign.toml"
    path.write_text(HEAD.replace("0.6", "0.2") + scenario_text("near", "pair", "a", "b"))
    output = tmp_path / "r-{time}.jsonl"
    done = gavotte("campaign", "run", path, "-o", output, "--every", "1", "--count", "2", "--json-like", "iperf3")
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.glob("r-*.jsonl"))
    assert [len(read_samples(file)) for file in files] == [1, 1]
    rates = [json.loads(line)["end"]["sum_received"]["bits_per_second"] for line in done.stdout.splitlines()]
    assert rates == [read_samples(file)[0].value for file in files]
