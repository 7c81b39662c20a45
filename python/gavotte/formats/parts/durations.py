"""Durations as people write them: `150ms`, `0.2ms`, `80us`, `1s`. In memory a duration is a float in seconds."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from gavotte.formats.files.reading import problem

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]{1,2})?)\s*(s|ms|us|ns)", re.ASCII)

MAX_DURATION_S = 60.0
"""Largest duration in a file. No network's latency comes near it."""


def parse_duration(text: str) -> float:
    """Read a duration with its unit.

    Args:
        text: a number from 0 on and `s`, `ms`, `us` or `ns`, for example `0.2ms`.

    Returns:
        seconds, from 0 to `MAX_DURATION_S`.

    Raises:
        PydanticCustomError: (a ValueError) with the remedy.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise problem(f"`{text}` is not a duration", 'use e.g. "2ms", "80us" or "1s"')
    duration_s = float(match[1]) / _PER_SECOND[match[2]]
    if duration_s > MAX_DURATION_S:
        raise problem(f"`{text}` is out of range", f"use at most {MAX_DURATION_S:.0f}s")
    return duration_s


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    raise problem(f"{value!r} is not a duration", 'use a string with a unit, e.g. "2ms"')


Duration = Annotated[
    float,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "string", "description": "a duration with its unit", "examples": ["2ms"]}),
]
"""A duration field: a string with a unit in the file, seconds in memory."""
