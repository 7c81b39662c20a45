"""Errors of a store. Each is one line and never contains a password."""

from __future__ import annotations

from gavotte.errors import GavotteError


class StoreError(GavotteError):
    """A store that cannot be opened, read or written, or that lacks the requested data."""


class DamageError(Exception):
    """Database content that no version of Gavotte wrote; `translating.translated` converts it to a `StoreError`."""
