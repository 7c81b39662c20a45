"""What can go wrong with a store, each told in one line that never holds a password."""

from __future__ import annotations

from gavotte.errors import GavotteError


class StoreError(GavotteError):
    """A store that cannot be opened, read or written, or that does not hold what was asked for."""


class DamageError(Exception):
    """Content that no version of Gavotte wrote; `telling.told` makes a `StoreError` of it."""
