"""The layout, without a kernel: positions, reachability and limits of hosts."""

from __future__ import annotations

import ipaddress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import Named, topology
from tests.lab.clouds import tree_of_ten

from gavotte.errors import GavotteError
from gavotte.formats.topology import Topology
from gavotte.lab.layout import ELEMENT, Interface, Layout, Node, layout_of
from gavotte.lab.shapers import Cap, nic_shaper, queue_for, super_packet_bytes
from gavotte.lab.wires import Bucket, Lane, plan


def interface(layout: Layout, node: str, name: str) -> Interface:
    (result,) = [i for n in layout.nodes if n.name == node for i in n.interfaces if i.name == name]
    return result


def routers_between(layout: Layout, source: str, target: str, version: int = 4) -> int:
    """Follow a packet by the layout's own addresses and routes; return the number of routers on its way.

    If there are equal links, all of them must lead to one router.
    """
    owners = {ip: node for node in layout.nodes for i in node.interfaces for ip in i.ips}
    (address,) = [
        ip for ip, node in owners.items() if node.name == target and ipaddress.ip_address(ip).version == version
    ]
    nodes = {node.name: node for node in layout.nodes}
    at, met = nodes[source], 0
    while not on_link(at, address):
        vias = next_hops(at, address)
        assert all(on_link(at, via) for via in vias), f"{at.name} has no link to one of {vias}"
        (name,) = {owners[via].name for via in vias}
        at, met = nodes[name], met + 1
        assert at.kind == "switch"
        assert met <= len(layout.nodes), "packets go round in circles"
    return met


