"""Write a number with its noun, in the singular or plural."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, which gets an s unless the number is one: `1 pair`, `2 pairs`."""
    return f"{number} {noun}{'s' * (number != 1)}"
