"""Complete a command line for a shell: verbs, options, their values, host names and files.

Typer's scripts for bash, zsh and fish call `gavotte` with `VARIABLE` set. Nothing but completions may be printed: an
error would appear in the middle of the line that the user types.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from gavotte.cli import lists
from gavotte.cli.settings.rules import HOSTS_METAVAR

VARIABLE = "_GAVOTTE_COMPLETE"
"""Environment variable by which typer's scripts ask for completions, as `complete_bash`, or for a script."""

MOST_BYTES = 1 << 24
"""A larger file is not searched for host names: a completion must be there at once."""

_FILE = re.compile(r"(?:^|[A-Z])((?:\.[a-z0-9]+)+)((?:\|[a-z0-9]+)*)")
"""Endings of a file in a metavar, as `.network.json` in `N.network.json`, or `.png` and `svg` in `FILE.png|svg`."""

_ENDINGS = {"TOPOLOGY": (".topology.toml",), "URL": (".sqlite3",), "JOB.trace": (".trace",), "BYTES": (".csv",)}
"""Endings of files that metavars of other forms stand for."""

_HOST_SOURCES = ("hosts", "of", "network", "history")
"""Parameters whose values have host names, in the order in which they are read."""

_HOST_ENDINGS = (".network.json", ".hosts.toml", ".npz")
"""Endings of files with host names."""

Complete = Callable[[Any, str], list[Any]]


def complete() -> int:
    """Print the completions that a shell asks for, or the script for a shell. Return the exit status."""
    printed = io.StringIO()
    status = 0
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            _command()(standalone_mode=False)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    except Exception:
        return 0
    sys.stdout.write(printed.getvalue())
    return status


def _command() -> Any:
    """Return the command with the verb of the line that is typed, whose parameters know their values."""
    from gavotte.cli.verbs import NAMES, load

    if not os.environ[VARIABLE].startswith("complete"):
        return _names_only(())
    verb = next((word for word in _typed() if not word.startswith("-")), "")
    if verb not in NAMES:
        return _names_only(NAMES)
    command: Any = load([verb])
    with contextlib.suppress(Exception):
        from gavotte.cli.settings.applying import apply_settings

        apply_settings(command, [], NAMES)
    _teach(command, ())
    return command


def _names_only(names: Iterable[str]) -> Callable[..., Any]:
    """Return a command with verbs that have only a name. To load them all takes half a second."""
    from gavotte.cli.verbs import gavotte

    app = typer.Typer(name="gavotte", context_settings={"help_option_names": ["-h", "--help"]})
    app.callback()(gavotte)
    for name in names:
        app.command(name)(_nothing)
    command = typer.main.get_command(app)
    for option in command.params:
        option.callback = None
    return command


def _nothing() -> None:
    """Stand for a verb."""


