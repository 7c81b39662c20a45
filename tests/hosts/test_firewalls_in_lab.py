"""Firewalls between hosts: `hosts check` finds the blocked pairs, and names the missing rule."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders
from tests.hosts import firewalls
from tests.hosts.firewalls import NO_TCP_IN, NO_UDP_IN, NO_UDP_OUT, ONLY_SSH, TCP_REJECTED, tcp_from, udp_from, walled
from tests.shell import gavotte

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.errors import AgentError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network, write_network
from gavotte.measure import bulk, measure
from gavotte.transfer import broadcast

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(firewalls.lacking()), reason=firewalls.lacking()),
]

FROM_B = "one path"
"""Stands for the rules of a host that accepts no TCP connection from b."""

PAIRS = [(source, target) for source in "abc" for target in "abc" if source != target]


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts at one switch."""
    with lab.session(builders.topology([{"name": name, "rate": "1gbit"} for name in "abc"]), source="tests") as made:
        yield made


def checked(cloud: lab.Session) -> tuple[int, dict[str, Any]]:
    done = gavotte("hosts", "check", "--hosts", str(cloud.hosts_file), "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def words(report: dict[str, Any], protocol: str) -> dict[tuple[str, str], str]:
    return {(path["source"], path["target"]): path[protocol] for path in report["paths"]}


def address(cloud: lab.Session, name: str) -> str:
    return next(host.address for host in read_inventory(cloud.hosts_file).host if host.name == name)


def rules_of(cloud: lab.Session, rules: Any) -> tuple[str, ...]:
    return tcp_from(address(cloud, "b")) if rules == FROM_B else rules


def test_open_paths_are_counted_and_need_no_rule(cloud: lab.Session) -> None:
    status, report = checked(cloud)
    assert (status, report["rules"]) == (0, [])
    assert words(report, "tcp") == words(report, "udp") == dict.fromkeys(PAIRS, "ok")
    done = gavotte("hosts", "check", "--hosts", str(cloud.hosts_file))
    assert "6 of 6 pairs can be used" in done.stderr
    assert "from" not in done.stdout.split()


def test_a_host_that_accepts_no_udp(cloud: lab.Session) -> None:
    with walled(cloud, "b", NO_UDP_IN):
        status, report = checked(cloud)
        done = gavotte("hosts", "check", "--hosts", str(cloud.hosts_file))
    # Its own greetings arrive, but get no answer: a firewall without a memory of connections drops the answers.
    of_end = {0: "answer lost", 1: "no answer"}
    udp = {pair: of_end[pair.index("b")] if "b" in pair else "ok" for pair in PAIRS}
    assert words(report, "udp") == udp
    assert words(report, "tcp") == dict.fromkeys(PAIRS, "ok")
    assert report["rules"] == ["host b accepts no UDP: open port 7411/udp on it"]
    # TCP is enough to use a pair.
    assert status == 0
    assert "firewall: host b accepts no UDP: open port 7411/udp on it" in done.stderr


def test_one_pair_in_one_direction(cloud: lab.Session) -> None:
    a, b = address(cloud, "a"), address(cloud, "b")
    with walled(cloud, "b", udp_from(a)):
        _, report = checked(cloud)
    udp = words(report, "udp")
    assert udp["a", "b"] == "no answer"
    assert {pair: word for pair, word in udp.items() if word != "ok"} == {
        ("a", "b"): "no answer",
        ("b", "a"): "answer lost",
    }
    assert report["rules"] == [f"allow UDP from a ({a}) to b ({b}) port 7411 (no answer)"]


@pytest.mark.parametrize(
    ("rules", "word", "rule"),
    [
        (NO_TCP_IN, "no answer", "host c accepts no TCP: open port 7411/tcp on it"),
        (TCP_REJECTED, "refused", "host c accepts no TCP: open port 7411/tcp on it"),
    ],
)
def test_tcp_that_is_blocked_costs_a_pair(cloud: lab.Session, rules: tuple[str, ...], word: str, rule: str) -> None:
    with walled(cloud, "c", rules):
        status, report = checked(cloud)
    assert words(report, "tcp") == {pair: word if pair[1] == "c" else "ok" for pair in PAIRS}
    assert words(report, "udp") == dict.fromkeys(PAIRS, "ok")
    assert (status, report["rules"]) == (1, [rule])
    assert [path["usable"] for path in report["paths"]] == [pair[1] != "c" for pair in PAIRS]


@pytest.mark.parametrize("rules", [NO_TCP_IN, TCP_REJECTED, ONLY_SSH, FROM_B])
@pytest.mark.parametrize("method", ["train", "bulk"])
def test_paths_into_a_host_that_accepts_no_tcp_are_measured(cloud: lab.Session, rules: Any, method: str) -> None:
    with walled(cloud, "c", rules_of(cloud, rules)):
        measured = measure(read_inventory(cloud.hosts_file), method=method)
    assert (measured.answered, measured.failures, measured.lost) == (6, [], {})
    rates = measured.history.beta_Bps[-1]
    assert all(np.isfinite(rates["abc".index(source), "abc".index(target)]) for source, target in PAIRS)


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="no iperf3 here")
@pytest.mark.parametrize("rules", [ONLY_SSH, FROM_B])
def test_iperf3_is_reversed_into_a_host_that_accepts_no_tcp(cloud: lab.Session, rules: Any) -> None:
    with walled(cloud, "c", rules_of(cloud, rules)):
        measured = measure(read_inventory(cloud.hosts_file), method=bulk(seconds=1, engine="iperf3"))
    assert (measured.answered, measured.failures, measured.lost) == (6, [], {})
    into_c, from_c = measured.newest[1, 2], measured.newest[2, 1]
    assert into_c.reading.goodput_bps == pytest.approx(from_c.reading.goodput_bps, rel=0.1)
    assert into_c.flows[0].congestion == from_c.flows[0].congestion


