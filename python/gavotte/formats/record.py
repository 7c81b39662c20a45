"""Record: one sample of a run or a campaign, with its metadata (`*.jsonl`, one per line)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from gavotte.errors import FormatError
from gavotte.formats.files.reading import Emitted, parse_json, read_text, validate, write_text

FORMAT = "gavotte/record/1"

LAUNCH, WALL_S = "launch", "wall_s"
"""Kind and metric of the Records of `gavotte launch`."""

WATCH, PAIRS = "watch", "pairs"
"""Kind and metric of the Records of `gavotte watch`: an event, and the number of pairs that it is about."""


class Record(Emitted):
    """One measured value.

    Attributes:
        kind: the action: `run`, `measure`, a campaign's name.
        metric: the measured quantity, with its unit in the name, as `completion_s`.
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


class Quantity(Emitted):
    """A further value of a Sample, in addition to its main one.

    Attributes:
        value: in the unit; None = it could not be measured.
        unit: unit of the value; empty = a plain number.
    """

    value: float | None
    unit: str = ""


class Sample(Record):
    """One sample of a campaign: a Record with its place in the plan, its interval and the state of its endpoints.

    Attributes:
        campaign: the campaign's name.
        scenario: name of the scenario.
        repetition: from 0.
        sample: unique in the campaign, and the same in every run of one file and seed.
        unit: unit of `value`.
        low: lower end of the 95 % confidence interval of `value`; None = it has none.
        high: upper end of it.
        source: host that sent; several, joined by commas, when they sent at once.
        target: host that received; several, joined by commas.
        connections: TCP connections of each pair.
        flavour: limit on the endpoints' processors; empty = none.
        engine: the program that sent and counted.
        seconds: how long it was to send.
        connection_bps: each connection's own goodput, bit/s; empty if the engine reports none.
        metrics: further measured values, by name.
        metadata: `before` and `after`: host to its reported state; `versions`; `plan`: the plan that it belongs to.
    """

    kind: str = "campaign"
    campaign: str
    scenario: str
    repetition: Annotated[int, Field(ge=0, le=10**9)]
    sample: Annotated[str, Field(min_length=1)]
    unit: str
    low: float | None = None
    high: float | None = None
    source: str
    target: str
    connections: Annotated[int, Field(ge=1, le=10**6)]
    flavour: str = ""
    engine: str = ""
    seconds: float = 0.0
    connection_bps: list[float] = []
    metrics: dict[str, Quantity] = {}
    metadata: dict[str, Any] = {}

    @property
    def cell(self) -> tuple[str, str, str, int, str]:
        """Key shared by all repetitions of a sample: scenario, source, target, connections and flavour."""
        return (self.scenario, self.source, self.target, self.connections, self.flavour)


def read_samples(path: str | Path) -> list[Sample]:
    """Read the samples of a campaign from its `*.jsonl`.

    Raises:
        FormatError: naming file, line, field and remedy; also for a repeated `sample`.
    """
    return parse_samples(read_text(path), str(path))


def parse_samples(text: str, path: str) -> list[Sample]:
    """Return the samples in the text of a campaign's `*.jsonl`; `path` names the file in errors.

    Raises:
        FormatError: naming file, line, field and remedy; also for a repeated `sample`.
    """
    samples: dict[str, Sample] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        sample = validate(Sample, parse_json(line, f"{path}:{number}"), f"{path}:{number}")
        if sample.sample in samples:
            raise FormatError(
                f"{path}:{number}", "sample", f"`{sample.sample}` occurs twice", "remove one of its lines"
            )
        samples[sample.sample] = sample
    return list(samples.values())


def read_records(path: str | Path) -> list[Record]:
    """Read a `*.jsonl`; empty lines are ignored.

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
    """Write a `*.jsonl`, whole or not at all."""
    write_text(path, "".join(record.model_dump_json() + "\n" for record in records))
