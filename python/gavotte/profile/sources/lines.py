"""Read text files of any size line by line, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gavotte.errors import FormatError

MAX_LINE_BYTES = 1 << 24
"""Longest line. A file with a longer one is no log."""
_BLOCK_BYTES = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}


def lines_of(path: str) -> Iterator[str]:
    """Yield the lines of a text file; gzip, zstd, bzip2 and lz4 are unpacked.

    Raises:
        FormatError: when the file cannot be read, or has a line of more than `MAX_LINE_BYTES`.
    """
    import pyarrow as pa

    try:
        with Path(path).open("rb") as plain:
            head = plain.read(8)
        if head.startswith(b"LZ4Block"):
            raise FormatError(path, "", "is compressed as Java's LZ4 block streams", "unpack it, or write it as zstd")
        packing = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
        with pa.input_stream(path, compression=packing) as stream:
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
    except pa.ArrowException as error:
        raise FormatError(
            path, "", f"cannot be unpacked: {str(error).splitlines()[0][:100]}", "copy it again"
        ) from None
    except OSError as error:
        problem = error.strerror or str(error).splitlines()[0][:100]
        raise FormatError(path, "", f"cannot be read: {problem}", "check the path") from None
    except ValueError as error:  # a NUL in the path
        raise FormatError(repr(path), "", str(error), "check the path") from None
