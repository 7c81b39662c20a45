"""Store Histories, Records and Apps in SQLite or PostgreSQL, and read them back by series, time, host and job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.extras import needs
from gavotte.loading import load_on_first_use

with needs("store"):
    # No module of the store works without.
    import sqlalchemy  # noqa: F401

if TYPE_CHECKING:
    from gavotte.store.apps import StoredApp
    from gavotte.store.errors import StoreError
    from gavotte.store.files import FORMATS, export_records, export_series, file_format, import_file, read_series_file
    from gavotte.store.location import STORE_VARIABLE, default_url, locate
    from gavotte.store.recording import record_measurement
    from gavotte.store.samples import KindSummary
    from gavotte.store.series import Head, Span
    from gavotte.store.snapshot import Snapshot
    from gavotte.store.stability import Stability, stability
    from gavotte.store.store import Added, SeriesSummary, Store, check_name, open_store

__all__ = [
    "FORMATS",
    "STORE_VARIABLE",
    "Added",
    "Head",
    "KindSummary",
    "SeriesSummary",
    "Snapshot",
    "Span",
    "Stability",
    "Store",
    "StoreError",
    "StoredApp",
    "check_name",
    "default_url",
    "export_records",
    "export_series",
    "file_format",
    "import_file",
    "locate",
    "open_store",
    "read_series_file",
    "record_measurement",
    "stability",
]

load_on_first_use(
    __name__,
    {
        "apps": ("StoredApp",),
        "errors": ("StoreError",),
        "files": ("FORMATS", "export_records", "export_series", "file_format", "import_file", "read_series_file"),
        "location": ("STORE_VARIABLE", "default_url", "locate"),
        "recording": ("record_measurement",),
        "samples": ("KindSummary",),
        "series": ("Head", "Span"),
        "snapshot": ("Snapshot",),
        "stability": ("Stability", "stability"),
        "store": ("Added", "SeriesSummary", "Store", "check_name", "open_store"),
    },
)
