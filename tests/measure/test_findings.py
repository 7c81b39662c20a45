"""What `measure` prints: findings first, one unit, hosts without an answer counted, proofs in plain words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests import builders

from gavotte.cli import measurement, output
from gavotte.formats.history import History, Proof
from gavotte.measure import Measurement

NAMES = tuple(f"n{i}" for i in range(6))


def measured() -> History:
    """Six hosts: one is slow, one has no answer at all, and one path is faster than 1 Gbit/s."""
    rates_Bps = np.full((1, 6, 6), 287e6 / 8)  # noqa: N806
    rates_Bps[0, 5] = 43e6 / 8
    rates_Bps[0, 0, 1] = 1.05e9 / 8
    rates_Bps[0, 3] = rates_Bps[0, :, 3] = np.nan
    history = builders.history(rates_Bps, hosts=NAMES)
    verdict = np.ones(rates_Bps.shape, dtype=np.int64)
    verdict[0, 0, 1] = 3
    return replace(history, proof=replace(Proof.empty(rates_Bps.shape), verdict=verdict))


def printed(capsys: pytest.CaptureFixture[str], history: History) -> tuple[list[str], str]:
    output.stdout.cache_clear()
    measurement.print_result(Measurement(history.in_pairs(), 30, 20, 0, 1.0, 1, 0))
    caught = capsys.readouterr()
    return caught.out.splitlines(), caught.err


def test_findings_come_first_and_rates_have_one_unit(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = printed(capsys, measured())
    slow = "n5 sends 6.7 times slower than the others: 43.0 Mbit/s instead of 287 Mbit/s"
    assert out[:3] == [f"finding: {slow}", "", "Mbit/s    n0    n1    n2    n4   n5"]
    assert out[3].split() == ["n0", "-", "1050", "287", "287", "287"]
    assert "n3" not in "".join(out)
    assert "1 host without any answer is left out (-v lists them)" in err
    document = measurement.document(Measurement(measured().in_pairs(), 30, 20, 0, 1.0, 1, 0), "train", None)
    assert document["findings"] == [slow]


def test_proofs_are_in_plain_words_and_in_their_own_with_v(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, err = printed(capsys, measured())
    assert "1 rate: a lower bound, because the sender's credit for bursts was not used up\n" in err
    assert "bucket-not-exhausted" not in err
    for module in (measurement, output):
        monkeypatch.setattr(module, "verbose", lambda: True)
    out, err = printed(capsys, measured())
    assert "was not used up (bucket-not-exhausted)\n" in err
    assert any(line.split()[0] == "n3" for line in out[2:])


@pytest.mark.parametrize("width", [60, 80])
def test_the_table_of_many_hosts_keeps_to_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    names = tuple(f"compute-node-with-a-long-name-{i:03d}.zone-b.prod.example.internal" for i in range(20))
    out, _ = printed(capsys, builders.history(np.full((1, 20, 20), 287e6 / 8), hosts=names))
    table = [line for line in out if not line.startswith("finding: ")]
    assert max(map(len, table)) <= width
    assert "".join(table).count("287") == 20 * 19
    # Columns have the part of the names that differs, so that several fit side by side.
    assert len(table) < 400
