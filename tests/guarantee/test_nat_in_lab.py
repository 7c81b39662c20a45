"""Guarantees of hosts behind a NAT, on real packets: kept where packets show their host, static where they do not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from tests.builders import topology
from tests.guarantee.stand import address, heard, traffic
from tests.hosts import firewalls

from gavotte import lab
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.guarantee import GuaranteeStatus, apply, clear, sharing_addresses, status

pytestmark = [
    pytest.mark.rare,
    pytest.mark.lab,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(firewalls.lacking()), reason=firewalls.lacking()),
]

WIRE_PER_PAYLOAD = 1514 / 1448
KEPT_BPS = 60e6
WARM_S, COUNTED_S, BIN_S = 3.0, 5.0, 0.2
PORT = 5001
ASSIGN = """ip addr add "$1/32" dev "$(ip route show default | sed 's/.* dev \\([^ ]*\\).*/\\1/')" """
"""Lets a host answer the router's questions for an address."""

HOSTS = [{"name": name, "switch": "left" if name in "ab" else "right", "rate": "100mbit"} for name in "abcd"]


def outside(cloud: lab.Session) -> str:
    """Return the address outside the NAT, of the same network as the ones inside."""
    return f"{address(cloud, 'c').rpartition('.')[0]}.77"


def translate(cloud: lab.Session, node: str, rules: Sequence[str]) -> None:
    script = [
        "add table ip outside",
        "add chain ip outside closed { type filter hook prerouting priority -300; }",
        "add chain ip outside arriving { type nat hook prerouting priority -100; }",
        "add chain ip outside leaving { type nat hook postrouting priority 100; }",
        *(f"add rule ip outside {rule}" for rule in rules),
    ]
    done = cloud.run(node, ["nft", "-f", "-"], input="\n".join(script), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def on_the_host(cloud: lab.Session) -> None:
    """Translate c's address on c, so that its own interface carries packets of the address outside."""
    inside, beyond = address(cloud, "c"), outside(cloud)
    assert cloud.run("c", ["sh", "-c", ASSIGN, "sh", beyond]).returncode == 0
    rules = [f"closed ip daddr {inside} {kind} dport {{ 7411, 7412 }} drop" for kind in ("tcp", "udp")]
    translate(
        cloud,
        "c",
        [*rules, f"arriving ip daddr {beyond} dnat to {inside}", f"leaving ip saddr {inside} snat to {beyond}"],
    )


def on_the_router(cloud: lab.Session) -> None:
    """Translate c's address on the router of its rack, which lets no packet for the address inside in."""
    inside, beyond = address(cloud, "c"), outside(cloud)
    translate(
        cloud,
        "right",
        [
            f'closed iifname "up" ip daddr {inside} drop',
            f"arriving ip daddr {beyond} dnat to {inside}",
            f'leaving oifname "up" ip saddr {inside} snat to {beyond}',
        ],
    )


def only_outwards(cloud: lab.Session) -> None:
    """Give c and d one address outside, over which no other host can open a connection to them."""
    inside = ", ".join(address(cloud, name) for name in "cd")
    translate(
        cloud,
        "right",
        [
            f'closed iifname "up" ip daddr {{ {inside} }} drop',
            f'leaving oifname "up" ip saddr {{ {inside} }} snat to {outside(cloud)}',
        ],
    )


@contextmanager
def behind(nat: Callable[[lab.Session], None], names: str) -> Iterator[tuple[lab.Session, Inventory]]:
    """Make a lab in which hosts are behind a NAT, with an inventory that lists the address outside."""
    switches: list[str | Mapping[str, Any]] = [
        "core",
        {"name": "left", "parent": "core"},
        {"name": "right", "parent": "core"},
    ]
    with lab.session(topology(HOSTS, switches=switches), source="tests") as cloud:
        nat(cloud)
        known = read_inventory(cloud.hosts_file)
        hosts = [
            host.model_copy(update={"addresses": [outside(cloud)]}) if host.name in names else host
            for host in known.host
        ]
        yield cloud, known.model_copy(update={"host": hosts})


def kept(receiver: str, rates: dict[str, str]) -> Guarantee:
    """Return guarantees of the senders, and of their receiver for all of the senders together."""
    entries: list[dict[str, str]] = [{"host": host, "egress": rate} for host, rate in rates.items()]
    entries.append({"host": receiver, "ingress": "90mbit", "ingress_limit": "95mbit"})
    return Guarantee.model_validate({"format": "gavotte/guarantee/1", "guarantee": entries})


def contest(cloud: lab.Session, receiver: str, target: str, flows: dict[str, int]) -> dict[str, float]:
    """Let hosts send to one receiver; return the wire rate that arrived from each source address after some time."""
    seconds = WARM_S + COUNTED_S
    with traffic(cloud, receiver, "sink", PORT, seconds, BIN_S, stdout=subprocess.PIPE, text=True) as sink:
        heard(sink)
        senders = [traffic(cloud, host, "tcp", target, PORT, seconds, count) for host, count in flows.items()]
        bins = json.loads(sink.communicate()[0])["bins"]
        for sender in senders:
            sender.wait()
    counted = {source: each[int(WARM_S / BIN_S) :] for source, each in bins.items()}
    return {source: 8 * WIRE_PER_PAYLOAD * sum(each) / (BIN_S * len(each)) for source, each in counted.items()}


def reasons(result: GuaranteeStatus, source: str) -> set[str]:
    return {pair.why for pair in result.pairs if pair.source == source}


@pytest.mark.rare
@pytest.mark.parametrize("nat", [on_the_host, on_the_router])
def test_one_connection_keeps_its_guarantee_into_and_out_of_a_nat(nat: Callable[[lab.Session], None]) -> None:
    with behind(nat, "c") as (cloud, inventory):
        apply(kept("c", {"a": "60mbit", "b": "30mbit"}), inventory)
        into = contest(cloud, "c", outside(cloud), {"a": 1, "b": 8})
        state = status(inventory)
        assert into[address(cloud, "a")] > 0.95 * KEPT_BPS
        assert [host.why for host in state.hosts if host.host in "abc"] == [""] * 3
        clear(inventory)

        apply(kept("a", {"c": "60mbit", "b": "30mbit"}), inventory)
        out = contest(cloud, "a", address(cloud, "a"), {"c": 1, "b": 8})
        state = status(inventory)
        assert out[outside(cloud)] > 0.95 * KEPT_BPS
        assert [host.why for host in state.hosts if host.host in "abc"] == [""] * 3
        assert all(pair.met is not None for pair in state.pairs)


def test_a_host_that_no_other_reaches_keeps_its_guarantee_by_its_own_datagrams() -> None:
    with behind(only_outwards, "c") as (cloud, inventory):
        apply(kept("a", {"c": "60mbit", "b": "30mbit"}), inventory)
        out = contest(cloud, "a", address(cloud, "a"), {"c": 1, "b": 8})
        assert out[outside(cloud)] > 0.95 * KEPT_BPS
        assert [host.why for host in status(inventory).hosts if host.host in "abc"] == [""] * 3


def test_hosts_with_one_address_are_named_and_have_static_guarantees() -> None:
    with behind(only_outwards, "cd") as (cloud, inventory):
        wanted = kept("a", {"c": "30mbit", "d": "20mbit", "b": "30mbit"})
        assert sharing_addresses(wanted, inventory) == {outside(cloud): ["c", "d"]}
        apply(wanted, inventory)
        out = contest(cloud, "a", address(cloud, "a"), {"c": 1, "d": 1, "b": 8})
        state = status(inventory)
        why = {host.host: host.why for host in state.hosts}
        assert why["a"].startswith(f"packets of c, d have one address, {outside(cloud)}")
        # Both have a third of the receiver's hose, or their own, whichever is lower.
        static = {pair.source: pair.guarantee_bps for pair in state.pairs if pair.target == "a"}
        assert static["c"] == pytest.approx(30e6, rel=0.01)
        assert static["d"] == pytest.approx(20e6, rel=0.01)
        assert 0.9 * 50e6 < out[outside(cloud)] < 1.02 * 50e6
