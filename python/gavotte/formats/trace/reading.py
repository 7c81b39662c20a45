"""Read the traces that the preloaded library writes (`tracing_file.h`): one section for each rank, in any order.

Files of ranks that are put behind each other are one file of the whole run.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.reading import read_bytes
from gavotte.formats.trace.operations import (
    IDLE,
    KINDS,
    MODES,
    Cancel,
    CollectiveCall,
    Communicator,
    Compute,
    Irecv,
    Isend,
    Loop,
    MpiTrace,
    Operation,
    RankTrace,
    Recv,
    Send,
    Wait,
)

MAGIC = b"gvtrace1"
MOST_RANKS = 1 << 20
MOST_MEMBERS = 1 << 24
"""Most members of all communicators of a section together."""
MOST_DEPTH = 40
"""Deepest nesting of loops that is read. The library stops at 32."""
MOST_PASSES = 1 << 40
_REMEDY = "copy the whole file, or run the program again"
_TIMES = struct.Struct("<5f")
_SPAN = struct.Struct("<3d")

_Fields = tuple[Callable[..., Operation] | None, tuple[Any, ...]]
"""Type of an operation, and all that it takes but the time. Without a type: the parts of a Sendrecv, or the end."""


class _DamageError(Exception):
    """What is wrong with a section."""


class _Group(NamedTuple):
    """Communicator as one rank sees it. Equal ones on several ranks are one; `instance` counts those of one group."""

    instance: int
    members: tuple[int, ...]
    remote: tuple[int, ...]


class _Cursor:
    """Numbers and lists from a section, one after the other."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def number(self) -> int:
        """Return the next LEB128 number, below 2^64."""
        value = shift = 0
        while True:
            if self.at >= len(self.content):
                raise _DamageError("is cut short")
            digit = self.content[self.at]
            self.at += 1
            value |= (digit & 127) << shift
            if digit < 128:
                break
            shift += 7
            if shift > 63:
                raise _DamageError("has a number of more than 64 bits")
        return value

    def signed(self) -> int:
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def below(self, limit: int, what: str) -> int:
        value = self.number()
        if value >= limit:
            raise _DamageError(f"has {what} {value}, which is not below {limit}")
        return value

    def size(self, least_bytes: int = 1) -> int:
        """Return the length of a list whose items take at least this many bytes each."""
        value = self.number()
        if value * least_bytes > len(self.content) - self.at:
            raise _DamageError("has a list that is longer than the file")
        return value

    def take(self, size: int) -> bytes:
        if size > len(self.content) - self.at:
            raise _DamageError("is cut short")
        self.at += size
        return self.content[self.at - size : self.at]

    def ended(self) -> None:
        if self.at != len(self.content):
            raise _DamageError("has more bytes than it states")


class _Section:
    """Section of one rank: its head now, its operations by `rank_trace`."""

    def __init__(self, content: bytes, where: str) -> None:
        self.where = where
        cursor = self._cursor = _Cursor(content)
        self.rank, self.ranks = cursor.number(), cursor.number()
        if not self.rank < self.ranks <= MOST_RANKS:
            raise _DamageError(f"is rank {self.rank} of {self.ranks}")
        self._flags = cursor.below(4, "flags")
        times: tuple[float, float, float] = _SPAN.unpack(cursor.take(_SPAN.size))
        self._began_s, self._startup_s, self._wall_s = times
        if not all(map(math.isfinite, times)):
            raise _DamageError("has a time that is no number")
        self._counts = [cursor.number() for _ in range(5)]
        self.groups = self._read_groups()

    def _read_groups(self) -> list[_Group]:
        cursor, members = self._cursor, 0
        groups = []
        for _ in range(cursor.size(3)):
            group = _Group(cursor.number(), self._members(), self._members())
            members += len(group.members) + len(group.remote)
            if members > MOST_MEMBERS:
                raise _DamageError("has too many members of communicators")
            groups.append(group)
        return groups

    def _members(self) -> tuple[int, ...]:
        members: list[int] = []
        for _ in range(self._cursor.size(3)):
            start, step = self._cursor.signed(), self._cursor.signed()
            length = self._cursor.below(self.ranks + 1, "a run of length")
            last = start + step * (length - 1)
            if length == 0 or not (-1 <= start < self.ranks and -1 <= last < self.ranks):
                raise _DamageError("has a communicator of unknown ranks")
            if len(members) + length > MOST_RANKS:
                raise _DamageError("has too many members of communicators")
            members.extend(start + step * i for i in range(length))
        return tuple(members)

    def rank_trace(self, communicators: Sequence[int]) -> RankTrace:
        """Return the rank's trace, with these numbers for its own communicators."""
        cursor = self._cursor
        keys = [_Key(_Cursor(cursor.take(cursor.number())), self.ranks, communicators) for _ in range(cursor.size(2))]
        operations, calls = _nodes(cursor, keys, 0)
        cursor.ended()
        stated, dropped, one_sided, one_sided_bytes, outside = self._counts
        if calls != stated:
            raise _DamageError(f"has {calls} calls and states {stated}")
        return RankTrace(
            rank=self.rank,
            operations=operations,
            began_s=self._began_s,
            startup_s=self._startup_s,
            wall_s=self._wall_s,
            finished=bool(self._flags & 1),
            calls=calls,
            dropped_calls=dropped,
            one_sided_calls=one_sided,
            one_sided_bytes=one_sided_bytes,
            outside_calls=outside,
            threaded=bool(self._flags & 2),
        )


