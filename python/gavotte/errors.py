"""Errors that a user can cause, each with a message of one line.

`gavotte` prints only the message, on stderr, and leaves with exit status 1.
"""

from __future__ import annotations

import re

LONGEST_WORD = 300
"""Longest word, in characters, that a message repeats in full. A longer word is cut to its two ends."""
_KEPT = 100


def printable(text: str) -> str:
    """Return text as one line with control characters escaped, so that text from files or hosts is safe to print."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _brief(text: str) -> str:
    """Return a message with each word above `LONGEST_WORD` characters cut to its two ends."""
    return re.sub(
        rf"\S{{{LONGEST_WORD + 1},}}",
        lambda word: f"{word[0][:_KEPT]}... ({len(word[0]) - 2 * _KEPT} more) ...{word[0][-_KEPT:]}",
        text,
    )


class GavotteError(Exception):
    """A request that cannot be fulfilled, explained in one line.

    Args:
        message: what is wrong, without a trailing period.
        hint: the remedy, shown after the message.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = printable(_brief(message))
        self.hint = printable(_brief(hint))
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class FormatError(GavotteError):
    """A file's content does not conform to its format.

    Args:
        path: the file, as the user named it.
        field: where in the file, as `host[3].egress`; empty for the whole file.
        problem: what is wrong at that place.
        remedy: what to write instead.
    """

    def __init__(self, path: str, field: str, problem: str, remedy: str = "") -> None:
        where = f"{path}: {field}" if field else path
        super().__init__(f"{where}: {problem}", hint=remedy)
        self.path = path
        self.field = field
        self.problem = problem
        self.remedy = remedy


class InfeasibleError(GavotteError):
    """No answer exists under the given constraints."""


class UnsupportedError(GavotteError):
    """This machine lacks something that the request needs."""


class AgentError(GavotteError):
    """An agent could not be reached, or refused.

    Args:
        message: as in `GavotteError`.
        hint: likewise.
        failure: one of the contract's `Failure` codes, to decide by; 0 when the agent gave none.
    """

    def __init__(self, message: str, *, hint: str = "", failure: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.failure = failure


class NoAgentsError(AgentError):
    """Fewer agents can be used than any work needs: a second try at once would fail as well."""


class BusyError(AgentError):
    """An agent is reachable, but another run holds it.

    Args:
        message: as in `GavotteError`.
        hint: likewise.
        failure: as in `AgentError`.
        lease_left_s: when that run's hold ends unless its controller renews it.
        lease_s: how long that hold lasts after each renewal; 0 = unknown.
    """

    def __init__(
        self, message: str, *, hint: str = "", failure: int = 0, lease_left_s: float = 0.0, lease_s: float = 0.0
    ) -> None:
        super().__init__(message, hint=hint, failure=failure)
        self.lease_left_s = lease_left_s
        self.lease_s = lease_s
