"""Progress of long work on stderr: a bar on a terminal, elsewhere a line every ten seconds.

`GAVOTTE_NO_PROGRESS` in the environment turns both off.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat

from gavotte.cli.output import note, stderr
from gavotte.formats.parts.rates import format_bytes, format_rate

LINE_S = 10.0
"""Seconds between two lines about work that ends."""
LIFE_S = 600.0
"""Most seconds between two lines about a command that runs until it is stopped."""
JOIN_S = 1.0
"""How long to wait for a last line, which blocks if the reader of stderr is slow."""
SEARCH_QUIET_S = 2.0
"""Without a bar, the first line about a search appears once it has taken this long."""

BYTES = "bytes"
"""The unit of amounts that are printed as kB, MB and so on."""


class Meter:
    """Takes how much of some work is done, as a function of (done, total), and what was learnt so far.

    Args:
        show: called with done, total and the text of what was learnt.
    """

    def __init__(self, show: Callable[[int, int, str], None]) -> None:
        self._show = show
        self._learnt = ""

    def __call__(self, done: int, total: int) -> None:
        """Show an amount."""
        self._show(done, total, self._learnt)

    def learnt(self, text: str) -> None:
        """Show what was learnt with the amounts that follow, such as `191 Mbit/s in the median`."""
        self._learnt = text


@contextmanager
def progress(label: str, unit: str = "", *, limit_s: float | None = None) -> Iterator[Meter]:
    """Show what is done of some work and what is left, and what was learnt so far. Yields a function of (done, total).

    Args:
        label: what happens, such as `measuring`.
        unit: what is counted: a plural, or `BYTES`; empty = steps without a name.
        limit_s: how long the work is known to take, for work that counts nothing; None = unknown.
    """
    if _silent():
        yield Meter(lambda _done, _total, _learnt: None)
        return
    if not sys.stderr.isatty():
        newest: list[tuple[int, int, str]] = []

        def keep(done: int, total: int, learnt: str) -> None:
            newest[:] = [(done, total, learnt)]

        def line(elapsed_s: float) -> str:
            return f"{label}: {_amount(newest, unit, elapsed_s, limit_s)}"

        with _lines(line, repeat(LINE_S)):
            yield Meter(keep)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[learnt]}", markup=False),
    )
    with Progress(*columns, console=stderr(), transient=True) as bars:
        bar = bars.add_task(label, total=None, amount="", learnt="")
        begin_s = time.monotonic()

        def show(done: int, total: int, learnt: str) -> None:
            so_far = _so_far(done, time.monotonic() - begin_s, unit, learnt)
            bars.update(bar, completed=done, total=total, amount=_of(done, total, unit), learnt=so_far)

        yield Meter(show)


@contextmanager
def sign_of_life(label: str, *, ends: bool = False) -> Iterator[Callable[[str], None]]:
    """Show that a command that watches is alive. Yields a function that takes the text to show.

    A terminal shows one changing line. Elsewhere a line is printed every `LINE_S` if the command ends at a known
    count. The lines of an endless command become rarer, up to one every `LIFE_S`, so that they fill no log.
    """
    if _silent():
        yield lambda _text: None
        return
    if sys.stderr.isatty():
        from rich.text import Text

        with stderr().status(label) as status:
            yield lambda text: status.update(Text(f"{label}: {text}"))
        return
    newest: list[str] = []

    def show(text: str) -> None:
        newest[:] = [text]

    def line(elapsed_s: float) -> str:
        return f"{label}: {newest[0] if newest else _elapsed(elapsed_s)}"

    with _lines(line, repeat(LINE_S) if ends else _rarer()):
        yield show


@contextmanager
def searching(limit_s: float, bound_of: str | None = None) -> Iterator[Callable[[float, float, float], None]]:
    """Show the best time and the bound of a search. Yields a function of (best_s, bound_s, share of the search).

    Args:
        limit_s: time limit of the search, in seconds.
        bound_of: a method that has placed already, for which only a bound is computed; None = the method searches.
    """
    if _silent():
        yield lambda _best_s, _bound_s, _share: None
        return
    if not sys.stderr.isatty():
        state = [float("inf"), 0.0, 0.0]

        def record(best_s: float, bound_s: float, share: float) -> None:
            state[:] = [best_s, bound_s, share]

        def line(elapsed_s: float) -> str:
            return bound_line(bound_of, state[1], elapsed_s) if bound_of else search_line(limit_s, state, elapsed_s)

        with _lines(line, _then(SEARCH_QUIET_S, LINE_S)):
            yield record
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    label = "placing" if bound_of is None else "bound"
    columns = (TextColumn(label), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True) as bars:
        bar = bars.add_task("", total=1.0)
        stops = "stops with the best" if bound_of is None else "leaves out the bound"

        def show(best_s: float, bound_s: float, share: float) -> None:
            best = f"best {best_s:.4g} s" if best_s < float("inf") and bound_of is None else ""
            bound = f"at least {bound_s:.4g} s" if bound_s > 0 else ""
            shown = ", ".join(each for each in (best, bound) if each)
            bars.update(bar, completed=share, description=f"{shown} (Ctrl-C {stops})")

        yield show


def search_line(limit_s: float, state: Sequence[float], elapsed_s: float) -> str:
    """Return a line about a search that continues.

    Args:
        limit_s: its time limit, in seconds.
        state: best time and bound in seconds, and the share of the search that is done.
        elapsed_s: for how long it has searched.
    """
    best_s, bound_s, share = state
    best = f"{best_s:.3g} s" if best_s < float("inf") else "none"
    bound = f", at least {bound_s:.3g} s" if bound_s > 0 else ""
    done = f"{100 * min(1.0, share):.0f} % after {elapsed_s:.0f} s"
    return f"searching for up to {limit_s:g} s, {done}: best so far {best}{bound}"


def bound_line(method: str, bound_s: float, elapsed_s: float) -> str:
    """Return a line about a bound that is still being computed for a method that has placed."""
    bound = f": at least {bound_s:.3g} s" if bound_s > 0 else ""
    stop = f"{elapsed_s:.0f} s so far; Ctrl-C stops it"
    return f"{method} has placed; computing a bound on the time of any placement{bound} ({stop})"


@contextmanager
def _lines(text: Callable[[float], str], pauses_s: Iterator[float]) -> Iterator[None]:
    """Print `text(elapsed_s)` after each pause until the block ends. A thread prints, so that no work has to."""
    ended = threading.Event()
    start_s = time.monotonic()

    def print_lines() -> None:
        due_s = start_s
        for pause_s in pauses_s:
            due_s += pause_s
            if ended.wait(max(0.0, due_s - time.monotonic())):
                return
            try:
                note(text(time.monotonic() - start_s))
            except (OSError, ValueError):
                # The reader of stderr has gone.
                return

    thread = threading.Thread(target=print_lines, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(JOIN_S)


def _silent() -> bool:
    return bool(os.environ.get("GAVOTTE_NO_PROGRESS"))


def _amount(newest: list[tuple[int, int, str]], unit: str, elapsed_s: float, limit_s: float | None) -> str:
    """Return how much is done of how much, for how long the work has been going, and what was learnt."""
    if not newest:
        if limit_s is None or elapsed_s > limit_s:
            return _elapsed(elapsed_s) + ("" if limit_s is None else f", more than the expected {limit_s:.0f} s")
        return f"{elapsed_s:.0f} of about {limit_s:.0f} s"
    done, total, learnt = newest[0]
    parts = (_of(done, total, unit), _elapsed(elapsed_s), _so_far(done, elapsed_s, unit, learnt))
    return ", ".join(each for each in parts if each)


def _so_far(done: int, elapsed_s: float, unit: str, learnt: str) -> str:
    """Return what was learnt; of bytes, at least how fast they are."""
    fast = unit == BYTES and not learnt and done > 0 and elapsed_s > 0
    return f"{format_rate(8 * done / elapsed_s)} so far" if fast else learnt


def _of(done: int, total: int, unit: str) -> str:
    """Return how much is done of how much, such as `3 of 12 paths`."""
    if unit == BYTES:
        return f"{format_bytes(done)} of {format_bytes(total)}"
    return f"{done} of {total}{' ' * bool(unit)}{unit}"


def _elapsed(elapsed_s: float) -> str:
    return f"{elapsed_s:.0f} s so far"


def _then(first_s: float, next_s: float) -> Iterator[float]:
    yield first_s
    yield from repeat(next_s)


def _rarer() -> Iterator[float]:
    """Yield pauses that double from `LINE_S` to `LIFE_S`."""
    pause_s = LINE_S
    while True:
        yield min(pause_s, LIFE_S)
        pause_s = min(2 * pause_s, LIFE_S)
