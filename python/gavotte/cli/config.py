"""`gavotte config`: print the settings that hold in this folder, and where each comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, emit_table, note
from gavotte.cli.settings.applying import check_file, holding
from gavotte.cli.settings.files import SettingsFile, own_path, read_files
from gavotte.cli.settings.reading import Setting
from gavotte.cli.settings.rules import ALL, VARIABLES, options_of
from gavotte.errors import FormatError

_SECRET = re.compile(r"(://[^/@:]*:)[^@/]*(?=@)|((?:password|token)=)[^&\s]+", re.IGNORECASE)


@dataclass(frozen=True)
class _Row:
    setting: str
    value: Any
    source: str

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {"setting": self.setting, "value": self.value, "source": self.source}


def config(as_json: Json = False) -> None:
    """Print the settings of `gavotte.toml` files and variables that hold in this folder, and where each comes from.

    Checks the keys and values of all files.
    """
    files = read_files()
    rows = [*_variables(), *_settings(files)]
    if as_json:
        emit_json({"files": [str(file.path) for file in files], "settings": [row.as_dict() for row in rows]})
        return
    if rows:
        cells = [[row.setting, _shown(row.value), row.source] for row in rows]
        emit_table(["setting", "value", "from"], cells, words=["value", "from"])
    if not files:
        note(f"no gavotte.toml in this folder or above it, and no {own_path()}")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, list) else str(value)


def _variables() -> Iterator[_Row]:
    """Yield the options that environment variables set."""
    for key, variable in VARIABLES.items():
        if value := os.environ.get(variable):
            yield _Row(f"{ALL}.{key}", _scrubbed(value), variable)


def _settings(files: Sequence[SettingsFile]) -> list[_Row]:
    """Return the settings of files that hold for any verb.

    Raises:
        FormatError: for a file with a mistake.
    """
    from gavotte.cli.verbs import NAMES, load

    tables = {name for file in files for name, value in file.content.items() if isinstance(value, dict)}
    # Every verb must be known to say what the table of all verbs sets.
    command: Any = load(NAMES if ALL in tables else tables & {*NAMES})
    for file in files:
        check_file(file, command, NAMES)
    settings: dict[tuple[str, str], Setting] = {}
    for path, sub in _commands(command, ()):
        for name, setting in holding(files, sub, path).items():
            _validate(sub, name, setting)
            settings.setdefault((setting.field, str(setting.file)), setting)
    rows = [_Row(each.field, _scrubbed(each.value), str(each.file)) for each in settings.values()]
    return sorted(rows, key=lambda row: (not row.setting.startswith(f"{ALL}."), row.setting))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, sub in getattr(command, "commands", {}).items():
        yield from _commands(sub, (*path, name))


def _validate(command: Any, name: str, setting: Setting) -> None:
    """Refuse a value that the verb would refuse.

    Raises:
        FormatError: naming file, key and remedy.
    """
    option = next(each for each in options_of(command).values() if each.name == name)
    if option.name == "verbose":
        return
    try:
        option.process_value(typer.Context(command), setting.value)
    except typer.BadParameter as error:
        problem = error.message.removesuffix(".")
        raise FormatError(str(setting.file), setting.field, problem, "correct it there") from None


def _scrubbed(value: Any) -> Any:
    """Return a value without passwords."""
    if isinstance(value, list):
        return [_scrubbed(each) for each in value]
    return _SECRET.sub(r"\1\2***", value) if isinstance(value, str) else value
