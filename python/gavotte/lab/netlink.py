"""Send rtnetlink messages: encode them with pyroute2's classes, and send many in one system call.

pyroute2's own `IPRoute` sends one request at a time, cannot name the queue `bfifo`, and runs an event loop. A lab of
two hundred hosts sends ten thousand messages from a process that forks. Only pyroute2's encoders are therefore used.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gavotte.errors import GavotteError, UnsupportedError
from gavotte.lab import offloads
from gavotte.lab.addressing import IPV4, IPV6, version
from gavotte.lab.bare import bare
from gavotte.lab.layout import End, Interface, Route
from gavotte.lab.shapers import Shaper

# The package itself loads its database, its sockets and asyncio: 0.2 s of the 0.5 s in which a lab's keeper starts.
with bare("pyroute2"):
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import (
        RTM_NEWADDR,
        RTM_NEWLINK,
        RTM_NEWQDISC,
        RTM_NEWROUTE,
        RTM_NEWRULE,
        RTM_NEWTCLASS,
        RTM_NEWTFILTER,
    )
    from pyroute2.netlink.rtnl.fibmsg import fibmsg
    from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
    from pyroute2.netlink.rtnl.rtmsg import rtmsg
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

if TYPE_CHECKING:
    from typing_extensions import Self

BATCH = 64
"""Messages per system call; the kernel's answers to them must fit the socket's buffer."""

MODULES = {"veth": "veth", "bridge": "bridge", "htb": "sch_htb", "bfifo": "sch_fifo", "u32": "cls_u32"}
"""Kernel features that a lab needs, and the module that provides each."""

OPTIONS = {
    "policy routing": "CONFIG_IP_MULTIPLE_TABLES",
    "policy routing of IPv6": "CONFIG_IPV6_MULTIPLE_TABLES",
    "multipath routing": "CONFIG_IP_ROUTE_MULTIPATH",
}
"""Kernel features that only some labs need, and the build option that provides each."""

_ABSENT = (errno.EOPNOTSUPP, errno.ENOENT, errno.ENODEV, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
_SIOCETHTOOL = 0x8946
_ETHTOOL_GLINK = 0x0A
_CREATE = NLM_F_CREATE | NLM_F_EXCL
_IFF_UP = 1
_ETHERTYPES = {IPV4: 0x0800, IPV6: 0x86DD}
_FAMILIES = {IPV4: socket.AF_INET, IPV6: socket.AF_INET6}
_TC_ROOT = 0xFFFF_FFFF
_HTB = 0x0001_0000
_HTB_PARENT = 1
_HTB_FIRST_LEAF = 16
_LINK_LAYER_ETHERNET = 1
_TICK_NS = 64
"""The kernel's unit of bucket depth: the time its bytes take at the rate, in 64 ns."""
_UNIVERSE, _BOOT, _UNICAST, _MAIN_TABLE = 0, 3, 1, 254
_BLACKHOLE = 6
_AFTER_LOCAL = 100
"""Priority of a rule that comes after the one for a node's own addresses, which is 0."""
_MATCH_OFFSET = {IPV4: {"source": 12, "target": 16}, IPV6: {"source": 8, "target": 24}}
"""Offset of the address in an IP header."""
_NO_DAD = 0x02
"""Flag of an address: use it at once, without looking for another host that has it."""


@dataclass(frozen=True)
class Message:
    """One encoded request.

    Attributes:
        data: the bytes.
        what: what it does, for an error's text.
        piece: the kernel feature that it needs, a key of `MODULES` or `OPTIONS`, or empty.
    """

    data: bytearray
    what: str
    piece: str = ""


