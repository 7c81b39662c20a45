"""Traffic between tasks, from counts between network addresses or other ends of connections."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gavotte.errors import FormatError, GavotteError
from gavotte.profile.gathering import Gathering, Request
from gavotte.profile.naming import canonical_address
from gavotte.profile.skips import Skips
from gavotte.profile.traffic import Count, Traffic

Row = tuple[int, str, str, int, int, int]
"""One count of the compiled readers: number of the time interval, source, target, bytes, and their 95 % interval."""


def keys_of(tasks: Mapping[str, str] | None) -> list[str] | None:
    """Return the addresses of the tasks in canonical form, as the compiled readers need them; None if none are given.

    Raises:
        GavotteError: when one is neither an address nor an address with a port.
    """
    if tasks is None:
        return None
    try:
        return [canonical_address(key) for key in tasks]
    except ValueError:
        wrong = next(key for key in tasks if not _is_end(key))
        raise GavotteError(f"`{wrong}` is not an IP address", hint="use an IPv4 or IPv6 address") from None


def traffic_of(
    rows: Sequence[Row],
    request: Request,
    seen: Mapping[str, int | float | bool],
    whole_s: tuple[float, float] | None = None,
    skips: Skips | None = None,
) -> Traffic:
    """Return the traffic between tasks, from counts between addresses.

    Without given tasks, each unicast address is a task. If each address sends only to itself, each address with a port
    is a task instead.

    Args:
        rows: the counts of a compiled reader.
        request: gives the tasks and the length of intervals.
        seen: the source's other counters.
        whole_s: Unix time of the begin and the end, if known.
        skips: what the reader could not count, for the message if nothing counts.

    Raises:
        FormatError: when no two tasks have payload between them.
    """
    tasks = None if request.tasks is None else {canonical_address(key): name for key, name in request.tasks.items()}
    folded = tasks is None and any(_host(source) != _host(target) for _, source, target, *_ in rows)
    wanted = replace(request, tasks=tasks)
    gathering = Gathering(wanted, lambda end: _task(_host(end) if folded else end))
    for interval, source, target, size, low, high in rows:
        gathering.add(source, target, Count(size, low, high), interval)
    traffic = gathering.traffic(
        seen, whole_s=whole_s, order=_by_number, others_bytes=int(seen.get("unplaced_bytes", 0))
    )
    if not any(count.bytes for count in traffic.counts.values()):
        described = "" if skips is None else f" ({skips.described(traffic.unattributed_bytes)})"
        raise nothing(traffic.inputs[0], request, described, skips.remedy if skips else None)
    return traffic if skips is None else replace(traffic, skipped=skips.reasons)


class Ends:
    """Bytes between ends that a Python reader counts: addresses, addresses with ports, or names such as pods."""

    def __init__(self, request: Request, *, by_port: bool = False) -> None:
        """Start without counts.

        Args:
            request: gives the tasks and the length of intervals.
            by_port: if no tasks are given, make a task of each address with a port, not of each address.
        """
        self._request = request
        self._by_port = by_port
        tasks = request.tasks or {}
        self._named = {canonical_address(key) if _is_end(key) else key: name for key, name in tasks.items()}
        self._cells: dict[tuple[str, str, int], Count] = {}
        self._gathering = Gathering(replace(request, tasks=None), self._task)
        self.sums: dict[tuple[str, str], int] = {}

    def add(self, source: str, target: str, count: Count, time_s: float | None = None) -> None:
        """Add the bytes that one end sent to another, with their Unix time if it is known."""
        pair = self._end(source), self._end(target)
        self.sums[pair] = self.sums.get(pair, 0) + count.bytes
        key = (*pair, self._gathering.at(time_s))
        held = self._cells.get(key)
        self._cells[key] = count if held is None else held.plus(count)

    def traffic(self, seen: Mapping[str, int | float | bool]) -> Traffic:
        """Return the counted bytes as Traffic between tasks.

        Raises:
            FormatError: when no two tasks have payload between them.
        """
        for (source, target, interval), count in sorted(self._cells.items()):
            self._gathering.add(source, target, count, interval)
        traffic = self._gathering.traffic(seen)
        if self._request.tasks is not None:
            order = tuple(dict.fromkeys(self._request.tasks.values()))
            traffic = replace(traffic, tasks=order, complete=True)
        if not traffic.attributed_bytes:
            raise nothing(traffic.inputs[0], self._request)
        return traffic

    @classmethod
    def best(cls, request: Request, views: Sequence[Ends]) -> Ends:
        """Merge several views of the same traffic: each pair's counts come from the view that saw most of its bytes."""
        merged = cls(request)
        chosen: dict[tuple[str, str], Ends] = {}
        for view in views:
            for pair, size in view.sums.items():
                if pair not in chosen or size > chosen[pair].sums[pair]:
                    chosen[pair] = view
        for view in views:
            for key, count in view._cells.items():
                if chosen[key[:2]] is view:
                    merged._cells[key] = count
        return merged

    def _end(self, end: str) -> str:
        """Return the key under which an end is counted: the key of its task, or the end's address without port."""
        if end in self._named or (self._by_port and self._request.tasks is None):
            return end
        port = f"*:{end.rpartition(':')[2]}"
        return port if port in self._named else _host(end) if _is_end(end) else end

    def _task(self, end: str) -> str | None:
        if self._request.tasks is not None:
            return self._named.get(end)
        return _task(end) if _is_end(end) else end.replace("/", ":")  # which no task's name may have


def nothing(where: str, request: Request, described: str = "", remedy: str | None = None) -> FormatError:
    """Return the error for a source in which no two tasks have payload between them.

    Args:
        where: the input's name.
        request: gives the tasks.
        described: what the input contains instead, in brackets.
        remedy: what to do; None for the usual remedy.
    """
    between, usual = ("two addresses", "capture while the application runs")
    if request.tasks is not None:
        between, usual = ("the named tasks", "profile it without names to see its addresses")
    return FormatError(where, "", f"contains no payload between {between}{described}", remedy or usual)


def _is_end(key: str) -> bool:
    try:
        canonical_address(key)
    except ValueError:
        return False
    return True


def _host(end: str) -> str:
    """Return the address of an end without its port."""
    if end.startswith("["):
        return end[1:].partition("]")[0]
    return end.partition(":")[0] if end.count(":") == 1 else end


def _task(end: str) -> str | None:
    try:
        address = ipaddress.ip_address(_host(end))
    except ValueError:  # `others`: the ends for which the compiled reader had no room
        return None
    broadcast = address.packed == b"\xff\xff\xff\xff"
    return None if address.is_multicast or address.is_unspecified or broadcast else end


def _by_number(ends: Iterable[str]) -> list[str]:
    """Return the ends sorted by address and port, IPv4 before IPv6."""

    def place(end: str) -> tuple[int, int, int]:
        address = ipaddress.ip_address(_host(end))
        port = end.rpartition(":")[2] if end != str(address) else ""
        return address.version, int(address), int(port or -1)

    return sorted(ends, key=place)
