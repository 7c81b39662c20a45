"""Transfers of an App: one by one, or in columns where there are very many.

An object for each of 400,000 transfers takes five seconds to read and check, and columns take one. They are a sequence
of the same objects, which are made when one looks at them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, overload

from pydantic import Field, WrapSerializer, WrapValidator

from gavotte.formats.files.reading import Written
from gavotte.formats.parts.names import MAX_LABEL

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

MANY = 4096
"""Transfers from which on a file's are kept in columns."""

MOST_TRANSFERS, MOST_BYTES, MOST_PHASE, MOST_MESSAGES = 10_000_000, 1 << 62, 65535, 1 << 40
"""Most transfers of an App, and the largest values of each."""

TaskName = Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]
"""A task of the application, whose own entry checks its letters. There may be millions of transfers."""


class Transfer(Written):
    """Bytes that one task sends another.

    Attributes:
        source: the sending task.
        target: the receiving task.
        bytes: application payload.
        phase: transfers of phase p + 1 start when all of phase p are done.
        messages: number of messages that carry the bytes, each sent when the one before has arrived; None = one stream.
    """

    source: TaskName
    target: TaskName
    bytes: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    phase: Annotated[int, Field(ge=0, le=MOST_PHASE)] = 0
    messages: Annotated[int, Field(ge=1, le=MOST_MESSAGES)] | None = None


