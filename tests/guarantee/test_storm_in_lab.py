"""A short storm: guarantees changed, agents killed, hosts removed. The long one is in `benches/guarantee`."""

from __future__ import annotations

import pytest
from benches.guarantee.storm import storm

pytestmark = pytest.mark.lab


@pytest.mark.rare
def test_a_storm_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    _, left = storm(10.0, seed=1)
    assert left == []
    assert "agents killed" in capsys.readouterr().out
