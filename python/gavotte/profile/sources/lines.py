"""Read text files of any size line by line, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gavotte.errors import FormatError
from gavotte.extras import needs

MAX_LINE_BYTES = 1 << 24
"""Longest line. A file with a longer one is no log."""
_BLOCK_BYTES = 1 << 20


def lines_of(path: str) -> Iterator[str]:
    """Yield the lines of a text file; gzip, zstd, bzip2 and lz4 are unpacked.

    Raises:
        FormatError: when the file cannot be read, or has a line of more than `MAX_LINE_BYTES`.
        UnsupportedError: for zstd or lz4 without pyarrow, which unpacks them.
    """
    try:
        reader = _reader(path)
        with reader(path) as stream:
            rest = b""
            while block := stream.read(_BLOCK_BYTES):
                *whole, rest = (rest + block).split(b"\n")
                if len(rest) > MAX_LINE_BYTES:
                    raise FormatError(
                        path, "", f"has a line of more than {MAX_LINE_BYTES} bytes", "is it the right file?"
                    )
                yield from (each.decode(errors="replace") for each in whole)
            if rest:
                yield rest.decode(errors="replace")
    except FileNotFoundError:
        raise FormatError(path, "", "no such file", "check the path") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise FormatError(path, "", f"cannot be read: {error.strerror}", "check the path") from None
        # Python and pyarrow raise errors of many kinds for damaged data.
        reason = str(error).partition("\n")[0][:100]
        raise FormatError(path, "", f"cannot be unpacked: {reason}", "copy it again") from None


def _reader(path: str) -> Callable[[str], Any]:
    """Return the function that opens a file, by the file's first bytes."""
    try:
        with Path(path).open("rb") as plain:
            head = plain.read(8)
    except ValueError as error:  # a NUL in the path
        raise FormatError(repr(path), "", str(error), "check the path") from None
    if head.startswith(b"LZ4Block"):
        raise FormatError(path, "", "is compressed as Java's LZ4 block streams", "unpack it, or write it as zstd")
    return next((each for magic, each in _READERS.items() if head.startswith(magic)), _plain)


def _plain(path: str) -> Any:
    return Path(path).open("rb")


def _by_arrow(packing: str) -> Callable[[str], Any]:
    """Return a function that opens a file of this compression, which Python itself does not unpack."""

    def opened(path: str) -> Any:
        with needs("parquet"):
            import pyarrow as pa
        return pa.input_stream(path, compression=packing)

    return opened


_READERS: dict[bytes, Callable[[str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\x28\xb5\x2f\xfd": _by_arrow("zstd"),
    b"\x04\x22\x4d\x18": _by_arrow("lz4"),
}
"""Maps the first bytes of a compressed file to the function that opens it."""
