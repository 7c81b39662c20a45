"""Commands whose options are the fields of dataclasses, so that a command with thirty options has five parameters."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

REQUIRED: Any = dataclasses.MISSING


def option(text: str, metavar: str | None = None, *names: str, default: Any = None, **more: Any) -> Any:
    """Declare an option as the default of a dataclass's field or of a command's parameter.

    Args:
        text: its line of help.
        metavar: what stands for its value in the help; None = its type.
        names: its spellings; without any, the name of the field, as in `--max-hosts` for `max_hosts`.
        default: its value if it is not used; `REQUIRED` = it must be.
        more: as for `typer.Option`.
    """
    made = functools.partial(typer.Option, help=text, metavar=metavar, **more)
    return dataclasses.field(default=default, metadata={"names": names, "option": made})


def declared(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Replace each parameter of a command that is a dataclass by the fields of that dataclass.

    Args:
        command: a function for typer. Its options are declared by `option`, or as `Annotated[type, typer.Option(...)]`
            with a default; so are the fields of a dataclass among its parameters. No two options have the same name.

    Returns:
        A function for typer that takes the fields as options, makes the dataclasses, and calls the command.
    """
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        group = parameter.annotation
        if not dataclasses.is_dataclass(group):
            parameters.append(_parameter(name, group, parameter.default))
            continue
        assert isinstance(group, type)
        groups[name] = group
        hints = get_type_hints(group, include_extras=True)
        parameters += [_parameter(field.name, hints[field.name], field) for field in dataclasses.fields(group)]

    @functools.wraps(command)
    def call(**values: Any) -> int | None:
        made = {
            name: group(**{field.name: values.pop(field.name, field.default) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        return command(**values, **made)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter for typer; its default may be a field, which may have been made by `option`."""
    if isinstance(default, dataclasses.Field):
        if made := default.metadata.get("option"):
            annotation = Annotated[annotation, made(*(default.metadata["names"] or [f"--{name.replace('_', '-')}"]))]
        default = inspect.Parameter.empty if default.default is REQUIRED else default.default
    # All are passed by name, so that one with a default may come before one without.
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
