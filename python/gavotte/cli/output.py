"""Output of verbs: data on stdout, all else on stderr, progress bars on a terminal only."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from gavotte.formats.network import Network

TEXT_WIDTH = 16
"""Text in a table is not wrapped more tightly than this."""
GAP = 2
"""Number of blanks between two columns."""
PIPE_WIDTH = 10_000
"""Width of tables without a terminal."""


@cache
def stderr() -> Console:
    """Return the console for progress bars; it loads on first use because that takes longer than some verbs run."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@cache
def stdout() -> Console:
    """Return the console for tables; into a pipe it never cuts to a terminal's width."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def note(message: str) -> None:
    """Print a message on stderr."""
    if sys.stderr.isatty() and (
        stderr.cache_info().currsize or not message.isprintable()
    ):  # a progress bar may be on the line
        stderr().print(message, markup=False, soft_wrap=True)
    else:
        print(message, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Return text with its control characters escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def unknown_pairs(network: Network) -> list[str]:
    """Return a warning about pairs without a rate; empty without such pairs."""
    if not (unknown := network.unknown_pairs):
        return []
    count = f"{unknown} pairs have" if unknown > 1 else "1 pair has"
    return [f"{count} no rate; placement treats them as slower than all others until you measure them"]


def warn(warnings: Iterable[str]) -> None:
    """Print the warnings of a question or an answer on stderr, a line each."""
    for warning in warnings:
        note(f"warning: {warning}")


def emit_json(content: Any) -> None:
    """Print one JSON document on stdout; a number that is not finite becomes null."""
    sys.stdout.write(json_text(content))


def json_text(content: Any) -> str:
    """Return what `emit_json` prints."""
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def emit_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", words: Collection[str] = ()
) -> None:
    """Print a table on stdout; the first column and those in `words` are text, the others numbers.

    If the terminal is too narrow, text wraps; if that is not enough, the columns appear in several tables,
    each with the first column. Nothing is cut.
    """
    if not title and _is_plain(columns, rows):
        widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
        left = [index == 0 or column in words for index, column in enumerate(columns)]
        for row in (columns, *rows):
            aligned = (
                cell.ljust(width) if text else cell.rstrip().rjust(width)
                for cell, width, text in zip(row, widths, left, strict=True)
            )
            print((" " * GAP).join(aligned))
        return
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    text = [index == 0 or column in words for index, column in enumerate(columns)]
    least: list[int] = []
    for column, *cells in zip(columns, *rows, strict=True):
        widest = max(map(cell_len, [column, *cells]))
        word = max(cell_len(each) for cell in (column, *cells) for each in cell.split() or [""])
        least.append(max(word, min(widest, TEXT_WIDTH)) if text[len(least)] else widest)
    blocks: list[list[int]] = [[0]]
    for index in range(1, len(columns)):
        if len(blocks[-1]) > 1 and sum(least[i] + GAP for i in [*blocks[-1], index]) - GAP > stdout().width:
            blocks.append([0])
        blocks[-1].append(index)
    for number, block in enumerate(blocks):
        table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for index in block:
            justify: JustifyMethod = "left" if text[index] else "right"
            table.add_column(columns[index], justify=justify, min_width=least[index], no_wrap=not text[index])
        for row in rows:
            table.add_row(*(Text(row[index]) for index in block))
        if number:
            stdout().print()
        stdout().print(table, soft_wrap=True)
        title = ""


def _is_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Report whether the text needs no markup, so that `rich` need not be loaded."""
    if sys.stdout.isatty() or any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE")):
        return False
    if any(mark in column for column in columns for mark in "[:"):  # markup
        return False
    least = sum(max(map(len, cells)) + GAP for cells in zip(columns, *rows, strict=True))
    return least < PIPE_WIDTH and all(cell.isascii() and cell.isprintable() for row in (columns, *rows) for cell in row)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, nothing elsewhere. Yields a function of (done, total)."""
    if not sys.stderr.isatty() or os.environ.get("GAVOTTE_NO_PROGRESS"):
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True) as bars:
        bar = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


LIFE_S = 600.0
"""Seconds between two lines that report that a command continues, where no changing line can be shown."""


@contextmanager
def sign_of_life(label: str, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[str], None]]:
    """Show that an endless command is alive: a changing line on a terminal, else a line every `LIFE_S`.

    Yields a function that takes the text to show.
    """
    if sys.stderr.isatty() and not os.environ.get("GAVOTTE_NO_PROGRESS"):
        from rich.text import Text

        with stderr().status(label) as line:
            yield lambda text: line.update(Text(f"{label}: {text}"))
        return
    next_s = clock()

    def show(text: str) -> None:
        nonlocal next_s
        if clock() >= next_s:
            next_s = clock() + LIFE_S
            note(f"{label}: {text}")

    yield show


SEARCH_QUIET_S = 2.0
"""Without a bar, one line reports that a search continues once it has taken this long."""


@contextmanager
def searching(limit_s: float) -> Iterator[Callable[[float, float, float], None]]:
    """Show best and bound: a bar on a terminal, lines elsewhere. Yields a function of (best_s, bound_s, elapsed_s)."""
    if not sys.stderr.isatty() or os.environ.get("GAVOTTE_NO_PROGRESS"):
        announced = False

        def line(best_s: float, _bound_s: float, share: float) -> None:
            nonlocal announced
            if not announced and share * limit_s >= SEARCH_QUIET_S:
                announced = True
                best = f"{best_s:.3g} s" if best_s < float("inf") else "none"
                note(f"searching for up to {limit_s:g} s, best so far {best}")

        yield line
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("placing"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True) as bars:
        bar = bars.add_task("", total=1.0)

        def show(best_s: float, bound_s: float, share: float) -> None:
            best = f"best {best_s:.4g} s" if best_s < float("inf") else ""
            bound = f", at least {bound_s:.4g} s" if bound_s > 0 else ""
            bars.update(bar, completed=share, description=f"{best}{bound} (Ctrl-C stops with the best)")

        yield show


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