def neither(source: str, target: str) -> str:
    return (
        f"{target} is up, but accepts no TCP connection from {source}, nor {source} from {target}: "
        f"open port 7411/tcp on {target} or port 7411/tcp on {source}"
    )


@contextmanager
def two_walls(cloud: lab.Session) -> Iterator[None]:
    """Give b and c firewalls that let no connection in."""
    with walled(cloud, "b", NO_TCP_IN), walled(cloud, "c", ONLY_SSH):
        yield


@pytest.mark.parametrize("method", ["train", "bulk", bulk(seconds=1, engine="iperf3")])
def test_paths_between_two_hosts_that_accept_no_tcp_are_named(cloud: lab.Session, method: Any) -> None:
    if method not in ("train", "bulk") and shutil.which("iperf3") is None:
        pytest.skip("no iperf3 here")
    with two_walls(cloud):
        measured = measure(read_inventory(cloud.hosts_file), method=method)
    reasons = {(each.source, each.target): each.reason for each in measured.failures}
    assert reasons == {pair: neither(*pair) for pair in (("b", "c"), ("c", "b"))}
    assert (measured.answered, measured.lost) == (4, {})


@pytest.mark.parametrize("network", [None, builders.network("abc", 100e6)])
def test_a_broadcast_between_two_hosts_that_accept_no_tcp_is_relayed(
    cloud: lab.Session, tmp_path: Path, network: Network | None
) -> None:
    with two_walls(cloud):
        result = broadcast(
            made(tmp_path), read_inventory(cloud.hosts_file), "b", f"{tmp_path}/copy-{{host}}", network=network
        )
    assert [each.ok for each in result.receivers] == [True, True]


def test_transfers_between_two_hosts_that_accept_no_tcp_name_both(cloud: lab.Session, tmp_path: Path) -> None:
    matrix, known, app = tmp_path / "bytes.csv", tmp_path / "n.network.json", tmp_path / "sort.app.toml"
    placement = tmp_path / "sort.placement.json"
    matrix.write_text("source,target,bytes\na,b,100000\nb,c,100000\n")
    write_network(known, builders.network("abc", 100e6))
    app.write_text(
        'format = "gavotte/app/1"\nname = "sort"\n[[task]]\nname = "x"\ncpus = 1.0\n[[task]]\nname = "y"\ncpus = 1.0\n'
        '[[transfer]]\nsource = "x"\ntarget = "y"\nbytes = 100000\n'
    )
    placement.write_text(builders.placement({"x": "b", "y": "c"}, "sort").model_dump_json())
    hosts = ("--hosts", str(cloud.hosts_file))
    # For a run of two hosts, no third one shows that they are up.
    with two_walls(cloud):
        moved = gavotte("shuffle", matrix, *hosts, "--network", known)
        measured = gavotte("shuffle", matrix, *hosts)
        ran = gavotte("run", placement, app, *hosts)
    for done in (moved, measured, ran):
        assert done.returncode == 1
        assert f"b cannot send to c: {neither('b', 'c')}" in done.stderr


@pytest.mark.parametrize("rules", [NO_TCP_IN, NO_UDP_IN, "from a"])
def test_a_receiver_behind_a_firewall_gets_a_broadcast(cloud: lab.Session, tmp_path: Path, rules: Any) -> None:
    rules = tcp_from(address(cloud, "a")) if rules == "from a" else rules
    with walled(cloud, "c", rules):
        result = broadcast(made(tmp_path), read_inventory(cloud.hosts_file), "a", f"{tmp_path}/copy-{{host}}")
    assert [each.ok for each in result.receivers] == [True, True]


def test_a_source_that_one_receiver_cannot_reach_serves_it_through_another(cloud: lab.Session, tmp_path: Path) -> None:
    with walled(cloud, "c", tcp_from(address(cloud, "a"))):
        result = broadcast(made(tmp_path), read_inventory(cloud.hosts_file), "c", f"{tmp_path}/copy-{{host}}")
    assert [each.ok for each in result.receivers] == [True, True]


