"""One call for those who measure: open the store, add, close."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gavotte.formats.history import History
from gavotte.formats.record import Record
from gavotte.store.store import Added, open_store


def record_measurement(
    series: str, history: History, *, store: str | Path | None = None, records: Iterable[Record] = ()
) -> Added:
    """Appends what was just measured to a series, with its Records, in one transaction.

    Args:
        series: its name; made when it is new.
        history: the snapshots.
        store: the store's URL; None for the user's own. See `open_store`.
        records: samples that belong to it.

    Raises:
        StoreError: when the store cannot be reached or written. Then nothing is stored.
    """
    with open_store(store) as opened:
        return opened.add(series, history, records=records)