class _Key:
    """What a call is. Its time is that of each place of the program."""

    def __init__(self, cursor: _Cursor, ranks: int, communicators: Sequence[int]) -> None:
        self._cursor, self._ranks, self._communicators = cursor, ranks, communicators
        reader = _READERS.get(cursor.number())
        if reader is None:
            raise _DamageError("has an unknown kind of call")
        self._kind, self._fields = reader(self)
        cursor.ended()

    def operations(self, spent_s: float) -> tuple[Operation, ...]:
        """Return the operations of the call, which took this long."""
        if self._kind is not None:
            return (self._kind(*self._fields, spent_s),)
        if not self._fields:
            return ()
        source, room, in_tag, target, size, tag, communicator, receive, send = self._fields
        return (
            Irecv(source, room, in_tag, communicator, receive, 0.0),
            IDLE,
            Isend(target, size, tag, communicator, send, "standard", 0.0),
            IDLE,
            Wait(tuple(sorted((receive, send))), spent_s),
        )

    def _rank(self) -> int:
        return self._cursor.below(self._ranks, "rank")

    def _communicator(self) -> int:
        return self._communicators[self._cursor.below(len(self._communicators), "communicator")]

    def _request(self) -> int:
        return self._cursor.below(1 << 31, "request")

    def _mode(self) -> str:
        return MODES[self._cursor.below(len(MODES), "mode")]

    def _maybe(self, limit: int) -> int | None:
        value = self._cursor.below(limit + 1, "number")
        return value - 1 if value else None

    def _numbers(self) -> tuple[int, ...]:
        return tuple(self._cursor.number() for _ in range(self._cursor.size()))

    def _ranks_or_unknown(self) -> tuple[int, ...]:
        cursor = self._cursor
        return tuple(cursor.below(self._ranks + 1, "rank") - 1 for _ in range(cursor.size()))

    def _message(self) -> tuple[int, int, int, int]:
        return self._rank(), self._cursor.number(), self._cursor.signed(), self._communicator()

    def send(self) -> _Fields:
        mode = self._mode()
        return Send, (*self._message(), mode)

    def isend(self) -> _Fields:
        mode = self._mode()
        return Isend, (*self._message(), self._request(), mode)

    def recv(self) -> _Fields:
        source = self._cursor.below(self._ranks + 1, "rank") - 1
        return Recv, (source, self._cursor.number(), self._cursor.signed(), self._communicator())

    def irecv(self) -> _Fields:
        return Irecv, (*self.recv()[1], self._request())

    def wait(self) -> _Fields:
        return Wait, (tuple(self._request() for _ in range(self._cursor.size())),)

    def cancel(self) -> _Fields:
        return Cancel, (self._request(),)

    def sendrecv(self) -> _Fields:
        target, size, tag = self._rank(), self._cursor.number(), self._cursor.signed()
        source, room, in_tag = self._rank(), self._cursor.number(), self._cursor.signed()
        requests = self._communicator(), self._request(), self._request()
        return None, (source, room, in_tag, target, size, tag, *requests)

    def collective(self) -> _Fields:
        kind, communicator = KINDS[self._cursor.below(len(KINDS), "kind")], self._communicator()
        root, size, request = self._maybe(self._ranks), self._cursor.number(), self._maybe(1 << 31)
        counts, sources, targets = self._numbers(), self._ranks_or_unknown(), self._ranks_or_unknown()
        return CollectiveCall, (kind, communicator, root, size, counts, sources, targets, request)

    def end(self) -> _Fields:
        return None, ()