@pytest.mark.parametrize("rules", [NO_TCP_IN, TCP_REJECTED, ONLY_SSH])
@pytest.mark.parametrize("network", [None, builders.network("abc", 100e6)])
def test_a_source_that_accepts_no_tcp_serves_its_receivers(
    cloud: lab.Session, tmp_path: Path, rules: tuple[str, ...], network: Network | None
) -> None:
    with walled(cloud, "c", rules):
        result = broadcast(
            made(tmp_path), read_inventory(cloud.hosts_file), "c", f"{tmp_path}/copy-{{host}}", network=network
        )
    assert [each.ok for each in result.receivers] == [True, True]


@pytest.mark.parametrize(("rules", "word"), [(NO_TCP_IN, "drops"), (TCP_REJECTED, "refuses")])
@pytest.mark.parametrize("network", [None, builders.network("abc", 100e6)])
def test_a_source_that_no_receiver_can_connect_to_is_named(
    cloud: lab.Session, tmp_path: Path, rules: tuple[str, ...], word: str, network: Network | None
) -> None:
    reason = f"c is up, but accepts no TCP connection from a and 1 more: a firewall {word} it; open port 7411/tcp on c"
    with ExitStack() as walls:
        for host in "abc":
            walls.enter_context(walled(cloud, host, rules))
        with pytest.raises(AgentError, match=re.escape(reason)):
            broadcast(
                made(tmp_path), read_inventory(cloud.hosts_file), "c", f"{tmp_path}/copy-{{host}}", network=network
            )


@pytest.mark.parametrize("rules", [NO_TCP_IN, ONLY_SSH, FROM_B])
def test_a_shuffle_into_a_host_that_accepts_no_tcp_arrives(cloud: lab.Session, tmp_path: Path, rules: Any) -> None:
    matrix = tmp_path / "bytes.csv"
    matrix.write_text("source,target,bytes\na,b,100000\nb,c,3000000\nc,a,100000\n")
    with walled(cloud, "c", rules_of(cloud, rules)):
        done = gavotte("shuffle", str(matrix), "--hosts", str(cloud.hosts_file), "--json")
    assert done.returncode == 0, done.stderr
    assert [flow["bytes"] for flow in json.loads(done.stdout)["flows"]] == [100_000, 3_000_000, 100_000]


def made(folder: Path) -> str:
    """Write a file to send."""
    path = folder / "file.bin"
    path.write_bytes(bytes(200_000))
    return str(path)


def test_a_host_whose_own_firewall_keeps_udp_in(cloud: lab.Session) -> None:
    with walled(cloud, "a", NO_UDP_OUT):
        _, report = checked(cloud)
    assert words(report, "udp")["a", "b"] == "forbidden"
    own = address(cloud, "a")
    assert report["rules"] == [
        f"host a sends no UDP: its own firewall must allow UDP from {own} to port 7411 of the others"
    ]


def test_only_ssh_is_open(cloud: lab.Session) -> None:
    with ExitStack() as walls:
        for host in "abc":
            walls.enter_context(walled(cloud, host, ONLY_SSH))
        status, report = checked(cloud)
        done = gavotte("hosts", "check", "--hosts", str(cloud.hosts_file))
    assert status == 1
    assert words(report, "tcp") == words(report, "udp") == dict.fromkeys(PAIRS, "no answer")
    assert report["usable"] == 3
    assert report["rules"] == [
        "no host accepts TCP or UDP from another: open port 7411/tcp and port 7411/udp between all hosts"
    ]
    assert "0 of 6 pairs can be used" in done.stderr


@pytest.mark.parametrize("kind", ["gated_train", "burst_train"])
def test_a_train_over_blocked_udp_is_named(cloud: lab.Session, kind: str) -> None:
    probes = {
        "gated_train": pb.Probe(gated_train=pb.GatedTrain(max_bytes=1 << 20)),
        "burst_train": pb.Probe(burst_train=pb.BurstTrain(bursts=2, packets=20, payload_bytes=500)),
    }
    with (
        walled(cloud, "b", NO_UDP_IN),
        enrolled(read_inventory(cloud.hosts_file), Budget(max_bytes=1 << 24, max_seconds=60.0)) as fleet,
    ):
        (answer,) = carry_out(fleet, [[Step("a", "b", probes[kind])]], round_s=30.0)
    assert answer.failure == pb.FAILURE_NO_UDP, answer.error
    assert answer.error.endswith("UDP to port 7411 is blocked on this path, though TCP is not")


def test_the_host_that_another_run_measures_is_left_alone(cloud: lab.Session) -> None:
    with enrolled(read_inventory(cloud.hosts_file), Budget(max_bytes=1, max_seconds=60.0)):
        status, report = checked(cloud)
    assert (status, report["paths"], report["usable"]) == (1, [], 0)
