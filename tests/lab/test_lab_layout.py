"""The layout, without a kernel: who is where, who reaches whom, what is limited."""

from __future__ import annotations

import ipaddress
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import topology
from tests.lab.clouds import tree_of_ten

from gavotte.errors import GavotteError
from gavotte.formats.topology import Topology
from gavotte.lab.layout import Interface, Layout, Node, layout_of
from gavotte.lab.shapers import Cap, nic_shaper, queue_for, super_packet_bytes


def interface(layout: Layout, node: str, name: str) -> Interface:
    (found,) = [i for n in layout.nodes if n.name == node for i in n.interfaces if i.name == name]
    return found


def routers_between(layout: Layout, source: str, target: str) -> int:
    """Follows a packet by the layout's own addresses and routes; returns how many routers it met."""
    owners = {i.ip: node for node in layout.nodes for i in node.interfaces if i.ip}
    nodes = {node.name: node for node in layout.nodes}
    address = dict(layout.hosts)[target]
    at, met = nodes[source], 0
    while not on_link(at, address):
        via = next_hop(at, address)
        assert on_link(at, via), f"{at.name} has no link to {via}"
        at, met = owners[via], met + 1
        assert at.kind == "switch"
        assert met <= len(layout.nodes), "packets go round in circles"
    return met


def on_link(node: Node, address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return any(i.address and ip in ipaddress.ip_interface(i.address).network for i in node.interfaces)


def next_hop(node: Node, address: str) -> str:
    fitting = [r for r in node.routes if ipaddress.ip_address(address) in ipaddress.ip_network(r.network)]
    return max(fitting, key=lambda r: ipaddress.ip_network(r.network).prefixlen).via


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    switches = [{"name": "s0"}]
    count = draw(st.integers(1, 8))
    switches += [{"name": f"s{i}", "parent": f"s{draw(st.integers(0, i - 1))}"} for i in range(1, count)]
    some = st.sampled_from([s["name"] for s in switches])
    machines = [{"name": f"m{i}", "switch": draw(some)} for i in range(draw(st.integers(0, 4)))]
    hosts = []
    for i in range(draw(st.integers(1, 12))):
        inside = bool(machines) and draw(st.booleans())
        place = {"machine": draw(st.sampled_from(machines))["name"]} if inside else {"switch": draw(some)}
        hosts.append({"name": f"h{i}", **place})
    return topology(hosts, switches=switches, machine=machines)


@given(topologies())
def test_names_and_addresses_are_unique_and_cables_fit(topology: Topology) -> None:
    layout = layout_of(topology)
    ips = [i.ip for node in layout.nodes for i in node.interfaces if i.ip]
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
        assert routers_between(layout, a, b) == expected


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
        (leaf,) = [leaf for leaf in up.leaves if leaf.address == addresses[host.name]]
        assert (leaf.match, leaf.ceil_bps, leaf.burst_bytes, leaf.queue_bytes) == ("source", 3e8, 512 * 1024, 1 << 20)
        assert up.rate_bps == 1e9
        machine = max(0, number - 2)
        down = interface(layout, f"tor{machine // 2}", f"m{machine}").shaper
        assert down is not None
        (leaf,) = [leaf for leaf in down.leaves if leaf.address == addresses[host.name]]
        assert (leaf.match, leaf.ceil_bps) == ("target", 2e8)
    pair = interface(layout, "machines/pm0", "h0").shaper
    assert pair is not None
    assert [(leaf.match, leaf.address, leaf.ceil_bps) for leaf in pair.leaves] == [
        ("source", addresses[vm], 4e9) for vm in ("vm1", "vm2")
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
    shaper = nic_shaper("source", nic, [Cap(str(i), cap, 32768, None) for i, cap in enumerate(caps)])
    leaves = {leaf.address: leaf for leaf in shaper.leaves} if shaper else {}
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


@given(st.integers(0, 1 << 30), st.floats(1e3, 1e12))
def test_a_queue_holds_two_super_packets(burst: int, rate: float) -> None:
    queue = queue_for(rate, None)
    assert 3028 <= super_packet_bytes(burst, queue) <= max(3028, queue // 2)


def test_names_resolve() -> None:
    layout = layout_of(tree_of_ten())
    lines = layout.hosts_text.splitlines()
    assert "127.0.0.1 localhost" in lines
    assert "10.1.0.2 vm0" in lines
    assert {line.split()[1] for line in lines} >= {"core", "agg0", "tor3", "vm9"}


def test_a_machine_too_full_is_refused() -> None:
    hosts = [{"name": f"h{i}", "machine": "m"} for i in range(251)]
    with pytest.raises(GavotteError, match="has 251 hosts"):
        layout_of(topology(hosts, switches=["s"], machine=[{"name": "m", "switch": "s"}]))
