"""Turn the keys of a file into values of a command's options."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavotte.cli.settings.files import SettingsFile
from gavotte.cli.settings.rules import ALL, OWN, SHARED, TEXT_FILES, is_here, is_shared, options_of
from gavotte.errors import FormatError


@dataclass(frozen=True)
class Setting:
    """One value that a file sets.

    Attributes:
        field: where it is in the file, as `measure.count`.
        key: the option's key.
        value: the value as a command line would give it: a text, texts, or a boolean.
        file: the file.
    """

    field: str
    key: str
    value: str | list[str] | bool
    file: Path


def shared_table(file: SettingsFile) -> dict[str, Any]:
    """Return the table of options that verbs share.

    Raises:
        FormatError: for a key that verbs do not share.
    """
    table: dict[str, Any] = file.content.get(ALL, {})
    for key in table:
        if key not in SHARED:
            raise FormatError(str(file.path), f"{ALL}.{key}", "is not an option that verbs share", _share_remedy(key))
    return table


def _share_remedy(key: str) -> str:
    from gavotte.formats.parts.names import meant, nearest

    if nearest(key, SHARED) is None:
        return f"write it in the table of a verb, e.g. [measure]; shared are {', '.join(SHARED)}"
    return meant(key, SHARED)


def check_tables(file: SettingsFile, verbs: Collection[str]) -> None:
    """Refuse a table that is named after none of all verbs, and keys outside of tables.

    Raises:
        FormatError: with the nearest verb.
    """
    for key, value in file.content.items():
        if isinstance(value, dict):
            if key not in (ALL, *verbs):
                raise FormatError(str(file.path), key, "is not a verb", _remedy(key, (ALL, *verbs)))
        elif key in SHARED:
            raise FormatError(str(file.path), key, "is in no table", f"write [{ALL}] above it")
        elif key in verbs:
            raise FormatError(str(file.path), key, "is a verb", f"begin a table with [{key}]")
        else:
            raise FormatError(str(file.path), key, "is in no table", "write it in the table of a verb, e.g. [measure]")


def check_keys(file: SettingsFile, command: Any, table: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """Refuse keys of a verb's table that are no options of it, and options that the file may not set.

    Args:
        file: the file.
        command: the verb, or a group of verbs.
        table: its table in the file.
        path: the names of its group and of itself.

    Raises:
        FormatError: naming the file and the key.
    """
    commands: dict[str, Any] = getattr(command, "commands", {})
    options = options_of(command) or {key: each for sub in commands.values() for key, each in options_of(sub).items()}
    for key, value in table.items():
        field = ".".join((*path, key))
        if isinstance(value, dict):
            if key not in commands:
                raise FormatError(str(file.path), field, "is not a verb", _remedy(key, commands))
            check_keys(file, commands[key], value, (*path, key))
            continue
        if key not in options:
            if key.startswith("no-") and key[3:] in options:
                raise FormatError(str(file.path), field, "is not a key", f"write `{key[3:]} = false`")
            known = [name for name, option in options.items() if not is_here(option)]
            verb = " ".join(path)
            raise FormatError(str(file.path), field, f"is not an option of `{verb}`", _remedy(key, known))
        if is_here(options[key]):
            raise FormatError(
                str(file.path),
                field,
                "is only for the command line",
                f"leave it out, and use --{key} where you need it",
            )
        if key in OWN and not file.own:
            from gavotte.cli.settings.files import own_path

            raise FormatError(
                str(file.path), field, "starts a program or sends data", f"move it to your own {own_path()}"
            )


def _remedy(key: str, known: Any) -> str:
    from gavotte.formats.parts.names import meant

    names = list(known)
    return meant(key, names) if names else "leave it out"


def settings_of(file: SettingsFile, command: Any, path: tuple[str, ...]) -> dict[str, Setting]:
    """Return what a file sets for one command: its own table beats its group's, and that beats [all].

    Args:
        file: the file, whose keys have been checked.
        command: the command.
        path: the names of its group and of itself; empty = the command without a verb.

    Raises:
        FormatError: for a value that the option cannot have.
    """
    options = options_of(command)
    verb = " ".join(path)
    settings: dict[str, Setting] = {}
    for key, value in shared_table(file).items():
        if key in options and is_shared(key, verb, options[key]):
            settings[options[key].name] = _setting(file, f"{ALL}.{key}", key, options[key], value)
    table: Any = file.content
    for depth, name in enumerate(path, 1):
        table = table.get(name, {})
        if not isinstance(table, dict):
            break
        for key, value in table.items():
            if isinstance(value, dict) or key not in options or is_here(options[key]):
                continue
            field = ".".join((*path[:depth], key))
            settings[options[key].name] = _setting(file, field, key, options[key], value)
    return settings


def _setting(file: SettingsFile, field: str, key: str, option: Any, value: Any) -> Setting:
    path = str(file.path)
    if option.is_flag:
        if not isinstance(value, bool):
            raise FormatError(path, field, "is on or off", "write true or false")
        return Setting(field, key, value, file.path)
    if isinstance(value, list) and not option.multiple:
        raise FormatError(path, field, "has one value only", "write it without brackets")
    texts = [_text(each, path, field) for each in (value if isinstance(value, list) else [value])]
    located = [_located(each, key, option, file.path.parent) for each in texts]
    return Setting(field, key, located if option.multiple else located[0], file.path)


def _text(value: Any, path: str, field: str) -> str:
    """Return a value as it is written on a command line."""
    if isinstance(value, bool):
        raise FormatError(path, field, "takes a value", "write a number or a text in quotes")
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise FormatError(path, field, "takes a number or a text", "write a list of these at most")


def _located(text: str, key: str, option: Any, folder: Path) -> str:
    """Return a value with its path relative to the working folder, if it is one that is relative to the file's."""
    if option.type_descriptor.annotation in (Path, list[Path]):
        return _path(text, folder)
    if key not in TEXT_FILES:
        return text
    prefix, mark, rest = text.partition(":")
    if key == "store" and mark:
        return f"{prefix}:///{_path(rest[3:], folder)}" if prefix == "sqlite" and rest[:3] == "///" else text
    if key in ("hosts", "of") and prefix == "mpi" and mark:
        return f"mpi:{_path(rest, folder)}"
    if key in ("hosts", "of", "pattern") and not text.endswith(".toml") and not (folder / text).is_file():
        return text
    return _path(text, folder)


def _path(text: str, folder: Path) -> str:
    """Return a path relative to a folder. In the working folder it remains as it is, so that messages are short."""
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        path = Path(text)
    return text if not path.is_absolute() and folder == Path.cwd() else str(folder / path)
