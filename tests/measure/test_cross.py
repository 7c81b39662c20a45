"""The two formulas of Choreo section 3.2, and a real path with real cross traffic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.measure.cross import MOST, connections, connections_from_two, windows


@given(c=st.floats(0, 50), rate=st.floats(1e6, 1e10))
def test_both_formulas_invert_fair_sharing(c: float, rate: float) -> None:
    assert connections(np.array([rate / (c + 1)]), rate)[0] == pytest.approx(c, abs=1e-6)
    assert connections_from_two(rate / (c + 1), 2 * rate / (c + 2)) == pytest.approx(c, rel=1e-6, abs=1e-6)


def test_edges() -> None:
    assert connections(np.array([0.0, 2e9]), 1e9).tolist() == [MOST, 0.0]
    assert connections_from_two(1e8, 2e8) == float("inf")
    assert connections_from_two(1e8, 0.9e8) == 0.0


def test_windows_are_whole() -> None:
    assert windows(np.full(25, 1000.0)).tolist() == [pytest.approx(8 * 10_000 / 0.1)] * 2
