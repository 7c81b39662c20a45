"""Keep the queue of a transfer controller in the database."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, select

from gavotte.formats.parts.transfer import (
    Transfer,
    copies_from_text,
    copies_to_text,
    flows_from_text,
    flows_to_text,
    receivers_from_text,
    receivers_to_text,
)
from gavotte.store import schema as tables

_TABLE = tables.transfers


def add(connection: Connection, transfer: Transfer) -> int:
    """Add a transfer to the queue and return its number."""
    row = _row(transfer) | {"flows": flows_to_text(transfer.flows), "copies": copies_to_text(transfer.copies)}
    return int(connection.execute(_TABLE.insert().values(**row).returning(_TABLE.c.id)).scalar_one())


def save(connection: Connection, transfer: Transfer) -> None:
    """Update a queued transfer in the database, in all fields that may have changed."""
    row = _row(transfer)
    if transfer.copies is not None:
        # The sizes of the copies are known only after the transfer began, and receivers may join.
        row |= {"flows": flows_to_text(transfer.flows), "copies": copies_to_text(transfer.copies)}
    connection.execute(_TABLE.update().where(_TABLE.c.id == transfer.id).values(**row))


def read(connection: Connection) -> list[Transfer]:
    """Return all transfers of the queue, ordered by number."""
    rows = connection.execute(select(_TABLE).order_by(_TABLE.c.id)).mappings()
    return [
        Transfer(
            **{
                **row,
                "flows": flows_from_text(row["flows"]),
                "moved": tuple(json.loads(row["moved"])),
                "copies": copies_from_text(row["copies"]),
                "receivers": receivers_from_text(row["receivers"]),
                "guaranteed": bool(row["guaranteed"]),
                "encrypt": bool(row["encrypt"]),
            }
        )
        for row in rows
    ]


def _row(transfer: Transfer) -> dict[str, Any]:
    return {
        "name": transfer.name,
        "user": transfer.user,
        "priority_class": transfer.priority_class,
        "weight": transfer.weight,
        "moved": json.dumps(transfer.moved),
        "state": transfer.state,
        "submitted_s": transfer.submitted_s,
        "started_s": transfer.started_s,
        "finished_s": transfer.finished_s,
        "error": transfer.error,
        "receivers": receivers_to_text(transfer.receivers),
        "deadline_s": transfer.deadline_s,
        "guaranteed": int(transfer.guaranteed),
        "encrypt": int(transfer.encrypt),
    }
