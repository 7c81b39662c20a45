"""Output of verbs: data on stdout, all else on stderr. `cli/progress.py` has the bars and lines of long work."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from gavotte.formats.parts.counting import counted

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from gavotte.formats.network import Network

Row = TypeVar("Row")

TEXT_WIDTH = 16
"""Text in a table is not wrapped more tightly than this."""
GAP = 2
"""Number of blanks between two columns."""
PIPE_WIDTH = 10_000
"""Width of tables without a terminal and without `COLUMNS`."""


@cache
def stderr() -> Console:
    """Return the console for progress bars; it loads on first use because that takes longer than some verbs run."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@cache
def stdout() -> Console:
    """Return the console for tables; in a pipe its width is that of `COLUMNS`, or any."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _pipe_width())


def note(message: str) -> None:
    """Print a message on stderr."""
    if sys.stderr.isatty() and (
        stderr.cache_info().currsize or not message.isprintable()
    ):  # a progress bar may be on the line
        stderr().print(message, markup=False, soft_wrap=True)
    else:
        # In one piece: a line about progress may come from another thread.
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()


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


def emit_line(content: Any) -> None:
    """Print one JSON document on a line of its own, which its reader gets at once."""
    sys.stdout.write(json.dumps(_finite(content), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def json_text(content: Any) -> str:
    """Return what `emit_json` prints."""
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def emit_findings(sentences: Sequence[str]) -> None:
    """Print on stdout what stands out, one line each, and an empty line below."""
    for sentence in sentences:
        print(f"finding: {sentence}")
    if sentences:
        print(flush=True)


def emit_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", words: Collection[str] = ()
) -> None:
    """Print a table on stdout; the first column and those in `words` are text, the others numbers.

    A terminal's width is kept, and that of `COLUMNS` in a pipe: text wraps; if that is not enough, the columns appear
    in several tables, each with the first column, and longer words continue on the next line. Nothing is cut.
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
        sys.stdout.flush()
        return
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    text = [index == 0 or column in words for index, column in enumerate(columns)]
    least = _least_widths(columns, rows, text)
    whole = [
        max(least[index], *(cell_len(line.expandtabs()) for cell in cells for line in cell.splitlines() or [""]))
        for index, cells in enumerate(zip(columns, *rows, strict=True))
    ]
    for number, block in enumerate(_blocks(least)):
        widths = _narrowed([whole[index] for index in block], [least[index] for index in block])
        table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for index, width in zip(block, widths, strict=True):
            justify: JustifyMethod = "left" if text[index] else "right"
            table.add_column(Text(columns[index]), justify=justify, width=width, overflow="fold")
        for row in rows:
            table.add_row(*(Text(row[index]) for index in block))
        if number:
            stdout().print()
        stdout().print(table, soft_wrap=True)
        title = ""
    sys.stdout.flush()


def _least_widths(columns: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[bool]) -> list[int]:
    """Return the least width of each column, so that the first one and any other fit side by side.

    Numbers never wrap, unless one is wider than what the first column leaves. Text wraps between words from
    `TEXT_WIDTH` on. A word is broken only if it is longer than half of the width, or does not fit next to the first
    column.
    """
    from rich.cells import cell_len

    width = stdout().width
    least: list[int] = []
    for column, *cells in zip(columns, *rows, strict=True):
        words = [each for cell in ((column, *cells) if text[len(least)] else (column,)) for each in cell.split()]
        word = max(map(cell_len, words), default=1)
        if text[len(least)]:
            word = max(word, min(max(map(cell_len, [column, *cells])), TEXT_WIDTH))
        else:
            word = max([word, *map(cell_len, cells)])
        least.append(max(1, min(word, width // 2 if not least else width - GAP - least[0])))
    return least


def _narrowed(whole: Sequence[int], least: Sequence[int]) -> list[int]:
    """Return the widths of a table's columns: whole if they fit, else the widest ones are narrowed first."""
    widths = list(whole)
    for _ in range(sum(widths) + GAP * (len(widths) - 1) - stdout().width):
        wide = [index for index, width in enumerate(widths) if width > least[index]]
        if not wide:
            break
        widths[max(wide, key=lambda index: widths[index])] -= 1
    return widths


def _blocks(least: Sequence[int]) -> list[list[int]]:
    """Return the columns of each table that fits into the width: all begin with the first column."""
    blocks: list[list[int]] = [[0]]
    for index in range(1, len(least)):
        if len(blocks[-1]) > 1 and sum(least[i] + GAP for i in [*blocks[-1], index]) - GAP > stdout().width:
            blocks.append([0])
        blocks[-1].append(index)
    return blocks


def _is_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Report whether the text needs no markup and no wrapping, so that `rich` need not be loaded."""
    if sys.stdout.isatty() or any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE")):
        return False
    least = sum(max(map(len, cells)) + GAP for cells in zip(columns, *rows, strict=True)) - GAP
    return least <= _pipe_width() and all(
        cell.isascii() and cell.isprintable() for row in (columns, *rows) for cell in row
    )


def _pipe_width() -> int:
    """Return the width of tables without a terminal: `COLUMNS` if it is set, else any."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else PIPE_WIDTH


def with_information(rows: Sequence[Row], informative: Callable[[Row], object], noun: str, lack: str) -> list[Row]:
    """Return the rows that say something, and print how many do not; with `-v` all rows are returned."""
    shown = [row for row in rows if verbose() or informative(row)]
    if left_out := len(rows) - len(shown):
        note(f"{counted(left_out, noun)} {lack} {'are' if left_out > 1 else 'is'} left out (-v lists them)")
    return shown


def verbose() -> bool:
    """Report whether `-v` was given, with which tables have all rows, and statistics their own words."""
    return logging.getLogger("gavotte").level in (logging.INFO, logging.DEBUG)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
