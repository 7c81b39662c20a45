"""Firewalls that block UDP: the paths behind them are measured by bulk TCP and marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.hosts import firewalls
from tests.hosts.firewalls import NO_TCP_IN, NO_UDP_IN, ONLY_SSH, udp_from, walled
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.history import read_history
from gavotte.formats.inventory import read_inventory
from gavotte.terms.goodput import goodput_per_wire

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(firewalls.lacking()), reason=firewalls.lacking()),
]

EGRESS_BPS = {"a": 40e6, "b": 60e6, "c": 50e6}
PAIRS = [(source, target) for source in "abc" for target in "abc" if source != target]


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts at one switch."""
    hosts = [{"name": name, "egress": f"{bps:.0f}bit", "ingress": "80mbit"} for name, bps in EGRESS_BPS.items()]
    with lab.session(builders.topology(hosts), source="tests") as made:
        yield made


def measured(cloud: lab.Session, *words: str) -> tuple[dict[str, Any], str]:
    done = gavotte("measure", "--hosts", str(cloud.hosts_file), "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def by_tcp(result: dict[str, Any]) -> set[tuple[str, str]]:
    assert all(path["reason"] == "udp-blocked" for path in result["by_tcp"])
    return {(path["source"], path["target"]) for path in result["by_tcp"]}


def check_rates(result: dict[str, Any]) -> None:
    for i, source in enumerate(result["hosts"]):
        for j, target in enumerate(result["hosts"]):
            if i != j:
                true_bps = EGRESS_BPS[source] * goodput_per_wire(1500)
                assert result["rate_bps"][i][j] == pytest.approx(true_bps, rel=0.04), (source, target)


def test_paths_into_a_host_without_udp_are_measured_by_tcp(cloud: lab.Session, tmp_path: Path) -> None:
    file = tmp_path / "h.npz"
    with walled(cloud, "a", NO_UDP_IN):
        result, message = measured(cloud, "-o", str(file))
        printed = gavotte("measure", "--hosts", str(cloud.hosts_file))
    assert result["answered"] == 6
    assert by_tcp(result) == {("b", "a"), ("c", "a")}
    check_rates(result)
    assert "UDP is blocked from b to a and on 1 more paths: bulk TCP measured them" in message
    history = read_history(file)
    assert history.measured_by_tcp("udp-blocked") == [(1, 0), (2, 0)]
    _, _, table = printed.stdout.partition("\n\n")
    marks = {line.split()[0]: line.count("*") for line in table.splitlines()}
    assert marks == {"Mbit/s": 0, "a": 0, "b": 1, "c": 1}


def test_paths_into_a_host_that_accepts_nothing_are_measured_by_tcp(cloud: lab.Session) -> None:
    with walled(cloud, "c", ONLY_SSH):
        result, _ = measured(cloud)
    assert result["answered"] == 6
    assert by_tcp(result) == {("a", "c"), ("b", "c")}
    check_rates(result)


def test_one_direction(cloud: lab.Session) -> None:
    address = next(host.address for host in read_inventory(cloud.hosts_file).host if host.name == "c")
    with walled(cloud, "b", udp_from(address)):
        result, message = measured(cloud, "--count", "2")
    assert by_tcp(result) == {("c", "b")}
    assert "UDP is blocked from c to b: bulk TCP measured it" in message
    check_rates(result)


@pytest.mark.rare
def test_no_udp_at_all_with_experiments(cloud: lab.Session, tmp_path: Path) -> None:
    file = tmp_path / "h.npz"
    with ExitStack() as walls:
        for host in "abc":
            walls.enter_context(walled(cloud, host, NO_UDP_IN))
        result, _ = measured(cloud, "--sharing", "-o", str(file))
        network = json.loads(gavotte("model", str(file), "--json").stdout)
    assert by_tcp(result) == set(PAIRS)
    check_rates(result)
    assert result["sharing"]["experiments"] > 0
    assert not any("UDP" in record["reason"] for record in result["sharing"]["evidence"])
    for host in network["hosts"]:
        true_bps = EGRESS_BPS[host["name"]] * goodput_per_wire(1500)
        assert host["egress_bps"] == pytest.approx(true_bps, rel=0.04)


def test_tcp_that_is_blocked_at_two_hosts_costs_the_paths_between_them_alone(cloud: lab.Session) -> None:
    with walled(cloud, "b", NO_TCP_IN), walled(cloud, "c", NO_TCP_IN):
        done = gavotte("measure", "--hosts", str(cloud.hosts_file), "--json")
    document = json.loads(done.stdout)
    assert document["lost"] == {}
    assert document["answered"] == 4
    assert {(each["source"], each["target"]) for each in document["failures"]} == {("b", "c"), ("c", "b")}
    assert "`gavotte hosts check` names the firewall rule" in done.stderr
