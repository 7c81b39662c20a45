"""Options that are not used cost nothing: their defaults are taken as they are.

Typer builds a pydantic validator for each option before it looks at the value. `place` has 29 options, whose validators
took 18 ms of a start of 280 ms. Most command lines use few of them.
"""

from __future__ import annotations

from typing import Any

_PLAIN = (bool, int, float, str)


def trust_defaults(command: Any) -> None:
    """Have all options of a command, and of those below it, build no validator for a default of the right type."""
    for each in getattr(command, "commands", {}).values():
        trust_defaults(each)
    for option in command.params:
        if hasattr(option, "get_runtime_param"):
            _trust(option)


def _trust(option: Any) -> None:
    build = option.get_runtime_param
    option.get_runtime_param = lambda: _Late(option, build)


class _Late:
    """Stand-in for an option's validator, which is built for values that a user gave."""

    def __init__(self, option: Any, build: Any) -> None:
        self._option, self._build = option, build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the option's type."""
        if value is None:
            return () if self._option.multiple or self._option.nargs == -1 else None
        annotation = self._option.type_descriptor.annotation
        if value is self._option.default and type(value) in _PLAIN and annotation is type(value):
            return value
        return self._build().coerce(value, param=param, ctx=ctx)
