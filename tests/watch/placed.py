"""Applications that run on given hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gavotte.formats.app import App
from gavotte.place import Running
from gavotte.place.sequence.live import given_placement


def placed(apps: Sequence[App], places: Mapping[str, str]) -> Running:
    """Applications under a Placement that predicts nothing."""
    return Running(apps, given_placement(apps, places))
