"""Turns a Topology into what the kernel needs: namespaces, cables, addresses, routes, shapers. Pure.

Three kinds of node, each a network namespace: a *host* is what the tenant sees; a *switch* routes; a *machine* is
the hypervisor, a bridge between its hosts and its switch. Shapers stand in machines and switches only, out
of the tenant's sight. A path through k switches shows k routers: 0 within a machine, 1 in a rack, 3, 5 above.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from gavotte.errors import GavotteError
from gavotte.lab.shapers import (
    MAX_QUEUE_BYTES,
    Cap,
    Shaper,
    link_shaper,
    nic_shaper,
    pair_shaper,
    super_packet_bytes,
)

if TYPE_CHECKING:  # the keeper imports this module and must start fast
    from gavotte.formats.topology import Host, Topology

Kind = Literal["host", "switch", "machine"]

MACHINE_NET = int(ipaddress.IPv4Address("10.1.0.0"))
SWITCH_NET = int(ipaddress.IPv4Address("10.240.0.0"))
HOSTS_PER_MACHINE = 250
FIRST_HOST = 2
"""Last byte of a machine's first host; its gateway has 1."""
HYPERVISOR = 254
"""Last byte of the address that a machine's own bridge takes where it is to send itself, as in campaigns."""

LOOPBACK_INDEX = 1


@dataclass(frozen=True)
class Interface:
    """A network interface of a node; loopback is not listed.

    Attributes:
        name: unique in the node.
        index: the kernel's number for it, fixed here so that nothing need be asked back.
        address: with prefix length, as `10.1.0.2/24`; empty for none.
        bridge: index of the bridge it is a port of, 0 for none.
        is_bridge: whether it is a bridge itself.
        super_packet_bytes: largest packet handed down whole, 0 = the kernel's default.
        shaper: what limits its sending.
    """

    name: str
    index: int
    address: str = ""
    bridge: int = 0
    is_bridge: bool = False
    super_packet_bytes: int = 0
    shaper: Shaper | None = None

    @property
    def ip(self) -> str:
        """The address without prefix length."""
        return self.address.partition("/")[0]


@dataclass(frozen=True)
class Route:
    """Where packets go next.

    Attributes:
        network: as `10.1.0.0/24`; `0.0.0.0/0` is the default route.
        via: the next router's address.
    """

    network: str
    via: str


