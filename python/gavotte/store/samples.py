"""Add, query and delete Records in the database, by kind, metric, time and labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection, Select, delete, func, select, text
from sqlalchemy.dialects import postgresql, sqlite
from typing_extensions import TypeVarTuple, Unpack

from gavotte.formats.record import Record
from gavotte.store import schema as tables
from gavotte.store.errors import DamageError, StoreError
from gavotte.store.series import Span

Columns = TypeVarTuple("Columns")

_BATCH = 1000
_NOTHING = object()

Label = str | int | float | bool | None


@dataclass(frozen=True)
class KindSummary:
    """Number, metrics and time span of all Records of one kind.

    Attributes:
        kind: the kind, which names the activity that was measured.
        records: number of Records.
        metrics: names of the measured quantities, in alphabetical order.
        first_s: Unix time of the earliest Record.
        last_s: Unix time of the latest Record.
    """

    kind: str
    records: int
    metrics: tuple[str, ...]
    first_s: float
    last_s: float


def append(connection: Connection, records: Iterable[Record]) -> int:
    """Add Records to the database, except those that equal a stored Record in every field.

    Returns:
        Number of Records that were new.

    Raises:
        StoreError: for a text that databases cannot store, one with a NUL.
    """
    on_server = connection.dialect.name == "postgresql"
    if on_server:  # two writers with the same samples in another order would wait for each other
        connection.execute(text(f"LOCK TABLE {tables.records.name} IN SHARE ROW EXCLUSIVE MODE"))
    insert = postgresql.insert if on_server else sqlite.insert
    table = tables.records
    statement = insert(table).on_conflict_do_nothing().returning(table.c.id)
    added = 0
    rest = iter(records)
    while batch := list(islice(rest, _BATCH)):
        added += len(connection.execute(statement, [_row(record) for record in batch]).all())
    return added


def _row(record: Record) -> dict[str, object]:
    for key, value in (("kind", record.kind), ("metric", record.metric)):
        if "\0" in value:
            raise StoreError(f"a Record's {key} `{value[:60]}` contains a NUL", hint="use printable characters")
    content = record.model_dump()
    labels = json.dumps(content["labels"])
    whole = json.dumps([record.kind, record.metric, record.value, record.time_s, content["labels"]], sort_keys=True)
    return {
        "digest": hashlib.sha256(whole.encode()).hexdigest(),
        "kind": record.kind,
        "metric": record.metric,
        "value": record.value,
        "time_s": record.time_s,
        "labels": labels,
    }


def _within(
    query: Select[Unpack[Columns]], kind: str | None, metric: str | None, span: Span
) -> Select[Unpack[Columns]]:
    column = tables.records.c
    if kind is not None:
        query = query.where(column.kind == kind)
    if metric is not None:
        query = query.where(column.metric == metric)
    if span.since_s is not None:
        query = query.where(column.time_s >= span.since_s)
    if span.until_s is not None:
        query = query.where(column.time_s < span.until_s)
    return query


def query(
    connection: Connection, *, kind: str | None, metric: str | None, span: Span, labels: Mapping[str, Label]
) -> list[Record]:
    """Return the Records that match all conditions, in time order; those of equal time in the order of addition.

    Raises:
        DamageError: when the database contains rows that `append` did not write.
    """
    column = tables.records.c
    wanted = _within(select(column.kind, column.metric, column.value, column.time_s, column.labels), kind, metric, span)
    for key, each in labels.items():
        if not isinstance(each, int | float) or isinstance(each, bool):
            # Labels are stored as `json.dumps` writes them. Numbers are not looked for: 1 and 1.0 are equal.
            wanted = wanted.where(column.labels.contains(f"{json.dumps(key)}: {json.dumps(each)}", autoescape=True))
    records: list[Record] = []
    for kind_, metric_, value, time_s, content in connection.execute(
        wanted.order_by(column.time_s.desc(), column.id.desc())
    ):
        try:
            record = Record(kind=kind_, metric=metric_, value=value, time_s=time_s, labels=json.loads(content))
        except (ValueError, TypeError):  # of json and of pydantic
            raise DamageError("a Record") from None
        if all(_equal(record.labels.get(key, _NOTHING), each) for key, each in labels.items()):
            records.append(record)
            if span.last is not None and len(records) >= span.last:
                break
    return records[::-1]


def _equal(own: object, wanted: Label) -> bool:
    # In Python, True == 1.
    return own == wanted and isinstance(own, bool) == isinstance(wanted, bool)


def kinds(connection: Connection) -> list[KindSummary]:
    """Return a summary of each kind of Record, sorted by name."""
    column = tables.records.c
    rows = connection.execute(
        select(column.kind, column.metric, func.count(), func.min(column.time_s), func.max(column.time_s)).group_by(
            column.kind, column.metric
        )
    )
    by_kind: dict[str, list[tuple[str, int, float, float]]] = {}
    for kind, metric, count, first, last in rows:
        if not (
            isinstance(kind, str) and isinstance(metric, str) and isinstance(first, float) and isinstance(last, float)
        ):
            raise DamageError("a Record")
        by_kind.setdefault(kind, []).append((metric, count, first, last))
    return [
        KindSummary(
            kind=kind,
            records=sum(count for _, count, _, _ in group),
            metrics=tuple(sorted(metric for metric, _, _, _ in group)),
            first_s=min(first for _, _, first, _ in group),
            last_s=max(last for _, _, _, last in group),
        )
        for kind, group in sorted(by_kind.items())
    ]


def remove(connection: Connection, kind: str, *, before_s: float | None) -> int:
    """Delete the Records of a kind: all of them, or those before a Unix time.

    Returns:
        Number of deleted Records.

    Raises:
        StoreError: when no Record of that kind exists.
    """
    table = tables.records
    any_id = connection.execute(select(table.c.id).where(table.c.kind == kind).limit(1)).scalar()
    if any_id is None:
        known = [summary.kind for summary in kinds(connection)]
        shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise StoreError(f"no Records of kind `{kind}`", hint=f"use one of: {shown}" if known else "there are none")
    where = table.c.kind == kind
    if before_s is not None:
        where &= table.c.time_s < before_s
    count = int(connection.execute(select(func.count()).select_from(table).where(where)).scalar_one())
    connection.execute(delete(table).where(where))
    return count
