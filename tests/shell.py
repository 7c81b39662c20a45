"""The command as users call it, and waiting for another process."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.forking import Forks

GAVOTTE = Path(os.environ.get("GAVOTTE_COMMAND") or Path(sys.executable).with_name("gavotte"))


def gavotte(
    *words: str | Path, timeout: float = 110, fresh: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with any status; options as of `subprocess.run`.

    Args:
        words: its arguments.
        timeout: seconds after which it is killed.
        fresh: start Python for it, instead of forking a process that has loaded the command.
        options: of `subprocess.run`. Those other than `cwd` and `env` need a fresh process.
    """
    line = [GAVOTTE, *words]
    env = options.get("env") or os.environ
    if not fresh and options.keys() <= {"cwd", "env"} and forks().fits(env):
        return forks().run([os.fspath(word) for word in line], options.get("cwd") or Path.cwd(), env, timeout)
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False, **options)


@cache
def forks() -> Forks:
    """Return the process that forks itself for each command of this worker's tests."""
    running = Forks()
    atexit.register(running.close)
    return running


VERDICTS = {
    "hosts check": r"^\d+ of \d+ hosts can be used$",
    "guarantee clear": r"^guarantees removed from \d+ hosts?$",
}
"""Commands whose exit status 1 is an answer, not an error, with the words of that answer."""


def one_line_of_error(words: Sequence[str], message: str) -> bool:
    """Report whether a command that ended with status 1 or 2 said why: by one line of error, or by its verdict."""
    errors = sum(line.startswith("error: ") for line in message.splitlines())
    verdict = VERDICTS.get(" ".join(words[:2]))
    if errors == 0 and verdict is not None:
        return re.search(verdict, message, re.MULTILINE) is not None
    return errors == 1


def until(happened: Callable[[], object], deadline_s: float = 30.0, instead: Callable[[], object] = lambda: "") -> None:
    """Wait for an event that must come; a machine that others load may take its time.

    Args:
        happened: whether it has come.
        deadline_s: most seconds to wait.
        instead: what to show if it does not come.
    """
    end = time.monotonic() + deadline_s
    while not happened():
        assert time.monotonic() < end, f"it never came to that {instead()}".rstrip()
        time.sleep(0.02)


def processes_of(mark: object) -> dict[int, str]:
    """Living processes with a text in their environment: number to command line.

    This process, and the one that forks itself for commands, are left out: a test may have started that one.
    """
    values = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                if str(mark).encode() in (folder / "environ").read_bytes():
                    values[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return {number: line for number, line in values.items() if "tests.forking" not in line}