@dataclass(frozen=True)
class Node:
    """One network namespace.

    Attributes:
        name: the host's or switch's; `machines/NAME` for a machine.
        kind: host, switch or machine.
        interfaces: in index order.
        routes: beyond those of the interfaces' own networks.
    """

    name: str
    kind: Kind
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...]


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
        hosts: name and address of each host, in the topology's order.
        switches: name and addresses of each switch, in the topology's order.
    """

    nodes: tuple[Node, ...]
    cables: tuple[tuple[End, End], ...]
    hosts: tuple[tuple[str, str], ...]
    switches: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def hosts_text(self) -> str:
        """The /etc/hosts that every process of the lab sees."""
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        lines += [f"{address} {name}" for name, address in self.hosts]
        lines += [f"{address} {name}" for name, addresses in self.switches for address in addresses]
        return "\n".join(lines) + "\n"


@dataclass
class _Draft:
    """A node while it is being wired."""

    name: str
    kind: Kind
    position: int
    interfaces: list[Interface] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)

    def add(self, name: str, **more: object) -> Interface:
        made = replace(Interface(name, LOOPBACK_INDEX + 1 + len(self.interfaces)), **more)  # type: ignore[arg-type]
        self.interfaces.append(made)
        return made

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


def layout_of(topology: Topology) -> Layout:
    """Lays out a lab.

    Raises:
        GavotteError: when a machine holds more hosts than its subnet.
    """
    return _Drafter(topology).layout()


class _Drafter:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.drafts: dict[str, _Draft] = {}
        self.cables: list[tuple[End, End]] = []
        self.addresses: dict[str, str] = {}
        self.networks: dict[str, list[str]] = defaultdict(list)
        """Networks that touch a switch, those towards its parent excepted."""

    def layout(self) -> Layout:
        boxes = list(_boxes(self.topology))
        for switch in self.topology.switch:
            self._draft(switch.name, "switch")
        for number, box in enumerate(boxes):
            self._wire_machine(number, box)
        self._wire_switches()
        self._limit_super_packets()
        return Layout(
            nodes=tuple(Node(d.name, d.kind, tuple(d.interfaces), tuple(d.routes)) for d in self.drafts.values()),
            cables=tuple(self.cables),
            hosts=tuple((host.name, self.addresses[host.name]) for host in self.topology.host),
            switches=tuple((s.name, tuple(i.ip for i in self.drafts[s.name].interfaces)) for s in self.topology.switch),
        )

    def _draft(self, name: str, kind: Kind) -> _Draft:
        return self.drafts.setdefault(name, _Draft(name, kind, len(self.drafts)))

    def _wire_machine(self, number: int, box: _Box) -> None:
        """Bridge, uplink to the switch, one port per host; the caps stand at both ends of the uplink."""
        if len(box.hosts) > HOSTS_PER_MACHINE:
            raise GavotteError(f"machine `{box.name}` has {len(box.hosts)} hosts, but a lab allows 250")
        base = MACHINE_NET + 256 * number
        network, gateway = f"{_dotted(base)}/24", _dotted(base + 1)
        ips = [_dotted(base + FIRST_HOST + i) for i in range(len(box.hosts))]
        self.networks[box.switch].append(network)

        egress = [Cap(ip, h.egress, h.burst, h.queue) for ip, h in zip(ips, box.hosts, strict=True)]
        ingress = [Cap(ip, h.ingress, h.burst, h.queue) for ip, h in zip(ips, box.hosts, strict=True)]
        own = _dotted(base + HYPERVISOR)
        switch = self.drafts[box.switch]
        machine = self._draft(f"machines/{box.name}", "machine")
        bridge = machine.add("bridge", is_bridge=True)
        up = machine.add("up", bridge=bridge.index, shaper=nic_shaper("source", box.nic_bps, egress, own))
        shaper = nic_shaper("target", box.nic_bps, ingress, own)
        down = switch.add(f"m{number}", address=f"{gateway}/24", shaper=shaper)
        self.cables.append((switch.end(down), machine.end(up)))
        for place, (ip, host) in enumerate(zip(ips, box.hosts, strict=True)):
            others = [other for other in ips if other != ip]
            port = machine.add(f"h{place}", bridge=bridge.index, shaper=pair_shaper(box.pair_bps, others))
            draft = self._draft(host.name, "host")
            eth0 = draft.add("eth0", address=f"{ip}/24")
            draft.routes.append(Route("0.0.0.0/0", gateway))
            self.cables.append((machine.end(port), draft.end(eth0)))
            self.addresses[host.name] = ip

    def _wire_switches(self) -> None:
        """Links children to parents; routes lead down to every network of a subtree, and else up."""
        by_name = {switch.name: switch for switch in self.topology.switch}
        children = [switch for switch in self.topology.switch if switch.parent is not None]
        uplink: dict[str, str] = {}
        for number, switch in enumerate(children):
            assert switch.parent is not None
            base = SWITCH_NET + 4 * number
            above, below = _dotted(base + 1), _dotted(base + 2)
            parent, child = self.drafts[switch.parent], self.drafts[switch.name]
            down = parent.add(f"s{number}", address=f"{above}/30", shaper=link_shaper(switch.down_bps, switch.queue))
            up = child.add("up", address=f"{below}/30", shaper=link_shaper(switch.up, switch.queue))
            self.cables.append((parent.end(down), child.end(up)))
            child.routes.append(Route("0.0.0.0/0", above))
            self.networks[switch.parent].append(f"{_dotted(base)}/30")
            uplink[switch.name] = below
        for name, networks in list(self.networks.items()):
            hop, parent_name = name, by_name[name].parent
            while parent_name is not None:
                via = uplink[hop]
                self.drafts[parent_name].routes.extend(Route(network, via) for network in networks)
                hop, parent_name = parent_name, by_name[parent_name].parent

    def _limit_super_packets(self) -> None:
        shapers = [i.shaper for d in self.drafts.values() for i in d.interfaces if i.shaper is not None]
        smallest = min((leaf.queue_bytes for s in shapers for leaf in s.leaves), default=2 * MAX_QUEUE_BYTES)
        for host in self.topology.host:
            draft = self.drafts[host.name]
            draft.interfaces = [
                replace(i, super_packet_bytes=super_packet_bytes(host.burst, smallest)) for i in draft.interfaces
            ]


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


def _dotted(address: int) -> str:
    return str(ipaddress.IPv4Address(address))
