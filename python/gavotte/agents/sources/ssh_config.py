"""Read the hosts of an ssh configuration.

The `Host` lines, through every `Include`, give the names. The ssh client (`ssh -G`) prints the settings of each name.
In this way patterns, `Match`, tokens and the system's configuration have the same effect as for ssh.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from gavotte.agents.reach.client import config_file, ssh_program
from gavotte.agents.sources.assembly import LOOKUPS, Found, assemble
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.reading import read_text
from gavotte.formats.inventory import Inventory

USER_CONFIG = Path("~/.ssh/config")
MAX_DEPTH = 16
"""Largest depth to which files may include each other, as in ssh."""
ASK_LIMIT_S = 15.0
"""Limit for `ssh -G`, which may run a user's `Match exec`."""

_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")


def from_ssh_config(match: str = "*", *, file: str | Path | None = None) -> Inventory:
    """Read the hosts of an ssh configuration.

    Args:
        match: globs, separated by commas; one without wildcards need not be in the file.
        file: the configuration; the user's own if left out.

    Raises:
        FormatError: naming file, line or host, and remedy.
    """
    named = str(file) if file is not None else config_file()
    path = Path(named or USER_CONFIG).expanduser()
    globs = [part.strip() for part in match.split(",") if part.strip()]
    if not globs:
        raise GavotteError("`ssh-config:` needs a pattern", hint="use e.g. ssh-config:web*")
    known = aliases(read_text(path), str(path)) if named or path.exists() else []
    chosen = [name for name in known if any(fnmatchcase(name, glob) for glob in globs)]
    chosen += [glob for glob in globs if re.fullmatch(r"[\w.-]+", glob) and glob not in chosen]
    if not chosen:
        raise FormatError(str(path), "", f"no Host line matches `{match}`", "use one of its hosts, or another file")
    config = str(path.absolute()) if named else None
    with ThreadPoolExecutor(min(LOOKUPS, len(chosen))) as pool:
        places = list(pool.map(lambda name: ask(name, config)["hostname"], chosen))
    hosts = [Found(name, place, f"Host {name}") for name, place in zip(chosen, places, strict=True)]
    return assemble(str(path), hosts, ssh_config=config)


def aliases(text: str, path: str, *, depth: int = 0) -> list[str]:
    """Return the names on `Host` lines that are not patterns, in order, each once.

    Raises:
        FormatError: naming file and line.
    """
    names: dict[str, None] = {}
    for number, words in _lines(text, path):
        keyword, *rest = words
        if keyword == "host":
            names |= dict.fromkeys(name for name in rest if not set(name) & set("*?!") and not name.startswith("-"))
        elif keyword == "include":
            if depth >= MAX_DEPTH:
                raise FormatError(
                    path, f"line {number}", "includes too many levels of files", "does a file include itself?"
                )
            for pattern in rest:
                for file in _included(pattern):
                    names |= dict.fromkeys(aliases(read_text(file), file, depth=depth + 1))
    return list(names)


def ask(name: str, config: str | None) -> dict[str, str]:
    """Ask the ssh client what a name means to it.

    Returns:
        Its settings by lower-case key. If a key is repeated, the first value counts.

    Raises:
        GavotteError: when the client refuses the name or the configuration.
    """
    line = [ssh_program(), "-G", *(["-F", config] if config else []), "--", name]
    try:
        done = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GavotteError(f"ssh does not say where to find `{name}`", hint="try `ssh -G HOST` by hand") from None
    if done.returncode:
        first = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise GavotteError(f"ssh rejects `{name}`: {first[:300]}", hint="correct the ssh configuration")
    settings: dict[str, str] = {}
    for row in done.stdout.splitlines():
        key, _, value = row.partition(" ")
        settings.setdefault(key.lower(), value.strip())
    return {"hostname": name, **settings}


def _lines(text: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, [lower-case keyword, arguments...]) of `Host` and `Include` lines."""
    for number, line in enumerate(text.split("\n"), 1):
        if "\0" in line:
            raise FormatError(path, f"line {number}", "holds a NUL character", "remove it")
        match = _LINE.match(line)
        if not match or match[1].lower() not in ("host", "include"):
            continue
        try:
            words = shlex.split(match[2].strip(), comments=True)
        except ValueError:
            raise FormatError(path, f"line {number}", "has an unclosed quote", "close it") from None
        yield number, [match[1].lower(), *words]


def _included(pattern: str) -> list[str]:
    """Expand an `Include`: relative paths are below ~/.ssh. A pattern that matches nothing is not an error."""
    # Not Path.expanduser, which raises for a user that does not exist.
    home = os.path.expanduser("~/.ssh")  # noqa: PTH111
    path = os.path.expanduser(pattern) if pattern.startswith("~") else os.path.join(home, pattern)  # noqa: PTH111, PTH118
    # Not Path.glob, which refuses patterns that ssh accepts, such as `**x`.
    paths = glob.glob(path)  # noqa: PTH207
    return sorted(file for file in paths if Path(file).is_file())
