"""Datagrams of sFlow, NetFlow and IPFIX meters for the tests, byte by byte."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

ETHERNET_HEADER, PPP_HEADER, IP_HEADER, MPLS_HEADER, RING_HEADER = 1, 7, 11, 13, 3


def sflow(*samples: bytes) -> bytes:
    """A datagram of sFlow version 5."""
    head = struct.pack(">II4sIIII", 5, 1, socket.inet_aton("10.9.0.1"), 0, 1, 1000, len(samples))
    return head + b"".join(samples)


def flow_sample(packet: bytes, *, protocol: int = ETHERNET_HEADER, rate: int = 10, number: int = 1) -> bytes:
    """One packet in `rate`, by its header."""
    header = packet[:128] + bytes(-len(packet[:128]) % 4)
    record = struct.pack(">IIII", protocol, len(packet), 0, len(packet[:128])) + header
    body = struct.pack(">IIIIIIII", number, 3, rate, rate * number, 0, 3, 4, 1) + struct.pack(">II", 1, len(record))
    return struct.pack(">II", 1, len(body + record)) + body + record


def counter_sample() -> bytes:
    """Counters of an interface."""
    body = struct.pack(">III", 1, 3, 1) + struct.pack(">II", 1, 88) + bytes(88)
    return struct.pack(">II", 2, len(body)) + body


def ipfix(*sets: tuple[int, bytes], number: int = 0) -> bytes:
    """A message of sets, each with its number."""
    body = b"".join(struct.pack(">HH", kind, 4 + len(content)) + content for kind, content in sets)
    return struct.pack(">HHIII", 10, 16 + len(body), 1_700_000_000, number, 7) + body


def template(number: int, fields: Sequence[tuple[int, int]]) -> tuple[int, bytes]:
    """The set that describes flows: (element, bytes) of each field."""
    return 2, struct.pack(">HH", number, len(fields)) + b"".join(struct.pack(">HH", *each) for each in fields)


def options_template(number: int, fields: Sequence[tuple[int, int]]) -> tuple[int, bytes]:
    """The set that describes options, the first field of which is their scope."""
    head = struct.pack(">HHH", number, len(fields), 1)
    return 3, head + b"".join(struct.pack(">HH", *each) for each in fields)


FLOW_FIELDS = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (1, 4), (2, 4), (302, 4))


def flow(source: str, target: str, *, protocol: int, octets: int, packets: int, sampler: int = 0) -> bytes:
    """The values of `FLOW_FIELDS`."""
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    return ends + struct.pack(">HHBIII", 5000, 6000, protocol, octets, packets, sampler)