def _typed() -> list[str]:
    """Return the whole words of the line after the command, without the one that is being completed.

    Bash splits `--hosts=lab` into three words. The sign is dropped, from the variables too, which typer reads.
    """
    if "COMP_WORDS" not in os.environ:
        line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = _split(line)[1:]
        return words if line.endswith(" ") else words[:-1]
    words, current = _split(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
    signs = {at for at, word in enumerate(words) if word == "=" and at != current}
    # What is before the sign in a value, as in `--only task=host`, stays as it is.
    dropped = signs | {at - 1 for at in signs if at + 1 == current and not words[at - 1].startswith("-")}
    current -= sum(at < current for at in dropped)
    words = [word for at, word in enumerate(words) if at not in dropped]
    os.environ |= {"COMP_WORDS": "\n".join(map(shlex.quote, words)), "COMP_CWORD": str(current)}
    return words[1:current]


def _split(line: str) -> list[str]:
    """Split a line as a shell does. A quotation need not end."""
    for closing in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            return shlex.split(line + closing)
    return line.split()


def _teach(command: Any, path: tuple[str, ...]) -> None:
    """Have the parameters of a command, and of those below it, complete their values and do nothing else."""
    registries = lists.REGISTRIES.get(" ".join(path), {})
    for parameter in command.params:
        parameter.callback = None
        if (values := _values(parameter, registries.get(parameter.name, ""))) is not None:
            parameter.shell_complete = values
    for name, sub in getattr(command, "commands", {}).items():
        _teach(sub, (*path, name))


def _values(parameter: Any, registry: str) -> Complete | None:
    """Return what completes a parameter's values; None = typer's own way, and files after that."""
    metavar = parameter.metavar or ""
    if registry:
        return partial(_names, registry)
    if metavar == HOSTS_METAVAR:
        return _inventories
    if "HOST" in metavar and "HOSTFILE" not in metavar:
        return _hosts
    endings = _endings(metavar)
    if endings or parameter.type_descriptor.annotation in (Path, list[Path]):
        return partial(_files_of, endings, ())
    if "|" in metavar:
        return partial(_words, [word for word in metavar.split("|") if word.isalnum() and word.islower()])
    return None


def _endings(metavar: str) -> tuple[str, ...]:
    """Return the endings of the files that a metavar stands for; none = any file."""
    if metavar in _ENDINGS:
        return _ENDINGS[metavar]
    if match := _FILE.search(metavar):
        return (match[1], *(f".{each}" for each in match[2].split("|") if each))
    return ()


def _names(registry: str, _context: Any, incomplete: str) -> list[Any]:
    return _words(lists.names_in(registry), None, incomplete)


def _words(words: Iterable[str], _context: Any, incomplete: str) -> list[Any]:
    return _items(word for word in words if word.startswith(incomplete))


def _items(values: Iterable[str]) -> list[Any]:
    item = import_module("typer._click.shell_completion").CompletionItem
    return [item(value) for value in values]


def _inventories(_context: Any, incomplete: str) -> list[Any]:
    """Complete what names hosts: words, and inventories."""
    kinds = ("lab", "slurm", "ssh-config:", "mpi:", "listing:", "kubeconfig")
    return _files_of((".hosts.toml",), [kind for kind in kinds if kind.startswith(incomplete)], None, incomplete)


def _hosts(context: Any, incomplete: str) -> list[Any]:
    """Complete a host's name, also the last one of several, and one behind `TASKS=`."""
    start = max(incomplete.rfind(","), incomplete.rfind("=")) + 1
    before, begun = incomplete[:start], incomplete[start:].lower()
    given = set(before.replace("=", ",").split(","))
    names = [name for name in host_names(context) if name.lower().startswith(begun) and name not in given]
    return _items(f"{before}{name}" for name in names)


def host_names(context: Any) -> list[str]:
    """Return the names of the hosts that the command line, or a setting, names by an Inventory, Network or History."""
    sources = [context.params[name] for name in _HOST_SOURCES if context.params.get(name) is not None]
    # An option without its value, which is being completed, ends the parsing before the arguments.
    sources += [word for word in _typed() if word.endswith(_HOST_ENDINGS)]
    for source in sources:
        with contextlib.suppress(Exception):
            if names := _names_in(str(source)):
                return names
    return []


def _names_in(source: str) -> list[str]:
    path = Path(source)
    if source == "lab":
        from gavotte.agents.runtime import lab_hosts_file

        path = lab_hosts_file()
    if not path.is_file():
        from gavotte.agents import resolve_hosts

        return resolve_hosts(source).names
    if path.stat().st_size > MOST_BYTES:
        return []
    if path.suffix == ".npz":
        from gavotte.formats.history import read_history

        return list(read_history(path).hosts)
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        return [str(host["name"]) for host in json.loads(text)["hosts"]]
    import tomli

    return [str(host["name"]) for host in tomli.loads(text)["host"]]


def _files_of(endings: tuple[str, ...], words: Sequence[str], _context: Any, incomplete: str) -> list[Any]:
    """Complete a file with one of the endings, or any file. Folders are entered.

    A single folder would be taken for the whole value, so its files follow it.
    """
    names = [*words, *_paths(endings, incomplete)]
    if len(names) == 1 and names[0].endswith("/"):
        names += _paths(endings, names[0])
    return _items(names)


def _paths(endings: tuple[str, ...], incomplete: str) -> Iterator[str]:
    """Yield the files with one of the endings, and the folders, whose names begin as the incomplete one does."""
    folder, slash, begun = incomplete.rpartition("/")
    try:
        entries = sorted(os.scandir(Path(folder + slash).expanduser() if slash else "."), key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not begun
        if hidden or not entry.name.startswith(begun) or shlex.quote(entry.name) != entry.name:
            continue
        if entry.is_dir():
            yield f"{folder}{slash}{entry.name}/"
        elif not endings or entry.name.endswith(endings):
            yield f"{folder}{slash}{entry.name}"