class Channel:
    """An rtnetlink socket. It stays in the network namespace in which it was opened."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages in order and wait until the kernel has handled them all.

        Raises:
            UnsupportedError: when the kernel lacks a feature.
            GavotteError: when it refuses.
        """
        waiting = list(messages)
        for start in range(0, len(waiting), BATCH):
            self._send_batch(waiting[start : start + BATCH])

    def settle(self, name: str) -> None:
        """Make the kernel handle at once that an interface's link came up.

        Otherwise the kernel handles it later, from a work queue, and drops packets until then. A query of the
        interface's link, as ethtool sends it, works off the pending events.

        Args:
            name: the interface; both ends of its cable are up.
        """
        answer = array.array("B", struct.pack("=II", _ETHTOOL_GLINK, 0))
        request = struct.pack("16sP16x", name.encode(), answer.buffer_info()[0])
        fcntl.ioctl(self._socket, _SIOCETHTOOL, request)

    def keep_only_tcp(self, name: str) -> None:
        """Make an interface cut all super-packets except TCP's.

        Raises:
            GavotteError: when the kernel refuses.
        """
        try:
            offloads.keep_only_tcp(self._socket, name)
        except OSError as error:
            raise GavotteError(f"the kernel refused the offloads of {name}: {error.strerror}") from None

    def _send_batch(self, batch: list[Message]) -> None:
        sent = {}
        for message in batch:
            self._sequence += 1
            sent[self._sequence] = message
            struct.pack_into("=I", message.data, 8, self._sequence)
        flags = struct.unpack_from("=H", batch[-1].data, 6)[0]
        struct.pack_into("=H", batch[-1].data, 6, flags | NLM_F_ACK)
        self._socket.sendto(b"".join(message.data for message in batch), (0, 0))
        while True:
            answer = self._socket.recv(65536)
            at = 0
            while at < len(answer):
                length, _, _, sequence, _, code = struct.unpack_from("=IHHIIi", answer, at)
                if code:
                    raise refusal(sent[sequence], -code)
                if sequence == self._sequence:
                    return
                at += (length + 3) & ~3


def cable(left: End, left_namespace: int, right: End, right_namespace: int) -> Message:
    """Create a veth pair whose ends are born in two namespaces.

    Args:
        left: name and number of one end.
        left_namespace: open descriptor of its namespace.
        right: the other end.
        right_namespace: open descriptor of that one's namespace.
    """
    peer = {
        "index": right.index,
        "attrs": [("IFLA_IFNAME", right.name), ("IFLA_NET_NS_FD", right_namespace)],
    }
    info = [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer)]})]
    attributes = [
        ("IFLA_IFNAME", left.name),
        ("IFLA_NET_NS_FD", left_namespace),
        ("IFLA_LINKINFO", {"attrs": info}),
    ]
    message = _encode(ifinfmsg, RTM_NEWLINK, _CREATE, {"index": left.index}, attributes)
    return Message(message, f"veth {left.name}-{right.name}", "veth")


def loopback(index: int) -> Message:
    """Bring loopback up."""
    data = _encode(ifinfmsg, RTM_NEWLINK, 0, {"index": index, "flags": _IFF_UP, "change": _IFF_UP}, [])
    return Message(data, "lo up")


def interface(item: Interface) -> Iterable[Message]:
    """Bring up one interface with its bridge, addresses and shaper."""
    if item.is_bridge:
        data = {"attrs": [("IFLA_BR_FORWARD_DELAY", 0), ("IFLA_BR_MCAST_SNOOPING", 0)]}
        info = [("IFLA_INFO_KIND", "bridge"), ("IFLA_INFO_DATA", data)]
        attributes: list[tuple[str, Any]] = [("IFLA_IFNAME", item.name), ("IFLA_LINKINFO", {"attrs": info})]
        made = _encode(ifinfmsg, RTM_NEWLINK, _CREATE, {"index": item.index}, attributes)
        yield Message(made, f"bridge {item.name}", "bridge")
    attributes = [("IFLA_MTU", item.mtu_bytes)]
    if item.bridge:
        attributes.append(("IFLA_MASTER", item.bridge))
    if item.super_packet_bytes:
        attributes.append(("IFLA_GSO_MAX_SIZE", item.super_packet_bytes))
    if item.whole == "none":
        attributes.append(("IFLA_GSO_MAX_SEGS", 1))
    if item.ethernet_address:
        attributes.append(("IFLA_ADDRESS", item.ethernet_address))
    up = {"index": item.index, "flags": _IFF_UP, "change": _IFF_UP}
    yield Message(_encode(ifinfmsg, RTM_NEWLINK, 0, up, attributes), f"{item.name} up")
    for address in item.addresses:
        yield _address(item.index, address)
    if item.shaper is not None:
        yield from _shaper(item.index, item.name, item.shaper)


