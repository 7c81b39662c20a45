"""Rates and sizes as tc(8) writes them, and what each network layer keeps of a rate.

A rate is a float in bit/s, a size an int in bytes. tc's own rules hold: `mbit` is 10^6 bit/s, `mibit` is
2^20 bit/s, `mbps` is 10^6 *bytes* per second; a size in `kb` is 1024 bytes.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from gavotte.formats.reading import problem

_SI = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_SIZE = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}
_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)"
_RATE = re.compile(_NUMBER + r"\s*([kmgt]i?)?(bit|bps)?", re.IGNORECASE | re.ASCII)
_BYTES = re.compile(_NUMBER + r"\s*([kmg]?b?)", re.IGNORECASE | re.ASCII)

MAX_RATE_BPS = 1e14
MAX_SIZE_BYTES = 1 << 40

MTU_BYTES = 1500
WIRE_BYTES = 1514
"""A full Ethernet frame as a shaper counts it: MTU and 14 bytes of header."""
TCP_PAYLOAD_BYTES = 1448
"""TCP payload of a full IPv4 frame with timestamps."""
UDP_PAYLOAD_BYTES = 1472
"""UDP payload of a full IPv4 frame."""

GOODPUT_PER_WIRE = TCP_PAYLOAD_BYTES / WIRE_BYTES
"""TCP goodput of a wire rate: 1448/1514 at MTU 1500."""
GOODPUT_PER_UDP_PAYLOAD = TCP_PAYLOAD_BYTES / UDP_PAYLOAD_BYTES
"""TCP goodput of a rate counted in UDP payload: 1448/1472 at MTU 1500."""


def parse_rate(text: str) -> float:
    """Reads a rate as tc writes it.

    Args:
        text: for example `300mbit`, `1.5gbit`, `25mbps` (bytes); a bare number is bit/s.

    Returns:
        bit/s, above zero and at most `MAX_RATE_BPS`.

    Raises:
        PydanticCustomError: (a ValueError) with the remedy.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise problem(f"{text!r} is not a rate", 'write it as tc does, for example "300mbit"')
    number, prefix, unit = match.groups()
    rate = float(number) * _SI[(prefix or "").lower()] * (8 if (unit or "").lower() == "bps" else 1)
    if not 0 < rate <= MAX_RATE_BPS:
        raise problem(f"{text!r} is out of range", "write a rate above 0 and at most 100tbit")
    return rate


def parse_size(text: str) -> int:
    """Reads a size as tc writes it.

    Args:
        text: for example `32kb` (32,768 bytes), `512k`, `1500b`; a bare number is bytes.

    Returns:
        bytes, at least 1 and at most `MAX_SIZE_BYTES`.

    Raises:
        PydanticCustomError: (a ValueError) with the remedy.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise problem(f"{text!r} is not a size", 'write it as tc does, for example "32kb"')
    size = float(match[1]) * _SIZE[match[2].lower()]
    if not 1 <= size <= MAX_SIZE_BYTES:
        raise problem(f"{text!r} is out of range", "write a size from 1 byte to 1024gb")
    return math.floor(size)


def transfer_s(
    size_bytes: float, rate_bps: float, *, bucket_bytes: float = 0.0, peak_bps: float | None = None
) -> float:
    """How long one bulk transfer takes over a path behind a token bucket.

    The bucket lets b + r t bytes pass by time t, at no more than C: the first b C / (C - r) bytes go at C, the rest
    at r. A single rate is wrong by b / r seconds for every transfer longer than that.

    Args:
        size_bytes: payload.
        rate_bps: sustained rate r, in the payload's layer.
        bucket_bytes: depth b of a full bucket, in the payload's layer.
        peak_bps: rate C while the bucket lasts; None = without limit.

    Returns:
        seconds.
    """
    after_bucket_s = max(0.0, (8 * size_bytes - 8 * bucket_bytes) / rate_bps)
    return after_bucket_s if peak_bps is None else max(after_bucket_s, 8 * size_bytes / peak_bps)


def format_rate(rate_bps: float) -> str:
    """Writes bit/s with three significant digits for people: `287 Mbit/s`."""
    if not math.isfinite(rate_bps):
        return "unlimited"
    value, unit = rate_bps, "bit/s"
    for larger in ("kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:#.3g}".rstrip(".") + f" {unit}"


def format_bytes(size_bytes: float) -> str:
    """Writes bytes with three significant digits for people, in powers of 1000: `265 MB`."""
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:#.3g}".rstrip(".") + f" {unit}"


def _rate(value: Any) -> Any:
    if isinstance(value, str):
        return parse_rate(value)
    raise problem(f"{value!r} is not a rate", 'write it as tc does, in quotes, for example "300mbit"')


def _size(value: Any) -> Any:
    if isinstance(value, str):
        return parse_size(value)
    raise problem(f"{value!r} is not a size", 'write it as tc does, in quotes, for example "32kb"')


Rate = Annotated[
    float,
    BeforeValidator(_rate),
    WithJsonSchema({"type": "string", "description": "a rate as tc writes it", "examples": ["300mbit"]}),
]
"""A rate field: a tc string in the file, bit/s in memory."""

Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"type": "string", "description": "a size as tc writes it", "examples": ["32kb"]}),
]
"""A size field: a tc string in the file, bytes in memory."""
