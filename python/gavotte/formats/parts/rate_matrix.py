"""The rates of pairs as a table for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.formats.parts.rates import common_unit, format_in
from gavotte.tables import html_matrix

MOST_IN_MATRIX = 24
"""Most rows of a matrix in a notebook."""


def rate_matrix(title: str, names: Sequence[str], rate_bps: Sequence[Sequence[float | None]]) -> str:
    """Return rates as HTML, row = sender; the fastest are the darkest.

    Args:
        title: text above it.
        names: of the hosts.
        rate_bps: (N, N) bit/s; None = unknown.
    """
    known = [rate for row in rate_bps for rate in row if rate]
    unit, scale = common_unit(known)
    most = max(known, default=1.0)
    cells = [[(format_in(rate, scale) if rate else "", (rate or 0.0) / most) for rate in row] for row in rate_bps]
    return html_matrix(f"{title}; {unit}, row = sender", names, cells)
