"""Shared links between hosts that have IPv6 addresses alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.terms.goodput import goodput_per_wire

pytestmark = [pytest.mark.lab, pytest.mark.rare, pytest.mark.timeout(180)]

UPLINK_BPS, HOST_BPS = 80e6, 60e6


# Next to other labs, filling may show no limit at all. Nothing false is said then, but two limits are wanted here.
@pytest.mark.rare
@pytest.mark.flaky(reruns=4)
def test_the_uplinks_of_racks_are_found_over_ipv6(tmp_path: Path) -> None:
    hosts = [{"name": f"vm{i}", "switch": f"tor{i // 3}", "egress": f"{HOST_BPS:.0f}bit"} for i in range(6)]
    racks = [{"name": f"tor{i}", "up": f"{UPLINK_BPS:.0f}bit"} for i in range(2)]
    file = tmp_path / "h.npz"
    with lab.session(builders.topology(hosts, switches=["core", *racks], addresses="ipv6"), source="tests") as cloud:
        words = ("measure", "--sharing", "--hosts", cloud.hosts_file, "--json", "-o", file)
        done = gavotte(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        network = json.loads(gavotte("model", file, "--json", cwd=tmp_path).stdout)
    document = json.loads(done.stdout)
    assert (document["answered"], document["by_tcp"]) == (30, [])
    assert document["sharing"]["experiments"] > 6
    share = goodput_per_wire(1500, ipv6=True)
    assert all(host["ipv6"] for host in network["hosts"])
    members = [sorted(group["members"]) for group in network["groups"]]
    assert sorted(members) == [["vm0", "vm1", "vm2"], ["vm3", "vm4", "vm5"]]
    # Limits that a busy machine hides are unknown, but not all of them; every claim is true.
    claims = [group[way] for group in network["groups"] for way in ("up_bps", "down_bps") if group.get(way)]
    assert claims == [pytest.approx(UPLINK_BPS * share, rel=0.05)] * len(claims)
    assert len(claims) >= 2
    caps = [host["egress_bps"] for host in network["hosts"] if host.get("egress_bps")]
    assert caps == [pytest.approx(HOST_BPS * share, rel=0.05)] * len(caps)
    assert len(caps) >= 3
