"""How long a transfer takes."""

from __future__ import annotations

import pytest

from gavotte.terms.goodput import transfer_s


def test_a_bucket_shortens_long_transfers_by_a_constant() -> None:
    # 20 MB at 100 Mbit/s behind 5 MB: the notes' own example, 1.2 s instead of 1.6.
    assert transfer_s(20e6, 100e6) == pytest.approx(1.6)
    assert transfer_s(20e6, 100e6, bucket_bytes=5e6) == pytest.approx(1.2)
    assert transfer_s(5e6, 100e6, bucket_bytes=5e6, peak_bps=2e9) == pytest.approx(0.02)
    assert transfer_s(20e6, 100e6, bucket_bytes=5e6, peak_bps=2e9) == pytest.approx(1.2)
