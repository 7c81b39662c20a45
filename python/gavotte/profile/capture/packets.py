"""From a captured frame to the payload it carries: link layer, IP, TCP or UDP.

Lengths come from the headers, because a snap length cuts frames and Ethernet pads them; where a header says 0,
as IP headers of segments that the NIC is to cut (TSO, BIG TCP) do, from the record's length on the wire.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gavotte.errors import UnsupportedError
from gavotte.profile.capture.frames import Frame

_NULL, _ETHERNET, _RAW, _LOOP, _SLL, _IPV4, _IPV6, _SLL2 = 0, 1, 101, 108, 113, 228, 229, 276
_RAW_BSD, _RAW_OPENBSD = 12, 14
_BARE_IP = {_RAW: 0, _RAW_BSD: 0, _RAW_OPENBSD: 0, _IPV4: 0, _IPV6: 0, _NULL: 4, _LOOP: 4}
"""Link types whose header, of so many bytes, leaves the kind of IP to IP's own version field."""

_IP_TYPES = (0x0800, 0x86DD)
_VLAN_TYPES = (0x8100, 0x88A8, 0x9100)
_TCP, _UDP = 6, 17
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_SYN = 0x02


class Segment(NamedTuple):
    """What one packet says about bytes between two hosts."""

    source: bytes  # packed address, 4 or 16 bytes
    target: bytes
    source_port: int
    target_port: int
    sequence: int | None  # None for UDP
    starts: bool  # it opens a connection (SYN)
    payload_bytes: int
    vantage: int  # tells apart where the packet was seen: interface, and whether on its way in or out


def decode(record: Frame) -> Segment | None:
    """Reads a record's headers.

    Returns:
        None for anything but TCP and UDP over IP, for later fragments, and for packets cut before the ports.

    Raises:
        UnsupportedError: for a link type that is not known here.
    """
    data = record.data
    link = record.link_type
    vantage = record.interface << 40
    try:
        if link == _ETHERNET:
            at, protocol = _past_vlan(data, 14, data[12] << 8 | data[13])
        elif link == _SLL:
            at, protocol = _past_vlan(data, 16, data[14] << 8 | data[15])
            vantage |= data[1] == 4
        elif link == _SLL2:
            at, protocol = _past_vlan(data, 20, data[0] << 8 | data[1])
            vantage |= struct.unpack_from(">I", data, 4)[0] << 8 | (data[10] == 4)
        elif link in _BARE_IP:
            at, protocol = _BARE_IP[link], _IP_TYPES[0]
        else:
            raise UnsupportedError(f"link type {link} is not known", hint="capture Ethernet, Linux cooked or raw IP")
        if protocol not in _IP_TYPES:
            return None
        version = data[at] >> 4
        if version == 4:
            return _ipv4(data, at, record.wire_bytes, vantage)
        return _ipv6(data, at, record.wire_bytes, vantage) if version == 6 else None
    except (IndexError, struct.error):  # cut before the end of the headers
        return None


def _past_vlan(data: bytes, at: int, protocol: int) -> tuple[int, int]:
    """Steps over VLAN tags: where the next header starts, and its type."""
    while protocol in _VLAN_TYPES:
        protocol = data[at + 2] << 8 | data[at + 3]
        at += 4
    return at, protocol


def _ipv4(data: bytes, at: int, wire_bytes: int, vantage: int) -> Segment | None:
    header = (data[at] & 0x0F) * 4
    total = data[at + 2] << 8 | data[at + 3] or wire_bytes - at
    fragment = data[at + 6] << 8 | data[at + 7]
    if header < 20 or fragment & 0x1FFF:
        return None
    source, target = data[at + 12 : at + 16], data[at + 16 : at + 20]
    more = bool(fragment & 0x2000)
    return _transport(data, at + header, data[at + 9], total - header, source, target, vantage, more=more)


def _ipv6(data: bytes, at: int, wire_bytes: int, vantage: int) -> Segment | None:
    source, target = data[at + 8 : at + 24], data[at + 24 : at + 40]
    kind = data[at + 6]
    end = at + 40 + (data[at + 4] << 8 | data[at + 5]) if data[at + 4] or data[at + 5] else wire_bytes
    at += 40
    more = False
    while kind in (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION):
        following = data[at]
        if kind == _FRAGMENT:
            word = data[at + 2] << 8 | data[at + 3]
            if word & 0xFFF8:
                return None
            more = bool(word & 1)
            at += 8
        else:
            at += (data[at + 1] + 2) * 4 if kind == _AUTHENTICATION else (data[at + 1] + 1) * 8
        kind = following
    return _transport(data, at, kind, end - at, source, target, vantage, more=more)


def _transport(
    data: bytes, at: int, protocol: int, room: int, source: bytes, target: bytes, vantage: int, *, more: bool
) -> Segment | None:
    """Reads TCP or UDP.

    Args:
        data: the frame.
        at: where the transport header starts.
        protocol: IP's number of it.
        room: bytes of header and payload, as IP says.
        source: packed address.
        target: packed address.
        vantage: where the packet was seen.
        more: further fragments follow, so that only UDP itself knows how long the datagram is.
    """
    if protocol == _TCP:
        ports = struct.unpack_from(">HHI", data, at)
        payload = room - (data[at + 12] >> 4) * 4
        starts = bool(data[at + 13] & _SYN)
        sequence = (ports[2] + starts) & 0xFFFFFFFF  # a SYN takes the number before the first byte
        return Segment(source, target, ports[0], ports[1], sequence, starts, payload, vantage) if payload >= 0 else None
    if protocol == _UDP:
        ports = struct.unpack_from(">HHH", data, at)
        payload = (ports[2] if more else room) - 8
        return Segment(source, target, ports[0], ports[1], None, False, payload, vantage) if payload >= 0 else None
    return None
