"""From captures to an App: the application payload that each task sent to each other."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gavotte.errors import FormatError, GavotteError, UnsupportedError
from gavotte.formats.app import FORMAT, App
from gavotte.formats.reading import validate
from gavotte.profile.addresses import canonical
from gavotte.profile.captures import Capture
from gavotte.profile.flows import Tally
from gavotte.profile.packets import decode

NOISE_SHARE = 0.001
"""Pairs below this share of the largest pair are left out unless the caller says otherwise: launchers, ssh, names. A
placement's completion time hangs on its fullest link, which a thousandth of the largest transfer does not move."""

_Pairs = dict[tuple[str, str], int]


@dataclass(frozen=True)
class ProfileReport:
    """What a capture held, and what became of it.

    Attributes:
        packets: records read.
        bytes: payload between tasks, each byte once; `dropped_bytes` of it are not in the App.
        ignored_packets: neither TCP nor UDP over IP, later fragments, or cut before the ports.
        foreign_packets: from or to an address that is no task.
        foreign_bytes: their payload.
        duplicate_packets: sent again, or seen a second time.
        duplicate_bytes: payload that was counted before.
        unseen_bytes: payload counted that the capture missed and TCP's sequence numbers prove.
        local_bytes: payload from a task to itself, which costs no network; not in `bytes`.
        dropped_pairs: pairs below `min_bytes`.
        dropped_bytes: their payload.
        min_bytes: the smallest transfer kept.
        span_s: first packet to last.
        truncated: a file ended inside a record; what came before was counted.
    """

    packets: int
    bytes: int
    ignored_packets: int
    foreign_packets: int
    foreign_bytes: int
    duplicate_packets: int
    duplicate_bytes: int
    unseen_bytes: int
    local_bytes: int
    dropped_pairs: int
    dropped_bytes: int
    min_bytes: int
    span_s: float
    truncated: bool

    def to_dict(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return asdict(self)


class Profile(NamedTuple):
    """An application as its traffic shows it."""

    app: App
    report: ProfileReport


def from_pcap(
    path: str | Path | Sequence[str | Path],
    hosts: Mapping[str, str] | None = None,
    *,
    name: str,
    cpus: float = 1.0,
    memory_bytes: int = 0,
    min_bytes: int | None = None,
) -> Profile:
    """Counts who sent how many bytes to whom in a pcap or pcapng file, gzip or plain, in constant memory.

    A task is a host address: one process a host, as Choreo's section 2.1 profiles. Bytes are TCP and UDP payload,
    without headers and retransmissions, so that they do not depend on the network of the day.

    Several files are captures at several hosts during the same run; each pair is then taken from the file
    that saw most of it, so that a byte captured at both ends counts once.

    Args:
        path: the capture, or one capture a host.
        hosts: address to task, in the order of the tasks. Every task of it is in the App, also without traffic; other
            addresses are left out. None makes a task of each address that sends or receives, in numeric order,
            without multicast and broadcast.
        name: the application's name.
        cpus: cores each task needs.
        memory_bytes: memory each task needs.
        min_bytes: leaves out transfers of fewer bytes; 0 keeps all, None leaves out those below `NOISE_SHARE` of the
            largest one.

    Returns:
        The App, its transfers in the order of its tasks, and the report.

    Raises:
        FormatError: when a file is no capture, is damaged, or holds no payload between tasks.
        GavotteError: when `hosts` has no IP addresses, or no transfer has `min_bytes`.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise GavotteError("no capture was named", hint="name at least one pcap file")
    tasks = None if hosts is None else _packed(hosts)
    scans = [_scan(each, tasks) for each in paths]
    pairs: _Pairs = {}
    for scan in scans:
        for pair, count in _named(scan.tally, tasks).items():
            pairs[pair] = max(pairs.get(pair, 0), count)
    local_bytes = sum(pairs.pop((task, task)) for task in {source for source, target in pairs if source == target})
    where = str(paths[0])
    if not pairs:
        between, remedy = ("two addresses", "capture while the application runs")
        if hosts is not None:
            between, remedy = ("the named tasks", "profile it without names to see its addresses")
        raise FormatError(where, "", f"holds no payload between {between}", remedy)
    largest = max(pairs.values())
    least = math.ceil(largest * NOISE_SHARE) if min_bytes is None else min_bytes
    if least > largest:
        raise GavotteError(f"{where}: no transfer has {least} bytes", hint=f"lower min_bytes to {largest} or less")
    kept = {pair: count for pair, count in pairs.items() if count >= least}
    names = _order(kept) if hosts is None else list(dict.fromkeys(hosts.values()))
    place = {task: index for index, task in enumerate(names)}
    rows = sorted((place[source], place[target], count) for (source, target), count in kept.items())
    app = {
        "format": FORMAT,
        "name": name,
        "task": [{"name": task, "cpus": cpus, "memory_bytes": memory_bytes} for task in names],
        "transfer": [{"source": names[s], "target": names[t], "bytes": count} for s, t, count in rows],
    }
    total = sum(pairs.values())
    report = ProfileReport(
        packets=sum(scan.packets for scan in scans),
        bytes=total,
        ignored_packets=sum(scan.ignored for scan in scans),
        foreign_packets=sum(scan.tally.foreign_packets for scan in scans),
        foreign_bytes=sum(scan.tally.foreign_bytes for scan in scans),
        duplicate_packets=sum(scan.tally.duplicate_packets for scan in scans),
        duplicate_bytes=sum(scan.tally.duplicate_bytes for scan in scans),
        unseen_bytes=sum(scan.tally.unseen_bytes for scan in scans),
        local_bytes=local_bytes,
        dropped_pairs=len(pairs) - len(kept),
        dropped_bytes=total - sum(kept.values()),
        min_bytes=least,
        span_s=max(scan.span_s for scan in scans),
        truncated=any(scan.truncated for scan in scans),
    )
    return Profile(validate(App, app, where), report)


class _Scan(NamedTuple):
    """What one file held."""

    tally: Tally
    packets: int
    ignored: int
    span_s: float
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
        return _Scan(tally, packets, ignored, max(last_s - first_s, 0.0), capture.truncated)


def _packed(hosts: Mapping[str, str]) -> dict[bytes, str]:
    """The mapping by packed addresses, as packets carry them."""
    tasks = {}
    for address, task in hosts.items():
        try:
            tasks[ipaddress.ip_address(canonical(address)).packed] = task
        except ValueError:
            raise GavotteError(f"{address!r} is not an IP address", hint="write an IPv4 or IPv6 literal") from None
    return tasks


def _named(tally: Tally, tasks: Mapping[bytes, str] | None) -> _Pairs:
    """The tally by task; several addresses of a task add up."""
    pairs: _Pairs = {}
    for ends, count in tally.pair_bytes.items():
        if tasks is None:
            if not _is_host(ends[0]) or not _is_host(ends[1]):
                continue
            source, target = (str(ipaddress.ip_address(end)) for end in ends)
        else:
            source, target = tasks[ends[0]], tasks[ends[1]]
        pairs[source, target] = pairs.get((source, target), 0) + count
    return pairs


def _is_host(packed: bytes) -> bool:
    address = ipaddress.ip_address(packed)
    return not (address.is_multicast or address.is_unspecified or packed == b"\xff\xff\xff\xff")


def _order(pairs: _Pairs) -> list[str]:
    """The addresses that occur, IPv4 before IPv6, by number."""
    addresses = {ipaddress.ip_address(end) for pair in pairs for end in pair}
    return [str(address) for address in sorted(addresses, key=lambda a: (a.version, int(a)))]
