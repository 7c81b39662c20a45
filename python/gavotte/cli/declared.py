"""Commands whose options are the fields of dataclasses, so that a command with thirty options has five parameters."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def declared(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a dataclass by the fields of that dataclass.

    Args:
        command: a function for typer. A dataclass among its parameters has fields whose annotations are
            `Annotated[type, typer.Option(...)]`, each with a default. No two options have the same name.

    Returns:
        A function for typer that takes the fields as options, makes the dataclasses, and calls the command.
    """
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if not dataclasses.is_dataclass(parameter.annotation):
            parameters.append(parameter)
            continue
        group = parameter.annotation
        assert isinstance(group, type)
        groups[name] = group
        hints = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=field.default, annotation=hints[field.name]
            )
            for field in dataclasses.fields(group)
        ]

    @functools.wraps(command)
    def call(**values: Any) -> None:
        made = {
            name: group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**values, **made)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call
