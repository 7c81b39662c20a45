"""Detect additions to the database, and progress of transfers, without reading it all."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, func, select

from gavotte.formats.parts.transfer import OVER
from gavotte.store import schema as tables


def mark(connection: Connection) -> str:
    """Return a text that changes whenever something is added, or a transfer progresses.

    Deleted snapshots and Records change it only together with a whole series.
    """
    queue = tables.transfers.c
    newest = [
        select(func.max(tables.snapshots.c.id)),
        select(func.count(tables.series.c.id)),
        select(func.max(tables.records.c.id)),
        select(func.max(tables.apps.c.time_s)),
        select(func.max(queue.id)),
        select(func.max(queue.finished_s)),
        select(func.count(queue.id)).where(queue.state.in_(OVER)),
    ]
    parts = [str(connection.execute(query).scalar()) for query in newest]
    under_way = select(queue.id, queue.state, queue.moved, queue.flows).where(queue.state.not_in(OVER))
    for row in connection.execute(under_way.order_by(queue.id)):
        parts += map(str, row)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