def route(item: Route) -> Message:
    """Add a route, over several equal links if it has several next routers."""
    network, _, bits = item.network.partition("/")
    fields = {
        "family": _FAMILIES[version(network)],
        "dst_len": int(bits),
        "table": _MAIN_TABLE,
        "proto": _BOOT,
        "scope": _UNIVERSE,
        "type": _UNICAST,
    }
    piece = ""
    if len(item.vias) == 1:
        attributes: list[tuple[str, Any]] = [("RTA_GATEWAY", item.vias[0])]
    else:
        hops = [{"hops": 0, "attrs": [("RTA_GATEWAY", via)]} for via in item.vias]
        attributes, piece = [("RTA_MULTIPATH", hops)], "multipath routing"
    if int(bits):
        attributes.append(("RTA_DST", network))
    return Message(_encode(rtmsg, RTM_NEWROUTE, _CREATE, fields, attributes), f"route {item.network}", piece)


def icmp_sink(family: int) -> Message:
    """Drop every ICMP packet of one IP version that the node would send or forward, except neighbour discovery."""
    fields = {"family": _FAMILIES[family], "table": 0, "action": _BLACKHOLE}
    protocol = {IPV4: socket.IPPROTO_ICMP, IPV6: socket.IPPROTO_ICMPV6}[family]
    attributes = [("FRA_PRIORITY", _AFTER_LOCAL), ("FRA_IP_PROTO", protocol)]
    piece = {IPV4: "policy routing", IPV6: "policy routing of IPv6"}[family]
    return Message(_encode(fibmsg, RTM_NEWRULE, _CREATE, fields, attributes), "rule against ICMP", piece)


def _address(index: int, address: str) -> Message:
    ip, _, bits = address.partition("/")
    family = version(ip)
    fields: dict[str, Any] = {"family": _FAMILIES[family], "prefixlen": int(bits), "index": index}
    if family == IPV6:
        fields["flags"] = _NO_DAD
    attributes = [("IFA_ADDRESS", ip), ("IFA_LOCAL", ip)]
    return Message(_encode(ifaddrmsg, RTM_NEWADDR, _CREATE, fields, attributes), f"address {address}")


def _shaper(index: int, name: str, shaper: Shaper) -> Iterable[Message]:
    """Yield an HTB tree. Unselected traffic goes to the `any` leaf, or passes unshaped (ARP, routers' ICMP)."""
    catch_all = next((_HTB_FIRST_LEAF + i for i, leaf in enumerate(shaper.leaves) if leaf.match == "any"), 0)
    init = {"version": 3, "rate2quantum": 10, "defcls": catch_all, "debug": 0, "direct_pkts": 0}
    options: Any = {"attrs": [("TCA_HTB_INIT", init)]}
    yield _tc(RTM_NEWQDISC, index, _HTB, _TC_ROOT, "htb", options, f"htb on {name}")
    above = _HTB
    if shaper.rate_bps is not None:
        above = _HTB | _HTB_PARENT
        options = _class(shaper.rate_bps, shaper.rate_bps, shaper.burst_bytes, shaper.quantum_bytes)
        yield _tc(RTM_NEWTCLASS, index, above, _HTB, "htb", options, f"htb class on {name}")
    for number, leaf in enumerate(shaper.leaves, _HTB_FIRST_LEAF):
        handle = _HTB | number
        options = _class(leaf.rate_bps, leaf.ceil_bps, leaf.burst_bytes, shaper.quantum_bytes)
        yield _tc(RTM_NEWTCLASS, index, handle, above, "htb", options, f"htb class on {name}")
        limit = struct.pack("=I", leaf.queue_bytes)
        yield _tc(RTM_NEWQDISC, index, 0, handle, "bfifo", limit, f"bfifo on {name}")
        for address in leaf.addresses:
            yield _filter(index, name, handle, leaf.match, address)


