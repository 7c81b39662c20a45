"""The addresses of a lab in each address family: subnets of machines, and of links between switches. No I/O."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the keeper imports this module and must start fast
    from gavotte.formats.topology import Topology

IPV4, IPV6 = 4, 6
"""Versions of IP, as `ipaddress` numbers them."""

HOSTS_PER_MACHINE = 250
GATEWAY = 1
"""Number of a machine's gateway in its subnet, which is the switch's address in it."""
FIRST_HOST = 2
"""Number of a machine's first host in its subnet."""
HYPERVISOR = 254
"""Number of the address of a machine's own bridge, if the machine itself sends, as in campaigns."""
ABOVE, BELOW = 1, 2
"""Numbers of the two ends of a link between switches."""

DEFAULT_NETWORKS = {IPV4: "0.0.0.0/0", IPV6: "::/0"}
"""The network of a default route."""


@dataclass(frozen=True)
class Subnet:
    """A network whose members have numbers.

    Attributes:
        network: as `10.1.0.0/24` or `fd67:6176:1::/64`.
    """

    network: str

    def ip(self, number: int) -> str:
        """Return a member's address."""
        return str(ipaddress.ip_network(self.network)[number])

    def interface(self, number: int) -> str:
        """Return a member's address with the prefix length."""
        return f"{self.ip(number)}/{self.network.partition('/')[2]}"

    @property
    def version(self) -> int:
        """4 or 6."""
        return version(self.network)

    @property
    def default(self) -> str:
        """The network of a default route in this family."""
        return DEFAULT_NETWORKS[self.version]


def version(text: str) -> int:
    """Return 4 or 6 for an address or network, with or without prefix length."""
    return IPV6 if ":" in text else IPV4


def versions(topology: Topology) -> tuple[int, ...]:
    """Return the versions of IP that a lab's hosts have; the first is the one that the Inventory names."""
    return {"ipv4": (IPV4,), "ipv6": (IPV6,), "dual": (IPV4, IPV6)}[topology.addresses]


def machine_subnet(family: int, number: int) -> Subnet:
    """Return the subnet of a machine's hosts: a /24, or a /64."""
    if family == IPV4:
        return Subnet(f"{ipaddress.IPv4Address('10.1.0.0') + 256 * number}/24")
    return Subnet(f"{ipaddress.IPv6Address('fd67:6176:1::') + (number << 64)}/64")


def link_subnet(family: int, number: int) -> Subnet:
    """Return the subnet of a link between two switches: a /30, or a /64."""
    if family == IPV4:
        return Subnet(f"{ipaddress.IPv4Address('10.240.0.0') + 4 * number}/30")
    return Subnet(f"{ipaddress.IPv6Address('fd67:6176:f0::') + (number << 64)}/64")


def ethernet_address(machine: int, host: int) -> str:
    """Return a locally administered Ethernet address for a machine's host, both numbered from 0."""
    ip = ipaddress.IPv4Address(machine_subnet(IPV4, machine).ip(FIRST_HOST + host))
    return ":".join(f"{byte:02x}" for byte in (2, 0, *ip.packed))
