"""Speaks rtnetlink: encodes messages with pyroute2's classes and sends many in one system call.

pyroute2's own `IPRoute` asks one question at a time, cannot name the queue `bfifo`, and runs an event loop; a lab
of two hundred hosts sends ten thousand messages from a process that forks. So only its encoders are used.
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
from typing import Any, Self

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST
from pyroute2.netlink.rtnl import (
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWTCLASS,
    RTM_NEWTFILTER,
)
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from gavotte.errors import GavotteError, UnsupportedError
from gavotte.lab.layout import End, Interface, Route
from gavotte.lab.shapers import Leaf, Shaper

BATCH = 64
"""Messages per system call; the kernel's answers to them must fit the socket's buffer."""

MODULES = {"veth": "veth", "bridge": "bridge", "htb": "sch_htb", "bfifo": "sch_fifo", "u32": "cls_u32"}
"""The kernel's pieces that a lab needs, and the module that brings each."""

_ABSENT = (errno.EOPNOTSUPP, errno.ENOENT, errno.ENODEV, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
_SIOCETHTOOL = 0x8946
_ETHTOOL_GLINK = 0x0A
_CREATE = NLM_F_CREATE | NLM_F_EXCL
_IFF_UP = 1
_ETH_P_IP = 0x0800
_TC_ROOT = 0xFFFF_FFFF
_HTB = 0x0001_0000
_HTB_PARENT = 1
_HTB_FIRST_LEAF = 16
_LINK_LAYER_ETHERNET = 1
_TICK_NS = 64
"""The kernel's unit of bucket depth: the time its bytes take at the rate, in 64 ns."""
_UNIVERSE, _BOOT, _UNICAST, _MAIN_TABLE = 0, 3, 1, 254
_MATCH_OFFSET = {"source": 12, "target": 16}
"""Where the address stands in an IPv4 header."""


@dataclass(frozen=True)
class Message:
    """One encoded request.

    Attributes:
        data: the bytes.
        what: what it does, for an error's text.
        piece: the kernel's piece it needs, a key of `MODULES`, or empty.
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
        """Sends messages in order and waits until the kernel has done them all.

        Raises:
            UnsupportedError: when the kernel lacks a piece.
            GavotteError: when it refuses.
        """
        waiting = list(messages)
        for start in range(0, len(waiting), BATCH):
            self._send_batch(waiting[start : start + BATCH])

    def settle(self, name: str) -> None:
        """Has the kernel act at once on an interface's link having come up.

        It would in its own time, from a work queue, and until then drop packets. Asking an interface for its link
        as ethtool does works through what is pending for it.

        Args:
            name: the interface; both ends of its cable are up.
        """
        answer = array.array("B", struct.pack("=II", _ETHTOOL_GLINK, 0))
        request = struct.pack("16sP16x", name.encode(), answer.buffer_info()[0])
        fcntl.ioctl(self._socket, _SIOCETHTOOL, request)

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
    """Creates a veth pair whose ends are born in two namespaces.

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
    """Brings loopback up."""
    data = _encode(ifinfmsg, RTM_NEWLINK, 0, {"index": index, "flags": _IFF_UP, "change": _IFF_UP}, [])
    return Message(data, "lo up")


def interface(item: Interface) -> Iterable[Message]:
    """Brings up one interface with its bridge, address and shaper."""
    if item.is_bridge:
        data = {"attrs": [("IFLA_BR_FORWARD_DELAY", 0), ("IFLA_BR_MCAST_SNOOPING", 0)]}
        info = [("IFLA_INFO_KIND", "bridge"), ("IFLA_INFO_DATA", data)]
        attributes: list[tuple[str, Any]] = [("IFLA_IFNAME", item.name), ("IFLA_LINKINFO", {"attrs": info})]
        made = _encode(ifinfmsg, RTM_NEWLINK, _CREATE, {"index": item.index}, attributes)
        yield Message(made, f"bridge {item.name}", "bridge")
    attributes = []
    if item.bridge:
        attributes.append(("IFLA_MASTER", item.bridge))
    if item.super_packet_bytes:
        attributes.append(("IFLA_GSO_MAX_SIZE", item.super_packet_bytes))
    up = {"index": item.index, "flags": _IFF_UP, "change": _IFF_UP}
    yield Message(_encode(ifinfmsg, RTM_NEWLINK, 0, up, attributes), f"{item.name} up")
    if item.address:
        yield _address(item)
    if item.shaper is not None:
        yield from _shaper(item.index, item.name, item.shaper)


def route(item: Route) -> Message:
    """Adds a route."""
    network, _, bits = item.network.partition("/")
    fields = {
        "family": socket.AF_INET,
        "dst_len": int(bits),
        "table": _MAIN_TABLE,
        "proto": _BOOT,
        "scope": _UNIVERSE,
        "type": _UNICAST,
    }
    attributes = [("RTA_GATEWAY", item.via)]
    if int(bits):
        attributes.append(("RTA_DST", network))
    return Message(_encode(rtmsg, RTM_NEWROUTE, _CREATE, fields, attributes), f"route {item.network}")


def _address(item: Interface) -> Message:
    ip, _, bits = item.address.partition("/")
    fields = {"family": socket.AF_INET, "prefixlen": int(bits), "index": item.index}
    attributes = [("IFA_ADDRESS", ip), ("IFA_LOCAL", ip)]
    return Message(_encode(ifaddrmsg, RTM_NEWADDR, _CREATE, fields, attributes), f"address {item.address}")


def _shaper(index: int, name: str, shaper: Shaper) -> Iterable[Message]:
    """An HTB tree; what no filter selects goes to the `any` leaf, or passes unshaped (ARP, routers' ICMP)."""
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
        if leaf.match != "any":
            yield _filter(index, name, handle, leaf)


def _filter(index: int, name: str, handle: int, leaf: Leaf) -> Message:
    address = struct.unpack("!I", socket.inet_aton(leaf.address))[0]
    key = f"{address:#010x}/0xffffffff+{_MATCH_OFFSET[leaf.match]}"
    options = {"attrs": [("TCA_U32_CLASSID", handle), ("TCA_U32_SEL", {"keys": [key]})]}
    info = 1 << 16 | socket.htons(_ETH_P_IP)
    return _tc(RTM_NEWTFILTER, index, 0, _HTB, "u32", options, f"u32 filter on {name}", info=info)


def _class(rate_bps: float, ceil_bps: float, burst_bytes: int, quantum_bytes: int) -> dict[str, Any]:
    """HTB class parameters; a rate that 32 bits of byte/s cannot hold goes beside them in 64."""
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
    """Turns an error number into what a user can act on."""
    if message.piece and number in _ABSENT:
        return UnsupportedError(
            f"this kernel has no `{message.piece}`", hint=f"load it as root with `modprobe {MODULES[message.piece]}`"
        )
    return GavotteError(f"the kernel refused {message.what}: {os.strerror(number)}")
