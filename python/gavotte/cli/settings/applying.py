"""Give a command the settings of files as defaults of its options. What the command line says comes before them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

import typer

from gavotte.cli.settings.files import SettingsFile, read_files
from gavotte.cli.settings.reading import Setting, check_keys, check_tables, settings_of, shared_table
from gavotte.cli.settings.rules import VARIABLES, options_of
from gavotte.errors import FormatError

_applied: list[Setting] = []
"""The settings that this process's command was given."""

SHORTEST = 4
"""Fewest characters of a value that `origin` recognises in a message."""


def origin(message: str) -> str:
    """Return the end of an error's line that says which setting it is about; empty if a setting has no part in it."""
    for setting in _applied:
        values = setting.value if isinstance(setting.value, list) else [setting.value]
        named = any(isinstance(each, str) and len(each) >= SHORTEST and each in message for each in values)
        if named and str(setting.file) not in message:
            return f" (`{setting.field}` is from {setting.file})"
    return ""


def apply_settings(command: Any, words: Sequence[str], verbs: Collection[str]) -> None:
    """Give a command, and those below it, the settings of all files that hold here.

    Args:
        command: the command with the verb that `words` name.
        words: the command line.
        verbs: the names of all verbs.

    Raises:
        FormatError: naming file, key and remedy.
    """
    files = read_files()
    for file in files:
        check_file(file, command, verbs)
    if files:
        command.context_settings = {**command.context_settings, "default_map": _defaults(files, command, (), words)}


def check_file(file: SettingsFile, command: Any, verbs: Collection[str]) -> None:
    """Refuse tables and keys that a file may not have.

    Args:
        file: the file.
        command: the command with the verbs whose tables are checked.
        verbs: the names of all verbs.

    Raises:
        FormatError: naming file, key and remedy.
    """
    check_tables(file, verbs)
    shared_table(file)
    for name, verb in command.commands.items():
        if isinstance(file.content.get(name), dict):
            check_keys(file, verb, file.content[name], (name,))


def holding(files: Sequence[SettingsFile], command: Any, path: tuple[str, ...]) -> dict[str, Setting]:
    """Return what files set for one command, by the names of its parameters.

    A nearer file comes before one further away. If it names hosts, the Network of the other describes other hosts.

    Args:
        files: the files, nearest first.
        command: the command.
        path: the names of its group and of itself.

    Raises:
        FormatError: for a value that the option cannot have.
    """
    settings: dict[str, Setting] = {}
    for file in reversed(files):
        own = settings_of(file, command, path)
        if "hosts" in own and "network" not in own:
            settings.pop("network", None)
        settings |= own
    return {
        name: setting
        for name, setting in settings.items()
        if not (setting.key in VARIABLES and os.environ.get(VARIABLES[setting.key]))
    }


def _defaults(
    files: Sequence[SettingsFile], command: Any, path: tuple[str, ...], words: Sequence[str]
) -> dict[str, Any]:
    """Return the defaults of a command and of those below it, as typer takes them."""
    settings = holding(files, command, path)
    _leave_out_rivals(settings, path, words)
    options = {option.name: option for option in options_of(command).values()}
    for name, setting in settings.items():
        _blame(options[name], setting)
        _applied.append(setting)
    values: dict[str, Any] = {name: setting.value for name, setting in settings.items()}
    for name, sub in getattr(command, "commands", {}).items():
        values[name] = _defaults(files, sub, (*path, name), words)
    return values


def _leave_out_rivals(settings: dict[str, Setting], path: tuple[str, ...], words: Sequence[str]) -> None:
    """Drop hosts and Networks that do not go with what the command line names.

    Hosts on the command line are not those of the file's Network. `ranks` and `keep` take either hosts or a Network.
    """
    hosts = "of" if path == ("keep",) else "hosts"
    if _given(hosts, words):
        settings.pop("network", None)
    if path in (("ranks",), ("keep",)) and ("network" in settings or _given("network", words)):
        settings.pop(hosts, None)


def _given(key: str, words: Sequence[str]) -> bool:
    """Report whether a command line has an option."""
    own = words[: words.index("--")] if "--" in words else words
    return any(word == f"--{key}" or word.startswith(f"--{key}=") for word in own)


def _blame(option: Any, setting: Setting) -> None:
    """Have errors about an option's value name the file if the value is from there."""
    process = option.process_value

    def named(ctx: Any, value: Any) -> Any:
        try:
            return process(ctx, value)
        except typer.BadParameter as error:
            if not is_from_file(ctx, option.name):
                raise
            problem = error.message.removesuffix(".")
            remedy = f"correct it there, or use --{setting.key} on the command line"
            raise FormatError(str(setting.file), setting.field, problem, remedy) from None

    option.process_value = named


def is_from_file(ctx: Any, name: str) -> bool:
    """Report whether a file has set an option of the running command."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"
