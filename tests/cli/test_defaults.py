"""Options that a command line does not use: their values are those that typer makes, without its validators."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Literal

import pytest
import typer

from gavotte.cli.defaults import trust_defaults
from gavotte.cli.verbs import NAMES, build


def several(
    name: str,
    size: int = 3,
    share: float = 0,
    kind: Literal["a", "b"] = "a",
    where: Path | None = None,
    hosts: list[str] | None = None,
    loud: bool = False,
    text: str = "x",
) -> None:
    """Take options of each type."""


def values(words: list[str], *, trusting: bool) -> dict[str, Any]:
    app = typer.Typer(add_completion=False)
    app.command()(several)
    command = typer.main.get_command(app)
    if trusting:
        trust_defaults(command)
    return dict(command.make_context("several", list(words)).params)


@pytest.mark.parametrize(
    "words",
    [
        ["n"],
        ["n", "--size", "4", "--share", "0.5", "--kind", "b", "--where", "/x", "--hosts", "a", "--loud", "--text", ""],
        ["n", "--size", "3", "--share", "0"],
    ],
)
def test_values_are_the_same_with_and_without_trust(words: list[str]) -> None:
    plain, trusted = (values(words, trusting=each) for each in (False, True))
    assert trusted == plain
    assert {name: type(value) for name, value in trusted.items()} == {
        name: type(value) for name, value in plain.items()
    }


@pytest.mark.parametrize("words", [["n", "--size", "x"], ["n", "--kind", "c"], []])
def test_what_a_user_gave_is_still_checked(words: list[str]) -> None:
    messages = []
    for trusting in (False, True):
        with pytest.raises(typer.TyperException) as caught:
            values(words, trusting=trusting)
        messages.append(caught.value.format_message())
    assert messages[0] == messages[1]


@pytest.mark.each_case
@pytest.mark.slow
@pytest.mark.parametrize("verb", NAMES)
def test_the_defaults_of_every_verb_are_the_same(verb: str) -> None:
    for command in flattened(typer.main.get_command(build([verb]))):
        plain, trusted = copy.copy(command), copy.copy(command)
        trusted.params = [copy.copy(option) for option in command.params]
        trust_defaults(trusted)
        for before, after in zip(plain.params, trusted.params, strict=True):
            if before.name == "help" or before.required:
                continue
            ctx = typer.Context(plain)
            value = before.get_default(ctx)
            old, new = (each.get_runtime_param().coerce(value, param=each, ctx=ctx) for each in (before, after))
            assert (type(new), new) == (type(old), old), (verb, before.name)


def flattened(command: Any) -> list[Any]:
    """Return a command, and all below it."""
    below = [each for one in getattr(command, "commands", {}).values() for each in flattened(one)]
    return [command, *below]
