"""Receive export datagrams (sFlow, NetFlow, IPFIX) over UDP for a limited time."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections.abc import Callable

from gavotte.errors import GavotteError
from gavotte.terms.unix_clock import UnixClock

LONGEST_S = 86_400.0
"""Longest time that a listener runs."""
BUFFER_BYTES = 8 << 20
LARGEST_DATAGRAM_BYTES = 65_535
_SO_RXQ_OVFL = 40
"""Linux: report with each datagram how many the socket has dropped so far."""

Take = Callable[[bytes, str, int, float], None]
"""Function called with a datagram's payload, its sender's address and port, and the Unix time of its arrival."""


def receive(where: str, take: Take, for_s: float | None, ready: Callable[[str], None] | None) -> int:
    """Pass each UDP datagram that arrives to `take`, until the time is up or Ctrl-C.

    Args:
        where: `ADDRESS:PORT`; port 0 takes a free one.
        take: is called with each datagram's payload, sender's address and port, and Unix time.
        for_s: for how many seconds to listen; None until Ctrl-C, at most `LONGEST_S`.
        ready: is called with the address and port once datagrams can arrive.

    Returns:
        Number of datagrams that the socket dropped because they came faster than they were read.

    Raises:
        GavotteError: when this machine cannot listen at `where`.
    """
    family, address, port = _parsed(where)
    dropped, clock = 0, UnixClock()
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        try:
            sock.bind((address, port))
        except OSError as error:
            hint = "use an address of this machine and a free port"
            raise GavotteError(f"cannot listen at {where}: {error.strerror}", hint=hint) from None
        if ready is not None:
            host, at, *_ = sock.getsockname()
            ready(f"{host}:{at}" if family == socket.AF_INET else f"[{host}]:{at}")
        end_s = time.monotonic() + min(for_s if for_s is not None else LONGEST_S, LONGEST_S)
        try:
            while (left_s := end_s - time.monotonic()) > 0:
                sock.settimeout(left_s)
                try:
                    payload, extra, _, sender = sock.recvmsg(LARGEST_DATAGRAM_BYTES, socket.CMSG_SPACE(4))
                except TimeoutError:
                    break
                for level, kind, content in extra:
                    if (level, kind) == (socket.SOL_SOCKET, _SO_RXQ_OVFL):
                        dropped = struct.unpack("I", content[:4])[0]
                take(payload, sender[0].partition("%")[0], sender[1], clock())
        except KeyboardInterrupt:  # how a user ends it
            pass
    return dropped


def _parsed(where: str) -> tuple[socket.AddressFamily, str, int]:
    host, separator, port = where.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
        if not (separator and 0 <= number < 1 << 16):
            raise ValueError
    except ValueError:
        raise GavotteError(f"`{where}` is not an address to listen at", hint="use e.g. 0.0.0.0:6343") from None
    return (socket.AF_INET if address.version == 4 else socket.AF_INET6), str(address), number
