"""Show the library's log on stderr, with `-v`."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from typing import Any

import typer

from gavotte.cli.output import note, printable

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class _Formatter(logging.Formatter):
    """Format an entry as one line with a UTC time. Escape control characters, which text from hosts may contain."""

    def __init__(self) -> None:
        self.converter = time.gmtime
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _Plain(logging.Formatter):
    """Format an entry like the command's own warnings."""

    def format(self, record: logging.LogRecord) -> str:
        return f"warning: {printable(super().format(record))}"


class _Handler(logging.Handler):
    """Write next to progress bars without breaking them, and print equal warnings once."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if text not in self._shown:
            note(text)
        if record.levelno == logging.WARNING:
            self._shown.add(text)


def show(verbosity: int) -> None:
    """Log to stderr from now on: warnings at level 0, actions at 1, every step at 2."""
    logger = logging.getLogger("gavotte")
    handler = next((each for each in logger.handlers if isinstance(each, _Handler)), None)
    if handler is None:
        handler = _Handler()
        logger.addHandler(handler)
    elif not verbosity:
        # The option was given before the verb.
        return
    logger.setLevel(LEVELS[min(verbosity, len(LEVELS) - 1)])
    handler.setFormatter(_Formatter() if verbosity else _Plain("%(message)s"))


def everywhere(verbs: typer.Typer) -> Callable[..., Any]:
    """Return the command whose verbs all accept `--verbose` too."""
    command = typer.main.get_command(verbs)
    (loud,) = (option for option in command.params if option.name == "verbose")
    silent = copy.copy(loud)
    silent.hidden = True  # type: ignore[attr-defined]
    _add(command, silent)
    return command


def _add(group: object, option: object) -> None:
    for command in getattr(group, "commands", {}).values():
        command.params.append(option)
        _add(command, option)
