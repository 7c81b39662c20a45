"""How verbs speak: data on stdout, all else on stderr, progress bars on a terminal only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random choice.", min=0, max=2**63 - 1)]
Hosts = Annotated[
    str,
    typer.Option(
        "--hosts",
        help="`lab` for the lab that is up, a *.hosts.toml, ssh-config:GLOB, slurm, or mpi:HOSTFILE.",
        metavar="lab|FILE|...",
    ),
]

stderr = Console(stderr=True, highlight=False)
# Behind a pipe nothing may be cut to the width of a terminal.
stdout = Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)


def note(message: str) -> None:
    """Tells the user something that is not data."""
    stderr.print(message, markup=False, soft_wrap=True)


def emit_json(content: Any) -> None:
    """Prints one JSON document on stdout; a number that is not finite becomes null."""
    sys.stdout.write(json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def emit_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", words: Collection[str] = ()
) -> None:
    """Prints a table on stdout; the first column and those in `words` are text, the others numbers."""
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 or column in words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    stdout.print(table, soft_wrap=True)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere. Yields a function of (done, total)."""
    if not sys.stderr.isatty() or os.environ.get("GAVOTTE_NO_PROGRESS"):
        yield lambda _done, _total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as bars:
        bar = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
