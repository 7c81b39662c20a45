"""A campaign between existing hosts, reached by real SSH servers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tomli
import tomli_w
from tests.hosts.cluster import Cluster
from tests.shell import until

from gavotte.formats.record import read_samples
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

STUDY = """format = "gavotte/campaign/1"
name = "by-ssh"
repetitions = 1
seconds = 0.4
[driver]
kind = "ssh"
hosts = "study.hosts.toml"
[[scenario]]
name = "pair"
kind = "pair"
source = ["a"]
target = ["b"]
connections = [3]
[[scenario]]
name = "loop"
kind = "loopback"
source = ["c"]
[[scenario]]
name = "incast"
kind = "incast"
source = ["a", "b"]
target = ["c"]
"""
BY_IPERF3 = """[[scenario]]
name = "iperf3"
kind = "pair"
source = ["a"]
target = ["b"]
engine = "iperf3"
"""


def test_a_campaign_over_ssh(servers: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "study.hosts.toml"
    servers.write_inventory(path, {name: f"ssh://{name}" for name in ("a", "b", "c")})
    content = tomli.loads(path.read_text())
    for host in content["host"]:
        host["labels"] = {"machine": "two" if host["name"] == "c" else "one"}
    path.write_text(tomli_w.dumps(content))
    (tmp_path / "study.campaign.toml").write_text(STUDY + (BY_IPERF3 if shutil.which("iperf3") else ""))
    done = servers.gavotte("campaign", "run", tmp_path / "study.campaign.toml", "-o", tmp_path / "r.jsonl")
    assert done.returncode == 0, done.stderr
    values = {sample.scenario: sample for sample in read_samples(tmp_path / "r.jsonl")}
    cap = 200e6 * GOODPUT_PER_WIRE
    for name in ("pair", "iperf3"):
        if name in values:
            assert 0.6 * cap < values[name].value < 1.3 * cap, name
            assert values[name].metrics["distance"].value == 0
    assert values["loop"].value > 2 * cap
    assert values["incast"].metrics["distance"].value == 2
    account = values["pair"].metadata["before"]["a"]
    assert {"kernel", "clock_source", "interfaces", "agent_ticks"} <= account.keys()
    until(lambda: not servers.agents())
