"""Student's t distribution, by `scipy.special`, since `scipy.stats` takes a second to load.

SciPy is loaded when it is first used: most verbs that know a verdict's name compute none, and exact means need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.extras import needs


def chance_below(freedom: npt.ArrayLike, value: npt.ArrayLike) -> Any:
    """Return the chance that t is below a value: arrays of one shape, or numbers.

    Args:
        freedom: degrees of freedom; infinite = a normal distribution.
        value: the value.

    Raises:
        UnsupportedError: without SciPy.
    """
    values = np.asarray(value)
    if not np.isfinite(values).any():  # Loading SciPy takes longer than all else that compares two Networks.
        return np.where(np.isnan(values) | np.isnan(freedom), np.nan, values > 0)
    with needs("statistics"):
        from scipy import special
    return special.stdtr(freedom, value)


def quantile_of(freedom: npt.ArrayLike, chance: npt.ArrayLike) -> Any:
    """Return the value that t is below with a chance of 0 to 1: the reverse of `chance_below`."""
    with needs("statistics"):
        from scipy import special
    return special.stdtrit(freedom, chance)
