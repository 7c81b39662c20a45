"""Rates and sizes as tc(8) writes them.

A rate is a float in bit/s, a size an int in bytes. tc's own rules apply: `mbit` is 10^6 bit/s, `mibit` is
2^20 bit/s, `mbps` is 10^6 *bytes* per second; a size in `kb` is 1024 bytes.
"""

from __future__ import annotations

import logging
import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from gavotte.formats.files.reading import problem
from gavotte.formats.parts.rates import format_rate

_log = logging.getLogger(__name__)

_SI = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_SIZE = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}
_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)"
_RATE = re.compile(_NUMBER + r"\s*([kmgt]i?)?(bit|bps)?", re.IGNORECASE | re.ASCII)
_BYTES = re.compile(_NUMBER + r"\s*([kmg]?b?)", re.IGNORECASE | re.ASCII)

SLOW_BPS = 1e6
"""A bare number below this was hardly meant as bit/s, so that its unit has to be written."""

MAX_RATE_BPS = 1e14
MAX_SIZE_BYTES = 1 << 40


def parse_rate(text: str) -> float:
    """Read a rate as tc writes it. Log a warning with its value where people usually mean something else.

    Args:
        text: for example `300mbit`, `1.5gbit`, `25mbps` (bytes); a bare number from `SLOW_BPS` on is bit/s.

    Returns:
        bit/s, above zero and at most `MAX_RATE_BPS`.

    Raises:
        PydanticCustomError: (a ValueError) with the remedy.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise problem(f"`{text}` is not a rate", 'use e.g. "300mbit"')
    number, prefix, unit = match.groups()
    rate = float(number) * _SI[(prefix or "").lower()] * (8 if (unit or "").lower() == "bps" else 1)
    if not 0 < rate <= MAX_RATE_BPS:
        raise problem(f"`{text}` is out of range", "use a rate above 0 and at most 100tbit")
    if not (unit or prefix) and rate < SLOW_BPS:
        raise problem(
            f"`{text}` has no unit, and would be {format_rate(rate)}", f'use e.g. "{number}mbit", or "{number}bit"'
        )
    if (unit or "").lower() == "bps":
        bits = f"{number}{(prefix or '').lower()}bit"
        _log.warning("`%s` means bytes per second, as in tc: %s; write %s for bits", text, format_rate(rate), bits)
    return rate


def parse_size(text: str) -> int:
    """Read a size as tc writes it.

    Args:
        text: for example `32kb` (32,768 bytes), `512k`, `1500b`; a bare number is bytes.

    Returns:
        bytes, at least 1 and at most `MAX_SIZE_BYTES`.

    Raises:
        PydanticCustomError: (a ValueError) with the remedy.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise problem(f"`{text}` is not a size", 'use e.g. "32kb"')
    size = float(match[1]) * _SIZE[match[2].lower()]
    if not 1 <= size <= MAX_SIZE_BYTES:
        raise problem(f"`{text}` is out of range", "use a size from 1 byte to 1024gb")
    return math.floor(size)


def _rate(value: Any) -> Any:
    if isinstance(value, str):
        return parse_rate(value)
    raise problem(f"{value!r} is not a rate", 'use a string, e.g. "300mbit"')


def _size(value: Any) -> Any:
    if isinstance(value, str):
        return parse_size(value)
    raise problem(f"{value!r} is not a size", 'use a string, e.g. "32kb"')


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
