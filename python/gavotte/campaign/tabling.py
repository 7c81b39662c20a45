"""Convert samples to a long table with one row for each value, and write it as Parquet.

pandas, Dask, Spark and DuckDB can read the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from gavotte.extras import needs
from gavotte.formats.files.reading import write_bytes
from gavotte.formats.record import Sample


def rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return a row for each value of each sample.

    A sample's main metric comes first, then its further metrics, then the rate of each connection.
    """
    rows = []
    for sample in samples:
        common = {
            "campaign": sample.campaign,
            "scenario": sample.scenario,
            "repetition": sample.repetition,
            "sample": sample.sample,
            "time_s": sample.time_s,
            "source": sample.source,
            "target": sample.target,
            "connections": sample.connections,
            "flavour": sample.flavour,
            "engine": sample.engine,
            "seconds": sample.seconds,
        }
        metadata = json.dumps(sample.metadata, sort_keys=True)
        first = {"metric": sample.metric, "value": sample.value, "unit": sample.unit}
        rows.append({**common, **first, "low": sample.low, "high": sample.high, "metadata": metadata})
        rest: list[tuple[str, float | None, str]] = [
            (name, quantity.value, quantity.unit) for name, quantity in sample.metrics.items()
        ]
        rest += [(f"connection_bps[{at}]", rate, "bit/s") for at, rate in enumerate(sample.connection_bps)]
        for name, value, unit in rest:
            quantity = {"metric": name, "value": value, "unit": unit}
            rows.append({**common, **quantity, "low": None, "high": None, "metadata": None})
    return rows


def write_parquet(path: str | Path, samples: Sequence[Sample]) -> int:
    """Write samples as a long table to a Parquet file, whole or not at all.

    Returns:
        the number of rows.

    Raises:
        UnsupportedError: without pyarrow.
    """
    with needs("parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    text, whole, real = pa.string(), pa.int64(), pa.float64()
    kinds = {"repetition": whole, "connections": whole} | dict.fromkeys(
        ("time_s", "seconds", "value", "low", "high"), real
    )
    names = ["campaign", "scenario", "repetition", "sample", "time_s", "source", "target", "connections", "flavour"]
    names += ["engine", "seconds", "metric", "value", "unit", "low", "high", "metadata"]
    schema = pa.schema([(name, kinds.get(name, text)) for name in names])
    listed = rows(samples)
    content = BytesIO()
    pq.write_table(pa.Table.from_pylist(listed, schema=schema), content)
    write_bytes(path, content.getvalue())
    return len(listed)
