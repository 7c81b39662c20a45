"""The help of each verb has an example, and the verb understands it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import typer

from gavotte.cli.verbs import NAMES, WORKFLOW, load

COMMAND: Any = load(NAMES)


def commands(command: Any, *names: str) -> list[tuple[str, ...]]:
    subs = getattr(command, "commands", {})
    return [names, *(path for name, sub in subs.items() for path in commands(sub, *names, name))]


@pytest.mark.parametrize("path", commands(COMMAND), ids=" ".join)
def test_a_verb_has_an_example_that_it_parses(path: tuple[str, ...]) -> None:
    command = COMMAND
    for name in path:
        command = command.commands[name]
    assert (command.epilog or "").startswith("Example: gavotte ")
    program, *words = shlex.split(command.epilog.removeprefix("Example: "))
    assert (program, tuple(words[: len(path)])) == ("gavotte", path)
    context = None
    command = COMMAND
    while words and words[0] in getattr(command, "commands", {}):
        context = typer.Context(command, parent=context, info_name=command.name)
        command = command.commands[words.pop(0)]
    context = typer.Context(command, parent=context, info_name=command.name)
    values, rest, _ = command.make_parser(context).parse_args(args=words)
    needed = [each.name for each in command.params if each.required and values.get(each.name) in (None, ())]
    assert needed == []
    assert rest == [] or not command.params


def test_the_help_lists_each_verb_once() -> None:
    names = [name for each in WORKFLOW.values() for name in each]
    assert sorted(names) == sorted(NAMES)
    assert COMMAND.list_commands(typer.Context(COMMAND)) == names
