"""Options that name a file to write: no verb replaces what it reads, nor a file of another kind."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

KINDS = {
    ".npz": "history",
    ".network.json": "network",
    ".tree.json": "collective",
    ".app.toml": "app",
    ".hosts.toml": "hosts",
    ".placement.json": "placement",
    ".guarantee.toml": "guarantee",
    ".jsonl": "record",
}
"""How the help text of an option ends its value, and the kind of file that the option writes."""

_FORCED = "gavotte.force"
"""Where a command's context keeps whether `--force` was given."""


@dataclass(frozen=True)
class _Target:
    """What an option writes.

    Attributes:
        kind: in the words of `formats.files.kinds`; empty = nothing that can be recognised.
        updates: whether the verb completes a file that it also reads.
    """

    kind: str
    updates: bool


def to_write(text: str, metavar: str, *names: str, updates: bool = False) -> Any:
    """Declare an option that names a file to write. With `-` the file is stdout, and tables are printed on stderr.

    Args:
        text: the option's help.
        metavar: what the help shows for its value.
        names: the option's names; by default -o and --output.
        updates: whether the verb completes a file that it also reads.
    """
    kind = next((kind for ending, kind in KINDS.items() if metavar.endswith(ending)), "")

    target = _Target(kind, updates)

    def check(value: Path | None) -> Path | None:
        return None if value is None else _checked(value, target)

    check.target = target  # type: ignore[attr-defined]
    return typer.Option(*names or ("-o", "--output"), help=text, metavar=metavar, callback=check)


def _checked(path: Path, target: _Target) -> Path:
    """Return the path to write, whose folder is checked before any work begins."""
    from gavotte.errors import FormatError
    from gavotte.formats.files.reading import STDOUT, check_folder

    if str(path) == "-":
        if target.updates:
            raise FormatError("-", "", "is stdout, which cannot be read", "name a file")
        # Nothing that is printed may come between the lines of the file.
        sys.stdout = sys.stderr
        return STDOUT
    check_folder(path)
    return path


def protect(command: Any) -> None:
    """Have all commands below a command refuse to replace what they read, and without --force other kinds of files."""
    for each in getattr(command, "commands", {}).values():
        protect(each)
    targets = {
        option.name: target
        for option in command.params
        if (target := getattr(option.callback, "target", None)) is not None
    }
    if not targets:
        return
    command.params.append(_force())
    invoke = command.invoke

    def guarded(ctx: Any) -> Any:
        for name, target in targets.items():
            if (path := ctx.params.get(name)) is not None:
                _check(path, target, list(_inputs(ctx, name)), forced=ctx.meta.get(_FORCED, False))
        return invoke(ctx)

    command.invoke = guarded


def _keep(ctx: typer.Context, value: bool) -> None:
    ctx.meta[_FORCED] = value


def _forcible(
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file of another kind.", callback=_keep, expose_value=False)
    ] = False,
) -> None:
    """Declare an option for `_force`."""


def _force() -> Any:
    """Return the option `--force` as typer makes it for a command."""
    app = typer.Typer(add_completion=False)
    app.command()(_forcible)
    return typer.main.get_command(app).params[0]


def _inputs(ctx: Any, output: str) -> Iterator[Path]:
    """Yield the existing files that a command was given, but for one output."""
    for name, value in ctx.params.items():
        if name == output:
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            # A list of names may be too long for a path, or contain what no path may.
            with contextlib.suppress(OSError, ValueError):
                if isinstance(each, str | Path) and Path(each).is_file():
                    yield Path(each)


def _check(path: Path, target: _Target, inputs: list[Path], *, forced: bool) -> None:
    """Refuse to write to a file.

    Args:
        path: the file to write, which need not exist.
        target: what the option writes.
        inputs: files that the command reads, or writes by another option.
        forced: whether the user allows to replace a file of another kind.

    Raises:
        FormatError: naming the file.
    """
    from gavotte.errors import FormatError
    from gavotte.formats.files.kinds import HEAD_BYTES, TABLES, kind_of, named
    from gavotte.formats.files.reading import is_device

    if not path.is_file() or is_device(path):
        return
    if not target.updates and any(path.samefile(each) for each in inputs):
        raise FormatError(str(path), "", "is read or written by the same command", "name another file to write")
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    kind = kind_of(head)
    if forced or not head or kind == target.kind or (not target.kind and (not kind or kind in TABLES)):
        return
    what = f"is {named(kind)}" if kind else f"is not {named(target.kind)}"
    raise FormatError(str(path), "", f"exists and {what}", "name another file to write, or use --force to replace it")
