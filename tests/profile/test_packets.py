from __future__ import annotations

import struct
from typing import Any

import dpkt
import pytest
from tests.profile.frames import (
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    SLL,
    SLL2,
    A,
    B,
    ethernet,
    null,
    packed,
    sll,
    sll2,
    tcp,
    udp,
)

from gavotte.errors import UnsupportedError
from gavotte.profile.capture.frames import Frame
from gavotte.profile.capture.packets import Segment, decode

A6, B6 = "fd00::1", "fd00::2"


def read(frame: bytes, link: int = RAW, *, wire: int | None = None, interface: int = 0) -> Segment | None:
    return decode(Frame(link, interface, 0.0, wire or len(frame), frame))


def payload(frame: bytes, link: int = RAW, *, wire: int | None = None) -> int:
    segment = read(frame, link, wire=wire)
    assert segment is not None
    return segment.payload_bytes


@pytest.mark.parametrize("ends", [(A, B), (A6, B6)])
@pytest.mark.parametrize(
    ("link", "wrap"),
    [
        (ETHERNET, ethernet),
        (ETHERNET, lambda p: ethernet(p, 7)),
        (ETHERNET, lambda p: ethernet(p, 7, 8)),
        (RAW, bytes),
        (228, bytes),
        (12, bytes),
        (SLL, sll),
        (SLL2, sll2),
        (NULL, null),
        (LOOP, lambda p: null(p, ">")),
    ],
)
def test_every_link_type(link: Any, wrap: Any, ends: Any) -> None:
    segment = read(wrap(tcp(ends[0], ends[1], 321, seq=77, options=bytes(12))), link)
    assert segment is not None
    assert segment[:7] == (packed(ends[0]), packed(ends[1]), 5000, 6000, 77, False, 321)
    datagram = read(wrap(udp(ends[0], ends[1], 99)), link)
    assert datagram is not None
    assert datagram[:7] == (packed(ends[0]), packed(ends[1]), 5000, 6000, None, False, 99)


def test_an_unknown_link_type_says_what_to_do() -> None:
    with pytest.raises(UnsupportedError, match="link type 105 is not known; capture Ethernet"):
        read(tcp(), 105)


def test_ethernet_padding_is_no_payload() -> None:
    assert payload(ethernet(tcp(payload=1)) + bytes(20), ETHERNET) == 1


def test_a_snap_length_does_not_shorten_the_payload() -> None:
    assert payload(ethernet(tcp(payload=60000))[:54], ETHERNET, wire=60054) == 60000


def test_a_super_packet_of_length_zero_counts_by_its_wire_length() -> None:
    packet = bytearray(tcp(payload=65000))
    packet[2:4] = b"\0\0"
    assert payload(ethernet(bytes(packet))[:96], ETHERNET, wire=14 + 40 + 65000) == 65000
    six = bytearray(tcp(A6, B6, 65000))
    six[4:6] = b"\0\0"
    assert payload(ethernet(bytes(six))[:96], ETHERNET, wire=14 + 60 + 200000) == 200000


def test_a_syn_takes_a_number_before_its_data() -> None:
    segment = read(tcp(seq=0xFFFFFFFF, payload=5, flags=dpkt.tcp.TH_SYN))
    assert segment is not None
    assert (segment.sequence, segment.starts, segment.payload_bytes) == (0, True, 5)


def test_ipv6_extension_headers_are_stepped_over() -> None:
    plain = tcp(A6, B6, 50)
    chain = struct.pack(">BB6x", 43, 0) + struct.pack(">BB6x", 51, 0) + struct.pack(">BB10x", 60, 1)
    chain += struct.pack(">BB6x", 44, 0) + struct.pack(">BBHI", 6, 0, 0, 9)
    head = bytearray(plain[:40])
    head[4:6] = struct.pack(">H", len(chain) + 70)
    head[6] = 0
    assert payload(bytes(head) + chain + plain[40:]) == 50


def test_a_fragmented_datagram_counts_once_by_its_own_length() -> None:
    first = bytearray(udp(payload=4000)[: 20 + 1480])
    first[2:4] = struct.pack(">H", 1500)
    first[6:8] = struct.pack(">H", 0x2000)
    later = bytearray(first)
    later[6:8] = struct.pack(">H", 0x2000 | 185)
    assert payload(bytes(first)) == 4000
    assert read(bytes(later)) is None


def test_what_carries_no_payload_between_hosts_is_none() -> None:
    icmp = dpkt.ip.IP(src=packed(A), dst=packed(B), p=1, data=bytes(8))
    icmp.len = 28
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    for frame, link in ((bytes(icmp), RAW), (arp, ETHERNET), (b"", RAW), (b"\x50" + bytes(40), RAW)):
        assert read(frame, link) is None
    whole = ethernet(tcp(A6, B6), 7)
    assert all(read(whole[:cut], ETHERNET) is None for cut in range(14 + 4 + 40 + 14))


def test_the_vantage_tells_interfaces_and_ways_apart() -> None:
    frames = [(sll2(udp(), kind, index), SLL2, port) for kind in (0, 4) for index in (2, 3) for port in (0, 1)]
    seen = {segment.vantage for f, link, port in frames if (segment := read(f, link, interface=port))}
    assert len(seen) == 8
    ways = [read(sll(udp(), kind), SLL) for kind in (0, 4)]
    assert ways[0] != ways[1]
