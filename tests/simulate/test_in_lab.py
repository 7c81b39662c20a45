"""The simulator compared with real TCP transfers; `benches/fluid/lab.py` does the same at length and prints errors."""

from __future__ import annotations

import pytest
from benches.fluid.lab import compare
from benches.fluid.workloads import draw

pytestmark = pytest.mark.lab

LOOSE = 0.15
"""Three times the benchmark's goal: a test machine may be busy."""


@pytest.mark.parametrize("seed", [101, 105])
@pytest.mark.rare
def test_long_flows_finish_when_the_model_says(seed: int) -> None:
    done = compare(draw(seed, least_s=3.0), tries=2)
    assert abs(done.tcp.makespan) < LOOSE
    assert done.tcp.median_flow < LOOSE
    # Bytes do not travel faster than caps allow, except for the token buckets.
    assert done.measured.finish_s.max() > 0.97 * done.equal_s.max()