def _filter(index: int, name: str, handle: int, match: str, address: str) -> Message:
    """Select a leaf by an address. Each family has its own priority, since a priority holds filters of one protocol."""
    family = version(address)
    words = struct.iter_unpack("!I", socket.inet_pton(_FAMILIES[family], address))
    start = _MATCH_OFFSET[family][match]
    keys = [f"{word:#010x}/0xffffffff+{start + 4 * place}" for place, (word,) in enumerate(words)]
    options = {"attrs": [("TCA_U32_CLASSID", handle), ("TCA_U32_SEL", {"keys": keys})]}
    info = family << 16 | socket.htons(_ETHERTYPES[family])
    return _tc(RTM_NEWTFILTER, index, 0, _HTB, "u32", options, f"u32 filter on {name}", info=info)


def _class(rate_bps: float, ceil_bps: float, burst_bytes: int, quantum_bytes: int) -> dict[str, Any]:
    """Return HTB class parameters. A rate above 32 bits of byte/s is passed in a 64-bit attribute as well."""
    rate, ceil = max(1, round(rate_bps / 8)), max(1, round(ceil_bps / 8))
    parameters = {
        "rate": min(rate, 0xFFFF_FFFF),
        "ceil": min(ceil, 0xFFFF_FFFF),
        "rate___reserved": _LINK_LAYER_ETHERNET,
        "ceil___reserved": _LINK_LAYER_ETHERNET,
        "buffer": _ticks(burst_bytes, rate),
        "cbuffer": _ticks(burst_bytes, ceil),
        "quantum": quantum_bytes,
    }
    attributes: list[tuple[str, Any]] = [("TCA_HTB_PARMS", parameters)]
    attributes += [("TCA_HTB_RATE64", rate)] if rate > 0xFFFF_FFFF else []
    attributes += [("TCA_HTB_CEIL64", ceil)] if ceil > 0xFFFF_FFFF else []
    return {"attrs": attributes}


def _ticks(size_bytes: int, rate_Bps: int) -> int:  # noqa: N803
    return min(round(size_bytes / rate_Bps * 1e9 / _TICK_NS), 0xFFFF_FFFF)


def _tc(
    kind: int, index: int, handle: int, parent: int, piece: str, options: Any, what: str, *, info: int = 0
) -> Message:
    fields = {"index": index, "handle": handle, "parent": parent, "info": info}
    attributes = [("TCA_KIND", piece), ("TCA_OPTIONS", options)]
    return Message(_encode(tcmsg, kind, _CREATE, fields, attributes), what, piece)


def _encode(message: Any, kind: int, flags: int, fields: dict[str, Any], attributes: list[Any]) -> bytearray:
    made = message()
    made.update(fields)
    made["attrs"] = attributes
    made["header"].update({"type": kind, "flags": NLM_F_REQUEST | flags})
    made.encode()
    return bytearray(made.data)


def refusal(message: Message, number: int) -> GavotteError:
    """Turn an error number into a message that a user can act on."""
    if message.piece in OPTIONS and number in _ABSENT:
        return UnsupportedError(
            f"this kernel has no {message.piece}", hint=f"use a kernel built with {OPTIONS[message.piece]}"
        )
    if message.piece and number in _ABSENT:
        return UnsupportedError(
            f"this kernel has no `{message.piece}`", hint=f"load it as root with `modprobe {MODULES[message.piece]}`"
        )
    return GavotteError(f"the kernel refused {message.what}: {os.strerror(number)}")
