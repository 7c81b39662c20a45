"""The long form as Parquet, with types that pandas, Polars, DuckDB and Spark read without options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gavotte.errors import FormatError
from gavotte.extras import needs
from gavotte.formats.history import Ints
from gavotte.store.longform import COLUMNS, OPTIONAL, Place, Rows, assemble, flatten
from gavotte.store.snapshot import Snapshot

with needs("parquet"):
    import pyarrow as pa
    import pyarrow.parquet as pq

FORMAT = "gavotte/history-rows/1"
_BATCH = 1 << 16
_GROUP = 1 << 18
"""Smallest number of rows in a row group, except the last: small groups compress badly and are slow to scan."""

_TYPES = {
    "source": pa.string(),
    "target": pa.string(),
    "time_s": pa.float64(),
    "alpha_s": pa.float64(),
    "beta_Bps": pa.float64(),
    "hops": pa.int32(),
    "cpus": pa.float64(),
    "memory_bytes": pa.int64(),
    "method": pa.string(),
}
_NULLABLE = ("alpha_s", "beta_Bps")
_SCHEMA = pa.schema(
    [pa.field(key, _TYPES[key], nullable=key in _NULLABLE) for key in COLUMNS], metadata={"format": FORMAT}
)
_REPEATED = ["source", "target", "time_s", "hops", "cpus", "memory_bytes", "method"]


def write_parquet(stream: BinaryIO, snapshots: Iterable[Snapshot]) -> None:
    """Write the rows of all snapshots to a Parquet file; values that were not measured are null."""
    with pq.ParquetWriter(stream, _SCHEMA, compression="zstd", use_dictionary=_REPEATED) as writer:
        waiting: list[Any] = []
        rows = 0
        for snapshot in snapshots:
            columns = flatten(snapshot)
            # from_pandas converts each NaN to a null.
            arrays = [pa.array(columns[key], _TYPES[key], from_pandas=key in _NULLABLE) for key in COLUMNS]
            waiting.append(pa.Table.from_arrays(arrays, schema=_SCHEMA))
            rows += len(columns["source"])
            if rows >= _GROUP:
                writer.write_table(pa.concat_tables(waiting))
                waiting, rows = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def read_parquet(path: str | Path) -> Iterator[Snapshot]:
    """Read the snapshots of a Parquet file in the long form. Rows may have any order; unknown columns are ignored.

    Raises:
        FormatError: naming file, row, column and remedy.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as stream:
            yield from assemble(_batches(stream, Place(name, "row")), Place(name, "row"))
    except FileNotFoundError:
        raise FormatError(name, "", "no such file", "check the path") from None
    except OSError as error:
        # pyarrow too raises OSError, for damaged pages, without an errno.
        reason = error.strerror or _line(error)
        raise FormatError(name, "", f"cannot be read: {reason}", "is the file complete?") from None
    except (pa.ArrowException, ValueError) as error:
        raise FormatError(
            name, "", f"is not a readable Parquet file ({_line(error)})", "is the file complete?"
        ) from None


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _batches(stream: BinaryIO, place: Place) -> Iterator[Rows]:
    with pq.ParquetFile(stream) as file:
        place.check_columns(file.schema_arrow.names)
        wanted = [name for name in COLUMNS if name in file.schema_arrow.names]
        for name in wanted:
            _check_type(name, file.schema_arrow.field(name).type, place)
        begin = 1
        for batch in file.iter_batches(batch_size=_BATCH, columns=wanted):
            yield _rows(batch, begin, place)
            begin += batch.num_rows


def _check_type(name: str, kind: Any, place: Place) -> None:
    wanted = _TYPES[name]
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(wanted):
        fits = pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain)
    else:
        fits = pa.types.is_integer(plain) or pa.types.is_floating(plain)
    if not fits and not pa.types.is_null(plain):
        remedy = "write text" if pa.types.is_string(wanted) else "write numbers in the unit that its name says"
        raise FormatError(place.path, f"column {name}", f"is of type {str(kind)[:60]}", remedy)


def _rows(batch: Any, begin: int, place: Place) -> Rows:
    numbers = np.arange(begin, begin + batch.num_rows, dtype=np.int64)

    def column(name: str) -> Any:
        values = batch.column(name)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        return values

    def floats(name: str, empty: float = np.nan) -> npt.NDArray[np.float64]:
        values = column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        values = np.asarray(values, dtype=np.float64)
        return np.where(np.isnan(values), empty, values)

    def ints(name: str) -> Ints:
        values = column(name)
        if pa.types.is_floating(values.type):
            real = floats(name, 0.0)
            bad = ~(np.abs(real) < 2**63) | (real != np.trunc(real))
            if bad.any():
                at = int(np.argmax(bad))
                place.refuse(int(numbers[at]), name, f"is {real[at]}", "write a whole number")
            return real.astype(np.int64)
        try:
            whole = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            place.refuse(int(numbers[0]), name, "begins rows with a number above 2^63 - 1", "write a smaller one")
        return np.asarray(whole, dtype=np.int64)

    def texts(name: str, *, may_be_empty: bool = False) -> list[str]:
        values = column(name).cast(pa.large_string()).to_pylist()
        if None in values and not may_be_empty:
            place.refuse(int(numbers[values.index(None)]), name, "is null", "name a host")
        return [value or "" for value in values]

    present = {name for name in OPTIONAL if name in batch.schema.names}
    return Rows(
        number=numbers,
        source=texts("source"),
        target=texts("target"),
        time_s=floats("time_s"),
        alpha_s=floats("alpha_s"),
        beta_Bps=floats("beta_Bps"),
        hops=ints("hops") if "hops" in present else None,
        cpus=floats("cpus", 1.0) if "cpus" in present else None,
        memory_bytes=ints("memory_bytes") if "memory_bytes" in present else None,
        method=texts("method", may_be_empty=True) if "method" in present else None,
    )
