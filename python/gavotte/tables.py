"""Results that can be read as tables: rows for JSON, a DataFrame for pandas, HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from gavotte.extras import needs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


MOST_ROWS = 20
"""Most rows of a table in a notebook."""

MOST_SHADE = 0.5
"""Opacity of the largest value's background, on which text of any theme is readable."""


class Tabular:
    """A result with rows. Units are part of the keys."""

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows, each with the same keys."""
        raise NotImplementedError

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, one column per key.

        Raises:
            UnsupportedError: without pandas.
        """
        with needs("pandas"):
            import pandas as pd
        return pd.DataFrame(self.to_records())

    def _repr_html_(self) -> str:
        """Return the first rows as notebooks show them."""
        rows = self.to_records()
        columns = list(rows[0]) if rows else []
        return html_rows(type(self).__name__, columns, [list(row.values()) for row in rows])


def html_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as HTML, with its first `MOST_ROWS` rows.

    Args:
        title: text above it.
        columns: names of the columns.
        rows: cells; None is empty.
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = f"<p>{len(rows) - MOST_ROWS} more rows</p>" * (len(rows) > MOST_ROWS)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def html_matrix(title: str, names: Sequence[str], cells: Sequence[Sequence[tuple[str, float]]]) -> str:
    """Return a matrix as HTML, row = source.

    Args:
        title: text above it.
        names: of the rows, and of the columns.
        cells: by row and column: a text, and its shade from 0 to 1.
    """

    def shaded(text: str, shade: float) -> str:
        return f'<td style="background: rgba(31, 119, 180, {MOST_SHADE * shade:.2f})">{escape(text)}</td>'

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(shaded(*cell) for cell in row)}</tr>"
        for name, row in zip(names, cells, strict=True)
    )
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return f"<td>{escape(text)}</td>"


def matrix(rows: Sequence[Sequence[float | None]]) -> npt.NDArray[np.float64]:
    """Return (N, M) values, NaN for None."""
    import numpy as np

    return np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)


def nullable(values: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """Return the rows of (N, M) values with None for NaN: the reverse of `matrix`."""
    return [[None if value != value else value for value in row] for row in values.tolist()]


def square(names: Sequence[str], entries: Iterable[tuple[str, str, int]]) -> npt.NDArray[np.int64]:
    """Return (N, N) sums of entries (source, target, value) in the order of names, row = source."""
    import numpy as np

    at = {name: index for index, name in enumerate(names)}
    sums = np.zeros((len(at), len(at)), dtype=np.int64)
    for source, target, value in entries:
        sums[at[source], at[target]] += value
    return sums
