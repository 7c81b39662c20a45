"""Capture files as a stream of records: pcap and pcapng, either byte order, gzip or plain.

Only one record is in memory at a time. Both formats are read here rather than by a library, because byte
counts need what the common readers leave out: each record's length on the wire and each interface's link type.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self, cast

from gavotte.errors import FormatError

MAX_BLOCK_BYTES = 1 << 24
"""A record that claims more is damage: capture tools keep at most 256 KiB of a packet."""

_PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}
_SECTION = 0x0A0D0D0A
_SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDER = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_RESOLUTION = 9  # the option if_tsresol


class Frame(NamedTuple):
    """One captured packet."""

    link_type: int
    interface: int
    time_s: float | None  # since the epoch, None where the format has no time
    wire_bytes: int  # the packet's length before a snap length cut it
    data: bytes


class _Interface(NamedTuple):
    link_type: int
    tick_s: float


class _EndError(Exception):
    """The file ends here; `clean` when nothing of a further record was there."""

    def __init__(self, *, clean: bool) -> None:
        self.clean = clean


class Capture:
    """An open capture file; iterate over it once for its records.

    Attributes:
        truncated: the file ended inside a record; whole records before it were given out. Known at the end.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.truncated = False
        self._read = 0
        self._stack = ExitStack()
        self._stream: BinaryIO

    def __enter__(self) -> Self:
        try:
            plain = self._stack.enter_context(Path(self.path).open("rb"))
            packed = plain.peek(2)[:2] == b"\x1f\x8b"
        except FileNotFoundError:
            raise FormatError(self.path, "", "no such file", "check the path") from None
        except OSError as error:
            self._stack.close()
            raise FormatError(self.path, "", f"cannot be read: {error.strerror}", "check the path") from None
        except ValueError as error:  # a NUL in the path
            raise FormatError(repr(self.path), "", str(error), "check the path") from None
        if packed:
            self._stream = cast("BinaryIO", self._stack.enter_context(gzip.GzipFile(fileobj=plain)))
        else:
            self._stream = plain
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[Frame]:
        """Gives the records in file order.

        Raises:
            FormatError: when it is no capture, or a record is damaged.
        """
        try:
            magic = self._take(4)
        except _EndError:
            raise self._not_a_capture() from None
        if magic == _SECTION_MAGIC:
            records = self._pcapng()
        elif magic in _PCAP_MAGIC:
            records = self._pcap(*_PCAP_MAGIC[magic])
        else:
            raise self._not_a_capture()
        try:
            for record in records:
                self._read += 1
                yield record
        except _EndError as end:
            self.truncated = not end.clean

    def _take(self, count: int) -> bytes:
        """Reads exactly so many bytes."""
        try:
            data = self._stream.read(count)
        except EOFError:  # gzip: the packed stream stops short
            raise _EndError(clean=False) from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise self._damaged(f"is a damaged gzip file ({error})") from None
        except OSError as error:
            raise FormatError(self.path, "", f"cannot be read: {error.strerror}", "check the path") from None
        if len(data) < count:
            raise _EndError(clean=not data)
        return data

    def _body(self, count: int) -> bytes:
        """Reads the rest of a record whose head was there, so that an end is never clean."""
        try:
            return self._take(count)
        except _EndError:
            raise _EndError(clean=False) from None

    def _not_a_capture(self) -> FormatError:
        return FormatError(self.path, "", "is neither pcap nor pcapng", "use a capture of `tcpdump -w` or Wireshark")

    def _damaged(self, problem: str) -> FormatError:
        return FormatError(self.path, f"record {self._read + 1}", problem, "copy or capture it again")

    def _pcap(self, order: str, tick_s: float) -> Iterator[Frame]:
        try:
            link_type = int(struct.unpack(order + "HHiIII", self._body(20))[-1]) & 0xFFFF
        except _EndError:
            raise self._not_a_capture() from None
        head = struct.Struct(order + "IIII")
        while True:
            seconds, ticks, kept, wire = head.unpack(self._take(16))
            if kept > MAX_BLOCK_BYTES:
                raise self._damaged(f"claims {kept} bytes")
            yield Frame(link_type, 0, seconds + ticks * tick_s, max(wire, kept), self._body(kept))

    def _pcapng(self) -> Iterator[Frame]:
        kind = _SECTION
        order = "<"
        interfaces: list[_Interface] = []
        while True:
            if kind == _SECTION:
                order, body = self._section(self._body(8))
                interfaces = []
            else:
                body = self._block(order, self._body(4))
                if kind == _INTERFACE:
                    interfaces.append(self._interface(order, body))
                elif kind in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                    yield self._packet(kind, order, body, interfaces)
            kind = struct.unpack(order + "I", self._take(4))[0]

    def _section(self, head: bytes) -> tuple[str, bytes]:
        order = _BYTE_ORDER.get(head[4:])
        if order is None:
            raise self._damaged("starts a section of no known byte order")
        return order, self._block(order, head[:4], read=4)

    def _block(self, order: str, length: bytes, read: int = 0) -> bytes:
        """Reads a block's body, whose length counts 12 bytes around it, and the length once more behind it."""
        size = struct.unpack(order + "I", length)[0]
        if size < 12 + read or size % 4 or size > MAX_BLOCK_BYTES:
            raise self._damaged(f"claims {size} bytes")
        return self._body(size - 8 - read)[:-4]

    def _interface(self, order: str, body: bytes) -> _Interface:
        if len(body) < 8:
            raise self._damaged("describes an interface in too few bytes")
        tick_s = 1e-6
        at = 8
        while at + 4 <= len(body):
            code, size = struct.unpack_from(order + "HH", body, at)
            if code == _RESOLUTION and size >= 1 and at + 4 < len(body):
                value = body[at + 4]
                tick_s = 2.0 ** -(value & 0x7F) if value & 0x80 else 10.0**-value
            at += 4 + size + -size % 4
        return _Interface(struct.unpack_from(order + "H", body)[0], tick_s)

    def _packet(self, kind: int, order: str, body: bytes, interfaces: list[_Interface]) -> Frame:
        head = 4 if kind == _SIMPLE_PACKET else 20
        if len(body) < head:
            raise self._damaged("is too short for a packet")
        index, time = 0, None
        if kind == _SIMPLE_PACKET:
            wire = struct.unpack_from(order + "I", body)[0]
            kept = min(wire, len(body) - head)
        else:
            layout = "IIIII" if kind == _PACKET else "HxxIIII"
            index, high, low, kept, wire = struct.unpack_from(order + layout, body)
            time = (high << 32) | low
        if index >= len(interfaces):
            raise self._damaged(f"comes from interface {index}, which the file does not describe")
        if kept > len(body) - head:
            raise self._damaged(f"claims {kept} bytes of a packet")
        interface = interfaces[index]
        time_s = None if time is None else time * interface.tick_s
        return Frame(interface.link_type, index, time_s, max(wire, kept), body[head : head + kept])
