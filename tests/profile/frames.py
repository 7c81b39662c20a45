"""Frames and capture files for the tests, built by dpkt, so that they do not share the reader's mistakes."""

from __future__ import annotations

import io
import ipaddress
import struct
from collections.abc import Iterable
from pathlib import Path

import dpkt

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
ETHERNET, RAW, SLL, SLL2, NULL, LOOP = 1, 101, 113, 276, 0, 108


def packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def tcp(
    source: str = A,
    target: str = B,
    payload: int = 100,
    *,
    seq: int = 1000,
    ports: tuple[int, int] = (5000, 6000),
    flags: int = dpkt.tcp.TH_ACK,
    options: bytes = b"",
) -> bytes:
    """An IP packet with a TCP segment."""
    offset = 5 + len(options) // 4
    segment = dpkt.tcp.TCP(sport=ports[0], dport=ports[1], seq=seq, flags=flags, off=offset, opts=options)
    segment.data = bytes(payload)
    return ip(source, target, dpkt.ip.IP_PROTO_TCP, segment)


def udp(source: str = A, target: str = B, payload: int = 100, *, ports: tuple[int, int] = (5000, 6000)) -> bytes:
    """An IP packet with a UDP datagram."""
    datagram = dpkt.udp.UDP(sport=ports[0], dport=ports[1], ulen=8 + payload, data=bytes(payload))
    return ip(source, target, dpkt.ip.IP_PROTO_UDP, datagram)


def ip(source: str, target: str, protocol: int, inner: dpkt.Packet) -> bytes:
    if ipaddress.ip_address(source).version == 4:
        return bytes(dpkt.ip.IP(src=packed(source), dst=packed(target), p=protocol, data=inner, len=20 + len(inner)))
    return bytes(dpkt.ip6.IP6(src=packed(source), dst=packed(target), nxt=protocol, plen=len(inner), data=inner))


def over_ip6(protocol: int, body: bytes) -> bytes:
    """A frame of Ethernet and IPv6 with this content."""
    head = struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + packed("fd00::1") + packed("fd00::2")
    return ethernet(head + body)


def ethernet(packet: bytes, *vlans: int) -> bytes:
    kind = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
    tags = b"".join(struct.pack(">HH", 0x8100, vlan) for vlan in vlans)
    return bytes(12) + tags + struct.pack(">H", kind) + packet


def sll(packet: bytes, kind: int = 0) -> bytes:
    protocol = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
    return bytes(dpkt.sll.SLL(type=kind, hrd=1, hlen=6, hdr=bytes(8), ethtype=protocol, data=packet))


def sll2(packet: bytes, kind: int = 0, interface: int = 2) -> bytes:
    protocol = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
    header = dpkt.sll2.SLL2(ethtype=protocol, intindex=interface, hrd=1, type=kind, hlen=6, hdr=bytes(8))
    return bytes(header)[:20] + packet


def null(packet: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "I", 2 if packet[0] >> 4 == 4 else 30) + packet


def pcap_bytes(frames: Iterable[bytes], link: int = RAW, *, snap: int = 65535, wire: int | None = None) -> bytes:
    """A pcap of the frames, a millisecond apart, each cut to `snap` bytes."""
    stream = io.BytesIO()
    dpkt.pcap.Writer(stream, snaplen=snap, linktype=link)
    for index, frame in enumerate(frames):
        kept = frame[:snap]
        stream.write(struct.pack("=IIII", 1700000000, index * 1000, len(kept), wire or len(frame)) + kept)
    return stream.getvalue()


def pcapng_bytes(frames: Iterable[bytes], link: int = RAW) -> bytes:
    stream = io.BytesIO()
    writer = dpkt.pcapng.Writer(stream, linktype=link)
    for index, frame in enumerate(frames):
        writer.writepkt_time(frame, 1700000000 + index * 1e-3)
    return stream.getvalue()


def write(folder: Path, content: bytes, name: str = "test.pcap") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path
