"""Turn a Topology into what the kernel needs: namespaces, cables, addresses, routes, shapers. No I/O.

Each node is a network namespace. A *host* is what the tenant sees; a *switch* routes. A *machine* is the hypervisor, a
bridge between its hosts and its switch. Links that delay or drop packets go through the lab's one *element*.
Shapers are in machines and switches only, out of the tenant's sight, and so is the element.
A path through k switches shows k routers: 0 within a machine, 1 in a rack, 3, 5 above.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from gavotte.errors import GavotteError
from gavotte.lab.addressing import (
    ABOVE,
    BELOW,
    FIRST_HOST,
    GATEWAY,
    HOSTS_PER_MACHINE,
    HYPERVISOR,
    IPV4,
    Subnet,
    ethernet_address,
    link_subnet,
    machine_subnet,
    versions,
)
from gavotte.lab.shapers import (
    MAX_QUEUE_BYTES,
    MAX_SUPER_PACKET_BYTES,
    Cap,
    Shaper,
    link_burst,
    link_shaper,
    nic_shaper,
    pair_shaper,
    super_packet_bytes,
)
from gavotte.lab.wires import (
    LARGEST_MTU_BYTES,
    SUPER_PACKET_BYTES,
    Lane,
    Wire,
    enforced_by_element,
    host_lane,
    link_lane,
)

if TYPE_CHECKING:  # the keeper imports this module and must start fast
    from gavotte.formats.topology import Host, Switch, Topology

Kind = Literal["host", "switch", "machine", "element"]

ELEMENT = "element/links"
"""The node through which links that delay or drop packets go. No host can have this name."""

LOOPBACK_INDEX = 1
DEFAULT_MTU_BYTES = 1500


@dataclass(frozen=True)
class Interface:
    """A network interface of a node; loopback is not listed.

    Attributes:
        name: unique in the node.
        index: the kernel's number for it, fixed here so that it need not be queried.
        addresses: with prefix lengths, as `10.1.0.2/24`; one in each family of the lab, or none.
        bridge: index of the bridge that it is a port of, 0 for none.
        is_bridge: whether it is a bridge itself.
        mtu_bytes: largest IP packet that a frame holds.
        super_packet_bytes: largest packet handed down whole, 0 = the kernel's default.
        whole: super-packets that it sends whole: `any`, only those of `tcp`, or `none`.
        ethernet_address: its hardware address, as `02:00:0a:01:00:02`; empty = the kernel chooses.
        shaper: what limits its sending.
    """

    name: str
    index: int
    addresses: tuple[str, ...] = ()
    bridge: int = 0
    is_bridge: bool = False
    mtu_bytes: int = DEFAULT_MTU_BYTES
    super_packet_bytes: int = 0
    whole: Literal["any", "tcp", "none"] = "any"
    ethernet_address: str = ""
    shaper: Shaper | None = None

    @property
    def ips(self) -> tuple[str, ...]:
        """Addresses of the interface, without prefix lengths."""
        return tuple(address.partition("/")[0] for address in self.addresses)


@dataclass(frozen=True)
class Route:
    """Next hop of the packets to a network.

    Attributes:
        network: as `10.1.0.0/24`; `0.0.0.0/0` and `::/0` are the default routes.
        vias: the next router's address; several if it is reached over several equal links, which share the flows.
    """

    network: str
    vias: tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """One network namespace.

    Attributes:
        name: the host's or switch's name; `machines/NAME` for a machine, `ELEMENT` for the element.
        kind: host, switch, machine or element.
        interfaces: in index order.
        routes: in addition to those of the interfaces' own networks.
        drops_icmp: whether ICMP packets that it would send or forward are lost.
    """

    name: str
    kind: Kind
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...]
    drops_icmp: bool = False


@dataclass(frozen=True)
class End:
    """One end of a cable.

    Attributes:
        node: position in `Layout.nodes`.
        name: the interface's name.
        index: the interface's number.
    """

    node: int
    name: str
    index: int


@dataclass(frozen=True)
class Layout:
    """The lab to build.

    Attributes:
        nodes: every namespace.
        cables: pairs of interface ends.
        hosts: name and address of each host, in the topology's order; IPv4 in a dual-stack lab.
        switches: name and addresses of each switch, in the topology's order.
        wires: pairs of the element's interfaces, and what happens between them.
        versions: versions of IP that the hosts have: 4, 6 or both.
    """

    nodes: tuple[Node, ...]
    cables: tuple[tuple[End, End], ...]
    hosts: tuple[tuple[str, str], ...]
    switches: tuple[tuple[str, tuple[str, ...]], ...]
    wires: tuple[Wire, ...] = ()
    versions: tuple[int, ...] = (IPV4,)

    @property
    def hosts_text(self) -> str:
        """Content of the /etc/hosts file that every process of the lab sees."""
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        hosts = [
            (node.name, interface.ips) for node in self.nodes if node.kind == "host" for interface in node.interfaces
        ]
        lines += [f"{ip} {name}" for name, ips in (*hosts, *self.switches) for ip in ips]
        return "\n".join(lines) + "\n"


@dataclass
class _Draft:
    """A node while it is being wired."""

    name: str
    kind: Kind
    position: int
    drops_icmp: bool = False
    interfaces: list[Interface] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)

    def add(self, name: str, **more: object) -> Interface:
        made = replace(Interface(name, LOOPBACK_INDEX + 1 + len(self.interfaces)), **more)  # type: ignore[arg-type]
        self.interfaces.append(made)
        return made

    @property
    def node(self) -> Node:
        return Node(self.name, self.kind, tuple(self.interfaces), tuple(self.routes), self.drops_icmp)

    def change(self, interface: Interface, **more: object) -> None:
        """Replace fields of one of its interfaces."""
        self.interfaces[interface.index - LOOPBACK_INDEX - 1] = replace(interface, **more)  # type: ignore[arg-type]

    def end(self, interface: Interface) -> End:
        return End(self.position, interface.name, interface.index)


@dataclass(frozen=True)
class _Box:
    """A machine, explicit or implied by a host with a `switch`."""

    name: str
    switch: str
    nic_bps: float | None
    pair_bps: float | None
    hosts: tuple[Host, ...]

    @property
    def mtu_bytes(self) -> int:
        """MTU of the machine's hosts, which all have the same."""
        return self.hosts[0].mtu if self.hosts else DEFAULT_MTU_BYTES


