"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number and its noun, which takes an s unless there is one: `1 pair`, `2 pairs`."""
    return f"{number} {noun}{'s' * (number != 1)}"
