"""Options in seconds also take the unit: `--time-limit 5s` as `--budget 30s`."""

from __future__ import annotations

import re
from typing import Any

import typer

_WITH_UNIT = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|min|h|d)\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def accept_units(command: Any) -> None:
    """Have all options of a command, and of those below it, whose help shows `SECONDS` accept a unit."""
    for each in getattr(command, "commands", {}).values():
        accept_units(each)
    for option in command.params:
        if option.metavar == "SECONDS":
            _accept(option)


def in_seconds(value: Any) -> Any:
    """Return durations as seconds; values that are no texts, such as defaults, as they are.

    Raises:
        BadParameter: for a text that is neither a number nor a number with a unit.
    """
    if isinstance(value, list | tuple):
        return [in_seconds(each) for each in value]
    if not isinstance(value, str):
        return value
    if match := _WITH_UNIT.fullmatch(value):
        return float(match[1]) * _SECONDS[match[2]]
    try:
        return float(value)
    except ValueError:
        raise typer.BadParameter(f"`{value}` is not a duration; use e.g. 5, 5s or 10min") from None


def _accept(option: Any) -> None:
    process = option.process_value

    def with_units(ctx: Any, value: Any) -> Any:
        try:
            return process(ctx, in_seconds(value))
        except typer.BadParameter as error:
            error.ctx, error.param = ctx, option
            raise

    option.process_value = with_units
