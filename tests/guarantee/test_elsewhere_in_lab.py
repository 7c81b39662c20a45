"""Guarantees of containers, over IPv6, of tenants, and of agents that were killed, on real packets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from tests.builders import topology
from tests.guarantee.stand import TRAFFIC, address, agent_of, heard, qdiscs, traffic
from tests.shell import until

from gavotte import lab
from gavotte.agents.binary import agent_binary
from gavotte.errors import GavotteError
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.guarantee import GuardedHost, apply, clear, status

pytestmark = [pytest.mark.lab, pytest.mark.rare]

HOSTS = ("x", "y", "z", "t")
WIRE_PER_PAYLOAD = 1514 / 1448


def two_racks() -> AbstractContextManager[lab.Session]:
    hosts = [{"name": host, "switch": "left" if host in "xy" else "right"} for host in HOSTS]
    switches: Sequence[Any] = [
        "core",
        {"name": "left", "parent": "core", "up": "50mbit"},
        {"name": "right", "parent": "core"},
    ]
    return lab.session(topology(hosts, switches=switches))


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    with two_racks() as session:
        yield session


@pytest.fixture
def inventory(cloud: lab.Session) -> Iterator[Inventory]:
    read = read_inventory(cloud.hosts_file)
    yield read
    clear(read)


def wanted(**entries: Any) -> Guarantee:
    """By default X and Y may send 10 Mbit/s at least, and Z and T receive as much."""
    kept = [{"host": host, ("egress" if host in "xy" else "ingress"): "10mbit"} for host in HOSTS]
    return Guarantee.model_validate({"format": "gavotte/guarantee/1", "guarantee": kept, **entries})


def state(inventory: Inventory, host: str) -> GuardedHost:
    return next(each for each in status(inventory).hosts if each.host == host)


def enforces(inventory: Inventory, host: str) -> bool:
    """Whether a host's agent enforces guarantees and finds the others.

    On a busy machine, a pair may get less than its guarantee in some windows, which `why` then says for a minute.
    """
    why = state(inventory, host).why
    return not why or why.startswith("less than the guarantee")


def carried_bps(cloud: lab.Session, port: int, *flows: tuple[str, str, str]) -> list[float]:
    """Return the rates of TCP for two seconds of three, wire bit/s, by flow: sender, receiver, its address."""
    with ExitStack() as stack:
        sinks = [
            stack.enter_context(traffic(cloud, target, "sink", port, 4, stdout=subprocess.PIPE, text=True))
            for _, target, _ in flows
        ]
        for sink in sinks:
            heard(sink)
        senders = [traffic(cloud, source, "tcp", place, port, 3, 1) for source, _, place in flows]
        for sender in senders:
            sender.wait()
        counts = [json.loads(sink.communicate()[0]) for sink in sinks]
    sums = [[sum(each) for each in zip(*one["bins"].values(), strict=True)][5:15] for one in counts]
    return [8 * WIRE_PER_PAYLOAD * sum(bins) / (len(bins) * 0.2) for bins in sums]


SIX = """
echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
for part; do
    address=${part%@*} device=${part#*@}
    case $device in *.*) device=$(ip -o route get $device | sed 's/.* dev \\([^ ]*\\).*/\\1/') ;; esac
    echo 0 > /proc/sys/net/ipv6/conf/$device/disable_ipv6
    ip -6 address replace $address/64 dev $device nodad