_READERS: dict[int, Callable[[_Key], _Fields]] = {
    1: _Key.send,
    2: _Key.recv,
    3: _Key.isend,
    4: _Key.irecv,
    5: _Key.wait,
    6: _Key.cancel,
    7: _Key.sendrecv,
    8: _Key.collective,
    9: _Key.end,
}


def _nodes(cursor: _Cursor, keys: Sequence[_Key], depth: int) -> tuple[tuple[Operation, ...], int]:
    """Return the operations of a sequence, and how many calls they are with all passes of loops."""
    if depth > MOST_DEPTH:
        raise _DamageError("has loops that are nested too deeply")
    operations: list[Operation] = []
    calls = 0
    for _ in range(cursor.size(3)):
        key = cursor.below(len(keys) + 1, "call")
        if not key:
            count = cursor.below(MOST_PASSES, "passes")
            body, each = _nodes(cursor, keys, depth + 1)
            if count < 2 or not body:
                raise _DamageError("has a loop without passes")
            operations.append(Loop(count, body))
            calls += count * each
            continue
        mean_s, variance_s2, min_s, max_s, spent_s = _TIMES.unpack(cursor.take(_TIMES.size))
        if not (0 <= min_s < math.inf and all(0 <= each < math.inf for each in (mean_s, variance_s2, max_s, spent_s))):
            raise _DamageError("has a time that is no number")
        operations.append(Compute(mean_s, variance_s2, min_s, max_s))
        operations += keys[key - 1].operations(spent_s)
        calls += 1
    return tuple(operations), calls


def read_trace(path: str | Path | Sequence[str | Path]) -> MpiTrace:
    """Read a trace: one file, or those of all ranks.

    Raises:
        FormatError: when a file is no trace or is damaged, or a rank is missing or occurs twice.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    return _joined([part for each in paths for part in _sections(read_bytes(each), str(each))])


def parse_trace(content: bytes, where: str) -> MpiTrace:
    """Return the trace in the bytes of a file.

    Args:
        content: the bytes.
        where: where they are from, for errors.

    Raises:
        FormatError: as for `read_trace`.
    """
    return _joined(_sections(content, where))


def _sections(content: bytes, where: str) -> list[_Section]:
    """Return the sections in the bytes of a file."""
    sections: list[_Section] = []
    at = 0
    while at < len(content) or not sections:
        head = content[at : at + 16]
        if not head.startswith(MAGIC):
            raise FormatError(where, "", "is not a trace of MPI calls", "use *.trace of `gavotte shim --count`")
        size = int.from_bytes(head[8:], "little")
        body = content[at + 16 : at + 16 + size]
        at += 20 + size
        if at > len(content):
            raise FormatError(where, "", "is cut short", _REMEDY)
        if zlib.crc32(body) != int.from_bytes(content[at - 4 : at], "little"):
            raise FormatError(where, "", "is damaged: its checksum is wrong", _REMEDY)
        try:
            sections.append(_Section(body, where))
        except _DamageError as error:
            raise FormatError(where, "", str(error), _REMEDY) from None
    return sections


def _joined(sections: Sequence[_Section]) -> MpiTrace:
    if not sections:
        raise GavotteError("no trace is named", hint="name the *.trace files of all ranks")
    ranks, where = sections[0].ranks, sections[0].where
    by_rank: dict[int, _Section] = {}
    for each in sections:
        if each.ranks != ranks:
            raise FormatError(each.where, "", f"is rank {each.rank} of {each.ranks}", "name the files of one run")
        if each.rank in by_rank:
            raise FormatError(each.where, "", f"is rank {each.rank}'s, as another is", "name each rank's file once")
        by_rank[each.rank] = each
    if len(by_rank) < ranks:
        first = next(rank for rank in range(ranks) if rank not in by_rank)
        problem = f"{ranks - len(by_rank)} of {ranks} ranks are missing, such as {first}"
        raise FormatError(where, "", problem, "name the files of all ranks")
    numbers = {_Group(0, tuple(range(ranks)), ()): 0}
    traces = []
    for rank in range(ranks):
        section = by_rank[rank]
        own = [numbers.setdefault(_either(group), len(numbers)) for group in section.groups]
        try:
            traces.append(section.rank_trace(own))
        except _DamageError as error:
            raise FormatError(section.where, "", str(error), _REMEDY) from None
    return MpiTrace(tuple(traces), tuple(Communicator(group.members, group.remote) for group in numbers))


def _either(group: _Group) -> _Group:
    """Return the same group for both sides of an intercommunicator."""
    if not group.remote or group.members <= group.remote:
        return group
    return _Group(group.instance, group.remote, group.members)
