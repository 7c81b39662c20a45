"""The solvers' scripts, and whether the packages that they import are installed."""

from __future__ import annotations

from gavotte.errors import UnsupportedError
from gavotte.extras import lacking

CPSAT = "cpsat_child.py"
HIGHS = "highs_child.py"
_PACKAGES = {CPSAT: "ortools", HIGHS: "highspy"}


def solver_lacking(script: str) -> UnsupportedError | None:
    """Return the error for a solver that is not installed; None if it is.

    Args:
        script: `CPSAT` or `HIGHS`.
    """
    return lacking(_PACKAGES[script], "solvers")
