"""Damages a file: as text, as its values, or as the arrays of a History."""

from __future__ import annotations

import io
import json
import random
import re
import zlib
from typing import Any

import numpy as np

NASTY: tuple[Any, ...] = (
    0,
    -1,
    -0.0,
    5e-324,
    1e-300,
    1.7e308,
    1e307,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**400,
    None,
    True,
    "",
    " ",
    "a b",
    "x" * 64,
    "x" * 5000,
    "$_$",
    "{0}%s",
    "<script>alert(1)</script>",
    "\x1b[2J",
    "\0",
    "\u202e",
    "../../etc/passwd",
    "1e999",
    "nan",
    "999tbit",
    [],
    {},
    [[]],
)
TOKENS = (
    b"nan",
    b"inf",
    b"-1",
    b"1e308",
    b"1e-320",
    b"9" * 400,
    b"9" * 5000,
    b"0",
    b"null",
    b"\x00",
    b"\x1b[2J",
    b"\xff\xfe",
    b"\xe2\x80\xae",
    b"$_$",
    b'"',
    b",",
    b"\n",
    b"[" * 3000,
    b"# ",
    b"@0x0",
)
_VALUE = re.compile(rb"(?<==)\s*[^\s\[{][^\n,}\]]*|(?<=,)[^\n,]+|\b[0-9][0-9.e+-]*\b")


def damaged(content: bytes, name: str, rng: random.Random) -> bytes:
    """Return a file's content with one to three damages of its own kind, or of any kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kinds = [_bytes, _bytes]
        if name.endswith((".json", ".jsonl", ".partial")):
            kinds = [_json, _json, _json, _bytes]
        elif name.endswith(".npz"):
            kinds = [_arrays, _arrays, _arrays, _bytes]
        elif name.endswith((".toml", ".csv", ".mpiP", ".txt")):
            kinds = [_values, _values, _lines, _bytes]
        elif name.endswith(".trace"):
            kinds = [_sealed, _sealed, _sealed, _bytes]
        content = rng.choice(kinds)(content, rng)
    return content


def _bytes(content: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(content) + 1), rng.choice((1, 2, 8, 64))
    match rng.randrange(5):
        case 0:
            return (
                content[:at]
                + bytes(each ^ 1 << rng.randrange(8) for each in content[at : at + length])
                + content[at + length :]
            )
        case 1:
            return content[:at] + content[at + length :]
        case 2:
            return content[:at]
        case 3:
            return content[:at] + content[max(0, at - length) : at] * rng.choice((1, 2, 50)) + content[at:]
        case _:
            return content[:at] + rng.choice(TOKENS) + content[at:]


def _sealed(content: bytes, rng: random.Random) -> bytes:
    """Damage the first section of a trace, and make its length and its checksum fit again."""
    end = 16 + int.from_bytes(content[8:16], "little")
    body = _bytes(content[16:end], rng)
    checksum = zlib.crc32(body).to_bytes(4, "little")
    return content[:8] + len(body).to_bytes(8, "little") + body + checksum + content[end + 4 :]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    at = rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case _:
            lines.insert(at, lines.pop(rng.randrange(len(lines))))
    return b"".join(lines)


def _values(content: bytes, rng: random.Random) -> bytes:
    items = list(_VALUE.finditer(content))
    if not items:
        return _bytes(content, rng)
    value, nasty = rng.choice(items), rng.choice(NASTY)
    shown = json.dumps(nasty).encode() if rng.random() < 0.8 else str(nasty).encode(errors="replace")
    return content[: value.start()] + b" " + shown + content[value.end() :]


def _json(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines() if content.count(b"\n{") else [content]
    at = rng.randrange(len(lines)) if lines else 0
    try:
        document = json.loads(lines[at])
    except (ValueError, IndexError, RecursionError):
        return _bytes(content, rng)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    if not isinstance(document, dict | list):
        return _bytes(content, rng)
    walk(document)
    if not places:
        return _bytes(content, rng)
    node, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del node[key]
        case 1 if isinstance(node, list):
            node.append(node[key])
        case 2 if isinstance(node, dict):
            node[rng.choice(("x", "", "\x1b", key + key))] = node.pop(key)
        case 3:
            other, place = rng.choice(places)
            node[key] = json.loads(json.dumps(other[place]))
        case _:
            node[key] = rng.choice(NASTY)
    lines[at] = json.dumps(document).encode()
    return b"\n".join(lines) + b"\n" * (len(lines) > 1)


def _arrays(content: bytes, rng: random.Random) -> bytes:
    try:
        with np.load(io.BytesIO(content)) as archive:
            arrays = dict(archive)
    except Exception:
        return _bytes(content, rng)
    if not arrays:
        return _bytes(content, rng)
    key = rng.choice(sorted(arrays))
    array = np.array(arrays[key])
    match rng.randrange(7):
        case 0:
            del arrays[key]
        case 1:
            arrays[key] = (
                array.astype(rng.choice(("f2", "f4", "i1", "i8", "U3", "S2", "c8", "M8[s]", "?")), casting="unsafe")
                if array.dtype.kind in "fiu"
                else array[..., :0]
            )
        case 2:
            arrays[key] = array.reshape(-1)
        case 3:
            arrays[key] = np.concatenate([array, array]) if array.ndim else np.array([array])
        case 4 if array.size and array.dtype.kind == "f":
            array.flat[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, -1.0, 0.0, 1e307, 1e-300, 5e-324))
            arrays[key] = array
        case 5 if array.size and array.dtype.kind in "fi":
            arrays[key] = np.full_like(array, rng.choice((0, 1, 2**31, -1)))
        case _ if array.size and array.dtype.kind == "U":
            text = array.astype("U300")
            text.flat[rng.randrange(text.size)] = str(rng.choice(NASTY))[:300]
            arrays[key] = text
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()
