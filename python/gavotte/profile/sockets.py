"""The kernel's own byte counters of each TCP connection (sock_diag), and whose each is (/proc).

Netlink by hand: what is read are three numbers of each socket, many times a second, and the messages that the kernel
sends when a socket ends, which need the same reading.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gavotte.errors import UnsupportedError

_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _DONE, _ERROR = 4, 20, 3, 2
_REQUEST_DUMP = 0x301
_WITH_INFO = 1 << 1
_INFO = 2
_ALL_STATES_BUT_LISTEN = 0xFFF & ~(1 << 10)
_DESTROYED = (1 << 0) | (1 << 2)
"""Multicast groups of TCP sockets over IPv4 and IPv6 that end."""
_MESSAGE_BYTES = 72
_RECEIVE_BYTES = 1 << 20
_ACKED_AT, _RECEIVED_AT = 120, 128
"""Of tcp_info: bytes that the other end acknowledged, its SYN included, and bytes received in order."""
_CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


class Connection(NamedTuple):
    """One socket's side of a connection.

    Attributes:
        inode: of the socket; 0 when it has no owner any more.
        here: its own address, with the port as `canonical_address` writes it.
        there: the other end's.
        sent_bytes: that the other end has acknowledged.
        received_bytes: in order.
    """

    inode: int
    here: str
    there: str
    sent_bytes: int
    received_bytes: int


class Owner(NamedTuple):
    """The process that holds a socket."""

    pid: int
    name: str
    cgroup: str

    @property
    def container(self) -> str:
        """The first twelve digits of the container's ID that its cgroup has in it; empty without one."""
        found = _CONTAINER.search(self.cgroup)
        return found[1] if found else ""


class Sockets:
    """The TCP sockets of this network namespace."""

    def __init__(self) -> None:
        """Opens the kernel's interface.

        Raises:
            UnsupportedError: when the kernel has none.
        """
        try:
            self._asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
            self._asking.settimeout(5.0)
        except OSError as error:
            hint = "use another source, as pcap"
            raise UnsupportedError(f"this kernel tells nothing of sockets: {error.strerror}", hint=hint) from None
        self._ending: socket.socket | None = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, _SOCK_DIAG
        )
        try:
            self._ending.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            self._ending.bind((0, _DESTROYED))
        except OSError:  # without CAP_NET_ADMIN
            self._ending.close()
            self._ending = None

    @property
    def tells_ends(self) -> bool:
        """Whether the last counts of a connection are told when it ends."""
        return self._ending is not None

    def close(self) -> None:
        """Gives the sockets back."""
        self._asking.close()
        if self._ending is not None:
            self._ending.close()

    def now(self) -> Iterator[Connection]:
        """All connections as they are."""
        for family in (socket.AF_INET, socket.AF_INET6):
            body = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, _WITH_INFO, 0, _ALL_STATES_BUT_LISTEN)
            head = struct.pack("=IHHII", 16 + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
            self._asking.send(head + body)
            done = False
            while not done:
                for kind, message in _messages(self._asking.recv(_RECEIVE_BYTES)):
                    if kind in (_DONE, _ERROR):
                        done = True
                    elif (found := _connection(message)) is not None:
                        yield found

    def ended(self) -> Iterator[Connection]:
        """Connections that ended since the last call, with their last counts."""
        while self._ending is not None:
            try:
                content = self._ending.recv(_RECEIVE_BYTES)
            except (BlockingIOError, OSError):
                return
            for _, message in _messages(content):
                if (found := _connection(message)) is not None:
                    # Both FINs took a number by now.
                    sent, received = max(found.sent_bytes - 1, 0), max(found.received_bytes - 1, 0)
                    yield found._replace(sent_bytes=sent, received_bytes=received)


def owners() -> dict[int, Owner]:
    """The processes of all sockets that this user may see, by the socket's inode."""
    found: dict[int, Owner] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        base = Path(entry.path)
        try:
            inodes = _inodes(base / "fd")
            if not inodes:
                continue
            name = (base / "comm").read_text(errors="replace").strip()
            groups = (base / "cgroup").read_text(errors="replace").splitlines()
            owner = Owner(int(entry.name), name, groups[-1].partition("::")[2] if groups else "")
        except OSError:  # gone, or another user's
            continue
        for inode in inodes:
            found.setdefault(inode, owner)
    return found


def _inodes(folder: Path) -> list[int]:
    """The sockets among a process's open files; one that was closed just now, as the folder's own, is left out."""
    found = []
    for each in folder.iterdir():
        try:
            link = str(each.readlink())
        except FileNotFoundError:
            continue
        if link.startswith("socket:["):
            found.append(int(link[8:-1]))
    return found


def _messages(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 16 <= len(content):
        size, kind = struct.unpack_from("=IH", content, at)
        if size < 16:
            return
        yield kind, content[at + 16 : at + size]
        at += size + -size % 4


def _connection(message: bytes) -> Connection | None:
    if len(message) < _MESSAGE_BYTES:
        return None
    family = message[0]
    here_port, there_port = struct.unpack_from(">HH", message, 4)
    inode = struct.unpack_from("=I", message, 68)[0]
    size = 4 if family == socket.AF_INET else 16
    at = _MESSAGE_BYTES
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            break
        info = message[at + 4 : at + length]
        if kind == _INFO and len(info) >= _RECEIVED_AT + 8:
            acked, received = struct.unpack_from("=QQ", info, _ACKED_AT)
            here, there = _end(message[8 : 8 + size], here_port), _end(message[24 : 24 + size], there_port)
            return Connection(inode, here, there, max(acked - 1, 0), received)
        at += length + -length % 4
    return None


def _end(packed: bytes, port: int) -> str:
    parsed = ipaddress.ip_address(packed)
    address = getattr(parsed, "ipv4_mapped", None) or parsed
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
