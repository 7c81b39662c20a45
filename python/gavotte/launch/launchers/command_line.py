"""Parse a launcher's command line: its options, the number of ranks, and the program with its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gavotte.errors import GavotteError

MOST_RANKS = 1 << 20


def named(text: str) -> list[str]:
    """Return the options that a text lists, without their dashes."""
    return text.split()


@dataclass(frozen=True)
class Syntax:
    """Options of one launcher, by name without dashes for options that one or two dashes begin alike.

    Attributes:
        values: number of values of each option that has any; all other options are flags.
        ranks: options that give the number of ranks.
        per_host: options that give the number of ranks on each host.
        refused: options that contradict an order of ranks, with the remedy.
        attached: letters of short options whose value may follow without a blank, as in `-n4`.
    """

    values: Mapping[str, int]
    ranks: frozenset[str]
    per_host: frozenset[str]
    refused: Mapping[str, str]
    attached: str = ""


@dataclass(frozen=True)
class Option:
    """One option of a command line.

    Attributes:
        name: without dashes.
        words: as the user wrote them.
        values: its values.
    """

    name: str
    words: tuple[str, ...]
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandLine:
    """A launcher's command line.

    Attributes:
        launcher: the launcher's own word, as `mpirun`.
        options: the launcher's options, in their order.
        program: the program and its arguments.
        ranks: number of ranks; None = the line does not say.
        per_host: number of ranks on each host; None = the line does not say.
    """

    launcher: str
    options: tuple[Option, ...]
    program: tuple[str, ...]
    ranks: int | None = None
    per_host: int | None = None

    def words_without(self, *names: str) -> list[str]:
        """Return the words of the options, without those of these names."""
        return [word for option in self.options if option.name not in names for word in option.words]

    def values_of(self, *names: str) -> list[tuple[str, ...]]:
        """Return the values of each option that has one of these names."""
        return [option.values for option in self.options if option.name in names]

    def has(self, *names: str) -> bool:
        """Return whether any option has one of these names."""
        return any(option.name in names for option in self.options)


def parse(words: Sequence[str], syntax: Syntax) -> CommandLine:
    """Split a command line into the launcher, its options and the program.

    Args:
        words: the command line, from the launcher on.
        syntax: the launcher's options.

    Raises:
        GavotteError: when an option contradicts an order of ranks, lacks its value or is no number, or when the line
            has no program or several.
    """
    launcher, rest = words[0], list(words[1:])
    options: list[Option] = []
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        option = _option(launcher, rest, syntax)
        if remedy := syntax.refused.get(option.name):
            raise GavotteError(f"`{option.words[0]}` of {launcher} contradicts an order of ranks", hint=remedy)
        options.append(option)
        rest = rest[len(option.words) :]
    if rest[:1] == ["--"]:
        del rest[0]
    if not rest:
        raise GavotteError(f"{launcher} has no program to start", hint="write the program after its options")
    if ":" in rest:
        raise GavotteError(
            f"{launcher} starts several programs, joined by `:`", hint="start one program, or use GAVOTTE_LAUNCH=off"
        )
    return CommandLine(
        launcher,
        tuple(options),
        tuple(rest),
        _number(launcher, options, syntax.ranks),
        _number(launcher, options, syntax.per_host),
    )


def _option(launcher: str, rest: Sequence[str], syntax: Syntax) -> Option:
    """Return the option at the begin of these words."""
    word = rest[0]
    if len(word) > 2 and word[1] in syntax.attached and not word.startswith("--"):
        return Option(word[1], (word,), (word[2:].removeprefix("="),))
    name, mark, value = word.lstrip("-").partition("=")
    if mark and word.startswith("--"):
        return Option(name, (word,), (value,))
    name = word.lstrip("-")
    count = syntax.values.get(name, 0)
    if len(rest) <= count:
        raise GavotteError(f"`{word}` of {launcher} lacks its value", hint="write it after the option")
    return Option(name, tuple(rest[: count + 1]), tuple(rest[1 : count + 1]))


def _number(launcher: str, options: Sequence[Option], names: frozenset[str]) -> int | None:
    """Return the last number that one of these options has; None without any."""
    number = None
    for option in options:
        if option.name not in names:
            continue
        text = option.values[0] if option.values else "1"
        if not re.fullmatch("[0-9]{1,7}", text) or not 0 < int(text) <= MOST_RANKS:
            raise GavotteError(f"`{' '.join(option.words)}` of {launcher} is no number of ranks", hint="use 1 or more")
        number = int(text)
    return number
