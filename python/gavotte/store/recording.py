"""Store a measurement with one call that opens the store, adds the snapshots and closes the store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gavotte.formats.history import History
from gavotte.formats.record import Record
from gavotte.store.store import Added, open_store


def record_measurement(
    series: str, history: History, *, store: str | Path | None = None, records: Iterable[Record] = ()
) -> Added:
    """Append a new measurement and its Records to a series, in one transaction.

    Args:
        series: name of the series, which is created if it is new.
        history: the measured snapshots.
        store: the store's URL; None for the user's own. See `open_store`.
        records: samples that belong to the measurement.

    Raises:
        StoreError: when the store cannot be reached or written. Then nothing is stored.
    """
    with open_store(store) as opened:
        return opened.add(series, history, records=records)
