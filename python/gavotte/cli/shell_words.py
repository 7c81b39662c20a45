"""Commands that are given as one word, as `--exec 'COMMAND {placement}'`."""

from __future__ import annotations

import shlex

from gavotte.errors import GavotteError


def words_of(command: str, name: str) -> list[str]:
    """Split the command of an option as a shell would.

    Args:
        command: the command.
        name: the option.

    Raises:
        GavotteError: when nothing is left, or a quotation does not end.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise GavotteError(f"{name} `{command}`: {str(error).lower()}", hint="quote it as a shell wants it") from None
    if not words:
        raise GavotteError(f"{name} is empty", hint="name a program, or leave out the option")
    return words
