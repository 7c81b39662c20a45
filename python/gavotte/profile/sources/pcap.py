"""pcap and pcapng captures: the application payload that each address sent to each other."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gavotte.errors import FormatError, GavotteError, UnsupportedError
from gavotte.profile.capture.frames import Capture
from gavotte.profile.capture.packets import decode
from gavotte.profile.capture.tally import Tally
from gavotte.profile.naming import canonical_address
from gavotte.profile.traffic import Count, Span, Traffic

_Bytes = dict[tuple[str, str], int]


def read_pcap(inputs: Sequence[str | Path], tasks: Mapping[str, str] | None = None) -> Traffic:
    """Counts who sent how many bytes to whom in pcap or pcapng files, gzip or plain, in constant memory.

    A task is a host address: one process a host, as Choreo's section 2.1 profiles. Bytes are TCP and UDP payload,
    without headers and retransmissions, so that they do not depend on the network of the day.

    Several files are captures at several hosts during the same run; each pair is then taken from the file
    that saw most of it, so that a byte captured at both ends counts once.

    Args:
        inputs: the capture, or one capture a host.
        tasks: address to task; other addresses are no tasks. None makes a task of each address that sends or
            receives, in numeric order, without multicast and broadcast.

    Returns:
        The Traffic. Of what it has `seen`: `packets` read, `ignored_packets` (neither TCP nor UDP over IP, later
        fragments, or cut before the ports), `foreign_packets` and `foreign_bytes` from or to an address that is no
        task, `duplicate_packets` and `duplicate_bytes` sent or seen again, `unseen_bytes` counted that the capture
        missed and TCP's sequence numbers prove, `span_s` from first packet to last, and `truncated`: a file ended
        inside a record; what came before was counted.

    Raises:
        FormatError: when a file is no capture, is damaged, or holds no payload between tasks.
        GavotteError: when `tasks` has no IP addresses.
    """
    known = None if tasks is None else _packed(tasks)
    scans = [_scan(each, known) for each in inputs]
    sums: _Bytes = {}
    elsewhere_bytes = 0
    for scan in scans:
        found, other_bytes = _named(scan.tally, known)
        elsewhere_bytes += scan.tally.foreign_bytes + other_bytes
        for pair, count in found.items():
            sums[pair] = max(sums.get(pair, 0), count)
    if all(source == target for source, target in sums):
        between, remedy = ("two addresses", "capture while the application runs")
        if tasks is not None:
            between, remedy = ("the named tasks", "profile it without names to see its addresses")
        raise FormatError(str(inputs[0]), "", f"contains no payload between {between}", remedy)
    first_s, last_s = min(scan.first_s for scan in scans), max(scan.last_s for scan in scans)
    timed = first_s <= last_s
    counts = {pair: Count.exact(count) for pair, count in sums.items()}
    return Traffic(
        inputs=tuple(str(each) for each in inputs),
        tasks=tuple(_order(sums) if tasks is None else dict.fromkeys(tasks.values())),
        spans=(Span(first_s if timed else None, last_s if timed else None, counts),),
        complete=tasks is not None,
        unattributed_bytes=elsewhere_bytes,
        seen={
            "packets": sum(scan.packets for scan in scans),
            "ignored_packets": sum(scan.ignored for scan in scans),
            "foreign_packets": sum(scan.tally.foreign_packets for scan in scans),
            "foreign_bytes": sum(scan.tally.foreign_bytes for scan in scans),
            "duplicate_packets": sum(scan.tally.duplicate_packets for scan in scans),
            "duplicate_bytes": sum(scan.tally.duplicate_bytes for scan in scans),
            "unseen_bytes": sum(scan.tally.unseen_bytes for scan in scans),
            "span_s": max(max(scan.last_s - scan.first_s, 0.0) for scan in scans),
            "truncated": any(scan.truncated for scan in scans),
        },
    )


class _Scan(NamedTuple):
    """What one file held."""

    tally: Tally
    packets: int
    ignored: int
    first_s: float
    last_s: float
    truncated: bool


def _scan(path: str | Path, tasks: Mapping[bytes, str] | None) -> _Scan:
    tally = Tally(None if tasks is None else tasks.keys())
    packets = ignored = 0
    first_s, last_s = math.inf, -math.inf
    with Capture(path) as capture:
        for record in capture:
            packets += 1
            if record.time_s is not None:
                first_s = min(first_s, record.time_s)
                last_s = max(last_s, record.time_s)
            try:
                segment = decode(record)
            except UnsupportedError as error:
                raise FormatError(str(path), f"record {packets}", error.message, error.hint) from None
            if segment is None:
                ignored += 1
            else:
                tally.add(segment)
        return _Scan(tally, packets, ignored, first_s, last_s, capture.truncated)


def _packed(hosts: Mapping[str, str]) -> dict[bytes, str]:
    """The mapping by packed addresses, as packets carry them."""
    tasks = {}
    for address, task in hosts.items():
        try:
            tasks[ipaddress.ip_address(canonical_address(address)).packed] = task
        except ValueError:
            raise GavotteError(f"`{address}` is not an IP address", hint="use an IPv4 or IPv6 address") from None
    return tasks


def _named(tally: Tally, tasks: Mapping[bytes, str] | None) -> tuple[_Bytes, int]:
    """The tally by task, several addresses of a task added up; and the bytes to or from what is no host."""
    pairs: _Bytes = {}
    other_bytes = 0
    for ends, count in tally.pair_bytes.items():
        if tasks is None:
            if not _is_host(ends[0]) or not _is_host(ends[1]):
                other_bytes += count
                continue
            source, target = (str(ipaddress.ip_address(end)) for end in ends)
        else:
            source, target = tasks[ends[0]], tasks[ends[1]]
        pairs[source, target] = pairs.get((source, target), 0) + count
    return pairs, other_bytes


def _is_host(packed: bytes) -> bool:
    address = ipaddress.ip_address(packed)
    return not (address.is_multicast or address.is_unspecified or packed == b"\xff\xff\xff\xff")


def _order(pairs: _Bytes) -> list[str]:
    """The addresses that occur, IPv4 before IPv6, by number."""
    addresses = {ipaddress.ip_address(end) for pair in pairs for end in pair}
    return [str(address) for address in sorted(addresses, key=lambda a: (a.version, int(a)))]