def layout_of(topology: Topology) -> Layout:
    """Return the layout of a topology's lab.

    Raises:
        GavotteError: when a machine holds more hosts than its subnet.
    """
    return _Drafter(topology).layout()


class _Drafter:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.drafts: dict[str, _Draft] = {}
        self.cables: list[tuple[End, End]] = []
        self.wires: list[Wire] = []
        self.versions = versions(topology)
        self.addresses: dict[str, str] = {}
        self.networks: dict[str, list[Subnet]] = defaultdict(list)
        """Networks that touch a switch, except those towards its parent."""

    def layout(self) -> Layout:
        boxes = list(_boxes(self.topology))
        for switch in self.topology.switch:
            self._draft(switch.name, "switch").drops_icmp = not switch.icmp
        for number, box in enumerate(boxes):
            self._wire_machine(number, box)
        self._wire_switches()
        self._limit_super_packets()
        return Layout(
            nodes=tuple(draft.node for draft in self.drafts.values()),
            cables=tuple(self.cables),
            hosts=tuple((host.name, self.addresses[host.name]) for host in self.topology.host),
            switches=tuple(
                (s.name, tuple(ip for i in self.drafts[s.name].interfaces for ip in i.ips))
                for s in self.topology.switch
            ),
            wires=tuple(self.wires),
            versions=self.versions,
        )

    def _draft(self, name: str, kind: Kind) -> _Draft:
        return self.drafts.setdefault(name, _Draft(name, kind, len(self.drafts)))

    def _wire_machine(self, number: int, box: _Box) -> None:
        """Make the bridge, the uplink to the switch, and a port per host. The caps apply at both ends of the uplink."""
        if len(box.hosts) > HOSTS_PER_MACHINE:
            raise GavotteError(f"machine `{box.name}` has {len(box.hosts)} hosts, but a lab allows 250")
        subnets = [machine_subnet(family, number) for family in self.versions]
        ips = [tuple(subnet.ip(FIRST_HOST + i) for subnet in subnets) for i in range(len(box.hosts))]
        self.networks[box.switch].extend(subnets)

        egress = [_cap(own, host, host.egress, box.nic_bps) for own, host in zip(ips, box.hosts, strict=True)]
        ingress = [_cap(own, host, host.ingress, box.nic_bps) for own, host in zip(ips, box.hosts, strict=True)]
        own, mtu = tuple(subnet.ip(HYPERVISOR) for subnet in subnets), box.mtu_bytes
        switch = self.drafts[box.switch]
        machine = self._draft(f"machines/{box.name}", "machine")
        bridge = machine.add("bridge", is_bridge=True, mtu_bytes=mtu)
        shaper = nic_shaper("source", box.nic_bps, egress, own)
        up = machine.add("up", bridge=bridge.index, mtu_bytes=mtu, shaper=shaper)
        shaper = nic_shaper("target", box.nic_bps, ingress, own)
        gateways = tuple(subnet.interface(GATEWAY) for subnet in subnets)
        down = switch.add(f"m{number}", addresses=gateways, mtu_bytes=mtu, shaper=shaper)
        lanes = _host_lanes(box.hosts, number)
        self._join((switch, down, [lane for lane, _ in lanes]), (machine, up, [lane for _, lane in lanes]))
        for place, (host, (lane, _)) in enumerate(zip(box.hosts, lanes, strict=True)):
            others = [other for other in ips if other != ips[place]]
            shaper = pair_shaper(box.pair_bps, others)
            port = machine.add(f"h{place}", bridge=bridge.index, mtu_bytes=mtu, shaper=shaper)
            draft = self._draft(host.name, "host")
            addresses = tuple(subnet.interface(FIRST_HOST + place) for subnet in subnets)
            eth0 = draft.add("eth0", addresses=addresses, mtu_bytes=mtu, ethernet_address=lane.address)
            draft.routes += [Route(subnet.default, (subnet.ip(GATEWAY),)) for subnet in subnets]
            self.cables.append((machine.end(port), draft.end(eth0)))
            self.addresses[host.name] = ips[place][0]

    def _wire_switches(self) -> None:
        """Link children to parents. Routes lead down to every network of a subtree, and otherwise up."""
        by_name = {switch.name: switch for switch in self.topology.switch}
        below: dict[str, list[list[Subnet]]] = {}
        numbers = itertools.count()
        for switch in self.topology.switch:
            if switch.parent is not None:
                links = [self._wire_uplink(switch, switch.parent, place, numbers) for place in range(switch.uplinks)]
                below[switch.name] = links
                for family in zip(*links, strict=True):
                    vias = tuple(subnet.ip(ABOVE) for subnet in family)
                    self.drafts[switch.name].routes.append(Route(family[0].default, vias))
                self.networks[switch.parent].extend(subnet for link in links for subnet in link)
        for name, networks in list(self.networks.items()):
            hop, parent_name = name, by_name[name].parent
            while parent_name is not None:
                vias_of = {
                    family[0].version: tuple(subnet.ip(BELOW) for subnet in family)
                    for family in zip(*below[hop], strict=True)
                }
                routes = (Route(subnet.network, vias_of[subnet.version]) for subnet in networks)
                self.drafts[parent_name].routes.extend(routes)
                hop, parent_name = parent_name, by_name[parent_name].parent

    def _wire_uplink(self, switch: Switch, parent_name: str, place: int, numbers: Iterator[int]) -> list[Subnet]:
        """Make one of a switch's equal links to its parent; return its subnet in each family."""
        number = next(numbers)
        subnets = [link_subnet(family, number) for family in self.versions]
        parent, child = self.drafts[parent_name], self.drafts[switch.name]
        largest = max(DEFAULT_MTU_BYTES, *(host.mtu for host in self.topology.host))
        mtu = switch.mtu or largest
        shaper = link_shaper(switch.down_bps, switch.queue)
        addresses = tuple(subnet.interface(ABOVE) for subnet in subnets)
        down = parent.add(f"s{number}", addresses=addresses, mtu_bytes=mtu, shaper=shaper)
        shaper = link_shaper(switch.up, switch.queue)
        addresses = tuple(subnet.interface(BELOW) for subnet in subnets)
        up = child.add(f"up{place or ''}", addresses=addresses, mtu_bytes=mtu, shaper=shaper)
        lane = link_lane(switch)
        self._join((parent, down, [lane]), (child, up, [lane]))
        return subnets

    def _join(self, *sides: tuple[_Draft, Interface, list[Lane]]) -> None:
        """Link two interfaces, through the element if something happens to packets on the way.

        Args:
            sides: the side towards the root, then the other: its node, its interface and what happens to the packets
                that it sends.
        """
        lanes = [tuple(lane for lane in lanes if not lane.idle) for _, _, lanes in sides]
        ends = [draft.end(interface) for draft, interface, _ in sides]
        if not any(lanes):
            self.cables.append((ends[0], ends[1]))
            return
        element = self._draft(ELEMENT, "element")
        number = len(self.wires)
        inner = [element.add(f"w{number}{side}", mtu_bytes=LARGEST_MTU_BYTES) for side in "ab"]
        self.cables.append((ends[0], element.end(inner[0])))
        self.cables.append((element.end(inner[1]), ends[1]))
        self.wires.append(Wire((inner[0].index, inner[1].index), lanes[0], lanes[1]))
        for (draft, interface, _), way in zip(sides, lanes, strict=True):
            draft.change(interface, whole="none" if any(lane.drops for lane in way) else "tcp")

    def _limit_super_packets(self) -> None:
        shapers = [i.shaper for d in self.drafts.values() for i in d.interfaces if i.shaper is not None]
        smallest = min((leaf.queue_bytes for s in shapers for leaf in s.leaves), default=2 * MAX_QUEUE_BYTES)
        most = SUPER_PACKET_BYTES if self.wires else MAX_SUPER_PACKET_BYTES
        for host in self.topology.host:
            draft = self.drafts[host.name]
            whole = min(super_packet_bytes(host.burst, smallest, host.mtu), most)
            draft.interfaces = [replace(i, super_packet_bytes=whole) for i in draft.interfaces]


