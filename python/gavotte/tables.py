"""Results that can be read as tables: rows for JSON, a DataFrame for pandas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gavotte.extras import needs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


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