class TransferColumns(Sequence[Transfer]):
    """Transfers as columns of F numbers, (F,) int64 each.

    Attributes:
        names: tasks, by whose indices sources and targets are given.
        source, target: indices of tasks.
        bytes: application payload.
        phase: phases.
        messages: numbers of messages, 0 = one stream; None = all are.
    """

    def __init__(
        self,
        names: Sequence[str],
        source: Numbers,
        target: Numbers,
        size: Numbers,
        phase: Numbers,
        messages: Numbers | None = None,
    ) -> None:
        self.names = tuple(names)
        self.source, self.target, self.bytes, self.phase, self.messages = source, target, size, phase, messages
        self._rows: list[Transfer] | None = None

    @property
    def rows(self) -> list[Transfer]:
        """The transfers as objects, which are made once."""
        if self._rows is None:
            messages = [0] * len(self) if self.messages is None else self.messages.tolist()
            columns = (self.source.tolist(), self.target.tolist(), self.bytes.tolist(), self.phase.tolist(), messages)
            made, names = Transfer.model_construct, self.names
            self._rows = [
                made(source=names[source], target=names[target], bytes=size, phase=phase, messages=count or None)
                for source, target, size, phase, count in zip(*columns, strict=True)
            ]
        return self._rows

    def __len__(self) -> int:
        return len(self.bytes)

    def __iter__(self) -> Iterator[Transfer]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> Transfer: ...

    @overload
    def __getitem__(self, index: slice) -> list[Transfer]: ...

    def __getitem__(self, index: int | slice) -> Transfer | list[Transfer]:
        return self.rows[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and self.rows == list(other)

    __hash__ = None  # type: ignore[assignment] # as a list's

    def __repr__(self) -> str:
        return f"<{len(self)} transfers>"


def _kept(value: Any, check: Callable[[Any], Any]) -> Any:
    return value if isinstance(value, TransferColumns) else check(value)


def _dumped(value: Any, dump: Callable[[Any], Any]) -> Any:
    return dump(value.rows if isinstance(value, TransferColumns) else value)


Transfers = Annotated[
    Annotated[Sequence[Transfer], Field(max_length=MOST_TRANSFERS)], WrapValidator(_kept), WrapSerializer(_dumped)
]
"""The field of an App."""

_ROW = re.compile(
    r'    \{ source = "([^"\\\n]*)", target = "([^"\\\n]*)", bytes = (0|[1-9][0-9]{0,18}), phase = (0|[1-9][0-9]{0,4})'
    r"(?:, messages = (0|[1-9][0-9]{0,12}))? \},\n"
)
"""A transfer as `write_app` writes it."""


def section_of(text: str, key: str) -> tuple[int, int] | None:
    """Return where the lines of a long list of tables begin and end in an App's TOML, as `write_app` writes it.

    Args:
        text: the whole file.
        key: `task` or `transfer`.

    Returns:
        the first letter of the list's first line, and the letter after its last line; None = the text has another form,
        or few lines.
    """
    start = f"\n{key} = [\n"
    begin = text.find(start)
    end = text.find("\n]\n", begin)
    if begin < 0 or end < 0 or text.startswith("["):
        return None
    # Within a table or a text of several lines, the same letters would mean something else.
    if any(text.find(mark, 0, begin) >= 0 for mark in ("\n[", '"""', "'''")):
        return None
    begin, end = begin + len(start), end + 1
    return (begin, end) if text.count("\n", begin, end) >= MANY else None


def without(text: str, key: str, section: tuple[int, int]) -> str:
    """Return an App's TOML without the list of a key, whose lines `section_of` found."""
    begin, end = section
    return text[: begin - len(f"{key} = [\n")] + text[end + len("]\n") :]


def cut_rows(text: str) -> tuple[str, list[list[str | None]]] | None:
    """Cut many transfers out of an App's TOML, if they are written as `write_app` does.

    Returns:
        the text without them, and the columns as texts; None = the text has another form, or few transfers.
    """
    section = section_of(text, "transfer")
    if section is None:
        return None
    # What is between two rows, and the fields of a row, in turn.
    parts = _ROW.split(text[slice(*section)])
    if any(parts[:: _ROW.groups + 1]):
        return None
    return without(text, "transfer", section), [parts[at :: _ROW.groups + 1] for at in range(1, _ROW.groups + 1)]


def columns_of_texts(tasks: Sequence[str], columns: Sequence[Sequence[Any]]) -> TransferColumns | None:
    """Return columns from the texts that `cut_rows` found; None = a value is not allowed."""
    source, target, size, phase, messages = columns
    # None is 0 in a column, so that a 0 of the file, which is not allowed, needs another value out of range.
    counts = [-1 if each == "0" else int(each or 0) for each in messages] if any(messages) else None
    phases = {each: int(each) for each in set(phase)}
    return _columns(tasks, (source, target), map(int, size), map(phases.__getitem__, phase), counts)


def columns_of_rows(tasks: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> TransferColumns | None:
    """Return columns from parsed tables; None = one of them needs a closer look, or there are few."""
    keys = frozenset(Transfer.model_fields)
    if len(rows) < MANY or not all(type(row) is dict and row.keys() <= keys for row in rows):
        return None
    try:
        ends = ([row["source"] for row in rows], [row["target"] for row in rows])
        size, phase = [row["bytes"] for row in rows], [row.get("phase", 0) for row in rows]
    except KeyError:
        return None
    messages = [row.get("messages") for row in rows]
    counts = None if set(messages) == {None} else [0 if each is None else each or -1 for each in messages]
    if any(set(map(type, each)) != {int} for each in (size, phase, counts or [0])):
        return None
    if any(set(map(type, each)) != {str} for each in ends):
        return None
    return _columns(tasks, ends, size, phase, counts)


def _columns(
    tasks: Sequence[str],
    ends: tuple[Sequence[str], Sequence[str]],
    size: Iterable[int],
    phase: Iterable[int],
    messages: Iterable[int] | None,
) -> TransferColumns | None:
    """Return columns; None = a task is unknown, a number is out of its range, or there are too many."""
    import numpy as np

    at, count = {name: index for index, name in enumerate(tasks)}, len(ends[0])
    if count > MOST_TRANSFERS:
        return None
    try:
        source, target = (np.fromiter(map(at.__getitem__, end), np.int64, count) for end in ends)
        sizes, phases = (np.fromiter(column, np.int64, count) for column in (size, phase))
        counts = None if messages is None else np.fromiter(messages, np.int64, count)
    except (KeyError, OverflowError):
        return None
    for column, most in zip((sizes, phases, counts), (MOST_BYTES, MOST_PHASE, MOST_MESSAGES), strict=True):
        if column is not None and (column.min() < 0 or column.max() > most):
            return None
    return TransferColumns(tasks, source, target, sizes, phases, counts)
