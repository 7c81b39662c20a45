"""An agent that a cgroup's quota throttles, on real packets: its paths are right, or their lower bounds are named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders import topology
from tests.lab.processors import quota
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.record import read_samples
from gavotte.measure.adapt.withheld import MOST_AVERAGED
from gavotte.terms.goodput import GOODPUT_PER_WIRE, UDP_PAYLOAD_BYTES, WIRE_BYTES

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

TWENTIETH = 0.05
"""5 ms of each 100: trains at 200 Mbit/s take more."""

FIFTH = 0.2

CAPS_MBIT = {"a": 40, "b": 200, "c": 50}


@pytest.fixture
def share() -> float:
    """Quota of b's agent, in processors."""
    return TWENTIETH


@pytest.fixture
def cloud(share: float) -> Iterator[lab.Session]:
    """Three hosts with caps. The agent of b has a quota."""
    hosts = [{"name": name, "egress": f"{cap}mbit"} for name, cap in CAPS_MBIT.items()]
    with lab.session(topology(hosts), source="tests") as session, quota(session, "b", share):
        yield session


several_quotas = pytest.mark.parametrize("share", [TWENTIETH, FIFTH])


def measured(cloud: lab.Session, *words: str) -> tuple[dict[str, Any], str]:
    done = gavotte("measure", "--hosts", cloud.hosts_file, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@several_quotas
def test_trains_of_a_throttled_host_are_right(cloud: lab.Session) -> None:
    result, _ = measured(cloud)
    for cap, row in zip(CAPS_MBIT.values(), result["rate_bps"], strict=True):
        assert [rate for rate in row if rate] == pytest.approx([cap * 1e6 * GOODPUT_PER_WIRE] * 2, rel=0.02)


def test_bursts_of_a_throttled_host_are_named(cloud: lab.Session) -> None:
    result, errors = measured(cloud, "--method", "choreo")
    truth_bps = CAPS_MBIT["b"] * 1e6 * UDP_PAYLOAD_BYTES / WIRE_BYTES
    named = {(path["source"], path["target"]) for path in result["withheld"]}
    wrong = {("b", target) for at, target in ((0, "a"), (2, "c")) if result["rate_bps"][1][at] < 0.9 * truth_bps}
    assert named
    assert wrong <= named
    assert all(path["host"] == "b" and path["quota_cpus"] == TWENTIETH for path in result["withheld"])
    assert "warning: b was throttled by its cgroup's quota for" in errors


@several_quotas
def test_a_check_names_the_quota(cloud: lab.Session, share: float) -> None:
    done = gavotte("hosts", "check", "--hosts", cloud.hosts_file)
    assert f"warning: b: its cgroup's quota allows {share} of a processor" in done.stderr
    assert "warning: a:" not in done.stderr


def test_unlimited_paths_of_a_throttled_host_are_lower_bounds(share: float) -> None:
    unlimited = topology([{"name": name} for name in "ab"])
    with lab.session(unlimited, source="tests") as session, quota(session, "b", share):
        result, errors = measured(session)
    assert result["answered"] == 2
    assert {(path["source"], path["target"]) for path in result["withheld"]} == {("a", "b"), ("b", "a")}
    assert result["proof"]["verdict"][0][1] == result["proof"]["verdict"][1][0] == "host-limited"
    assert "a to b and 1 more may carry more, marked !" in errors or "b to a and 1 more may carry more" in errors


@several_quotas
def test_transfers_of_a_throttled_host_arrive_and_name_it(cloud: lab.Session, tmp_path: Path, share: float) -> None:
    source = tmp_path / "file"
    source.write_bytes(os.urandom(2_000_000))
    words = ["--from", "a", "-o", str(tmp_path / "copy-{host}")]
    done = gavotte("broadcast", source, "--hosts", cloud.hosts_file, *words)
    assert done.returncode == 0, done.stderr
    assert f"warning: b ({share}): a cgroup's quota allows the agent less than one processor, so tran" in done.stderr
    assert (tmp_path / "copy-b").read_bytes() == (tmp_path / "copy-c").read_bytes() == source.read_bytes()


@several_quotas
def test_a_guarantee_of_a_throttled_host_names_it(cloud: lab.Session, tmp_path: Path, share: float) -> None:
    wanted = tmp_path / "g.guarantee.toml"
    hosts = [f'[[guarantee]]\nhost = "{name}"\negress = "10mbit"\n' for name in "ab"]
    wanted.write_text('format = "gavotte/guarantee/1"\n' + "".join(hosts))
    done = gavotte("guarantee", "apply", wanted, "--hosts", cloud.hosts_file)
    cleared = gavotte("guarantee", "clear", "--hosts", cloud.hosts_file)
    assert (done.returncode, cleared.returncode) == (0, 0), done.stderr
    assert f"warning: b ({share}): a cgroup's quota allows the agent less than one processor, so its" in done.stderr


def test_samples_of_a_throttled_host_report_it(cloud: lab.Session, tmp_path: Path) -> None:
    study, output = tmp_path / "quota.campaign.toml", tmp_path / "r.jsonl"
    study.write_text(
        f'format = "gavotte/campaign/1"\nname = "quota"\nseconds = 1\nrepetitions = 1\n'
        f'[driver]\nkind = "ssh"\nhosts = "{cloud.hosts_file}"\n'
        '[[scenario]]\nname = "one"\nkind = "pair"\nsource = ["b"]\ntarget = ["a", "c"]\nconnections = [1]\n'
    )
    done = gavotte("campaign", "run", study, "-o", output)
    assert done.returncode == 0, done.stderr
    truth_bps = CAPS_MBIT["b"] * 1e6 * GOODPUT_PER_WIRE
    samples = list(read_samples(output))
    assert len(samples) == 2
    for sample in samples:
        throttled = sample.metrics["sender_throttled"].value or 0.0
        assert throttled > MOST_AVERAGED or sample.value == pytest.approx(truth_bps, rel=0.03)
