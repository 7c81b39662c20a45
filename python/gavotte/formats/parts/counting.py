"""Write numbers with their nouns, and lists of names, as sentences have them."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMES = 4
"""Most names of a list in a sentence."""


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, which gets an s unless the number is one: `1 pair`, `2 pairs`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them: `a`, `a and b`, `a, b and c`, or `a, b, c and 7 more`."""
    shown = (
        list(names) if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]
    )
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