done
"""
"""Give devices IPv6 addresses: ADDRESS@DEVICE, or ADDRESS@ROUTED for the device that leads to it."""


def test_pairs_have_guarantees_over_ipv6(cloud: lab.Session, inventory: Inventory) -> None:
    wide = {"x": "fd77:1::2", "y": "fd77:2::2"}
    routers = [f"{wide[host][:-1]}1@{address(cloud, host)}" for host in wide]
    assert cloud.run("left", ["sh", "-ec", SIX, "sh", *routers]).returncode == 0
    for host, place in wide.items():
        assert cloud.run(host, ["sh", "-ec", SIX, "sh", f"{place}@eth0"]).returncode == 0
        way = ["ip", "-6", "route", "replace", "default", "via", f"{place[:-1]}1", "dev", "eth0"]
        assert cloud.run(host, way).returncode == 0
    hosts = [host.model_copy(update={"address": wide[host.name]}) for host in inventory.host if host.name in wide]
    six = inventory.model_copy(update={"host": hosts})
    kept = [{"host": "x", "egress": "10mbit"}, {"host": "y", "ingress": "10mbit"}]
    apply(wanted(guarantee=kept), six, fixed=True)
    (static_bps,) = carried_bps(cloud, 5101, ("x", "y", wide["y"]))
    assert 2e6 < static_bps < 11e6
    # The receiver's agent reports, so the pair may have more.
    apply(wanted(guarantee=kept), six)
    (free_bps,) = carried_bps(cloud, 5102, ("x", "y", wide["y"]))
    assert free_bps > 15e6
    pairs = {(pair.source, pair.target): pair for pair in status(inventory).pairs}
    assert pairs["x", "y"].met is not None


CONTAINER = """
own=$1 near=$2 group=$3
unshare -n sleep 60 & inside=$!
while [ "$(readlink /proc/$inside/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
ip link add veth0 type veth peer name eth0 netns $inside
ip link set veth0 up
ip route add $own/32 dev veth0
nsenter -t $inside -n sh -ec "ip link set lo up; ip link set eth0 up; ip address add $own/32 dev eth0
    ip route add $near/32 dev eth0; ip route add default via $near dev eth0"
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv4/conf/all/proxy_arp
[ -z "$group" ] || { mkdir /sys/fs/cgroup/$group && echo $inside > /sys/fs/cgroup/$group/cgroup.procs; }
echo $inside
read _ || true
kill $inside
wait $inside || true
ip link del veth0
[ -z "$group" ] || rmdir /sys/fs/cgroup/$group
"""
"""A container as its runtime makes it: a network of its own behind a veth, routed by the host."""


@pytest.mark.parametrize("found_by", ["device", "cgroup"])
def test_a_container_has_a_guarantee(cloud: lab.Session, inventory: Inventory, found_by: str) -> None:
    near = address(cloud, "x")
    own = near.rsplit(".", 1)[0] + ".200"
    group = ""
    if found_by == "cgroup":
        group = f"pids/gavotte-test-{os.getpid()}"
        if cloud.run("x", ["test", "-w", "/sys/fs/cgroup/pids"]).returncode:
            pytest.skip("no cgroup can be made here")
    words = ["sh", "-ec", CONTAINER, "sh", own, near, group]
    with cloud.exec("x", words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as container:
        inside = heard(container).strip()
        where = {"device": "veth0"} if found_by == "device" else {"cgroup": group}
        web = {"host": "web", "on": "x", "address": own, "egress": "10mbit", **where}
        others = [{"host": "z", "ingress": "20mbit"}, {"host": "x", "egress": "20mbit"}]
        apply(wanted(guarantee=[web, *others]), inventory, fixed=True)
        assert [host.host for host in status(inventory).hosts][:2] == ["x", "web"]
        with traffic(cloud, "z", "sink", 5103, 3, stdout=subprocess.PIPE, text=True) as sink:
            heard(sink)
            sending = [sys.executable, "-I", "-S", str(TRAFFIC), "tcp", address(cloud, "z"), "5103", "3", "1"]
            cloud.run("x", ["nsenter", "-t", inside, "-n", *sending])
            bins = json.loads(sink.communicate()[0])["bins"]
        # Its packets come from its own address, at the rate of its own hose.
        assert 5e6 < 8 * WIRE_PER_PAYLOAD * sum(bins[own][4:12]) / 1.6 < 11e6
        pairs = {(pair.source, pair.target): pair for pair in status(inventory).pairs}
        assert pairs["web", "z"].guarantee_bps == pytest.approx(10e6, rel=0.01)
        clear(inventory)
        queues = cloud.run("x", ["nsenter", "-t", inside, "-n", "tc", "qdisc", "show"], capture_output=True, text=True)
        assert "htb" not in queues.stdout
        container.communicate("")


def test_what_is_no_container_is_told(cloud: lab.Session, inventory: Inventory) -> None:
    del cloud
    web = {"host": "web", "on": "x", "address": "10.9.9.9", "egress": "10mbit"}
    for where, message in [
        ({"device": "veth9"}, "device `veth9`: no such interface"),
        ({"device": "eth0"}, "device `eth0`"),
        ({"cgroup": "no/such"}, "cgroup `no/such`: No such file"),
    ]:
        with pytest.raises(GavotteError, match=re.escape(message)):
            apply(wanted(guarantee=[web | where, {"host": "z", "ingress": "10mbit"}]), inventory)


def test_a_tenant_has_together_what_one_of_its_hosts_wants(cloud: lab.Session, inventory: Inventory) -> None:
    tenant = [{"name": "a", "hosts": ["x", "y"], "egress": "30mbit"}]
    kept = [{"host": host, "egress": "5mbit"} for host in "xy"] + [{"host": host, "ingress": "40mbit"} for host in "zt"]
    apply(wanted(guarantee=kept, tenant=tenant), inventory, fixed=True)
    (alone_bps,) = carried_bps(cloud, 5104, ("y", "z", address(cloud, "z")))
    # It is the second of the tenant, has 5 Mbit/s alone, and gets the rest that the first leaves.
    assert 20e6 < alone_bps < 31e6
    both_bps = carried_bps(cloud, 5105, ("x", "z", address(cloud, "z")), ("y", "t", address(cloud, "t")))
    assert all(5e6 < bps < 21e6 for bps in both_bps)
    assert 20e6 < sum(both_bps) < 32e6
    # As their flows end, each divides for a moment by the other's earlier need.
    until(lambda: sum(host.egress_bps for host in status(inventory).hosts if host.host in "xy") <= 30e6 * 1.001)
    # Without the first, every host has its own guarantee again.
    os.kill(agent_of(cloud, "x"), signal.SIGSTOP)
    try:
        alone = inventory.model_copy(update={"host": [host for host in inventory.host if host.name == "y"]})
        until(lambda: state(alone, "y").egress_bps == 5e6)
    finally:
        os.kill(agent_of(cloud, "x"), signal.SIGCONT)


def restarted(cloud: lab.Session, host: str) -> subprocess.Popen[Any]:
    """Start an agent in place of one that was killed."""
    path = cloud.folder / f"{host}.sock"
    path.unlink(missing_ok=True)
    return cloud.exec(host, [str(agent_binary()), "serve", "--socket", str(path)], stderr=subprocess.DEVNULL)


def test_a_killed_agent_leaves_static_limits_and_the_next_one_resumes() -> None:
    # Another try needs agents that are alive.
    with two_racks() as cloud:
        kill_and_restart(cloud, read_inventory(cloud.hosts_file))


def kill_and_restart(cloud: lab.Session, inventory: Inventory) -> None:
    apply(wanted(), inventory)
    carried_bps(cloud, 5106, ("x", "z", address(cloud, "z")))
    os.kill(agent_of(cloud, "x"), signal.SIGKILL)
    until(lambda: "10Mbit ceil 10Mbit" in classes(cloud, "x"))
    (static_bps,) = carried_bps(cloud, 5107, ("x", "z", address(cloud, "z")))
    assert 2e6 < static_bps < 11e6
    assert "does not answer" in state(inventory, "x").why
    # The others change their guarantees without it.
    applied = apply(wanted(), inventory)
    assert [host.host for host in applied.hosts] == ["y", "z", "t"]
    assert list(applied.missing) == ["x"]
    assert any(line.startswith("x: its agent does not answer") for line in applied.warnings)
    # The next agent of the host resumes what it had, with the keys of before, so the others are silent to it.
    for _ in range(2):
        agent = restarted(cloud, "x")
        try:
            until(lambda: enforces(inventory, "x"))
            assert state(inventory, "x").egress_bps == 10e6
            assert apply(wanted(), inventory).missing == {}
            carried_bps(cloud, 5108, ("x", "z", address(cloud, "z")))
            until(lambda: enforces(inventory, "x"))
        finally:
            agent.terminate()
            agent.wait()
        # An agent that stops leaves static limits, too.
        assert "htb" in qdiscs(cloud, ["x"])
    agent = restarted(cloud, "x")
    try:
        until(lambda: enforces(inventory, "x"))
        clear(inventory)
        assert "htb" not in qdiscs(cloud, ["x"])
    finally:
        agent.terminate()
        agent.wait()
    agent = restarted(cloud, "x")
    try:
        until(lambda: state(inventory, "x").why == "its agent enforces no guarantees")
    finally:
        agent.terminate()
        agent.wait()


def classes(cloud: lab.Session, host: str) -> str:
    """The classes on a host's interface."""
    return str(cloud.run(host, ["tc", "class", "show", "dev", "eth0"], capture_output=True, text=True).stdout)