def _boxes(topology: Topology) -> Iterator[_Box]:
    inside: dict[str, list[Host]] = defaultdict(list)
    for host in topology.host:
        if host.machine is not None:
            inside[host.machine].append(host)
    for machine in topology.machine:
        yield _Box(machine.name, machine.switch, machine.rate, machine.machine_rate, tuple(inside[machine.name]))
    for host in topology.host:
        if host.switch is not None:
            yield _Box(host.name, host.switch, host.rate, None, (host,))


def _cap(ips: tuple[str, ...], host: Host, rate_bps: float | None, nic_bps: float | None) -> Cap:
    """Return the HTB limit of a host in one direction: the NIC's rate only where the element enforces the cap."""
    if rate_bps is not None and enforced_by_element(host, rate_bps):
        return Cap(ips, None, link_burst(nic_bps or 0.0), None)
    return Cap(ips, rate_bps, host.burst, host.queue)


def _host_lanes(hosts: Sequence[Host], machine: int) -> list[tuple[Lane, Lane]]:
    """Return what happens to each host's packets on its machine's link, down and up.

    Hosts that share the link are distinguished by their Ethernet addresses.
    """
    lanes = []
    for place, host in enumerate(hosts):
        down, up = host_lane(host, host.ingress), host_lane(host, host.egress)
        if len(hosts) > 1 and not (down.idle and up.idle):
            address = ethernet_address(machine, place)
            down = replace(down, field="target", address=address)
            up = replace(up, field="source", address=address)
        lanes.append((down, up))
    return lanes
