"""Write a Network and its Placements as one HTML page that loads nothing from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.report.page import Outcome, report

__all__ = ["Outcome", "report"]

load_on_first_use(
    __name__,
    {
        "page": ("Outcome", "report"),
    },
)
