"""Record: one sample of a run or a campaign, with its metadata (`*.jsonl`, one a line)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from gavotte.errors import FormatError
from gavotte.formats.reading import Emitted, parse_json, read_text, validate, write_text

FORMAT = "gavotte/record/1"


class Record(Emitted):
    """One measured value.

    Attributes:
        kind: what was done: `run`, `measure`, a campaign's name.
        metric: what was measured, with its unit in the name, as `completion_s`.
        value: in that unit.
        time_s: Unix time of the sample.
        labels: all that is needed to read or repeat it: host, task, method, seed, versions.
    """

    format: Literal["gavotte/record/1"] = "gavotte/record/1"
    kind: str
    metric: str
    value: float
    time_s: float
    labels: dict[str, str | int | float | bool | None] = {}


def read_records(path: str | Path) -> list[Record]:
    """Reads a `*.jsonl`; empty lines are passed over.

    Raises:
        FormatError: naming file, line, field and remedy.
    """
    return list(_records(read_text(path), str(path)))


def _records(text: str, path: str) -> Iterator[Record]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            data = parse_json(line, f"{path}:{number}")
            if isinstance(data, dict) and "format" not in data:
                raise FormatError(f"{path}:{number}", "format", "is missing", f'add "format": "{FORMAT}"')
            yield validate(Record, data, f"{path}:{number}")


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """Writes a `*.jsonl`, whole or not at all."""
    write_text(path, "".join(record.model_dump_json() + "\n" for record in records))
