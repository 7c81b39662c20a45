"""What a reader looked at and could not count, for the message that a source has no payload between tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes

MOST_NAMED = 5
"""Most reasons that a message names."""


@dataclass(frozen=True)
class Skips:
    """Packets, samples or flows that a reader looked at, and those that it skipped.

    Attributes:
        noun: name of one, as `packet`.
        number: number of all.
        reasons: number of the skipped ones by reason, as the name of their protocol.
        others: number of other parts of the input by their name in singular or plural, as counter samples.
        remedy: what to do if nothing counts; None for the usual remedy.
    """

    noun: str
    number: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    remedy: str | None = None

    def described(self, unattributed_bytes: int = 0) -> str:
        """Return what the input contains instead of payload between tasks, in one phrase.

        Args:
            unattributed_bytes: payload from or to an end that is no task.
        """
        parts = [f"{number} {name}" for name, number in list(self.reasons.items())[:MOST_NAMED]]
        left = sum(list(self.reasons.values())[MOST_NAMED:])
        if left:
            parts.append(f"{left} others")
        counts = self.number - sum(self.reasons.values())
        if counts > 0 and unattributed_bytes:
            parts.append(f"{counts} with {format_bytes(unattributed_bytes)} for other ends")
        elif counts > 0:
            parts.append(f"{counts} without payload")
        counts_text = f"{counted(self.number, self.noun)}: {', '.join(parts)}" if parts else f"no {self.noun}s"
        return ", ".join([counts_text, *(f"{number} {name}" for name, number in self.others.items() if number)])


def counted_others(numbers: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return `Skips.others` from numbers by (singular, plural)."""
    return {one if number == 1 else many: number for (one, many), number in numbers.items()}
