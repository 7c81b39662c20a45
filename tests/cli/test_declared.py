"""Options declared as fields: their spellings, defaults and bounds, and the dataclasses that commands get."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gavotte.cli.declared import REQUIRED, declared, option


@dataclass(frozen=True)
class Asked:
    """A group of options."""

    kind: str = option("What kind.", default=REQUIRED)
    max_hosts: int = option("Most hosts.", "N", default=3, min=1)
    delay_s: float | None = option("A delay.", "SECONDS", "--delay")


def run(*words: str) -> tuple[int, Any, str]:
    """Run a command with a group between two options of its own: status, what the command got, and its output."""
    given: list[Any] = []
    app = typer.Typer()

    @app.command()
    @declared
    def command(name: str, *, size: int = option("A size.", default=1), asked: Asked, loud: bool = False) -> None:
        given.append((name, size, asked, loud))

    done = CliRunner().invoke(app, words)
    return done.exit_code, given[0] if given else None, done.output


def test_fields_are_options_and_arrive_as_a_dataclass() -> None:
    line = ("x", "--size", "2", "--max-hosts", "4", "--delay", "0.5", "--kind", "a", "--loud")
    assert run(*line)[:2] == (0, ("x", 2, Asked("a", 4, 0.5), True))


def test_options_that_are_not_used_have_their_defaults() -> None:
    assert run("x", "--kind", "a")[:2] == (0, ("x", 1, Asked("a", 3, None), False))


@pytest.mark.parametrize(
    ("words", "text"), [(("x",), "--kind"), (("x", "--kind", "a", "--max-hosts", "0"), "--max-hosts")]
)
def test_a_missing_or_wrong_option_is_named(words: tuple[str, ...], text: str) -> None:
    status, given, output = run(*words)
    assert (status, given) == (2, None)
    assert text in output


def test_the_order_of_help_is_the_order_of_declaration() -> None:
    output = run("--help")[2]
    places = [output.index(word) for word in ("--size", "--kind", "--max-hosts", "--delay", "--loud")]
    assert places == sorted(places)


def test_a_command_can_leave_out_options_of_a_group() -> None:
    """`gavotte profile` shows each source only the options that it uses; the others have their defaults."""
    given: list[Asked] = []

    @declared
    def command(asked: Asked) -> None:
        given.append(asked)

    command(kind="a")
    assert given == [Asked("a", 3, None)]
    assert list(inspect.signature(command).parameters) == ["kind", "max_hosts", "delay_s"]