def on_link(node: Node, address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return any(ip in ipaddress.ip_interface(address).network for i in node.interfaces for address in i.addresses)


def next_hops(node: Node, address: str) -> tuple[str, ...]:
    fitting = [r for r in node.routes if ipaddress.ip_address(address) in ipaddress.ip_network(r.network)]
    return max(fitting, key=lambda r: ipaddress.ip_network(r.network).prefixlen).vias


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    switches: list[dict[str, Any]] = [{"name": "s0"}]
    count = draw(st.integers(1, 8))
    for i in range(1, count):
        above = f"s{draw(st.integers(0, i - 1))}"
        switches.append({"name": f"s{i}", "parent": above, "uplinks": draw(st.integers(1, 3))})
    some = st.sampled_from([s["name"] for s in switches])
    machines = [{"name": f"m{i}", "switch": draw(some)} for i in range(draw(st.integers(0, 4)))]
    hosts = []
    for i in range(draw(st.integers(1, 12))):
        inside = bool(machines) and draw(st.booleans())
        place = {"machine": draw(st.sampled_from(machines))["name"]} if inside else {"switch": draw(some)}
        hosts.append({"name": f"h{i}", **place})
    addresses = draw(st.sampled_from(["ipv4", "ipv6", "dual"]))
    return topology(hosts, switches=switches, machine=machines, addresses=addresses)


@given(topologies())
def test_names_and_addresses_are_unique_and_cables_fit(topology: Topology) -> None:
    layout = layout_of(topology)
    ips = [ip for node in layout.nodes for i in node.interfaces for ip in i.ips]
    assert len(ips) == len(set(ips))
    assert len({node.name for node in layout.nodes}) == len(layout.nodes)
    ends = [end for cable in layout.cables for end in cable]
    assert len({(end.node, end.index) for end in ends}) == len(ends)
    for end in ends:
        assert layout.nodes[end.node].interfaces[end.index - 2].name == end.name
    for node in layout.nodes:
        names = [i.name for i in node.interfaces]
        assert len(set(names)) == len(names)
        assert max(map(len, names), default=0) <= 15


@given(topologies())
def test_every_host_reaches_every_other(topology: Topology) -> None:
    layout = layout_of(topology)
    parents = {switch.name: switch.parent for switch in topology.switch}
    racks = {m.name: m.switch for m in topology.machine}
    box = {h.name: h.machine or h.name for h in topology.host}
    rack = {h.name: h.switch or racks[h.machine or ""] for h in topology.host}

    def line(switch: str) -> list[str]:
        parent = parents[switch]
        return [switch] if parent is None else [switch, *line(parent)]

    for a, b in permutations(box, 2):
        up, down = line(rack[a]), line(rack[b])
        shared = next(switch for switch in up if switch in down)
        expected = 0 if box[a] == box[b] else up.index(shared) + down.index(shared) + 1
        for version in layout.versions:
            assert routers_between(layout, a, b, version) == expected


def test_path_lengths_are_one_two_four_six() -> None:
    layout = layout_of(tree_of_ten())
    lengths = [routers_between(layout, "vm0", vm) + 1 for vm in ("vm1", "vm3", "vm4", "vm9")]
    assert lengths == [1, 2, 4, 6]


def test_every_cap_has_its_shaper() -> None:
    topology = tree_of_ten(egress="300mbit", ingress="200mbit", burst="512kb", queue="1mb")
    layout = layout_of(topology)
    addresses = dict(layout.hosts)
    for number, host in enumerate(topology.host):
        assert host.machine is not None
        up = interface(layout, f"machines/{host.machine}", "up").shaper
        assert up is not None
        (leaf,) = [leaf for leaf in up.leaves if leaf.addresses == (addresses[host.name],)]
        assert (leaf.match, leaf.ceil_bps, leaf.burst_bytes, leaf.queue_bytes) == ("source", 3e8, 512 * 1024, 1 << 20)
        assert up.rate_bps == 1e9
        machine = max(0, number - 2)
        down = interface(layout, f"tor{machine // 2}", f"m{machine}").shaper
        assert down is not None
        (leaf,) = [leaf for leaf in down.leaves if leaf.addresses == (addresses[host.name],)]
        assert (leaf.match, leaf.ceil_bps) == ("target", 2e8)
    pair = interface(layout, "machines/pm0", "h0").shaper
    assert pair is not None
    assert [(leaf.match, leaf.addresses, leaf.ceil_bps) for leaf in pair.leaves] == [
        ("source", (addresses[vm],), 4e9) for vm in ("vm1", "vm2")
    ]
    for switch, name, rate in (("tor0", "up", 4e9), ("agg0", "s2", 5e9), ("core", "s0", 1e10)):
        shaper = interface(layout, switch, name).shaper
        assert shaper is not None
        assert [(leaf.match, leaf.rate_bps) for leaf in shaper.leaves] == [("any", rate)]


def test_no_cap_no_shaper() -> None:
    layout = layout_of(topology("ab"))
    assert not [i for node in layout.nodes for i in node.interfaces if i.shaper]


@given(
    st.one_of(st.none(), st.floats(1e6, 1e11)),
    st.lists(st.one_of(st.none(), st.floats(1e6, 1e11)), min_size=1, max_size=20),
)
def test_a_nic_is_never_promised_twice(nic: float | None, caps: list[float | None]) -> None:
    shaper = nic_shaper("source", nic, [Cap((str(i),), cap, 32768, None) for i, cap in enumerate(caps)])
    leaves = {leaf.addresses[0]: leaf for leaf in shaper.leaves} if shaper else {}
    for number, cap in enumerate(caps):
        limits = [rate for rate in (cap, nic) if rate is not None]
        if not limits:
            assert str(number) not in leaves
            continue
        leaf = leaves[str(number)]
        assert leaf.ceil_bps == min(limits)
        assert leaf.rate_bps <= leaf.ceil_bps
    if nic is not None:
        assert sum(leaf.rate_bps for leaf in leaves.values()) <= nic * (1 + 1e-9)


@given(st.integers(0, 1 << 30), st.floats(1e3, 1e12), st.integers(1280, 9216))
def test_a_queue_holds_two_super_packets(burst: int, rate: float, mtu: int) -> None:
    queue = queue_for(rate, None)
    two_frames = 2 * (mtu + 14)
    assert two_frames <= super_packet_bytes(burst, queue, mtu) <= max(two_frames, queue // 2)


def test_an_mtu_reaches_from_the_host_to_its_switch() -> None:
    switches: list[Named] = ["core", {"name": "tor", "mtu": 1400, "icmp": False}, "plain"]
    hosts: list[Named] = [
        {"name": "a", "machine": "pm", "mtu": 9000},
        {"name": "b", "switch": "plain", "mtu": 1280},
    ]
    layout = layout_of(topology(hosts, switches=switches, machine=[{"name": "pm", "switch": "tor"}]))
    mtus = {(node.name, i.name): i.mtu_bytes for node in layout.nodes for i in node.interfaces}
    assert mtus == {
        ("a", "eth0"): 9000, ("machines/pm", "h0"): 9000, ("machines/pm", "bridge"): 9000,
        ("machines/pm", "up"): 9000, ("tor", "m0"): 9000,
        ("b", "eth0"): 1280, ("machines/b", "h0"): 1280, ("machines/b", "bridge"): 1280,
        ("machines/b", "up"): 1280, ("plain", "m1"): 1280,
        ("tor", "up"): 1400, ("core", "s0"): 1400,
        ("plain", "up"): 9000, ("core", "s1"): 9000,
    }  # fmt: skip
    assert [node.name for node in layout.nodes if node.drops_icmp] == ["tor"]


def test_links_without_impairments_have_no_element() -> None:
    layout = layout_of(tree_of_ten(egress="300mbit", burst="512kb"))
    assert not layout.wires
    assert {node.kind for node in layout.nodes} == {"host", "switch", "machine"}
    assert not [i for node in layout.nodes for i in node.interfaces if i.whole != "any" or i.ethernet_address]


@given(topologies())
def test_the_element_is_between_what_it_separates(plain: Topology) -> None:
    described = plain.model_dump()
    for switch in described["switch"]:
        if switch["parent"] is not None:
            switch["latency"] = "1ms"
    for host in described["host"]:
        host["loss"] = 0.1
    rates = ("up", "down", "queue", "rate", "machine_rate", "egress", "ingress", "burst", "mtu")
    for part in (*described["switch"], *described["machine"], *described["host"]):
        for key in (*rates, "latency", "jitter"):
            if not isinstance(part.get(key), str):
                part.pop(key, None)
    layout = layout_of(Topology.model_validate(described))
    inhabited = {host["machine"] or host["name"] for host in described["host"]}
    assert len(layout.wires) == len(inhabited) + sum(
        s["uplinks"] for s in described["switch"] if s["parent"] is not None
    )
    kinds = {}
    for left, right in layout.cables:
        for end, other in ((left, right), (right, left)):
            if layout.nodes[end.node].name == ELEMENT:
                kinds[end.index] = layout.nodes[other.node].kind
    assert sorted(kinds) == sorted(number for wire in layout.wires for number in wire.ends)
    for wire in layout.wires:
        assert kinds[wire.ends[0]] == "switch"
        assert kinds[wire.ends[1]] == ("switch" if wire.up[0].latency_s else "machine")


def test_hosts_of_one_machine_are_told_apart() -> None:
    hosts: list[dict[str, Any]] = [
        {"name": "far", "machine": "m", "latency": "2ms", "jitter": "80us", "egress": "8mbit", "policer": True},
        {"name": "near", "machine": "m"},
        {"name": "lone", "loss": 0.25, "egress": "8mbit", "ingress": "80mbit", "burst": "2mb"},
    ]
    layout = layout_of(topology(hosts, machine=[{"name": "m", "switch": "core", "rate": "1gbit"}]))
    shared, alone = layout.wires
    address = interface(layout, "far", "eth0").ethernet_address
    assert shared.down == (Lane(2e-3, 80e-6, 0.0, None, "target", address),)
    assert shared.up == (Lane(2e-3, 80e-6, 0.0, Bucket(8e6, 32 * 1024, 0), "source", address),)
    # 2 MiB are 2 s at 8 Mbit/s, for which the element is used, and 0.2 s at 80 Mbit/s, for which HTB is used.
    assert alone.up == (Lane(0.0, 0.0, 0.25, Bucket(8e6, 2 << 20, 64 * 1024)),)
    assert alone.down == (Lane(0.0, 0.0, 0.25),)
    assert [interface(layout, "near", "eth0").ethernet_address, interface(layout, "lone", "eth0").ethernet_address] == [
        "",
        "",
    ]
    up = interface(layout, "machines/m", "up")
    assert up.whole == "none"
    assert up.shaper is not None
    assert {leaf.ceil_bps for leaf in up.shaper.leaves} == {1e9}
    assert interface(layout, "core", "m0").whole == "tcp"
    down = interface(layout, "core", "m1").shaper
    assert down is not None
    assert [leaf.ceil_bps for leaf in down.leaves] == [80e6]


def test_every_lane_has_its_own_seed() -> None:
    hosts = [{"name": name, "loss": 0.1} for name in "abc"]
    wires = layout_of(topology(hosts)).wires
    seeds = [
        lane["seed"] for seed in (0, 1) for wire in plan(wires, seed)["wires"] for way in wire["ways"] for lane in way
    ]
    assert len(seeds) == 12
    assert len(set(seeds)) == 12


def test_the_largest_seed_of_a_campaign_fits_into_those_of_lanes() -> None:
    (wire,) = plan(layout_of(topology([{"name": "a", "loss": 0.1}])).wires, 2**63 - 1)["wires"]
    assert all(0 <= lane["seed"] < 2**64 for way in wire["ways"] for lane in way)


def test_names_resolve() -> None:
    layout = layout_of(tree_of_ten())
    lines = layout.hosts_text.splitlines()
    assert "127.0.0.1 localhost" in lines
    assert "10.1.0.2 vm0" in lines
    assert {line.split()[1] for line in lines} >= {"core", "agg0", "tor3", "vm9"}


def test_families_give_hosts_their_addresses() -> None:
    expected = {
        "ipv4": ("10.1.1.2", ["10.1.1.2 b"], {"10.1.1.2"}),
        "ipv6": ("fd67:6176:1:1::2", ["fd67:6176:1:1::2 b"], {"fd67:6176:1:1::2"}),
        "dual": ("10.1.1.2", ["10.1.1.2 b", "fd67:6176:1:1::2 b"], {"10.1.1.2", "fd67:6176:1:1::2"}),
    }
    for addresses, (first, lines, served) in expected.items():
        layout = layout_of(topology([{"name": "a"}, {"name": "b", "ingress": "8mbit"}], addresses=addresses))
        assert dict(layout.hosts)["b"] == first
        assert [line for line in layout.hosts_text.splitlines() if line.endswith(" b")] == lines
        shaper = interface(layout, "core", "m1").shaper
        assert shaper is not None
        assert [set(leaf.addresses) for leaf in shaper.leaves] == [served]


def test_each_of_several_uplinks_has_its_own_shaper() -> None:
    switches: list[Named] = ["core", {"name": "tor", "uplinks": 3, "up": "10mbit", "down": "20mbit"}]
    layout = layout_of(topology([{"name": "a"}, {"name": "b", "switch": "tor"}], switches=switches))
    ups = [interface(layout, "tor", name).shaper for name in ("up", "up1", "up2")]
    downs = [interface(layout, "core", f"s{number}").shaper for number in range(3)]
    assert [shaper.leaves[0].ceil_bps for shaper in (*ups, *downs) if shaper] == 3 * [1e7] + 3 * [2e7]


def test_a_machine_too_full_is_refused() -> None:
    hosts = [{"name": f"h{i}", "machine": "m"} for i in range(251)]
    with pytest.raises(GavotteError, match="has 251 hosts"):
        layout_of(topology(hosts, switches=["s"], machine=[{"name": "m", "switch": "s"}]))
