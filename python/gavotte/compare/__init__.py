"""Compare two measurements of a network: report what has changed, what has not, and what is undecided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.compare.comparing import LATENCY_MARGIN, MARGIN, MtuChange, NetworkComparison, PathDifference, compare

__all__ = ["LATENCY_MARGIN", "MARGIN", "MtuChange", "NetworkComparison", "PathDifference", "compare"]

load_on_first_use(
    __name__,
    {
        "comparing": ("LATENCY_MARGIN", "MARGIN", "MtuChange", "NetworkComparison", "PathDifference", "compare"),
    },
)
